"""Why an owner's record was refused: the names and amounts that disagree, and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any, Final

import msgspec
from msgspec import UNSET

from accountant.display.current_dataset import CurrentDataset
from accountant.display.datasets import pause_words
from accountant.display.limits import part_words, scope_words, whole_of_limits
from accountant.display.may_use import raise_budget
from accountant.display.numbers import exact_percent
from accountant.display.pauses import paused_name
from accountant.display.reasons import REASONS, Subject
from accountant.display.reserved_shares import Shares, least_in_force, shares_in, withheld
from accountant.display.team_refusals import limit_beyond_team, member_beyond_team
from accountant.display.times import moment
from accountant.filters import BesideBasic
from accountant.likeness import most_alike
from accountant.limits.apply import allows_parts, allows_reserved_shares
from accountant.policy import Policy, filter_of
from accountant.policy.lifetime import remaining_text
from accountant.records import DECODE_ERRORS, Decision
from accountant.records.kinds import KINDS
from accountant.records.limit_records import Scope
from accountant.records.outcomes import Reason
from accountant.records.placement import group_of
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import ShareView

_FIELDS: Final = ("filter", "unit", "neighbours", "epsilon", "rho", "delta")


class _AdminRequest(msgspec.Struct):
    type: str
    dataset: str = ""
    by: str = ""


class _Amend(_AdminRequest):
    policy: dict[str, Any] | None = None


class _Member(_AdminRequest):
    member: str = ""
    roles: list[str] = []
    until: str | None = None


class _Person(_AdminRequest):
    member: str | None = None
    team: str | None = None


class _Budget(_AdminRequest):
    budget: dict[str, Any] = {}


class _Open(_AdminRequest):
    policy: dict[str, Any] = {}
    lifetime: dict[str, Any] = {}


class _Renew(_AdminRequest):
    renewed_as: str = ""


class _Limit(_AdminRequest):
    scope: Scope = "dataset"
    name: str | None = None
    part: str | None = None
    pace: dict[str, Any] | None = None
    reserved: str | None = None
    until: str | None = None
    policy: dict[str, Any] | None = None


_SHOWN: Final = {
    "open": _Open,
    "amend": _Amend,
    "member": _Member,
    "limit": _Limit,
    "resume_member": _Person,
    "budget": _Budget,
    "renew": _Renew,
}
"""The kinds of record whose own fields are in a message."""
_DECODERS: Final = {
    kind.name: msgspec.json.Decoder(_SHOWN.get(kind.name, _AdminRequest)).decode
    for kind in KINDS
    if kind.source == "admin"
}
_decode_type = msgspec.json.Decoder(_AdminRequest).decode


def admin_refusal_words(decision: Decision, current: CurrentDataset | None = None) -> str:
    """Return why an owner's record was refused, and what to do; "" for any other decision."""
    reason = decision.reason
    if reason is None:
        return ""
    try:
        kind = _decode_type(decision.request).type
        if kind not in _DECODERS:
            return ""
        request = _DECODERS[kind](decision.request)
    except DECODE_ERRORS:
        return ""
    meaning = _MEANINGS.get((reason, kind))
    if meaning is not None:
        said = meaning(request, current, decision.decided_at)
        field = "epsilon" if current is None else current.view.policy.budget_field
        by = _by(request, current)
        subject = Subject(request.dataset, by=by, budget=f"--{field} AMOUNT")
        return said and f"{said} {REASONS[reason].remedy_of(subject)}"
    words = _WORDS.get((reason, kind)) or _WORDS.get((reason, ""))
    return "" if words is None else words(request, current, decision.decided_at)


def _by(request: _AdminRequest, current: CurrentDataset | None) -> str:
    """Return what an owner's command needs at its end."""
    return "" if current is None else current.by_option(request.by)


def _already_opened(request: _AdminRequest, current: CurrentDataset | None, __: str) -> str:
    closed = current is not None and current.view.closed
    meaning = (
        f"Dataset {request.dataset} was opened before"
        + (" and is closed" if closed else "")
        + ", and a budget is never reset, or raised above its ceiling. Nothing was changed."
    )
    name = f"`accountant dataset show {request.dataset}` shows it"
    if closed:
        return f"{meaning} Open a dataset of another name."
    return f"{meaning} Use the open dataset ({name})."


def _not_renewable(request: _Open, _: CurrentDataset | None, __: str) -> str:
    population, group = str(request.policy.get("population", "")), group_of(request.dataset)
    if request.lifetime.get("shared") and not group_of(population):
        group = group or request.dataset
        return (
            "This ledger has several partitions, and all datasets of a lifetime must lie in one. "
            "Nothing was opened. Give population and dataset names of one group: "
            f"`--population {group}::{population}`, and a dataset such as `{group}::first`. If "
            "that is refused too, the ledger places datasets by their whole names, and no dataset "
            "here can have a lifetime."
        )
    return (
        "This ledger has several partitions, and places datasets by their whole names "
        "(ACCOUNTANT_PLACEMENT=name, fixed when it was made). All datasets of a lifetime must lie "
        "in one partition, so no dataset here can have one, whatever its name. Nothing was opened. "
        "Leave the lifetime out, or open the dataset on a ledger with ACCOUNTANT_PLACEMENT=group."
    )


def _name_is_taken(request: _Renew, _: CurrentDataset | None, __: str) -> str:
    return (
        f"A dataset named {request.renewed_as} was opened before, so dataset {request.dataset} "
        "cannot be renewed as it. Nothing was changed. Renew under another name."
    )


def _no_lifetime(request: _Renew, current: CurrentDataset | None, __: str) -> str:
    return (
        f"Dataset {request.dataset} was opened without a lifetime, so it can never be renewed. "
        f"Open another one like it: `accountant dataset open {request.renewed_as} --like "
        f"{request.dataset}{_by(request, current)}`. Nothing is then promised of both together."
    )


def _already_renewed(request: _Renew, current: CurrentDataset | None, __: str) -> str:
    after = "" if current is None else current.view.renewed_as
    if not after:
        return ""
    return (
        f"Dataset {request.dataset} was renewed as {after}, and only the latest generation can be "
        f"renewed. `accountant dataset show {after}` shows whether that is it."
    )


def _beyond_lifetime(request: _Renew, current: CurrentDataset | None, __: str) -> str:
    if current is None or current.view.lifetime is UNSET:
        return ""
    rest = remaining_text(current.view.lifetime)
    return (
        f"The lifetime of dataset {request.dataset} was fixed at the first opening, and {rest} "
        "remain of it: the new policy guarantees more. What a generation did not use does not come "
        f"back. Renew with a smaller policy: `accountant dataset renew {request.dataset} "
        f"{request.renewed_as} --policy FILE{_by(request, current)}`."
    )


def _already_paused(request: _AdminRequest, current: CurrentDataset | None, __: str) -> str:
    if current is None or current.pause is None:
        return ""
    return (
        f"Dataset {request.dataset} is paused already, {pause_words(current.pause)}. To end the "
        f"pause, run `accountant dataset resume {request.dataset}{_by(request, current)}`."
    )


def _closed(request: _AdminRequest, current: CurrentDataset | None, __: str) -> str:
    what = "is closed already" if request.type == "close" else "is closed"
    after = "" if current is None else current.view.renewed_as
    then = "To grant more, open a dataset of another name (`accountant dataset open`)."
    if after:
        then = f"It was renewed as {after}: change that one (`accountant dataset show {after}`)."
    return (
        f"Dataset {request.dataset} {what}, which is final: its budget, limits and settings stay "
        f"as they are. Members can still be set and removed. {then}"
    )


def _unknown_member(request: _Member, _: CurrentDataset | None, __: str) -> str:
    return (
        f"Dataset {request.dataset} has no member named {request.member}. "
        f"Check the spelling: `accountant member list {request.dataset}` shows the members."
    )


def _person_not_paused(request: _Person, current: CurrentDataset | None, __: str) -> str:
    if current is None:
        return ""
    name, of_team = request.member or request.team, request.member is None
    paused = [each for each in current.view.person_pauses if bool(each.team) is of_team]
    known = [str(each.team if of_team else each.member) for each in paused]
    meant = most_alike(name or "", known)
    who = f"team {name}" if of_team else name
    listed = ", ".join(map(paused_name, current.view.person_pauses)) or "nobody"
    ask = f" Did you mean {meant}?" if meant else ""
    return (
        f"{who} is not paused on dataset {request.dataset}. Paused there: {listed}.{ask} "
        f"`accountant member list {request.dataset}` shows the members and their teams."
    )


def _last_owner(request: _Member, current: CurrentDataset | None, __: str) -> str:
    return (
        f"{request.member} is the only owner of dataset {request.dataset}, and this would take the "
        "role `owner` away. Make somebody else an owner first: "
        f"`accountant member set {request.dataset} NAME --role owner{_by(request, current)}`."
    )


def _too_many_members(request: _Member, _: CurrentDataset | None, __: str) -> str:
    return (
        f"Dataset {request.dataset} has 10,000 members, which is the maximum, and "
        f"{request.member} would be one more."
    )


def _unknown_limit(request: _Limit, _: CurrentDataset | None, __: str) -> str:
    return (
        f"Dataset {request.dataset} has no limit for {scope_words(request.scope, request.name)}. "
        "Check the scope and the name: "
        f"`accountant limit list {request.dataset}` shows the limits."
    )


def _too_many_limits(request: _Limit, _: CurrentDataset | None, __: str) -> str:
    return (
        f"Dataset {request.dataset} has 1,000 limits, which is the maximum, and the one for "
        f"{scope_words(request.scope, request.name)} would be one more."
    )


def _limit_not_possible(request: _Limit, current: CurrentDataset | None, __: str) -> str:
    if current is None:
        return ""
    policy, dataset = current.view.policy, request.dataset
    kind = filter_of(policy)
    scope, by = scope_words(request.scope, request.name), _by(request, current)
    if (request.part or request.pace) and not allows_parts(kind):
        what = "parts" if request.part else "period limits"
        return (
            f"Dataset {dataset} has the filter {policy.filter}, which allows no {what}. Give the "
            f"limit of {scope} a budget of its own instead: `{_limit_command(request)} --epsilon "
            f"0.1{by}`."
        )
    if not request.reserved or allows_reserved_shares(kind):
        parts = (request.part, (request.pace or {}).get("part"), request.reserved)
        shown = ", ".join(exact_percent(text) for text in parts if text)
        return f"A part of {shown} leaves nothing of a sum of dataset {dataset}. Set a larger part."
    why = f"has the filter {policy.filter}"
    other = "--filter zcdp_tight --beside none"
    if isinstance(kind, BesideBasic):
        why, other = "was opened with `beside: basic`", "--beside none"
    rest = "--epsilon 0.1"
    if allows_parts(kind):
        rest = f"--part {max(1 - Decimal(request.reserved), Decimal('0.01'))}"
    return (
        f"Dataset {dataset} {why}, and cannot reserve a share of {exact_percent(request.reserved)}"
        f" for {scope}. Leave it to them by a limit of the others: `accountant limit set {dataset} "
        f"--team NAME {rest}{by}`. Or open a dataset that can reserve: `accountant dataset open "
        f"NAME --epsilon 1 --delta 1e-6 {other}{by}`."
    )


def _member_beyond_team(request: _Member, current: CurrentDataset | None, __: str) -> str:
    if current is None:
        return ""
    adds = bool(request.roles)
    return member_beyond_team(request.member, adds=adds, by=request.by, current=current)


def _limit_beyond_team(request: _Limit, current: CurrentDataset | None, __: str) -> str:
    if current is None or request.name is None:
        return ""
    record = msgspec.structs.asdict(request)
    return limit_beyond_team(request.name, record, by=request.by, current=current)


def _member_ends_in_past(request: _Member, current: CurrentDataset | None, at: str) -> str:
    return (
        f"{_end_words(f'The membership of {request.member}', request.until, at)} Name a later "
        f"`until`, or remove the member: `accountant member remove {request.dataset} "
        f"{request.member}{_by(request, current)}`."
    )


def _limit_ends_in_past(request: _Limit, current: CurrentDataset | None, at: str) -> str:
    scope = scope_words(request.scope, request.name)
    remove = _limit_command(request).replace(" set ", " remove ", 1)
    return (
        f"{_end_words(f'The limit of {scope}', request.until, at)} Name a later end, or remove "
        f"the limit: `{remove}{_by(request, current)}`."
    )


def _end_words(what: str, until: str | None, at: str) -> str:
    return (
        f"{what} would end at {moment(until or '')}, and the log's clock is at {moment(at)}. "
        "Nothing was changed."
    )


def _limit_command(request: _Limit) -> str:
    """Return the beginning of the command that sets a limit of the same scope."""
    named = "" if request.name is None else f" --{request.scope} {request.name}"
    return f"accountant limit set {request.dataset}{named}"


def _has_limits(request: _Amend, current: CurrentDataset | None, __: str) -> str:
    count = 0 if current is None else len([each for each in current.limits if not each.analyst])
    limits = "limits" if not count else f"{count:,} limit{'s' * (count != 1)}"
    return f"Dataset {request.dataset} has {limits}, stored as amounts of its present budget."


def _already_granted(request: _Amend, current: CurrentDataset | None, __: str) -> str:
    count = "" if current is None else str(current.view.totals.get("mechanisms", ""))
    granted = f"granted {count} mechanisms" if count.isdecimal() and count != "1" else "a grant"
    return (
        f"Dataset {request.dataset} has {granted}, and its policy can be replaced only before the "
        "first one."
    )


def _above_ceiling(request: _Budget, current: CurrentDataset | None, __: str) -> str:
    if current is None:
        return ""
    policy, dataset = current.view.policy, request.dataset
    field, ceiling = policy.budget_field, policy.amount
    wanted = request.budget.get(field)
    if wanted is None:
        return f"The budget of dataset {dataset} is in {field}. Give the new one by `--{field}`."
    if Decimal(wanted) <= Decimal(ceiling):
        return (
            f"A budget of {field} {wanted} leaves the filter {policy.filter} of dataset {dataset} "
            f"nothing to spend. Set a larger one, or pause the dataset: "
            f"`accountant dataset pause {dataset}`."
        )
    return (
        f"Dataset {dataset} has the ceiling {field} {ceiling} for ever, and {wanted} is above it. "
        f"Set at most `--{field} {ceiling}`. For more, {_more_words(request, current)}."
    )


def _more_words(request: _Budget, current: CurrentDataset) -> str:
    """Return what gives more than a ceiling."""
    view, other = current.view, "open a dataset of another name"
    if view.lifetime is UNSET or view.renewed_as:
        return other
    rest = remaining_text(view.lifetime)
    renew = f"accountant dataset renew {request.dataset} NEW --policy FILE{_by(request, current)}"
    return f"renew it within its lifetime, of which {rest} remain (`{renew}`), or {other}"


def _not_lower(request: _Amend, current: CurrentDataset | None, __: str) -> str:
    if current is None or request.policy is None:
        return ""
    found = _disagreement(request.policy, current.view.policy)
    if found is None:
        return ""
    name, new, old = found
    return f"The new policy has {name} {new}, and dataset {request.dataset} has {name} {old}."


def _disagreement(new: dict[str, Any], old: Policy) -> tuple[str, str, str] | None:
    for name in _FIELDS:
        asked, present = new.get(name), getattr(old, name, None)
        if not isinstance(asked, str) or not isinstance(present, str) or asked == present:
            continue
        try:
            if name in _FIELDS[3:] and Decimal(asked) <= Decimal(present):
                continue
        except ArithmeticError:
            return None
        return name, asked, present
    return None


def _over_reserved(request: _Limit, current: CurrentDataset | None, decided_at: str) -> str:
    if request.reserved is None:
        return ""
    scope = scope_words(request.scope, request.name)
    view = None if current is None else current.view
    amounts = {
        name: f"{(Decimal(text) * Decimal(request.reserved)).normalize():f}"
        for name, text in ({} if view is None else view.ceiling).items()
    }
    part = part_words(request.reserved, amounts, whole_of_limits(view))
    start = f"{part} cannot be reserved for {scope}"
    listed = f"`accountant limit list {request.dataset}` shows the shares"
    lower = f"Reserve less, or lower another share first: {listed}."
    if current is not None and (more := raise_budget(current.view, "An owner")):
        lower = f"{lower} {more}."
    found = None
    if current is not None:
        with suppress(LookupError, ValueError, OverflowError):  # not every sum can be seen
            found = _reservable(request, current, decided_at)
    if found is None:
        return f"{start}: that is more than remains, or more than the team's share. {lower}"
    return f"{start}: {found}. {lower}"


def _lowered_below_shares(request: _Budget, current: CurrentDataset | None, __: str) -> str:
    least = "" if current is None else least_in_force(current.view, current.limits)
    at_least = ""
    if current is not None and least:
        at_least = f" Set at least {current.view.policy.budget_field} {least}."
    return (
        "Nothing was lowered: what is spent, and what is reserved for others, is more than this "
        f"budget.{at_least} For less, lower or remove a reserved share first "
        f"(`accountant limit list {request.dataset}`). To stop grants at once, pause the dataset "
        f"(`accountant dataset pause {request.dataset}`)."
    )


def _reservable(request: _Limit, current: CurrentDataset, decided_at: str) -> str | None:
    """Return what could be reserved instead, in words; None if the limits do not explain it."""
    asked = Fraction(str(request.reserved))
    shares = shares_in(current.limits)
    own = shares.pop((request.scope, request.name), None)
    team = request.name if request.scope == "team" else None
    if request.scope == "analyst":
        teams = {
            each.member: each.team
            for each in current.members
            if each.until is None or each.until > decided_at
        }
        team = teams.get(str(request.name))
    within = {place: share for place, share in shares.items() if share.team == team is not None}
    inside = sum((Fraction(share.part) for share in within.values()), Fraction(0))
    if request.scope == "team":
        if inside > asked:
            return f"its analysts already have {_percent(inside)} reserved"
        # The team's share contains those of its analysts.
        shares = {place: share for place, share in shares.items() if place not in within}
    elif team is not None and (crew := shares.get(("team", team))) is not None:
        rest = Fraction(crew.part) - inside
        return f"{_percent(rest)} remains of the share of team {team}" if rest < asked else None
    rest = _free(shares, own, current.view)
    return f"at most {_percent(rest)} can be" if rest < asked else None


def _free(shares: Shares, own: ShareView | None, view: DatasetView) -> Fraction:
    """Return the part of the budget that is neither spent nor reserved for others."""
    rests = []
    for name, budget in (view.ceiling or view.budget).items():  # shares are parts of it
        if Fraction(budget):
            used = Fraction(0)
            if own is not None:  # what is used of a share stays counted after it is replaced
                used = Fraction(own.budget[name]) - Fraction(own.left[name])
            free = Fraction(view.left[name]) - withheld(shares, name) + used
            rests.append(free / Fraction(budget))
    return max(min(rests, default=Fraction(0)), Fraction(0))


def _percent(part: Fraction) -> str:
    """Return a part of the budget, rounded down to a hundredth of a percent."""
    ratio = (Decimal(part.numerator) / Decimal(part.denominator)).quantize(
        Decimal("0.0001"), rounding=ROUND_FLOOR
    )
    return exact_percent(f"{max(ratio, Decimal(0)):f}")


_Words = Callable[[Any, CurrentDataset | None, str], str]

_MEANINGS: Final[dict[tuple[Reason, str], _Words]] = {
    (Reason.TOO_MANY_MEMBERS, "member"): _too_many_members,
    (Reason.TOO_MANY_LIMITS, "limit"): _too_many_limits,
    (Reason.ALREADY_GRANTED, "amend"): _already_granted,
    (Reason.HAS_LIMITS, "amend"): _has_limits,
    (Reason.NOT_LOWER, "amend"): _not_lower,
}
"""Refusals whose remedy is that of their reason."""


def _too_late(_: _AdminRequest, __: CurrentDataset | None, ___: str) -> str:
    return (
        "The deadline of this request has passed, so nobody may approve or deny it any more. "
        "Whoever still needs it sends it again."
    )


_WORDS: Final[dict[tuple[Reason, str], _Words]] = {
    (Reason.ALREADY_OPENED, "open"): _already_opened,
    (Reason.ALREADY_OPENED, "renew"): _name_is_taken,
    (Reason.NOT_RENEWABLE, "open"): _not_renewable,
    (Reason.NO_LIFETIME, "renew"): _no_lifetime,
    (Reason.ALREADY_RENEWED, "renew"): _already_renewed,
    (Reason.BEYOND_LIFETIME, "renew"): _beyond_lifetime,
    (Reason.CLOSED, ""): _closed,
    (Reason.ALREADY_PAUSED, "pause"): _already_paused,
    (Reason.LAPSED, "approve"): _too_late,
    (Reason.LAPSED, "deny"): _too_late,
    (Reason.UNKNOWN_MEMBER, "member"): _unknown_member,
    (Reason.LAST_OWNER, "member"): _last_owner,
    (Reason.PERSON_NOT_PAUSED, "resume_member"): _person_not_paused,
    (Reason.UNKNOWN_LIMIT, "limit"): _unknown_limit,
    (Reason.END_IN_PAST, "member"): _member_ends_in_past,
    (Reason.END_IN_PAST, "limit"): _limit_ends_in_past,
    (Reason.BEYOND_TEAM, "member"): _member_beyond_team,
    (Reason.BEYOND_TEAM, "limit"): _limit_beyond_team,
    (Reason.LIMIT_NOT_POSSIBLE, "limit"): _limit_not_possible,
    (Reason.OVER_RESERVED, "limit"): _over_reserved,
    (Reason.OVER_RESERVED, "budget"): _lowered_below_shares,
    (Reason.ABOVE_CEILING, "budget"): _above_ceiling,
}
"""Refusals with a remedy of their own, or with none; "" stands for every kind of record."""
