"""The answer that a request would get now. Nothing is written, and nothing is charged.

It calls `decide_request`, as `decide` does: a second implementation could disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from accountant.advice.fit import budget_of, fit
from accountant.advice.question_prices import FittingNoise, QuestionPrice, question_prices
from accountant.claims import CheckedClaim, Claim
from accountant.claims.price import Price, price
from accountant.dataset_ledger import DatasetLedger
from accountant.field_rules import Amounts, Count, Name
from accountant.filters.beside import WITHOUT
from accountant.ledger.adjudicate import Verdict, adjudicate
from accountant.ledger.budgets import AllBudgets, Denial, budgets_of
from accountant.ledger.snapshots import remaining_wire
from accountant.limits.applicable_limits import ApplicableLimits, remaining_at, team_of
from accountant.partition.judge import (
    Members,
    NotDerived,
    OpenOfHolder,
    QuestionVerdict,
    Roster,
    decide_question,
    decide_request,
    derive_claim,
)
from accountant.questions.expected_error import ExpectedError, expected_errors
from accountant.questions.laws import with_law
from accountant.questions.noise import Noise
from accountant.questions.question import check_question
from accountant.questions.schema import decode_schema
from accountant.records import Decision, FieldError
from accountant.records.limit_records import LimitName, LimitRemaining
from accountant.records.members import MemberRow
from accountant.records.outcomes import Reason
from accountant.records.person_pauses import PersonPause
from accountant.records.previews import PreviewRequest, check_asked
from accountant.records.records import Derived
from accountant.records.reservation_rows import MAX_DROPPED, HolderCount
from accountant.reservations.table import first_final
from accountant.times import NO_RESETS
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import ledger_of
from accountant.views.limit_views import DatasetLimits

_MOST_COUNTED: Final = 100


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """The answer that a request would get.

    Attributes:
        dataset: the dataset.
        sequence: number of its last decision. The preview is valid until the next one.
        granted: whether it would be granted.
        reason: the reason if not; null if granted.
        cost: what a grant would add to each sum; null if refused.
        asked: what a refused request would have cost; null if granted.
        left: what would remain after the grant; if refused, what remains now.
        fits: if refused, the largest claim of the same kind that would be granted; else null.
        ends_basic: whether granting it would end basic composition beside the filter.
        halts: whether refusing it would halt the dataset.
        ends: the filter that it would close, as `ends` of a decision; else null.
        derived, error: of a question, as in a decision; left out otherwise.
        holder, pause: as in a decision; left out otherwise.
        level, left_at: as in a decision, if a limit would refuse it.
        needs_approval: whether it would wait until an owner approves it; left out otherwise.
        limits_left: what would remain under each limit of the analyst after the grant; left out
            without one, or if refused.
        expected_errors, prices: of a question, how far its answer may be from the exact values, and
            the same at five prices; they follow from schema, question, noise and guess, never
            from the data. Left out otherwise.
        more: how many more such requests would be granted after this one; null if unlimited, 0 if
            this one is refused. Under `gdp_residue` batches are counted from below, too few by a
            few, and at most 100 reservations.
    """

    dataset: Name
    sequence: Count
    granted: bool
    reason: Reason | None
    cost: Amounts | None
    asked: Amounts | None
    left: Amounts
    fits: str | None
    more: Count | None
    ends: str | None = None
    level: LimitName | None = None
    left_at: tuple[LimitRemaining, ...] = ()
    ends_basic: bool = False
    halts: bool = False
    derived: Derived | UnsetType = UNSET
    error: FieldError | UnsetType = UNSET
    holder: HolderCount | UnsetType = UNSET
    pause: PersonPause | UnsetType = UNSET
    needs_approval: bool | UnsetType = UNSET
    limits_left: tuple[LimitRemaining, ...] | UnsetType = UNSET
    expected_errors: tuple[ExpectedError, ...] | UnsetType = UNSET
    prices: tuple[QuestionPrice, ...] | UnsetType = UNSET

    def __bool__(self) -> bool:
        raise TypeError("a preview is neither true nor false: read its `granted`")


class _RequestTerms(NamedTuple):
    analyst: str
    via: str | UnsetType
    unit: str | UnsetType
    neighbours: str | UnsetType


decode_preview = msgspec.json.Decoder(Preview).decode


def _no_member(_dataset: str, _name: str) -> None:
    return None


def _no_roster(_dataset: str) -> tuple[MemberRow, ...]:
    return ()


def preview(
    view: DatasetView,
    asked: PreviewRequest,
    divided: DatasetLimits | None = None,
    members: Members = _no_member,
    roster: Roster = _no_roster,
) -> Preview:
    """Decide a request on the current state of a dataset, without recording it.

    Args:
        asked: the request. Without an analyst: of somebody who may ask and has no limit.
        divided: the dataset's limits; None where it has none.
        members: of the dataset, of the same moment.
        roster: all of them, which only a session of a question needs.

    Raises:
        RequestInvalid: a field of the claim breaks its rule.
        LogDamaged: the view does not fit its own policy.
    """
    claim = check_asked(asked)
    analyst = asked.analyst or ""
    ledger = ledger_of(view) if divided is None else divided.ledger
    at = ledger.changed_at if divided is None else divided.at
    team = team_of(members(view.dataset, analyst), at)
    open_of = None if divided is None else _open_of(divided)

    def judge(asked: PreviewRequest) -> _Judged:
        decided = _decide(ledger, asked, claim, divided, members, roster, at, open_of)
        return _count_more(ledger, asked, decided, divided, team, open_of)

    judged = judge(asked)
    after, verdict, derived, error = judged.decided
    refused = None if judged.granted else verdict.price
    found = Preview(
        dataset=view.dataset,
        sequence=ledger.sequence,
        granted=judged.granted,
        reason=verdict.reason,
        cost=verdict.cost,
        asked=None if refused is None else refused.wire,
        left=remaining_wire(after),
        fits=verdict.fits,
        more=judged.more,
        ends=verdict.ends,
        level=verdict.level,
        left_at=verdict.left_at,
        ends_basic=_ends_basic(ledger, after),
        halts=after.halted and not ledger.halted,
        derived=UNSET if derived is None or asked.question is UNSET else Derived(derived.claim),
        error=error or UNSET,
        holder=verdict.holder or UNSET,
        pause=verdict.pause or UNSET,
        needs_approval=_needs_approval(ledger, verdict) or UNSET,
        limits_left=UNSET if judged.limits is None else remaining_at(judged.limits, after),
    )
    return found if found.derived is UNSET else _with_errors(found, ledger, asked, judge)


class _Judged(NamedTuple):
    """A decision, and after a grant the analyst's limits and how many more would be granted."""

    decided: QuestionVerdict
    limits: ApplicableLimits | None
    more: int | None

    @property
    def granted(self) -> bool:
        return self.decided.verdict.outcome.charges

    @property
    def fitting(self) -> FittingNoise | None:
        """What it costs, and how many such requests would be granted."""
        verdict = self.decided.verdict
        if verdict.price is None:
            return None
        return FittingNoise(
            verdict.price.wire, None if self.more is None else self.more + self.granted
        )


def _count_more(
    ledger: DatasetLedger,
    asked: PreviewRequest,
    decided: QuestionVerdict,
    divided: DatasetLimits | None,
    team: str,
    open_of: OpenOfHolder | None,
) -> _Judged:
    after, verdict, claim, _ = decided
    if not verdict.outcome.charges or verdict.price is None or claim is None:
        return _Judged(decided, None, 0)
    levels, reserve = [each.after for each in verdict.charged], asked.reserve is not UNSET
    limits = divided and divided.applicable_after(after, levels, asked.analyst or "", team)
    more = _more(limits, after, claim, reserve=reserve)
    room = _room_of_holders(ledger, asked, open_of) if reserve else None
    return _Judged(
        decided, limits, more if room is None else room if more is None else min(more, room)
    )


def _with_errors(
    found: Preview,
    ledger: DatasetLedger,
    asked: PreviewRequest,
    judge: Callable[[PreviewRequest], _Judged],
) -> Preview:
    """Return the preview of a question with its expected errors, at the price asked and others."""
    schema, question = ledger.facts.schema, asked.question
    assert schema is not UNSET
    assert question is not UNSET
    assert asked.noise is not UNSET
    noise = with_law(asked.noise, ledger.plan.error_law)  # prices name it
    checked = check_question(question, decode_schema(bytes(schema)))
    guess = None if asked.guess is UNSET else asked.guess

    def fit_with(other: Noise) -> FittingNoise | None:
        return judge(msgspec.structs.replace(asked, noise=other)).fitting

    return msgspec.structs.replace(
        found,
        expected_errors=expected_errors(checked, noise, guess),
        prices=question_prices(checked, noise, guess, fit_with),
    )


def _needs_approval(ledger: DatasetLedger, verdict: Verdict) -> bool:
    """Tell whether a request that fits would wait until an owner approves it."""
    approval = ledger.plan.approval
    if approval is None or not verdict.outcome.charges or verdict.price is None:
        return False
    return not approval.admits(verdict.price)


def _decide(
    ledger: DatasetLedger,
    asked: PreviewRequest,
    claim: CheckedClaim | None,
    divided: DatasetLimits | None,
    members: Members,
    roster: Roster,
    at: int,
    open_of: OpenOfHolder | None,
) -> QuestionVerdict:
    """Return the decision on a claim, or on a question where there is no claim."""
    reserve = asked.reserve is not UNSET
    question, noise, unit, neighbours = asked.question, asked.noise, asked.unit, asked.neighbours
    if asked.analyst is not None:
        store = None if divided is None else divided.store
        resets = NO_RESETS if divided is None else divided.resets
        asks = _RequestTerms(asked.analyst, asked.via, unit, neighbours)
        if claim is not None:
            by_claim = decide_request(
                ledger, asks, claim, members, store, at, resets, reserve, open_of=open_of
            )
            return QuestionVerdict(*by_claim, claim)
        assert question is not UNSET
        assert noise is not UNSET
        return decide_question(
            ledger, asks, question, noise, members, roster, store, at, resets, reserve, open_of
        )
    if claim is None:
        assert question is not UNSET
        assert noise is not UNSET
        derived = derive_claim(ledger, question, noise, roster, at, reserve=reserve)
        if isinstance(derived, NotDerived):
            return derived.refuse(ledger, at)
        policy = ledger.plan.policy
        claim, unit, neighbours = derived, policy.unit, policy.neighbours
    limits = None if divided is None else divided.applicable_to("", "")
    return QuestionVerdict(
        *adjudicate(ledger, claim, unit, neighbours, at, limits, reserve=reserve), claim
    )


def _open_of(divided: DatasetLimits) -> OpenOfHolder:
    """Return what counts a holder's open reservations once the next decision has begun."""
    rows, now = divided.reservations, divided.ledger.clock(divided.at)
    dropped = {row.grant for row in first_final(rows, now, MAX_DROPPED)}
    return lambda _, name: sum(name in row.holders and row.grant not in dropped for row in rows)


def _room_of_holders(
    ledger: DatasetLedger, asked: PreviewRequest, open_of: OpenOfHolder | None
) -> int | None:
    """Return how many more the request's holders may reserve after it, None for any number."""
    most = ledger.plan.policy.open_per_holder
    if most is UNSET or open_of is None:
        return None
    names = filter(None, (asked.analyst, asked.via or ""))
    return min((most - 1 - open_of(ledger.dataset, name) for name in names), default=None)


def _ends_basic(before: DatasetLedger, after: DatasetLedger) -> bool:
    """Whether a request is the first without an epsilon, where basic composition counts, too."""
    sums = before.plan.sums
    if WITHOUT not in sums:
        return False
    place = sums.index(WITHOUT)
    return not before.totals[place] and bool(after.totals[place])


def _more(
    limits: ApplicableLimits | None, ledger: DatasetLedger, claim: CheckedClaim, *, reserve: bool
) -> int | None:
    """Return how many such claims all budgets admit, one after another."""
    budgets = budgets_of(ledger, limits)
    if reserve and not all(budget.kind.adds_up for budget, _ in budgets.parts):
        return _more_reservations(budgets, price(claim, ledger.plan.priced), claim)
    kind = budgets.search_filter
    return kind.count(ledger.plan.capacity, ledger.spent, price(claim, kind.needs))


def _more_reservations(budgets: AllBudgets, asked: Price, claim: CheckedClaim) -> int:
    """Return how many such reservations all budgets admit, charged one after another to a bound.

    A filter counts by a claim's own cost, and gdp_residue charges more for what may be voided.
    """
    for count in range(_MOST_COUNTED):
        used = budgets.charge(claim, asked, reserve=True)
        if isinstance(used, Denial):
            return count
        pairs = zip(budgets.parts, used, strict=True)
        budgets = AllBudgets(tuple([(budget, after) for (budget, _), after in pairs]))
    return _MOST_COUNTED


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
