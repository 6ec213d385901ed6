"""The top of a dataset's page: its guarantee, its state, and how much is spent."""

from __future__ import annotations

from typing import Final, NamedTuple

from accountant.advice.room import limit_rooms
from accountant.display.approvals import approval_words
from accountant.display.datasets import (
    STATES,
    cap_words,
    filter_words,
    guarantee_and_conditions,
    in_force_words,
    joint_sentence,
    lifetime_words,
    open_words,
    pause_words,
    present_guarantee,
    present_state,
    void_words,
)
from accountant.display.limits import scope_words, whole_of_limits
from accountant.display.may_use import MayUse, left_words, may_use
from accountant.display.numbers import (
    counted_words,
    counting_line,
    percents,
    symbol,
)
from accountant.display.pauses import person_pause_words
from accountant.display.reasons import UNNAMED_OWNER
from accountant.display.spending import SumSpending, reserved_words, sums_of
from accountant.display.texts import capital, shorten
from accountant.display.times import day, time_until
from accountant.policy import guarantee_of
from accountant.records import Decision
from accountant.views.datasets import DatasetView, State
from accountant.views.ledgers import held_ratio_of
from accountant.views.limit_views import AnalystBudget, ScopeView
from streams.pages.dataset.bars import Bar, ScopeBars, bar_of, scopes_of

_NEIGHBOURS: Final = {
    "add_remove": "one {unit} added or removed",
    "replace": "one {unit} replaced by another",
}


class Headline(NamedTuple):
    """A dataset in a few lines.

    Attributes:
        label: what the dataset is, in its owner's words; "" for none.
        guarantee: as a formula. `promise`: in one sentence.
        reserved: what open reservations hold, "" for none.
        joint: the joint guarantee of the datasets about the same people, "" without any.
        spent: the bar of the additive sum. `sums`: all of them.
        facts: the rest of the policy, as names and texts.
        lasts_until: the day until which the budget should last, "" for none.
        unit: the sign of the additive sum. `counted`: what its percentages are parts of.
        per: the unit of the guarantee, such as `person`.
    """

    dataset: str
    label: str
    state: State
    state_words: str
    guarantee: str
    is_void: bool
    promise: str
    reserved: str
    joint: str
    spent: Bar
    sums: tuple[SumSpending, ...]
    facts: tuple[tuple[str, str], ...]
    opened: str
    last: str
    lasts_until: str
    unit: str
    counted: str
    per: str


def headline(view: DatasetView, pause: Decision | None = None) -> Headline:
    """Return the top of a dataset's page.

    Args:
        pause: the decision that has paused it.
    """
    words = STATES[view.state]
    if view.state == "paused" and pause is not None:
        words = f"Paused {pause_words(pause)}. Nothing is granted until it is resumed."
    first = next(iter(view.budget))
    return Headline(
        dataset=view.dataset,
        label=view.label,
        state=view.state,
        state_words=words,
        guarantee=present_guarantee(view),
        is_void=present_state(view) == "void",
        promise=_promise(view),
        reserved=reserved_words(view),
        joint=joint_sentence(view.joint_guarantee) if view.joint_guarantee else "",
        spent=bar_of(view.spent_ratio, held_ratio_of(view)),
        sums=sums_of(view),
        facts=_facts(view),
        opened=view.opened_at,
        last=view.last_decided_at,
        lasts_until=day(view.horizon_ends_at),
        unit=symbol(first),
        counted=counted_words(view.spent_ratio, first, str(view.totals[first]), view.budget[first]),
        per=view.policy.unit,
    )


def _promise(view: DatasetView) -> str:
    policy = view.policy
    if present_state(view) == "void":
        return f"{capital(void_words(view))}, so no guarantee holds."
    kind = "zero-concentrated differential privacy" if guarantee_of(policy).name == "rho" else ""
    kind = kind or "differential privacy"
    source = "this dataset"
    if view.lifetime:
        source = "all generations of this dataset"
        if view.lifetime.shared:
            source = f"all datasets of population {policy.population}"
    return (
        f"Everything ever released from {source}, to all analysts together, satisfies {kind} "
        f"with {guarantee_and_conditions(view)} for each {policy.unit}, whatever is requested."
    )


def _facts(view: DatasetView) -> tuple[tuple[str, str], ...]:
    policy = view.policy
    anybody = policy.access != "members"
    facts = [
        ("Neighbours", _NEIGHBOURS[policy.neighbours].format(unit=policy.unit)),
        ("Filter", filter_words(policy)),
        ("Who may ask", "everyone" if anybody else "members with the role analyst"),
        ("One request", cap_words(policy)),
        *([("A request", approval_words(policy))] if policy.approve_above else ()),
        ("One holder", open_words(policy)),
        ("Alerts at", percents(policy.alert_at) or "none"),
        ("Mechanisms run", f"{int(view.totals['mechanisms']):,}"),
    ]
    if words := in_force_words(view.policy, view.in_force):
        facts.insert(0, ("Budget in force", words))
    if view.lifetime:
        facts.insert(0, ("Lifetime", lifetime_words(view)))
    if view.horizon_ends_at is not None:
        facts.append(("To last until", day(view.horizon_ends_at)))
    return tuple((name, shorten(text)) for name, text in facts)


class OwnBudget(NamedTuple):
    """An analyst's remaining budget, the first thing on their page.

    Attributes:
        may_use: how much, what decides it, and whether waiting helps.
        own: for each limit with a separate budget, what is left of it.
        team: what the team has left, a sentence; "" without a team.
        pause: who has paused them or their team, when and why; "" where nobody has.
        more_in: in how long more is available, "" if waiting does not help.
    """

    analyst: str
    may_use: MayUse
    own: tuple[str, ...]
    team: str
    pause: str
    more_in: str
    levels: tuple[ScopeBars, ...]


def own_budget(
    budget: AnalystBudget,
    state: State,
    now: int,
    owner: str = UNNAMED_OWNER,
    *,
    view: DatasetView | None = None,
) -> OwnBudget:
    """Return an analyst's remaining budget.

    Args:
        now: milliseconds since 1970.
        owner: which owner to ask for more, see `owner_words`. `view`: as of `may_use`.
    """
    name = next(iter(budget.budget))
    found = may_use(budget, state, owner, view=view)
    return OwnBudget(
        analyst=budget.analyst,
        may_use=found,
        own=tuple(_own(level) for level in budget.levels if _is_own(level, name)),
        team="" if found.is_over else _team(budget),
        pause="" if budget.pause is None else person_pause_words(budget.pause),
        more_in="" if found.more_at is None else time_until(found.more_at, now),
        levels=scopes_of(budget.levels, now, whole=whole_of_limits(budget)),
    )


def _is_own(level: ScopeView, name: str) -> bool:
    return level.left is not None and name not in level.left


def _own(level: ScopeView) -> str:
    whose = scope_words(level.scope, level.name)
    return f"of the budget of {whose}, {counting_line(level.left, level.budget)} is left"


def _team(budget: AnalystBudget) -> str:
    """Return what an analyst's team has left, a sentence; "" without a team."""
    if budget.team is None:
        return ""
    limit = next((level for level in budget.levels if level.scope == "team"), None)
    if limit is None:
        return f"Your team is {budget.team}; it has no limit of its own."
    rooms = (room for room in limit_rooms(budget) if room.level is limit and room.what == "limit")
    left = next((left_words(room, budget) for room in rooms), "")
    left = left or counting_line(limit.left, limit.budget)
    return f"Your team, {budget.team}, has {left} left." if left else f"Your team is {budget.team}."
