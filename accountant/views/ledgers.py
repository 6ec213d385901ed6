"""The ledger, and the compiled policy, that a view shows."""

from __future__ import annotations

from accountant.ledger import Ledger
from accountant.ledger.snapshots import totals_from
from accountant.policy.compiled_policy import CompiledPolicy, stored_plan
from accountant.times import from_iso
from accountant.views.datasets import DatasetView


def ledger_of(view: DatasetView) -> Ledger:
    """Return the ledger that a view shows.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    plan = plan_of(view)
    mechanisms, totals = totals_from(plan, view.totals, view.rounded_up)
    return Ledger(
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
        readings=plan.readings(totals),
        halted=view.halted,
        fractional=bool(view.rounded_up),
        paused=view.paused,
    )


def plan_of(view: DatasetView) -> CompiledPolicy:
    """Return the compiled policy of a view.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    return stored_plan(view.policy, tuple(view.budget.values()))
