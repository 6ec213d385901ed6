"""The conversion between ledgers and rows of `state`, and the wire form of amounts."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Final

import msgspec

from accountant.amounts import Units, format_units, parse_units
from accountant.dataset_ledger import DatasetLedger, Held
from accountant.errors import LogDamaged
from accountant.fractional import Fractional, excess_text, less_excess, round_up_amounts
from accountant.policy.compiled_policy import CompiledPolicy, stored_plan
from accountant.questions.schema import decode_schema, encode_schema
from accountant.records import FORMAT, Decision, Snapshot, decode_policy
from accountant.records.dataset_facts import NO_FACTS, DatasetFacts
from accountant.records.records import HeldRow

READING_UP: Final = 1 + 6e-10
"""The factor of a reading before it is written with 10 digits.

Formatting rounds by at most half a unit of the tenth digit, 5e-10 of the value. The factor exceeds
that, so the text never falls below the value.
"""

_facts_in: Final = attrgetter(*DatasetFacts.__struct_fields__)
_NONE: Final = _facts_in(NO_FACTS)


def snapshot(ledger: DatasetLedger, decision: Decision | None = None) -> Snapshot:
    """Return a ledger's row.

    Args:
        decision: the ledger's last decision, if known. The row takes its amounts as they are,
            because formatting them again takes longer than everything else.
    """
    plan = ledger.plan
    if decision is None or decision.totals is None or decision.odometers is None:
        totals, odometers = totals_wire(ledger), odometers_wire(ledger)
    else:
        totals, odometers = decision.totals, decision.odometers
    return Snapshot(
        version=FORMAT,
        dataset=ledger.dataset,
        generation=ledger.generation,
        sequence=ledger.sequence,
        policy=plan.policy_wire,
        budget=plan.budget_wire,
        totals=totals,
        rounded_up=rounded_up_wire(ledger) or msgspec.UNSET,
        odometers=odometers,
        crossed=ledger.crossed,
        exhausted=ledger.exhausted,
        closed=ledger.closed,
        opened_at=ledger.opened_at,
        changed_at=ledger.changed_at,
        halted=True if ledger.halted else msgspec.UNSET,
        owners=ledger.owners or msgspec.UNSET,
        members=ledger.members or msgspec.UNSET,
        granted_at=ledger.granted_at or msgspec.UNSET,
        levels=ledger.levels or msgspec.UNSET,
        limits=ledger.limits or msgspec.UNSET,
        held=held_row(ledger) or msgspec.UNSET,
        guarantee=ledger.guarantee or msgspec.UNSET,
        note=ledger.note or msgspec.UNSET,
        pending=ledger.pending or msgspec.UNSET,
        **msgspec.structs.asdict(ledger.facts),
    )


def held_row(ledger: DatasetLedger) -> HeldRow | None:
    """Return a dataset's reservations on the wire, None for none."""
    held = ledger.held
    if held is None:
        return None
    sums = ledger.plan.sums
    totals = dict(zip(sums, map(format_units, held.amounts), strict=True))
    rounded_up = {
        name: excess_text(amount)
        for name, amount in zip(sums, held.amounts, strict=True)
        if isinstance(amount, Fractional)
    }
    numbers = held.broken, held.latest_at, held.settled
    return HeldRow(held.count, totals, rounded_up or None, *numbers)


def _held(plan: CompiledPolicy, row: HeldRow) -> Held:
    wire: dict[str, str | int] = {"mechanisms": 0, **row.totals}
    _, amounts = totals_from(plan, wire, row.rounded_up)
    return Held(row.count, row.broken, amounts, row.latest_at, row.settled)


def ledger_of_row(row: Snapshot) -> DatasetLedger:
    """Return the ledger that a row holds.

    Raises: LogDamaged: the row does not fit its own policy.
    """
    budget = tuple(row.budget.values())
    plan = stored_plan(decode_policy(row.policy), budget, row.in_force)
    mechanisms, totals = totals_from(plan, row.totals, row.rounded_up or None)
    return DatasetLedger(
        dataset=row.dataset,
        plan=plan,
        sequence=row.sequence,
        mechanisms=mechanisms,
        totals=totals,
        crossed=row.crossed,
        exhausted=row.exhausted,
        closed=row.closed,
        opened_at=row.opened_at,
        changed_at=row.changed_at,
        generation=row.generation,
        halted=bool(row.halted),
        fractional=bool(row.rounded_up),
        owners=row.owners or 0,
        members=row.members or 0,
        granted_at=row.granted_at or 0,
        levels=row.levels or 0,
        limits=row.limits or 0,
        held=None if row.held is msgspec.UNSET else _held(plan, row.held),
        guarantee=row.guarantee or "",
        note=row.note or "",
        pending=row.pending or 0,
        facts=_facts_of_row(row),
    )


def _facts_of_row(row: Snapshot) -> DatasetFacts:
    values = _facts_in(row)
    if values == _NONE:
        return NO_FACTS
    facts = dict(zip(DatasetFacts.__struct_fields__, values, strict=True))
    if row.schema is not msgspec.UNSET:
        # One read from the row would keep all the row's bytes in memory.
        facts["schema"] = msgspec.Raw(_schema(bytes(row.schema)))
    return DatasetFacts(**facts)


def _schema(value: bytes) -> bytes:
    try:
        found = encode_schema(decode_schema(value))
    except msgspec.MsgspecError as error:
        raise LogDamaged(f"the schema of a row cannot be read: {error}") from error
    if found != value:
        raise LogDamaged("the schema of a row is not in its canonical form")
    return value


def totals_wire(ledger: DatasetLedger) -> dict[str, str | int]:
    """Return the totals by name, rounded up to units of 1e-40, `mechanisms` first."""
    wire: dict[str, str | int] = {"mechanisms": ledger.mechanisms}
    wire.update(zip(ledger.plan.sums, map(format_units, ledger.totals), strict=True))
    return wire


def rounded_up_wire(ledger: DatasetLedger) -> dict[str, str] | None:
    """Return by how many units of 1e-40 `totals_wire` exceeds each total that it rounds up."""
    if not ledger.fractional:
        return None
    pairs = zip(ledger.plan.sums, ledger.totals, strict=True)
    return {name: excess_text(amount) for name, amount in pairs if isinstance(amount, Fractional)}


def totals_from(
    plan: CompiledPolicy, wire: dict[str, str | int], rounded_up: dict[str, str] | None
) -> tuple[int, tuple[Units, ...]]:
    """Return (mechanisms, totals) from the output of `totals_wire` and `rounded_up_wire`.

    Raises: LogDamaged: a total is missing or is no amount.
    """
    try:
        totals = list(map(parse_units, map(str, map(wire.__getitem__, plan.sums))))
        if rounded_up:
            for name, text in rounded_up.items():
                i = plan.sums.index(name)
                totals[i] = less_excess(_finite(totals[i]), text)
        return int(wire["mechanisms"]), tuple(totals)
    except (KeyError, ValueError) as error:
        what = f"totals {wire} do not fit the sums {plan.sums}"
        raise LogDamaged(f"{what}, rounded up by {rounded_up}" if rounded_up else what) from error


def _finite(amount: Units) -> int:
    if isinstance(amount, float):
        raise ValueError("what is infinite has no fraction")
    return amount


def remaining_wire(ledger: DatasetLedger) -> dict[str, str]:
    """Return the amounts left in the filter's sums, rounded down, by name."""
    plan = ledger.plan
    remaining = plan.remaining(round_up_amounts(ledger.spent))
    return dict(zip(plan.kind.sums, map(format_units, remaining), strict=True))


def odometers_wire(ledger: DatasetLedger) -> dict[str, str]:
    """Return the odometers' readings in nats by name."""
    readings = map(format_reading, ledger.readings)
    return dict(zip(ledger.plan.reader_names, readings, strict=True))


def format_reading(value: float) -> str:
    """Return a reading with 10 significant digits, rounded up."""
    return f"{value * READING_UP:.10g}" if value < math.inf else "inf"
