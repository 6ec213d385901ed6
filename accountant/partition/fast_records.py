"""The record of a granted request, and a dataset's row, written as text at once.

Nearly every record of a busy ledger is a grant. To build a `Decision` with its dictionaries
and to encode it takes as long as deciding it; a form for each plan, filled in, takes a third.
The bytes are those that `records.encode` gives: tests compare them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from accountant.amounts import format_units
from accountant.fractional import written
from accountant.ledger import Ledger
from accountant.ledger.adjudicate import Verdict
from accountant.ledger.snapshots import format_reading, rounded_up_wire, snapshot
from accountant.policy.compiled import CompiledPolicy
from accountant.records import FORMAT, RULES, encode

_PLANS: Final = 4096
_COUNTED: Final = ("owners", "members", "granted_at", "levels", "limits")


class Form(NamedTuple):
    """The texts of one plan, with a place for each amount.

    Attributes:
        grant, row: the record of a grant, the dataset's row.
        totals: how many of `Amounts` are of the totals, the mechanisms among them.
        readings: index of the first reading among `Amounts`.
    """

    grant: str
    row: str
    totals: int
    readings: int


Amounts = tuple[str, ...]
"""A ledger's amounts as text: mechanisms, totals, by how much these are rounded up, what is left,
readings."""


@lru_cache(maxsize=_PLANS)
def form(plan: CompiledPolicy) -> Form:
    """Return the texts of a plan. Names of sums and odometers need no escapes."""
    totals = _object('"mechanisms":%s', *[f'"{name}":"%s"' for name in plan.sums])
    left = _object(*[f'"{name}":"%s"' for name in plan.kind.sums])
    odometers = _object(*[f'"{name}":"%s"' for name in plan.reader_names])
    policy = bytes(plan.policy_wire).decode().replace("%", "%%")
    return Form(
        grant=f'{{"type":"decision","version":{FORMAT},"partition_sequence":%s,"previous":"%s",'
        f'"decided_at":"%s","floor":"%s","rules":{RULES},"outcome":"granted",'
        '"dataset":"%s","generation":%s,"sequence":%s,'
        f'"cost":%s,"totals":{totals}%s,"left":{left},"odometers":{odometers}%s%s,"request":%s,'
        '"source":{"topic":"requests","partition":%s,"offset":%s}%s}',
        row=f'{{"type":"snapshot","version":{FORMAT},"dataset":"%s","generation":%s,"sequence":%s,'
        f'"policy":{policy},"budget":{encode(plan.budget_wire).decode()},"totals":{totals}%s,'
        f'"odometers":{odometers},"crossed":%s,"exhausted":%s,"closed":false,"opened_at":%s,'
        f'"changed_at":%s%s}}',
        totals=2 + len(plan.sums),
        readings=2 + len(plan.sums) + len(plan.kind.sums),
    )


def _object(*fields: str) -> str:
    return f"{{{','.join(fields)}}}"


def grant(
    head: str,
    times: tuple[str, str],
    ledger: Ledger,
    verdict: Verdict,
    body: bytes,
    place: tuple[int, int, int],
) -> tuple[bytes, Amounts]:
    """Return the bytes of a granted request's decision, and the amounts that they hold.

    Args:
        head: hash of the record before it.
        times: `decided_at` and `floor`.
        ledger: after the grant.
        body: the request, canonical: valid UTF-8 without line breaks.
        place: number of the record in its partition, the partition, the request's offset.
    """
    plan = ledger.plan
    totals = written(ledger.totals) if ledger.fractional else ledger.totals
    left = plan.kind.left(plan.capacity, totals[: plan.width])
    amounts = (
        str(ledger.mechanisms),
        *map(format_units, totals),
        _rounded_up(ledger) if ledger.fractional else "",
        *map(format_units, left),
        *map(format_reading, ledger.readings),
    )
    crossed = verdict.crossed
    text = form(plan).grant % (
        place[0],
        head,
        *times,
        ledger.dataset,
        ledger.generation,
        ledger.sequence,
        _cost(verdict),
        *amounts,
        f',"crossed":{encode(crossed).decode()}' if crossed else "",
        "" if verdict.ends is None else f',"ends":"{verdict.ends}"',
        body.decode(),
        place[1],
        place[2],
        f',"levels":[{verdict.told}]' if verdict.told else "",
    )
    return text.encode(), amounts


def _cost(verdict: Verdict) -> str:
    asked = verdict.price
    if asked is not None and verdict.cost is asked.wire:
        return asked.text
    return encode(verdict.cost).decode()


def _rounded_up(ledger: Ledger) -> str:
    pieces = [f'"{name}":"{text}"' for name, text in (rounded_up_wire(ledger) or {}).items()]
    return f',"rounded_up":{{{",".join(pieces)}}}'


def row(ledger: Ledger, amounts: Amounts | None) -> bytes:
    """Return a dataset's row for `state`, as `snapshots.snapshot` encoded.

    Args:
        amounts: what `grant` gave for this very ledger, None if it was no grant that made it.
    """
    if amounts is None:
        return encode(snapshot(ledger))
    forms = form(ledger.plan)
    text = forms.row % (
        ledger.dataset,
        ledger.generation,
        ledger.sequence,
        *amounts[: forms.totals],
        *amounts[forms.readings :],
        ledger.crossed,
        "true" if ledger.exhausted else "false",
        ledger.opened_at,
        ledger.changed_at,
        _counts(ledger) if ledger.members or ledger.levels else "",
    )
    return text.encode()


def _counts(ledger: Ledger) -> str:
    return _numbers(
        *(ledger.owners, ledger.members, ledger.granted_at, ledger.levels, ledger.limits)
    )


@lru_cache(maxsize=_PLANS)
def _numbers(*numbers: int) -> str:
    named = zip(_COUNTED, numbers, strict=True)
    return "".join(f',"{name}":{number}' for name, number in named if number)
