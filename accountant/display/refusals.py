"""Why a request was refused, and when more comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from accountant.advice.offline import LAST_MS
from accountant.advice.preview import Preview
from accountant.claims import Claim
from accountant.display.admin_refusals import admin_refusal_words
from accountant.display.approvals import answer_words
from accountant.display.binding_limits import (
    BindingLimit,
    binding_limits,
    binding_words,
    cost_and_left,
    short_sum,
)
from accountant.display.claims_refused import not_accepted_words, sampling_words
from accountant.display.current_dataset import CurrentDataset, owner_words
from accountant.display.datasets import cap_words, pause_words, pauser_words
from accountant.display.limits import scope_words, whole_of_limits
from accountant.display.may_use import (
    FIXED,
    WAITING,
    raise_budget,
    raise_limit,
    reserve_less,
    whole_period_too_small,
)
from accountant.display.numbers import (
    Texts,
    counting_cost,
    is_tied,
    remaining_amount,
    spent_amount,
    spent_line,
    sufficient_line,
)
from accountant.display.pauses import (
    paused_name,
    person_pauser_words,
    resume_words,
    since_words,
)
from accountant.display.reasons import ASK_FOR_ROLE, NO_ROOM, REASONS, UNNAMED_OWNER, Subject
from accountant.display.reservations import SHORT_GRANT
from accountant.display.texts import capital
from accountant.display.times import moment
from accountant.policy import MAX_OPEN, Policy
from accountant.questions.derive import NO_ERROR_BEFORE
from accountant.records import DECODE_ERRORS, Decision, FieldError
from accountant.records.asks import AskKind
from accountant.records.kinds import KINDS
from accountant.records.limit_records import Scope
from accountant.records.outcomes import Reason
from accountant.records.request_names import claim_of
from accountant.records.reservation_rows import HolderCount
from accountant.times import from_iso, iso, issued_at
from accountant.views.limit_views import PeriodLimitView, ScopeView

_WAITING_ALONE: Final = "Waiting alone will not help: "
_LESS: Final = "Ask for less."
_SMALLER: Final = "Ask for less at a time."

PeriodLimits = Mapping[tuple[Scope, str | None], PeriodLimitView]
"""Current period limits, by the scope and name of the limit."""


class MoreAvailable(NamedTuple):
    """When more budget comes.

    Attributes:
        text: a sentence. `at`: the time that it names, None where waiting does not help.
        wants: what the analyst may ask owners for, so that it would fit; `team` is a limit of the
            team, "" where that is nothing. `what`: as words of the command that asks.
    """

    text: str
    at: str | None = None
    wants: AskKind | Literal["team", ""] = ""
    what: str = ""

    def command(self, dataset: str | None, analyst: str) -> str:
        """Return the command that asks owners, "" where an ask does not help."""
        if not self.wants or dataset is None:
            return ""
        return f"accountant more ask {dataset} {self.what} --reason WHY --by {analyst}"


class _RefusedRequest(msgspec.Struct):
    """What an input says of itself; inputs that break a rule are in a log, too."""

    request_id: str = ""
    analyst: str = ""
    by: str = ""
    via: str = ""
    grant: str = ""
    unit: str = ""
    neighbours: str = ""
    follows: int | None = None
    type: str = ""


_OF_LEADS: Final = {kind.name for kind in KINDS if "lead" in kind.senders}
_decode_request = msgspec.json.Decoder(_RefusedRequest).decode


def broken_rule(error: FieldError) -> str:
    """Return which rule an invalid input breaks, in a line."""
    if error.field == "body" and not error.value:
        return error.rule  # the rule already names the body
    return f"{error.field} {error.rule}, got {error.value}"


def refusal_words(
    refused: Decision | Preview,
    policy: Policy | None = None,
    levels: Sequence[ScopeView] = (),
    *,
    amounts: bool = True,
    current: CurrentDataset | None = None,
    claim: Claim | None = None,
) -> str:
    """Return why something was refused, and what to do next where `fits` does not say it.

    "" without a reason.

    Args:
        policy: of the dataset, where it is known: a claim for another unit is compared with it.
        levels: the limits of the request's analyst, where the reader may see them.
        amounts: also say what the request costs and what is left.
        current: the dataset, where it is known: it says which owner to ask, who has paused it, and
            what an owner's record differs in.
        claim: of a preview; a decision has its own.
    """
    claim = claim_of(refused) if isinstance(refused, Decision) else claim
    policy = policy if current is None else current.view.policy
    said = _refusal_words(refused, policy, levels, amounts=amounts, current=current, claim=claim)
    if refused.level is None and (more := sampling_words(refused, policy, claim)):
        said = f"{said} {more}"
    by = refused.refused_by if isinstance(refused, Decision) else None
    if by is None or refused.reason is Reason.UNKNOWN_DATASET:
        return said
    return f"Dataset {by} refuses, so none is charged. {said}"


def _refusal_words(
    refused: Decision | Preview,
    policy: Policy | None,
    levels: Sequence[ScopeView],
    *,
    amounts: bool,
    current: CurrentDataset | None,
    claim: Claim | None,
) -> str:
    reason = refused.reason
    if reason is None:
        return ""
    if isinstance(refused, Decision) and (said := admin_refusal_words(refused, current)):
        return said
    if too_much := _delta_words(refused.asked, refused.left):
        return too_much
    level = refused.level
    whole = whole_of_limits(None if current is None else current.view)
    binding = binding_words(refused, levels, amounts=amounts, whole=whole)
    if level is not None and level.what is not None:
        return binding
    if reason is Reason.EXHAUSTED:
        costs = cost_and_left(refused.asked or {}, refused.left or {}) if amounts else ""
        said = f"{NO_ROOM[:-1]}: {costs}." if costs else NO_ROOM
        return " ".join(filter(None, (said, binding)))
    request = _request_of(refused)
    subject = _subject(refused, request, current)
    if refused.holder:
        return _holder_words(refused.holder, subject)
    by = (
        ""
        if level is None
        else f" The limit of {scope_words(level.scope, level.name)} decides this."
    )
    meaning = _meaning(refused, request, policy, current)
    if refused.error:
        said = REASONS[reason].meaning_of(subject).removesuffix(".")
        meaning = f"{said}: {broken_rule(refused.error)}."
    if reason is Reason.CLAIM_NOT_ACCEPTED and level is None:
        meaning = not_accepted_words(policy, claim)
    remedy = (
        _without_cap(refused)
        or _noise_remedy(refused.error or None)
        or _remedy(refused, request, subject, current)
        or REASONS[reason].remedy_of(subject)
    )
    return f"{meaning or REASONS[reason].meaning_of(subject)}{by} {remedy}"


def _request_of(refused: Decision | Preview) -> _RefusedRequest:
    if isinstance(refused, Decision):
        with suppress(*DECODE_ERRORS):
            return _decode_request(refused.request)
    return _RefusedRequest()


def _subject(
    refused: Decision | Preview, request: _RefusedRequest, current: CurrentDataset | None
) -> Subject:
    """Return what a refusal is about, as its words name it."""
    by = refused.refused_by if isinstance(refused, Decision) else None
    known = {}
    if dataset := by or refused.dataset:
        known = {"dataset": dataset, "the_dataset": f"dataset {dataset}"}
    if request.grant:
        short = request.grant[:SHORT_GRANT]
        known |= {"grant": short, "reservation": f"reservation {short}"}
    if analyst := request.by or request.analyst:
        known["analyst"] = analyst
    by_option = "" if current is None else current.by_option(request.by)
    return Subject(**known, owner=_owner(refused, current), by=by_option)


def _owner(refused: Decision | Preview, current: CurrentDataset | None) -> str:
    """Return which owner to ask: of a pause, who has made it."""
    if refused.pause:
        return person_pauser_words(refused.pause)
    if current is None:
        return UNNAMED_OWNER
    if refused.reason is Reason.PAUSED and current.pause is not None:
        return pauser_words(current.pause)
    return owner_words(current.members)


def _holder_words(holder: HolderCount, subject: Subject) -> str:
    """Return who has too many open reservations, and what to do."""
    more = min(2 * holder.most, MAX_OPEN)
    subject = subject._replace(analyst=holder.name, most=str(more))
    remedy = REASONS[Reason.TOO_MANY_OF_HOLDER].remedy_of(subject)
    return (
        f"Open reservations of dataset {subject.dataset} that {holder.name} holds: "
        f"{holder.open:,}. One holder may have {holder.most:,} (`open_per_holder`). {remedy}"
    )


def _meaning(
    refused: Decision | Preview,
    request: _RefusedRequest,
    policy: Policy | None,
    current: CurrentDataset | None,
) -> str:
    """Return what a reason means for this request, with both values where two disagree, else ""."""
    pause = None if current is None else current.pause
    match refused.reason:
        case Reason.PAUSED if pause is not None:
            return f"Dataset {refused.dataset} grants nothing now: paused {pause_words(pause)}."
        case Reason.PERSON_PAUSED if refused.pause:
            paused, since = paused_name(refused.pause), since_words(refused.pause)
            dataset = (isinstance(refused, Decision) and refused.refused_by) or refused.dataset
            return f"On dataset {dataset}, {paused} is paused {since.removesuffix('.')}."
        case Reason.ABOVE_CAP if refused.asked:
            return _cap_words(refused.asked, refused.left or refused.asked, policy, current)
        case Reason.CLOSED if current is not None and current.view.renewed_as:
            return f"Dataset {current.view.dataset} is closed, which is final."
    if not isinstance(refused, Decision):
        return ""
    match refused.reason:
        case Reason.UNKNOWN_DATASET if refused.dataset:
            return f"No dataset is named {refused.refused_by or refused.dataset}."
        case Reason.UNIT_MISMATCH if request.unit:
            return _unit_words(request, policy)
        case Reason.DENIED if refused.pending is not None:
            why = refused.pending.reason
            return f"{answer_words(refused)}." + (f' The reason: "{why}".' if why else "")
        case Reason.NOT_PERMITTED:
            return _role_words(request, refused.dataset)
        case Reason.OUT_OF_DATE if request.follows is not None and refused.sequence:
            return (
                f"The record follows decision {request.follows} of dataset {refused.dataset}, and "
                f"the last one was {refused.sequence - 1}."
            )
        case Reason.ISSUED_IN_FUTURE:
            return _clock_words(request.request_id, refused.decided_at)
        case _:
            return ""


def _remedy(
    refused: Decision | Preview,
    request: _RefusedRequest,
    subject: Subject,
    current: CurrentDataset | None,
) -> str:
    """Return what to do where it depends on the request or the dataset, else ""."""
    reason = refused.reason
    if refused.pause:
        command = resume_words(refused.pause, subject.dataset, subject.by)
        remedy = REASONS[Reason.PERSON_PAUSED].remedy_of(subject)
        return f"{remedy} An owner ends it: `{command}`."
    after = "" if current is None else current.view.renewed_as
    if reason is Reason.CLOSED and after:
        return f"It was renewed as {after}: ask there."
    if reason is Reason.NOT_PERMITTED and (request.by or request.via):
        set_member = f"accountant member set {subject.dataset}"
        if request.by:
            command = ASK_FOR_ROLE.format(dataset=subject.dataset, role="owner", name=request.by)
            return f"Ask {subject.owner} for the role: `{command}`."
        return (
            f"Ask {subject.owner} for the roles: `{set_member} {request.analyst} --role "
            f"analyst{subject.by}` and `{set_member} {request.via} --role engine{subject.by}`."
        )
    return ""


def _noise_remedy(error: FieldError | None) -> str:
    """Return what to do about a noise that no mean or variance can have, else ""."""
    if error is None or not error.rule.startswith(NO_ERROR_BEFORE):
        return ""
    return (
        "The error of a mean or variance depends on how many rows there are: ask with epsilon or "
        "rho. A dry run with a guess of the rows (--guess 1000, in Python guess=1000) shows the "
        "error, and the answer has an interval."
    )


def _clock_words(request_id: str, decided_at: str) -> str:
    issued = issued_at(request_id)
    if issued is None or issued > LAST_MS:
        return ""
    return f"The id's time is {moment(iso(issued))}, and the ledger's is {moment(decided_at)}."


def _without_cap(refused: Decision | Preview) -> str:
    """Return that a request above the cap does not fit what is left either, "" where it does."""
    asked, left = refused.asked or {}, refused.left or {}
    if refused.reason is not Reason.ABOVE_CAP or short_sum(asked, left) is None:
        return ""
    rest = {name: left[name] for name in counting_cost(asked, left)}
    return f"{_LESS} Even without the cap, only {sufficient_line(rest)} is left."


def _cap_words(
    asked: Texts, counted: Texts, policy: Policy | None, current: CurrentDataset | None
) -> str:
    cost = spent_line(counting_cost(asked, counted))
    if policy is None:
        return f"One request may not use so much of the budget: this one costs {cost}."
    most = "" if current is None else _cap_amount(asked, counted, policy, current)
    return f"One request {cap_words(policy)}{most and f' ({most})'}, and this one costs {cost}."


def _cap_amount(asked: Texts, counted: Texts, policy: Policy, current: CurrentDataset) -> str:
    """Return the cap in amounts of the sums that the request moves, "" where a rule ties them.

    A cap counts no delta.
    """
    ratio = Decimal(policy.most_per_request or "1")
    budget = current.view.budget
    shown = {name: budget[name] for name in counting_cost(asked, counted) if name in budget}
    if is_tied(shown):
        return ""
    amounts = {name: f"{Decimal(text) * ratio:f}" for name, text in shown.items()}
    return sufficient_line(amounts, deltas=False)


def _unit_words(request: _RefusedRequest, policy: Policy | None) -> str:
    said = f"The claim is for unit {request.unit} and neighbours {request.neighbours}"
    if policy is None:
        return f"{said}, and the dataset's policy is not."
    return f"{said}, and the policy for unit {policy.unit} and neighbours {policy.neighbours}."


def _role_words(request: _RefusedRequest, dataset: str | None) -> str:
    where = f"dataset {dataset}" if dataset else "the dataset"
    if request.by:
        leads = ", nor a lead who may do this" if request.type in _OF_LEADS else ""
        return f"{request.by} is not an owner of {where}{leads}."
    if request.via:
        other = f"{request.via} not its engine or curator"
        return f"{request.analyst} is not an analyst of {where}, or {other}."
    return f"{request.analyst} is not an analyst of {where}." if request.analyst else ""


def _delta_words(asked: Texts | None, remaining: Texts | None) -> str:
    """Return what to do where a claim's delta is more than is left for claims, else ""."""
    delta, rest = (asked or {}).get("delta", "0"), (remaining or {}).get("delta")
    if rest is None or Decimal(delta) <= Decimal(rest):
        return ""
    there = "nothing" if Decimal(rest) == 0 else remaining_amount(rest)
    return (
        f"The claim has a delta of {spent_amount(delta)}, and {there} of the dataset's delta is "
        "left for claims. Use a claim without a delta, such as pure, laplace or gaussian."
    )


def when_more(
    refused: Decision | Preview,
    paces: PeriodLimits | None = None,
    decided_at: int = 0,
    *,
    owner: str = UNNAMED_OWNER,
    current: CurrentDataset | None = None,
) -> MoreAvailable | None:
    """Return when more budget comes for a request that did not fit, None for any other.

    Where several limits have too little left, waiting helps only if it helps with all of them.

    Args:
        paces: the current period limits, where the refusal may be of an earlier period.
        decided_at: milliseconds since 1970.
        owner: which owner to ask for more, see `owner_words`.
        current: the dataset, where it is known: its budget in force may be below its ceiling.
    """
    if refused.reason is not Reason.EXHAUSTED:
        return None
    if refused.level is None:
        raised = _raise_in_force(refused, current, owner)
        text = f"{WAITING}{raised or FIXED}."
        if current is None or not raised:
            return MoreAvailable(text)
        field = current.view.policy.budget_field
        return MoreAvailable(text, wants="budget", what=f"budget --{field} AMOUNT")
    binding = binding_limits(refused)
    obstacles = [_obstacle(each, owner) for each in binding]
    if any(obstacles):
        steps = [found or _reset(each) for found, each in zip(obstacles, binding, strict=True)]
        head = WAITING if all(obstacles) else _WAITING_ALONE
        is_pace = len(binding) == 1 and binding[0].what == "pace"
        smaller = f" {_SMALLER}" if is_pace else ""
        wants, what = _wants(binding)
        text = f"{head}{', and '.join(steps)}.{smaller}"
        return MoreAvailable(text, wants=wants, what=what)
    if any(each.more_at is None for each in binding):  # of limits that end
        said = ", and ".join(map(_reset, binding))
        return MoreAvailable(f"{capital(said)}.", max(map(_end_of, binding)))
    ends = [each.more_at for each in binding if each.more_at is not None]
    if paces is not None:
        ends = []
        for each in binding:
            period_limit = paces.get((each.level.scope, each.level.name))
            if period_limit is None:
                return MoreAvailable("That period limit was removed or replaced since: ask again.")
            if not in_period(period_limit, decided_at):
                return MoreAvailable("A new period has begun since: ask again.")
            ends.append(period_limit.ends_at)
    at = max(ends)
    return MoreAvailable(f"More comes at {moment(at)}.", at)


def _raise_in_force(refused: Decision | Preview, current: CurrentDataset | None, owner: str) -> str:
    """Return that the budget in force may be raised, "" where the ceiling has no room either."""
    if current is None or current.view.in_force is UNSET:
        return ""
    budget = current.view.in_force
    asked, left = refused.asked or {}, refused.left or {}
    if budget.field in asked and budget.field in left:
        below = Decimal(getattr(current.view.policy, budget.field)) - Decimal(budget.amount)
        if Decimal(asked[budget.field]) > Decimal(left[budget.field]) + below:
            return ""
    return raise_budget(current.view, owner, current.by_option())


def _wants(binding: Sequence[BindingLimit]) -> tuple[AskKind | Literal["team", ""], str]:
    """Return which limit to ask owners for first, one's own or that of one's team, and how."""
    names = {each.level.scope: each.level.name for each in binding}
    if names.keys() & {"analyst", "each"}:
        return "limit", "limit --part PART"
    if "team" in names:
        return "team", f"limit --team {names['team']} --part PART"
    return "", ""


def _obstacle(limit: BindingLimit, owner: str) -> str:
    """Return why waiting does not help at a limit, "" where it does."""
    scope = scope_words(limit.level.scope, limit.level.name)
    if limit.until is not None:
        return ""
    if limit.what == "limit":
        return raise_limit(scope, owner)
    if limit.what == "reserved":
        return reserve_less(owner)
    if limit.more_at is None:
        return whole_period_too_small(scope)
    return ""


def _reset(limit: BindingLimit) -> str:
    """Return when more comes at one of several limits, or when the limit ends."""
    scope = scope_words(limit.level.scope, limit.level.name)
    if limit.more_at is None:
        return f"the limit of {scope} ends at {moment(limit.until or '')}"
    return f"more of the period limit of {scope} comes at {moment(limit.more_at)}"


def _end_of(limit: BindingLimit) -> str:
    return limit.more_at or limit.until or ""


def in_period(period_limit: PeriodLimitView, at: int) -> bool:
    """Whether a time, in milliseconds since 1970, is within a limit's current period."""
    return from_iso(period_limit.begins_at) <= at < from_iso(period_limit.ends_at)
