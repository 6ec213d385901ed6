"""The ledger, and the compiled policy, that a view shows."""

from __future__ import annotations

from accountant.amounts import ratio_between
from accountant.dataset_ledger import DatasetLedger, Held
from accountant.ledger.snapshots import totals_from
from accountant.policy.compiled_policy import CompiledPolicy, stored_plan
from accountant.records.dataset_facts import DatasetFacts, schema_fact
from accountant.reservations.held import settled_ratio
from accountant.times import from_iso
from accountant.views.datasets import DatasetView


def ledger_of(view: DatasetView) -> DatasetLedger:
    """Return the ledger that a view shows.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    plan = plan_of(view)
    mechanisms, totals = totals_from(plan, view.totals, view.rounded_up)
    return DatasetLedger(
        dataset=view.dataset,
        plan=plan,
        sequence=view.sequence,
        mechanisms=mechanisms,
        totals=totals,
        crossed=len(view.crossed),
        exhausted=view.exhausted,
        closed=view.closed,
        opened_at=from_iso(view.opened_at),
        changed_at=from_iso(view.last_decided_at),
        generation=view.generation,
        halted=view.halted,
        fractional=bool(view.rounded_up),
        held=_held(view, plan),
        guarantee=view.guarantee,
        facts=DatasetFacts(
            paused=view.paused,
            schema=schema_fact(view.schema),
            in_force=view.in_force,
            person_pauses=view.person_pauses,
        ),
    )


def _held(view: DatasetView, plan: CompiledPolicy) -> Held | None:
    if not view.open_reservations:
        return None
    wire: dict[str, str | int] = {"mechanisms": 0, **view.reserved}
    _, amounts = totals_from(plan, wire, None)
    return Held(view.open_reservations, view.broken, amounts, 0)


def held_ratio_of(view: DatasetView) -> float:
    """Return the part of a view's `spent_ratio` that open reservations hold.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    return held_ratio(ledger_of(view)) if view.open_reservations else 0.0


def held_ratio(ledger: DatasetLedger) -> float:
    """Return the part of a ledger's `spent_ratio` that open reservations hold."""
    return ratio_between(settled_ratio(ledger), ledger.spent_ratio)


def plan_of(view: DatasetView) -> CompiledPolicy:
    """Return the compiled policy of a view.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    capacity = view.ceiling or view.budget
    return stored_plan(view.policy, tuple(capacity.values()), view.in_force)
