"""The answer that a request would get now. Nothing is written, and nothing is charged.

It calls `decide_request`, as `decide` does: a second implementation could disagree.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from accountant.advice.fit import budget_of, fit
from accountant.claims import CheckedClaim, Claim, check_claim
from accountant.claims.price import price
from accountant.errors import RequestInvalid
from accountant.ledger import Ledger
from accountant.ledger.adjudicate import adjudicate
from accountant.ledger.budgets import budgets_of
from accountant.ledger.snapshots import remaining_wire
from accountant.limits.applicable_limits import ApplicableLimits, team_of
from accountant.limits.wire import LimitName, LimitRemaining
from accountant.partition.judge import Members, decide_request
from accountant.records import Decision
from accountant.records.outcomes import Outcome, Reason
from accountant.records.previews import PreviewRequest
from accountant.times import NO_RESETS
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import ledger_of
from accountant.views.limit_views import DatasetLimits
from accountant.views.members import no_members


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """The answer that a request would get.

    Attributes:
        sequence: number of the dataset's last decision; the preview is valid until another
            follows.
        granted: whether the request would be granted. `reason`: why not.
        cost: what a grant would add to each of the totals. `asked`: what the request would cost
            if it was not refused.
        left: what would be left in each of the filter's sums; after a refusal, what is left.
        fits: after a refusal, the largest claim of the same kind that would be granted.
        more: how many more such requests would be granted after this one, one after another,
            None for any number. Where a filter cannot count exactly, somewhat fewer.
        level: the limit that refuses it, where the dataset itself would take it.
        left_at: of an `exhausted`, what is left at each limit that applies.
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
    level: LimitName | None = None
    left_at: tuple[LimitRemaining, ...] = ()

    def __bool__(self) -> bool:
        raise TypeError("a preview is neither true nor false: read its `granted`")


class _RequestTerms(NamedTuple):
    analyst: str
    via: str | UnsetType
    unit: str
    neighbours: str


decode_preview = msgspec.json.Decoder(Preview).decode


def preview(
    view: DatasetView,
    asked: PreviewRequest,
    divided: DatasetLimits | None = None,
    members: Members = no_members,
) -> Preview:
    """Decide a request on the current state of a dataset, without recording it.

    Args:
        asked: the request. Without an analyst: of somebody who may ask and has no limit.
        divided: the dataset's limits; None where it has none.
        members: of the dataset, of the same moment.

    Raises:
        RequestInvalid: a field of the claim breaks its rule.
        LogDamaged: the view does not fit its own policy.
    """
    try:
        claim = check_claim(asked.claim)
    except RequestInvalid as error:
        raise error.under("claim") from None
    analyst = asked.analyst or ""
    ledger = ledger_of(view) if divided is None else divided.ledger
    at = ledger.changed_at if divided is None else divided.at
    team = team_of(members(view.dataset, analyst), at)
    if asked.analyst is None:
        limits = None if divided is None else divided.applicable_to("", "")
        after, verdict = adjudicate(ledger, claim, asked.unit, asked.neighbours, at, limits)
    else:
        store = None if divided is None else divided.levels
        resets = NO_RESETS if divided is None else divided.resets
        asks = _RequestTerms(analyst, asked.via, asked.unit, asked.neighbours)
        after, verdict = decide_request(ledger, asks, claim, members, store, at, resets)
    granted = verdict.outcome is Outcome.GRANTED
    more: int | None = 0
    if granted and verdict.price is not None:
        levels = [each.after for each in verdict.charged]
        limits = divided and divided.applicable_after(after, levels, analyst, team)
        more = _more(limits, after, claim)
    refused = None if granted else verdict.price
    return Preview(
        dataset=view.dataset,
        sequence=ledger.sequence,
        granted=granted,
        reason=verdict.reason,
        cost=verdict.cost,
        asked=None if refused is None else refused.wire,
        left=remaining_wire(after),
        fits=verdict.fits,
        more=more,
        ends=verdict.ends,
        level=verdict.level,
        left_at=verdict.left_at,
    )


def _more(limits: ApplicableLimits | None, ledger: Ledger, claim: CheckedClaim) -> int | None:
    """Return how many such claims all budgets admit, one after another."""
    kind = budgets_of(ledger, limits).search_filter
    return kind.count(ledger.plan.capacity, ledger.spent, price(claim, kind.needs))


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
