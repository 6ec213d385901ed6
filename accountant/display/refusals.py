"""Why a request was refused, and when more comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

import msgspec

from accountant.advice.offline import LAST_MS
from accountant.advice.preview import Preview
from accountant.display.admin_refusals import CurrentDataset, admin_refusal_words
from accountant.display.binding_limits import (
    BindingLimit,
    binding_limits,
    binding_words,
    cost_and_left,
)
from accountant.display.datasets import cap_words
from accountant.display.limits import scope_words
from accountant.display.may_use import (
    FIXED,
    RESERVE_LESS,
    WAITING,
    raise_limit,
    whole_period_too_small,
)
from accountant.display.numbers import Texts, remaining_amount, spent_amount, symbol
from accountant.display.reasons import NO_ROOM, REASONS
from accountant.display.times import moment
from accountant.policy import Policy
from accountant.records import DECODE_ERRORS, Decision, FieldError
from accountant.records.limit_records import Scope
from accountant.records.outcomes import Reason
from accountant.records.reservation_rows import HolderCount
from accountant.times import from_iso, iso, issued_at
from accountant.views.limit_views import PeriodLimitView, ScopeView

_WAITING_ALONE: Final = "Waiting alone will not help: "
_SMALLER: Final = "Ask for less at a time."

PeriodLimits = Mapping[tuple[Scope, str | None], PeriodLimitView]
"""Current period limits, by the scope and name of the limit."""


class MoreAvailable(NamedTuple):
    """When more budget comes.

    Attributes:
        text: a sentence. `at`: the time that it names, None where waiting does not help.
    """

    text: str
    at: str | None = None


class _RefusedRequest(msgspec.Struct):
    """What an input says of itself; inputs that break a rule are in a log, too."""

    request_id: str = ""
    analyst: str = ""
    by: str = ""
    via: str = ""
    unit: str = ""
    neighbours: str = ""
    follows: int | None = None


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
) -> str:
    """Return why something was refused, and what to do next where `fits` does not say it.

    "" without a reason.

    Args:
        policy: of the dataset, where it is known: a claim for another unit is compared with it.
        levels: the limits of the request's analyst, where the reader may see them.
        amounts: also say what the request costs and what is left.
        current: the dataset, where it is known: an owner's record is compared with it.
    """
    said = _refusal_words(refused, policy, levels, amounts=amounts, current=current)
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
) -> str:
    reason = refused.reason
    if reason is None:
        return ""
    policy = policy if current is None else current.view.policy
    if isinstance(refused, Decision) and (said := admin_refusal_words(refused, current)):
        return said
    if too_much := _delta_words(refused.asked, refused.left):
        return too_much
    level = refused.level
    if level is not None and level.what is not None:
        return binding_words(refused, levels, amounts=amounts)
    if reason is Reason.EXHAUSTED:
        costs = cost_and_left(refused.asked or {}, refused.left or {}) if amounts else ""
        said = f"{NO_ROOM[:-1]}: {costs}." if costs else NO_ROOM
        return " ".join(filter(None, (said, binding_words(refused, levels, amounts=amounts))))
    words = REASONS[reason]
    by = (
        ""
        if level is None
        else f" The limit of {scope_words(level.scope, level.name)} decides this."
    )
    if refused.holder:
        return holder_words(refused.holder, refused.dataset or "")
    meaning = _meaning(refused, policy) if isinstance(refused, Decision) else ""
    return f"{meaning or words.meaning}{by} {words.remedy}"


def holder_words(holder: HolderCount, dataset: str) -> str:
    """Return who has too many open reservations, and what to do."""
    return (
        f"Open reservations of dataset {dataset} that {holder.name} holds: {holder.open:,}. One "
        f"holder may have {holder.most:,} (`open_per_holder`). Settle some, or void what has not "
        f"begun: `accountant reservation void {dataset} --holder {holder.name}`. Or ask an owner "
        "for more: `accountant dataset amend --open-per-holder`."
    )


def _meaning(decision: Decision, policy: Policy | None) -> str:
    """Return what a reason means for this request, with both values where two disagree, else ""."""
    try:
        request = _decode_request(decision.request)
    except DECODE_ERRORS:
        return ""
    match decision.reason:
        case Reason.UNKNOWN_DATASET if decision.dataset:
            return f"No dataset is named {decision.refused_by or decision.dataset}."
        case Reason.UNIT_MISMATCH if request.unit:
            return _unit_words(request, policy)
        case Reason.NOT_PERMITTED:
            return _role_words(request, decision.dataset)
        case Reason.ABOVE_CAP if decision.asked:
            return _cap_words(decision.asked, decision.left or decision.asked, policy)
        case Reason.OUT_OF_DATE if request.follows is not None and decision.sequence:
            return (
                f"The record follows decision {request.follows} of the dataset, and the last one "
                f"was {decision.sequence - 1}."
            )
        case Reason.ISSUED_IN_FUTURE:
            return _clock_words(request.request_id, decision.decided_at)
        case _:
            return ""


def _clock_words(request_id: str, decided_at: str) -> str:
    issued = issued_at(request_id)
    if issued is None or issued > LAST_MS:
        return ""
    return f"The id's time is {moment(iso(issued))}, and the ledger's is {moment(decided_at)}."


def _cap_words(asked: Texts, counted: Texts, policy: Policy | None) -> str:
    name = next((name for name in counted if name in asked), next(iter(asked)))
    cost = f"{symbol(name)} {spent_amount(asked[name])}"
    if policy is None:
        return f"One request may not use so much of the budget: this one costs {cost}."
    return f"One request {cap_words(policy)}, and this one costs {cost}."


def _unit_words(request: _RefusedRequest, policy: Policy | None) -> str:
    said = f"The claim is for unit {request.unit} and neighbours {request.neighbours}"
    if policy is None:
        return f"{said}, and the dataset's policy is not."
    return f"{said}, and the policy for unit {policy.unit} and neighbours {policy.neighbours}."


def _role_words(request: _RefusedRequest, dataset: str | None) -> str:
    where = f"dataset {dataset}" if dataset else "the dataset"
    if request.by:
        return f"{request.by} is not an owner of {where}."
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
    refused: Decision | Preview, paces: PeriodLimits | None = None, decided_at: int = 0
) -> MoreAvailable | None:
    """Return when more budget comes for a request that did not fit, None for any other.

    Where several limits have too little left, waiting helps only if it helps with all of them.

    Args:
        paces: the current period limits, where the refusal may be of an earlier period.
        decided_at: milliseconds since 1970.
    """
    if refused.reason is not Reason.EXHAUSTED:
        return None
    if refused.level is None:
        return MoreAvailable(f"{WAITING}{FIXED}.")
    binding = binding_limits(refused)
    if any(map(_obstacle, binding)):
        steps = [_obstacle(each) or _reset(each) for each in binding]
        head = WAITING if all(map(_obstacle, binding)) else _WAITING_ALONE
        is_pace = len(binding) == 1 and binding[0].what == "pace"
        smaller = f" {_SMALLER}" if is_pace else ""
        return MoreAvailable(f"{head}{', and '.join(steps)}.{smaller}")
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


def _obstacle(limit: BindingLimit) -> str:
    """Return why waiting does not help at a limit, "" where it does."""
    scope = scope_words(limit.level.scope, limit.level.name)
    if limit.what == "limit":
        return raise_limit(scope)
    if limit.what == "reserved":
        return RESERVE_LESS
    if limit.more_at is None:
        return whole_period_too_small(scope)
    return ""


def _reset(limit: BindingLimit) -> str:
    """Return when more comes at one of several limits."""
    assert limit.more_at is not None
    scope = scope_words(limit.level.scope, limit.level.name)
    return f"more of the period limit of {scope} comes at {moment(limit.more_at)}"


def in_period(period_limit: PeriodLimitView, at: int) -> bool:
    """Whether a time, in milliseconds since 1970, is within a limit's current period."""
    return from_iso(period_limit.begins_at) <= at < from_iso(period_limit.ends_at)
