"""The top of a dataset's page: its guarantee, its state, and how much is spent."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

from accountant.advice.room import tightest
from accountant.display.datasets import (
    STATES,
    cap_words,
    filter_words,
    guarantee,
    joint_sentence,
)
from accountant.display.limits import room_words, scope_words, waiting_words
from accountant.display.numbers import (
    Amount,
    counting_amounts,
    part_of,
    percents,
    remaining_amount,
    remaining_amounts,
    remaining_line,
    remaining_percent,
    spent_amounts,
    symbol,
)
from accountant.display.texts import shorten
from accountant.display.times import day, time_until
from accountant.policy import Policy, guarantee_of
from accountant.views.datasets import DatasetView, State
from accountant.views.limit_views import AnalystBudget, LevelView
from streams.pages.bars import Bar, LevelBars, bar_of, levels_of

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
        guarantee: as a formula. `promise`: in one sentence.
        joint: the joint guarantee of the datasets about the same people, "" without any.
        spent: the bar of the additive sum. `sums`: all of them.
        facts: the rest of the policy, as names and texts.
        lasts_until: the day until which the budget should last, "" for none.
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
    opened: str
    last: str
    lasts_until: str


def headline(view: DatasetView) -> Headline:
    """Return the top of a dataset's page."""
    # A half of the budget that has ended is no longer counted.
    names = counting_amounts(view.left, view.totals, view.budget)
    used = spent_amounts({name: str(view.totals[name]) for name in names})
    left, budget = (
        remaining_amounts(names),
        remaining_amounts({name: view.budget[name] for name in names}),
    )
    return Headline(
        dataset=view.dataset,
        state=view.state,
        state_words=STATES[view.state],
        guarantee=guarantee(view.policy),
        promise=_promise(view.policy),
        joint=joint_sentence(view.joint_guarantee) if view.joint_guarantee else "",
        spent=bar_of(view.spent_ratio),
        sums=tuple(Sum(*each) for each in zip(budget, used, left, strict=False)),
        facts=_facts(view),
        opened=view.opened_at,
        last=view.last_decided_at,
        lasts_until=day(view.horizon_ends_at),
    )


def _promise(policy: Policy) -> str:
    kind = "zero-concentrated differential privacy" if guarantee_of(policy).name == "rho" else ""
    kind = kind or "differential privacy"
    return (
        f"Everything ever released from this dataset, to all analysts together, satisfies {kind} "
        f"with {guarantee(policy)} for each {policy.unit}, whatever is requested."
    )


def _facts(view: DatasetView) -> tuple[tuple[str, str], ...]:
    policy = view.policy
    anybody = policy.access != "members"
    facts = [
        ("Neighbours", _NEIGHBOURS[policy.neighbours].format(unit=policy.unit)),
        ("Filter", filter_words(policy)),
        ("Who may ask", "everyone" if anybody else "members with the role analyst"),
        ("One request", cap_words(policy)),
        ("Alerts at", percents(policy.alert_at) or "none"),
        ("Mechanisms run", f"{int(view.totals['mechanisms']):,}"),
    ]
    if view.horizon_ends_at is not None:
        facts.append(("To last until", day(view.horizon_ends_at)))
    return tuple((name, shorten(text)) for name, text in facts)


class OwnBudget(NamedTuple):
    """An analyst's remaining budget, the first thing on their page.

    Attributes:
        percent: the remaining part of the dataset's budget, "0 %" if nothing is granted any more.
        amount: the same in the additive sum. `by`: the limit that decides it.
        own: for each limit with a separate budget, what is left of it.
        team: what the team has left, "" without a team or a limit for it.
        more_at, more_in: when more is available, None if waiting does not help.
        waiting: why it does not help, "" if it does.
        is_paused: the amounts are those after a resume.
    """

    analyst: str
    team_name: str
    percent: str
    amount: str
    by: str
    own: tuple[str, ...]
    team: str
    more_at: str | None
    more_in: str
    waiting: str
    levels: tuple[LevelBars, ...]
    is_paused: bool = False


def own_budget(budget: AnalystBudget, state: State, now: int) -> OwnBudget:
    """Return an analyst's remaining budget.

    Args:
        now: milliseconds since 1970.
    """
    name, whole = next(iter(budget.budget.items()))
    found, is_over = tightest(budget), state in {"closed", "halted"}
    left = Decimal(0) if is_over else found.left
    more_at = None if is_over else found.more_at
    return OwnBudget(
        analyst=budget.analyst,
        team_name=budget.team or "",
        percent=remaining_percent(part_of(left, whole)),
        amount=f"{symbol(name)} {remaining_amount(left)}",
        by=f"nothing more is granted: the dataset is {state}"
        if is_over
        else room_words(found.room),
        own=tuple(_own(level) for level in budget.levels if _is_own(level, name)),
        team=_team(budget, name, whole),
        more_at=more_at,
        more_in="" if more_at is None else time_until(more_at, now),
        waiting=f"Waiting will not help: the dataset is {state}."
        if is_over
        else waiting_words(found),
        levels=levels_of(budget.levels, now),
        is_paused=state == "paused",
    )


def _is_own(level: LevelView, name: str) -> bool:
    return level.left is not None and name not in level.left


def _own(level: LevelView) -> str:
    whose = scope_words(level.scope, level.name)
    return f"of the budget of {whose}, {remaining_line(level.left)} is left"


def _team(budget: AnalystBudget, name: str, whole: str) -> str:
    for level in budget.levels:
        if level.scope != "team":
            continue
        if level.left is not None and name in level.left:
            percent = remaining_percent(part_of(level.left[name], whole))
            return f"{percent} of the budget ({symbol(name)} {remaining_amount(level.left[name])})"
        if level.left is not None:
            return remaining_line(level.left)
    return ""
