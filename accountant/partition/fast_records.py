"""The record of a granted request, and a dataset's row, written as text at once.

Nearly every record of a busy ledger is a grant. To build a `Decision` with its dictionaries
and to encode it takes as long as deciding it; a form for each plan, filled in, takes a third.
The bytes are those that `records.encode` gives: tests compare them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import UNSET

from accountant.amounts import UNIT, Units, format_units
from accountant.dataset_ledger import DatasetLedger
from accountant.fractional import round_up_amounts
from accountant.ledger.adjudicate import Verdict
from accountant.ledger.snapshots import READING_UP, held_row, rounded_up_wire, snapshot
from accountant.limits.charge import ChargedLimit
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records import FORMAT, RULES, encode
from accountant.records.dataset_facts import NO_FACTS, DatasetFacts
from accountant.records.records import Derived
from accountant.times import iso

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


Amounts = tuple[int | bytes, ...]
"""The number of a ledger's mechanisms, then its amounts as text: totals, by how much these are
rounded up, what is left, readings."""


@lru_cache(maxsize=_PLANS)
def form(plan: CompiledPolicy) -> Form:
    """Return the texts of a plan. Names of sums and odometers need no escapes."""
    totals = _object('"mechanisms":%d', *[f'"{name}":"%b"' for name in plan.sums])
    remaining = _object(*[f'"{name}":"%b"' for name in plan.kind.sums])
    odometers = _object(*[f'"{name}":"%b"' for name in plan.reader_names])
    policy = bytes(plan.policy_wire).decode().replace("%", "%%")
    grant = (
        f'{{"type":"decision","version":{FORMAT},"partition_sequence":%d,"previous":"%b",'
        f'%b,"rules":{RULES},"outcome":"granted","dataset":"%b","generation":%d,"sequence":%d,'
        f'"cost":%b,"totals":{totals}%b,"left":{remaining},"odometers":{odometers}%b,"request":%b,'
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
    number: int,
    head: bytes,
    decided_at: int,
    floor: int,
    ledger: DatasetLedger,
    verdict: Verdict,
    body: bytes,
    partition: int,
    offset: int,
    derived: Derived | None,
) -> tuple[bytes, Amounts]:
    """Return the bytes of a granted request's decision, and the amounts that they hold.

    Args:
        number: of the record in its partition.
        head: hash of the record before it.
        decided_at, floor: milliseconds since 1970.
        ledger: after the grant.
        body: the request, canonical: valid UTF-8 without line breaks.
        partition, offset: where the request stands.
        derived: of a request with a question.
    """
    plan, totals, rounded_up = ledger.plan, ledger.totals, b""
    if ledger.fractional:
        totals, rounded_up = round_up_amounts(totals), _rounded_up(ledger)
    texts = _texts(totals + plan.remaining(totals[: plan.width]))
    texts.insert(len(totals), rounded_up)
    amounts: Amounts = (ledger.mechanisms, *texts, *map(_reading, ledger.readings))
    asked, ends, more, last = verdict.price, verdict.ends, b"", b""
    if verdict.crossed:
        ratio = encode(ledger.spent_ratio)
        more = b',"crossed":%b,"spent_ratio":%b' % (encode(verdict.crossed), ratio)
    if ends is not None:
        more += b',"ends":"%b"' % ends.encode()
    if verdict.charged or ledger.held is not None or ledger.guarantee or derived is not None:
        last = _last_fields(ledger, verdict.charged, derived)
    if verdict.crossed and plan.in_force is not UNSET:
        last += b',"in_force":%b' % encode(plan.in_force)
    value = form(plan).grant % (
        number,
        head,
        _times(decided_at, floor),
        ledger.dataset.encode(),
        ledger.generation,
        ledger.sequence,
        asked.json if asked is not None and verdict.cost is asked.wire else encode(verdict.cost),
        *amounts,
        more,
        body,
        partition,
        offset,
        last,
    )
    return value, amounts


@lru_cache(maxsize=_PLANS)
def _times(decided_at: int, floor: int) -> bytes:
    return f'"decided_at":"{iso(decided_at)}","floor":"{iso(floor)}"'.encode()


def _last_fields(
    ledger: DatasetLedger, charged: tuple[ChargedLimit, ...], derived: Derived | None
) -> bytes:
    """Return the fields of limits, reservations and questions, which few datasets have."""
    levels = b',"levels":%b' % encode([each.update for each in charged]) if charged else b""
    held = b"" if ledger.held is None else b',"held":%b' % encode(held_row(ledger))
    guarantee = b',"guarantee":%b' % encode(ledger.guarantee) if ledger.guarantee else b""
    of_question = b"" if derived is None else b',"derived":%b' % encode(derived)
    return levels + held + guarantee + of_question


def _texts(amounts: tuple[Units, ...]) -> list[bytes]:
    """Return amounts as `format_units` has them, in bytes."""
    return [
        (b"0.%040d" % units).rstrip(b"0")
        if 0 < units < UNIT
        else format_units(units).encode()
        if units
        else b"0"
        for units in amounts
    ]


def _reading(value: float) -> bytes:
    """Return a reading as `format_reading` has it, in bytes."""
    return b"%.10g" % (value * READING_UP) if value < math.inf else b"inf"


def _rounded_up(ledger: DatasetLedger) -> bytes:
    return b',"rounded_up":%b' % encode(rounded_up_wire(ledger) or {})


def row(ledger: DatasetLedger, amounts: Amounts | None) -> bytes:
    """Return a dataset's row for `state`, as `snapshots.snapshot` encoded.

    Args:
        amounts: as `encode_grant` returned for this very ledger; None if no grant made it.
    """
    if amounts is None or ledger.held is not None or ledger.guarantee or ledger.pending:
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
        _facts(ledger.facts) if ledger.facts is not NO_FACTS else b"",
    )


def _facts(facts: DatasetFacts) -> bytes:
    """Return the facts at a row's end; a dataset that grants is neither paused nor closed."""
    fields = encode(facts)[1:-1]
    return b"," + fields if fields else b""


def _counts(ledger: DatasetLedger) -> bytes:
    return _numbers(
        *(ledger.owners, ledger.members, ledger.granted_at, ledger.levels, ledger.limits)
    )


@lru_cache(maxsize=_PLANS)
def _numbers(*numbers: int) -> bytes:
    named = zip(_COUNTED, numbers, strict=True)
    return "".join(f',"{name}":{number}' for name, number in named if number).encode()
