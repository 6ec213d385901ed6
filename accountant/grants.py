"""The record of a granted request, and a dataset's row, written as text at once.

Nearly every record of a busy ledger is a grant. To build a `Decision` with its dictionaries
and to encode it takes as long as deciding it; a form for each plan, filled in, takes a third.
The bytes are those that `records.encode` gives: tests compare them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from accountant.amounts import format_units
from accountant.ledger import Ledger
from accountant.plan import Plan
from accountant.records import encode
from accountant.snapshots import format_reading, snapshot

_PLANS: Final = 4096


class Form(NamedTuple):
    """The texts of one plan, with a place for each amount.

    Attributes:
        totals, left, odometers: JSON objects; `totals` takes the mechanisms first.
    """

    totals: str
    left: str
    odometers: str


class Amounts(NamedTuple):
    """A ledger's amounts as its record and its row both carry them, JSON objects."""

    totals: str
    left: str
    odometers: str


@lru_cache(maxsize=_PLANS)
def form(plan: Plan) -> Form:
    """Return the texts of a plan. Names of sums and odometers need no escapes."""
    totals = ['"mechanisms":%d', *[f'"{name}":"%s"' for name in plan.sums]]
    left = [f'"{name}":"%s"' for name in plan.kind.sums]
    odometers = [f'"{name}":"%s"' for name in plan.reader_names]
    return Form(*[f"{{{','.join(fields)}}}" for fields in (totals, left, odometers)])


def amounts(ledger: Ledger) -> Amounts:
    """Return what `snapshots.totals_wire`, `left_wire` and `odometers_wire` say, as JSON."""
    plan = ledger.plan
    forms = form(plan)
    totals = ledger.totals
    left = plan.kind.left(plan.capacity, totals[: plan.width])
    return Amounts(
        forms.totals % (ledger.mechanisms, *map(format_units, totals)),
        forms.left % tuple(map(format_units, left)),
        forms.odometers % tuple(map(format_reading, ledger.readings)),
    )


def grant(
    head: str,
    times: tuple[str, str],
    ledger: Ledger,
    amount: Amounts,
    cost: dict[str, str],
    crossed: tuple[str, ...],
    body: bytes,
    place: tuple[int, int, int],
) -> bytes:
    """Return the bytes of a granted request's decision.

    Args:
        head: hash of the record before it.
        times: `decided_at` and `floor`.
        ledger: after the grant; `amount` is what `amounts` says of it.
        cost: what was charged, by sum.
        crossed: thresholds first reached.
        body: the request, canonical: valid UTF-8 without line breaks.
        place: number of the record in its partition, the partition, the request's offset.
    """
    sequence, partition, offset = place
    tail = f',"crossed":{encode(crossed).decode()}' if crossed else ""
    return (
        f'{{"type":"decision","partition_sequence":{sequence},"previous":"{head}",'
        f'"decided_at":"{times[0]}","floor":"{times[1]}","outcome":"granted",'
        f'"dataset":"{ledger.dataset}","generation":{ledger.generation},'
        f'"sequence":{ledger.sequence},"cost":{encode(cost).decode()},"totals":{amount.totals},'
        f'"left":{amount.left},"odometers":{amount.odometers}{tail},'
        f'"request":{body.decode()},"source":{{"topic":"requests","partition":{partition},'
        f'"offset":{offset}}}}}'
    ).encode()


@lru_cache(maxsize=_PLANS)
def _row_form(plan: Plan) -> str:
    policy, budget = bytes(plan.policy_wire).decode(), encode(plan.budget_wire).decode()
    return f'"policy":{policy},"budget":{budget}'


def row(ledger: Ledger, amount: Amounts | None) -> bytes:
    """Return a dataset's row for `state`, as `snapshots.snapshot` encoded.

    Args:
        amount: what `amounts` says of the ledger, None if that is not at hand.
    """
    if amount is None or ledger.halted:
        return encode(snapshot(ledger))
    flags = (
        f'"crossed":{ledger.crossed},"exhausted":{_json(ledger.exhausted)},'
        f'"closed":{_json(ledger.closed)}'
    )
    return (
        f'{{"type":"snapshot","version":1,"dataset":"{ledger.dataset}",'
        f'"generation":{ledger.generation},"sequence":{ledger.sequence},'
        f'{_row_form(ledger.plan)},"totals":{amount.totals},"odometers":{amount.odometers},'
        f'{flags},"opened_at":{ledger.opened_at},"changed_at":{ledger.changed_at}}}'
    ).encode()


def _json(flag: bool) -> str:
    return "true" if flag else "false"
