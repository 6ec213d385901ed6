"""What a request would be told if it was decided now. Nothing is written, and nothing is charged.

The ledger is made of a view, and `adjudicate` itself decides on it: a second rule could disagree.
"""

from __future__ import annotations

import msgspec

from accountant.advice.fit import budget_of, fit
from accountant.claims import Claim, checked
from accountant.errors import RequestInvalid
from accountant.ledger import Ledger
from accountant.ledger.adjudicate import adjudicate
from accountant.ledger.snapshots import left_wire, totals_from
from accountant.policy.compiled import stored_plan
from accountant.records import Decision
from accountant.records.outcomes import Outcome, Reason
from accountant.records.previews import PreviewRequest
from accountant.times import from_iso
from accountant.views.datasets import DatasetView


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a request would be told.

    Attributes:
        sequence: number of the dataset's last decision; the preview holds as long as no other
            follows.
        granted: whether the request would be granted. `reason`: why not.
        cost: what a grant would add to each of the totals. `asked`: what the request would cost
            if it was not refused.
        left: what would be left in each of the filter's sums; after a refusal, what is left.
        fits: after a refusal, the largest claim of the same kind that would be granted.
        more: how many more such requests would be granted after this one, one after another,
            None for any number. Where a filter cannot count exactly, somewhat fewer.
    """

    dataset: str
    sequence: int
    granted: bool
    reason: Reason | None
    cost: dict[str, str] | None
    asked: dict[str, str] | None
    left: dict[str, str]
    fits: str | None
    more: int | None
    ends: str | None = None

    def __bool__(self) -> bool:
        raise TypeError("a preview is neither true nor false: read its `granted`")


decode_preview = msgspec.json.Decoder(Preview).decode


def preview(view: DatasetView, asked: PreviewRequest) -> Preview:
    """Return what a request would be told on a dataset as it stands.

    Raises:
        RequestInvalid: a field of the claim breaks its rule.
        LogDamaged: the view does not fit its own policy.
    """
    try:
        claim = checked(asked.claim)
    except RequestInvalid as error:
        raise error.under("claim") from None
    ledger = ledger_of(view)
    after, verdict = adjudicate(ledger, claim, asked.unit, asked.neighbours, ledger.changed_at)
    granted = verdict.outcome is Outcome.GRANTED
    more: int | None = 0
    if granted and verdict.price is not None:
        plan = after.plan
        more = plan.kind.count(plan.capacity, after.spent, verdict.price)
    price = None if granted else verdict.price
    return Preview(
        dataset=view.dataset,
        sequence=view.sequence,
        granted=granted,
        reason=verdict.reason,
        cost=verdict.cost,
        asked=None if price is None else price.wire,
        left=left_wire(after),
        fits=verdict.fits,
        more=more,
        ends=verdict.ends,
    )


def ledger_of(view: DatasetView) -> Ledger:
    """Return the ledger that a view shows.

    Raises: LogDamaged: the view does not fit its own policy.
    """
    plan = stored_plan(view.policy, tuple(view.budget.values()), view.exact)
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
    )


def more_like(claim: Claim, view: DatasetView, *, decision: Decision | None = None) -> int | None:
    """Return how many requests like one that was granted would be granted, None for any number.

    Args:
        view: the dataset.
        decision: the grant, where the view may be of another moment.
    """
    if decision is not None and decision.totals is not None:
        view = msgspec.structs.replace(
            view, totals=decision.totals, rounded_up=decision.rounded_up or {}
        )
    return fit(claim, budget_of(view)).count
