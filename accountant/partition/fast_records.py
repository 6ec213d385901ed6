"""The record of a granted request, and a dataset's row, written as text at once.

Nearly every record of a busy ledger is a grant. To build a `Decision` with its dictionaries
and to encode it takes as long as deciding it; a form for each plan, filled in, takes a third.
The bytes are those that `records.encode` gives: tests compare them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from accountant.amounts import UNIT, Units, format_units
from accountant.fractional import round_up_amounts
from accountant.ledger import Ledger
from accountant.ledger.adjudicate import Verdict
from accountant.ledger.snapshots import format_reading, held_row, rounded_up_wire, snapshot
from accountant.limits.charge import ChargedLimit
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records import FORMAT, RULES, encode
from accountant.records.records import Derived

_PLANS: Final = 4096
_COUNTED: Final = ("owners", "members", "granted_at", "levels", "limits")


class Form(NamedTuple):
    """The texts of one plan, with a place for each amount.

    Attributes:
        grant, row: the record of a grant, the dataset's row.
        totals: how many of `Amounts` are of the totals, the mechanisms among them.
        readings: index of the first reading among `Amounts`.
    """

    grant: bytes
    row: bytes
    totals: int
    readings: int


Amounts = tuple[bytes, ...]
"""A ledger's amounts as text: mechanisms, totals, by how much these are rounded up, what is left,
readings."""


@lru_cache(maxsize=_PLANS)
def form(plan: CompiledPolicy) -> Form:
    """Return the texts of a plan. Names of sums and odometers need no escapes."""
    totals = _object('"mechanisms":%b', *[f'"{name}":"%b"' for name in plan.sums])
    remaining = _object(*[f'"{name}":"%b"' for name in plan.kind.sums])
    odometers = _object(*[f'"{name}":"%b"' for name in plan.reader_names])
    policy = bytes(plan.policy_wire).decode().replace("%", "%%")
    grant = (
        f'{{"type":"decision","version":{FORMAT},"partition_sequence":%d,"previous":"%b",'
        f'"decided_at":"%b","floor":"%b","rules":{RULES},"outcome":"granted",'
        '"dataset":"%b","generation":%d,"sequence":%d,'
        f'"cost":%b,"totals":{totals}%b,"left":{remaining},"odometers":{odometers}%b%b,"request":%b,'
        '"source":{"topic":"requests","partition":%d,"offset":%d}%b}'
    )
    row = (
        f'{{"type":"snapshot","version":{FORMAT},"dataset":"%b","generation":%d,"sequence":%d,'
        f'"policy":{policy},"budget":{encode(plan.budget_wire).decode()},"totals":{totals}%b,'
        f'"odometers":{odometers},"crossed":%d,"exhausted":%b,"closed":false,"opened_at":%d,'
        f'"changed_at":%d%b%b}}'
    )
    return Form(
        grant=grant.encode(),
        row=row.encode(),
        totals=2 + len(plan.sums),
        readings=2 + len(plan.sums) + len(plan.kind.sums),
    )


def _object(*fields: str) -> str:
    return f"{{{','.join(fields)}}}"


def encode_grant(
    head: str,
    times: tuple[str, str],
    ledger: Ledger,
    verdict: Verdict,
    body: bytes,
    place: tuple[int, int, int],
    derived: Derived | None = None,
) -> tuple[bytes, Amounts]:
    """Return the bytes of a granted request's decision, and the amounts that they hold.

    Args:
        head: hash of the record before it.
        times: `decided_at` and `floor`.
        ledger: after the grant.
        body: the request, canonical: valid UTF-8 without line breaks.
        place: number of the record in its partition, the partition, the request's offset.
        derived: of a request with a question.
    """
    plan = ledger.plan
    totals = round_up_amounts(ledger.totals) if ledger.fractional else ledger.totals
    remaining = plan.kind.remaining(plan.capacity, totals[: plan.width])
    amounts = (
        b"%d" % ledger.mechanisms,
        *map(_units, totals),
        _rounded_up(ledger) if ledger.fractional else b"",
        *map(_units, remaining),
        *map(_reading, ledger.readings),
    )
    crossed = verdict.crossed
    value = form(plan).grant % (
        place[0],
        head.encode(),
        times[0].encode(),
        times[1].encode(),
        ledger.dataset.encode(),
        ledger.generation,
        ledger.sequence,
        _cost(verdict),
        *amounts,
        b',"crossed":%b' % encode(crossed) if crossed else b"",
        b"" if verdict.ends is None else b',"ends":"%b"' % verdict.ends.encode(),
        body,
        place[1],
        place[2],
        _last_fields(ledger, verdict.charged, derived)
        if verdict.charged or ledger.held is not None or ledger.guarantee or derived is not None
        else b"",
    )
    return value, amounts


def _last_fields(
    ledger: Ledger, charged: tuple[ChargedLimit, ...], derived: Derived | None
) -> bytes:
    """Return the fields of limits, reservations and questions, which few datasets have."""
    levels = b',"levels":%b' % encode([each.update for each in charged]) if charged else b""
    held = b"" if ledger.held is None else b',"held":%b' % encode(held_row(ledger))
    guarantee = b',"guarantee":%b' % encode(ledger.guarantee) if ledger.guarantee else b""
    of_question = b"" if derived is None else b',"derived":%b' % encode(derived)
    return levels + held + guarantee + of_question


def _units(units: Units) -> bytes:
    """As `format_units`, in bytes."""
    if not units:
        return b"0"
    if units < UNIT:
        return (b"0.%040d" % units).rstrip(b"0")
    return format_units(units).encode()


def _reading(value: float) -> bytes:
    return format_reading(value).encode()


def _cost(verdict: Verdict) -> bytes:
    asked = verdict.price
    if asked is not None and verdict.cost is asked.wire:
        return asked.text.encode()
    return encode(verdict.cost)


def _rounded_up(ledger: Ledger) -> bytes:
    return b',"rounded_up":%b' % encode(rounded_up_wire(ledger) or {})


def row(ledger: Ledger, amounts: Amounts | None) -> bytes:
    """Return a dataset's row for `state`, as `snapshots.snapshot` encoded.

    Args:
        amounts: as `encode_grant` returned for this very ledger; None if no grant made it.
    """
    if amounts is None or ledger.held is not None or ledger.guarantee:
        return encode(snapshot(ledger))
    forms = form(ledger.plan)
    return forms.row % (
        ledger.dataset.encode(),
        ledger.generation,
        ledger.sequence,
        *amounts[: forms.totals],
        *amounts[forms.readings :],
        ledger.crossed,
        b"true" if ledger.exhausted else b"false",
        ledger.opened_at,
        ledger.changed_at,
        _counts(ledger) if ledger.members or ledger.levels else b"",
        b',"schema":%b' % ledger.schema if ledger.schema else b"",
    )


def _counts(ledger: Ledger) -> bytes:
    return _numbers(
        *(ledger.owners, ledger.members, ledger.granted_at, ledger.levels, ledger.limits)
    )


@lru_cache(maxsize=_PLANS)
def _numbers(*numbers: int) -> bytes:
    named = zip(_COUNTED, numbers, strict=True)
    return "".join(f',"{name}":{number}' for name, number in named if number).encode()
