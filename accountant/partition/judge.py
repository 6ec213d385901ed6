"""The decision on an analyst's request: first permission, then every budget that applies.

Live decisions and previews both call `decide_request`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Final, NamedTuple, Protocol

from msgspec import UNSET, UnsetType

from accountant.claims import CheckedClaim, check_claim
from accountant.claims.price import Price
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import RequestInvalid
from accountant.ledger.adjudicate import (
    Verdict,
    adjudicate,
    advance,
    reason_stopped,
    refusal_of_all,
)
from accountant.limits.applicable_limits import applicable_limits, team_of
from accountant.limits.store import LimitStore
from accountant.members.pauses import pause_that_stops
from accountant.members.permits import RequestParties, may_ask
from accountant.questions.derive import derive
from accountant.questions.laws import is_session, with_law
from accountant.questions.noise import Noise
from accountant.questions.question import check_question
from accountant.questions.schema import decode_schema
from accountant.questions.statistics import Question
from accountant.records import FieldError
from accountant.records.members import MemberRow
from accountant.records.outcomes import Outcome, Reason
from accountant.records.pending_rows import MAX_KEPT, MAX_PENDING, MAX_PENDING_EACH, PendingRow
from accountant.records.person_pauses import PersonPause
from accountant.records.reservation_rows import HolderCount
from accountant.reservations.continuation import may_continue
from accountant.reservations.reservation import Reservation
from accountant.times import ClockResets

_NOT_PERMITTED: Final = Verdict(Outcome.REFUSED, Reason.NOT_PERMITTED)
_NOT_SETTLED: Final = Verdict(Outcome.REFUSED, Reason.NOT_SETTLED)

Members = Callable[[str, str], MemberRow | None]
"""Returns the row of a dataset's member."""
OpenOfHolder = Callable[[str, str], int]
"""Returns how many open reservations of a dataset a name holds, as analyst or engine."""
Roster = Callable[[str], Iterable[MemberRow]]
"""Returns the rows of all of a dataset's members."""


class Approvals(NamedTuple):
    """What decides whether a request may wait for an owner's approval.

    Attributes:
        rows: of a dataset, its rows of requests that wait or did, by hash.
        roster: the rows of all of a dataset's members.
    """

    rows: Callable[[str], Mapping[str, PendingRow]]
    roster: Roster


class Reservations(Protocol):
    """Returns a dataset's reservation by its grant."""

    def get(self, dataset: str, grant: str, /) -> Reservation | None: ...


class RequestTerms(RequestParties, Protocol):
    """The terms of a request next to its claim."""

    @property
    def unit(self) -> str | UnsetType: ...
    @property
    def neighbours(self) -> str | UnsetType: ...


class NotDerived(NamedTuple):
    """Why no claim was derived from a question; `error` names what is wrong with it."""

    verdict: Verdict
    error: FieldError | None = None

    def refuse(self, ledger: DatasetLedger, at: int) -> QuestionVerdict:
        """Return the refusal of the question."""
        return QuestionVerdict(advance(ledger, at), self.verdict, error=self.error)


class QuestionVerdict(NamedTuple):
    """The decision on a request with a question.

    Attributes:
        claim: that was derived, None where the request was refused before that.
        error: what is wrong with the question.
    """

    after: DatasetLedger
    verdict: Verdict
    claim: CheckedClaim | None = None
    error: FieldError | None = None


def full_holder(
    ledger: DatasetLedger, request: RequestParties, open_of: OpenOfHolder | None
) -> HolderCount | None:
    """Return the first holder of a reservation who has as many open ones as the policy allows.

    The analyst is one, and so is the engine that asks for the analyst.
    """
    most = ledger.plan.policy.open_per_holder
    if most is UNSET or open_of is None:
        return None
    for name in filter(None, (request.analyst, request.via or "")):
        count = open_of(ledger.dataset, name)
        if count >= most:
            return HolderCount(name, count, most)
    return None


def pause_of_request(
    ledger: DatasetLedger, request: RequestParties, members: Members
) -> PersonPause | None:
    """Return the pause of the request's analyst, or of the engine that asks for the analyst."""
    pauses = ledger.facts.person_pauses
    if not pauses:
        return None
    return pause_that_stops(pauses, partial(members, ledger.dataset), request)


def derive_claim(
    ledger: DatasetLedger,
    question: Question,
    noise: Noise,
    roster: Roster,
    at: int,
    *,
    reserve: bool,
    full: HolderCount | None = None,
    pause: PersonPause | None = None,
) -> CheckedClaim | NotDerived:
    """Return the claim of a question by the dataset's schema, or why there is none.

    The schema, the question and, of a session, the dataset's members decide that, never the data.
    Precedence: what stops every request, no_schema, question_not_allowed.
    """
    stopped = reason_stopped(ledger, reserve=reserve, full=full, pause=pause)
    if stopped is not None:
        return NotDerived(refusal_of_all(stopped, full, pause))
    schema = ledger.facts.schema
    if schema is UNSET:
        return NotDerived(Verdict(Outcome.REFUSED, Reason.NO_SCHEMA))
    try:
        claim = _derived(bytes(schema), question, with_law(noise, ledger.plan.error_law))
        if is_session(noise):
            _check_curator(ledger.dataset, noise, roster, at)
        return claim
    except RequestInvalid as error:
        wrong = FieldError(_within_question(error.field), error.rule, error.value)
        return NotDerived(Verdict(Outcome.REFUSED, Reason.QUESTION_NOT_ALLOWED), wrong)


def _check_curator(dataset: str, noise: Noise, roster: Roster, at: int) -> None:
    """Refuse a session that nobody may begin: it would wait until its deadline."""
    if not any(row.holds("curator", at) for row in roster(dataset)):
        rule = (
            "needs a member with the role curator; an owner can add one with `accountant member "
            f"set {dataset} NAME --role curator`"
        )
        raise RequestInvalid("noise.law", rule, str(noise.law))


def _within_question(field: str) -> str:
    return field if field.split(".", maxsplit=1)[0] == "noise" else f"question.{field}"


@lru_cache(maxsize=1024)
def _derived(schema: bytes, question: Question, noise: Noise) -> CheckedClaim:
    checked = check_question(question, decode_schema(schema))
    return check_claim(derive(checked, noise).claim)


def decide_question(
    ledger: DatasetLedger,
    request: RequestParties,
    question: Question,
    noise: Noise,
    members: Members,
    roster: Roster,
    levels: LimitStore | None,
    at: int,
    resets: ClockResets,
    reserve: bool,
    open_of: OpenOfHolder | None = None,
    approvals: Approvals | None = None,
) -> QuestionVerdict:
    """Return the decision on a request with a question on an open dataset.

    It is that on a request with the derived claim, for the policy's unit and neighbours. Whoever
    may not ask learns nothing of the schema.

    Args:
        roster: whose members are those of `members`. The others are as of `decide_request`.
    Precedence: not_permitted, then `derive_claim`'s, then `adjudicate`'s.
    """
    policy = ledger.plan.policy
    if not may_ask(policy, partial(members, ledger.dataset), request, at):
        return QuestionVerdict(advance(ledger, at), _NOT_PERMITTED)
    full = full_holder(ledger, request, open_of) if reserve else None
    pause = pause_of_request(ledger, request, members)
    claim = derive_claim(
        ledger, question, noise, roster, at, reserve=reserve, full=full, pause=pause
    )
    if isinstance(claim, NotDerived):
        return claim.refuse(ledger, at)
    terms = _PolicyTerms(request.analyst, request.via, policy.unit, policy.neighbours)
    after, verdict = decide_request(
        ledger, terms, claim, members, levels, at, resets, reserve, approvals=approvals
    )
    return QuestionVerdict(after, verdict, claim)


class _PolicyTerms(NamedTuple):
    analyst: str
    via: str | UnsetType
    unit: str
    neighbours: str


def decide_request(
    ledger: DatasetLedger,
    request: RequestTerms,
    claim: CheckedClaim,
    members: Members,
    levels: LimitStore | None,
    at: int,
    resets: ClockResets,
    reserve: bool = False,
    reservations: Reservations | None = None,
    datasets: tuple[str, ...] = (),
    open_of: OpenOfHolder | None = None,
    approvals: Approvals | None = None,
) -> tuple[DatasetLedger, Verdict]:
    """Return the ledger after a request on an open dataset, and the verdict.

    Args:
        reserve: as of `adjudicate`.
        levels: of the partition; None where the dataset has none.
        at: the decision's time, milliseconds since 1970.
        resets: those of the partition's clock.
        reservations: of the partition; None where what a claim continues is not looked up.
        datasets: of a request over several datasets, all of them.
        open_of: of the partition; None where nothing is known of open reservations.
        approvals: of the partition; None where an owner has approved the request.
    Precedence: not_permitted, not_settled, then `adjudicate`'s, then those of a request that may
    not wait: not_alone, no_approver, too_many_pending.
    """
    plan, dataset = ledger.plan, ledger.dataset
    if plan.members_only or request.via is not UNSET:
        lookup = partial(members, dataset)
        if not may_ask(plan.policy, lookup, request, at):
            return advance(ledger, at), _NOT_PERMITTED
    if claim.refinements and reservations is not None:
        find = partial(reservations.get, dataset)
        if not may_continue(claim, request.analyst, find, ledger.clock(at), datasets):
            return advance(ledger, at), _NOT_SETTLED
    limits = None
    if levels is not None:
        team = team_of(members(dataset, request.analyst), at)
        limits = applicable_limits(ledger, levels, request.analyst, team, at, resets)
    full = full_holder(ledger, request, open_of) if reserve else None
    # Hardly ever is somebody paused, so the call is left out.
    pause = pause_of_request(ledger, request, members) if ledger.facts.person_pauses else None
    after, verdict = adjudicate(
        ledger, claim, request.unit, request.neighbours, at, limits, reserve, full, pause
    )
    approval = plan.approval
    if approval is None or approvals is None or not verdict.outcome.charges:
        return after, verdict
    assert verdict.price is not None
    if approval.admits(verdict.price):
        return after, verdict
    waits = _pending(ledger, request, verdict.price, datasets, at, resets, approvals)
    return advance(ledger, at), waits


def _pending(
    ledger: DatasetLedger,
    request: RequestParties,
    asked: Price,
    datasets: tuple[str, ...],
    at: int,
    resets: ClockResets,
    approvals: Approvals,
) -> Verdict:
    """Return the verdict on a request that fits, and that an owner has to approve."""
    if datasets:
        return Verdict(Outcome.REFUSED, Reason.NOT_ALONE, asked)
    own = {request.analyst, request.via or request.analyst}
    roster = approvals.roster(ledger.dataset)
    if not any(row.holds("owner", at) and row.member not in own for row in roster):
        return Verdict(Outcome.REFUSED, Reason.NO_APPROVER, asked)
    rows, clock = approvals.rows(ledger.dataset).values(), max(at, ledger.changed_at)
    waiting = Counter(row.analyst for row in rows if row.waits(clock, resets.number))
    if (
        waiting[request.analyst] >= MAX_PENDING_EACH
        or waiting.total() >= MAX_PENDING
        or len(rows) >= MAX_KEPT
    ):
        return Verdict(Outcome.REFUSED, Reason.TOO_MANY_PENDING, asked)
    return Verdict(Outcome.PENDING, None, asked)
