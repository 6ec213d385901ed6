"""What stands on top of a dataset's page: its promise, its state, what is spent of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Literal, NamedTuple

from msgspec import UNSET

from accountant.advice.room import Room, tightest
from accountant.policy import Policy, guarantee_of
from accountant.views.datasets import DatasetView
from accountant.views.joint import JointGuarantee
from accountant.views.limit_views import AnalystBudget, LevelView
from streams.pages.bars import Bar, Level, bar_of, levels_of
from streams.pages.words import (
    Amount,
    Moment,
    amounts,
    cut,
    day,
    from_now,
    joined,
    left_percent,
    moment,
    part_of,
    ratio_text,
    short,
    symbol,
    whose,
)

State = Literal["open", "exhausted", "halted", "closed"]

_STATES: Final[dict[State, str]] = {
    "open": "Requests are decided as they come.",
    "exhausted": "The budget is used up, or so nearly that a request did not fit. What is smaller "
    "may still fit; there will never be more.",
    "halted": "A request did not fit, and the policy lets that be the end: nothing more is "
    "granted.",
    "closed": "An owner has closed it: nothing more is granted.",
}
_NEIGHBOURS: Final = {
    "add_remove": "one {unit} added or removed",
    "replace": "one {unit} replaced by another",
}


class Sum(NamedTuple):
    """One sum of the budget."""

    budget: Amount
    used: Amount
    left: Amount


class Headline(NamedTuple):
    """A dataset in a few lines.

    Attributes:
        guarantee: the promise as a formula, and `promise` in one sentence.
        joint: what datasets of the same people promise together, "" without a population.
        spent: the bar of the additive sum. `sums`: all of them.
        facts: what else its policy says, as names and texts.
        lasts_until: the day until which the budget is to last, "" for none.
    """

    dataset: str
    state: State
    state_words: str
    guarantee: str
    promise: str
    joint: str
    spent: Bar
    sums: tuple[Sum, ...]
    facts: tuple[tuple[str, str], ...]
    opened: Moment
    last: Moment
    lasts_until: str


def state_of(view: DatasetView) -> State:
    """Return what goes on in a dataset, or why nothing does."""
    if view.closed:
        return "closed"
    if view.halted:
        return "halted"
    return "exhausted" if view.exhausted else "open"


def headline(view: DatasetView) -> Headline:
    """Return the top of a dataset's page."""
    state = state_of(view)
    used, left = amounts(_used(view), up=True), amounts(view.left, up=False)
    budget = amounts(view.budget, up=False)
    return Headline(
        dataset=view.dataset,
        state=state,
        state_words=_STATES[state],
        guarantee=guarantee(view.policy),
        promise=_promise(view.policy),
        joint=_joint(view.joint_guarantee) if view.joint_guarantee else "",
        spent=bar_of(view.spent_ratio),
        sums=tuple(Sum(*each) for each in zip(budget, used, left, strict=False)),
        facts=_facts(view),
        opened=moment(view.opened_at),
        last=moment(view.last_decided_at),
        lasts_until="" if view.horizon_ends_at is None else day(view.horizon_ends_at),
    )


def guarantee(policy: Policy) -> str:
    """Return a policy's constants, as its owner has written them where that says the same."""
    name, amount, delta = guarantee_of(policy)
    sign, text = ("ρ", policy.rho) if name == "rho" else ("ε", policy.epsilon)
    return f"{sign} = {_as_written(text or '0', amount)}, δ = {_as_written(policy.delta, delta)}"


def _as_written(text: str, value: Decimal) -> str:
    return text if Decimal(text) == value else f"{value:f}"


def _promise(policy: Policy) -> str:
    kind = "zero-concentrated differential privacy" if guarantee_of(policy).name == "rho" else ""
    kind = kind or "differential privacy"
    return (
        f"Whatever is asked, everything ever released from this dataset, to all analysts "
        f"together, keeps {kind} at {guarantee(policy)} for each {policy.unit}."
    )


def _joint(joint: JointGuarantee) -> str:
    about = f"The people of population {joint.population} are in {joint.names}."
    if joint.why is not None:
        return f"{about} There is no guarantee of these together: {joint.why}."
    return f"{about} Together these keep ε = {joint.epsilon}, δ = {joint.delta}."


def _used(view: DatasetView) -> dict[str, str]:
    return {name: str(view.totals[name]) for name in view.budget}


def _facts(view: DatasetView) -> tuple[tuple[str, str], ...]:
    policy = view.policy
    beside = "" if policy.beside is UNSET else f", {policy.beside} composition beside it"
    cap, whole = policy.most_per_request, policy.access != "members"
    facts = [
        ("Neighbours", _NEIGHBOURS[policy.neighbours].format(unit=policy.unit)),
        ("Filter", f"{policy.filter}{beside}"),
        ("Who may ask", "anybody" if whole else "members who are analysts"),
        ("One request", "may take all that is left"),
        ("Alerts at", ", ".join(map(ratio_text, policy.alert_at)) or "none"),
        ("Mechanisms run", f"{int(view.totals['mechanisms']):,}"),
    ]
    if cap is not UNSET and Decimal(cap) != 1:
        facts[3] = ("One request", f"may take {ratio_text(cap)} of the budget")
    if view.horizon_ends_at is not None:
        facts.append(("To last until", day(view.horizon_ends_at)))
    return tuple((name, cut(text)) for name, text in facts)


class Mine(NamedTuple):
    """What an analyst is told first.

    Attributes:
        percent: of the dataset's budget that may still be used, "0 %" where nothing is granted.
        amount: the same in the additive sum. `by`: what keeps it from being more.
        own: for each limit with a budget of its own, what is left of it, in its own sum.
        team: what the team has left, "" without a team or a limit of it.
        more_at, more_in: when more comes, None where waiting brings nothing.
    """

    analyst: str
    team_name: str
    percent: str
    amount: str
    by: str
    own: tuple[str, ...]
    team: str
    more_at: Moment | None
    more_in: str
    levels: tuple[Level, ...]


def mine(budget: AnalystBudget, state: State, now: int) -> Mine:
    """Return what an analyst may still use.

    Args:
        now: milliseconds since 1970.
    """
    name, whole = next(iter(budget.budget.items()))
    found, is_over = tightest(budget), state in {"closed", "halted"}
    left = Decimal(0) if is_over else found.left
    more_at = None if is_over else found.more_at
    return Mine(
        analyst=budget.analyst,
        team_name=budget.team or "",
        percent=left_percent(part_of(f"{left:f}", whole)),
        amount=f"{symbol(name)} {short(f'{left:f}', up=False)}",
        by=f"nothing more is granted: the dataset is {state}" if is_over else _by(found.room),
        own=tuple(_own(level) for level in budget.levels if _is_own(level, name)),
        team=_team(budget, name, whole),
        more_at=None if more_at is None else moment(more_at),
        more_in="" if more_at is None else from_now(more_at, now),
        levels=levels_of(budget.levels, now),
    )


def _by(room: Room) -> str:
    if room.level is None:
        return "what is left of the dataset, and not reserved for others"
    return f"the {room.what} of {_who(room.level)}"


def _who(level: LevelView) -> str:
    if level.scope == "each":
        return f"each analyst of team {level.name}"
    return whose(level.scope, level.name, inside=True)


def _is_own(level: LevelView, name: str) -> bool:
    return level.left is not None and name not in level.left


def _own(level: LevelView) -> str:
    return f"of the budget of {_who(level)}, {joined(level.left, up=False)} is left"


def _team(budget: AnalystBudget, name: str, whole: str) -> str:
    for level in budget.levels:
        if level.scope != "team":
            continue
        if level.left is not None and name in level.left:
            percent = left_percent(part_of(level.left[name], whole))
            left = short(level.left[name], up=False)
            return f"{percent} of the budget ({symbol(name)} {left})"
        if level.left is not None:
            return joined(level.left, up=False)
    return ""
