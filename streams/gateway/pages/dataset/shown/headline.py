"""What stands on top of a dataset's page: its promise, its state, what is spent of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Literal, NamedTuple

from msgspec import UNSET

from accountant.policy import Policy, guarantee_of
from accountant.views.datasets import DatasetView
from accountant.views.joint import JointGuarantee
from streams.gateway.pages.dataset.shown.bars import Bar, bar_of
from streams.gateway.pages.dataset.shown.words import (
    Amount,
    Moment,
    amounts,
    cut,
    day,
    moment,
    ratio_text,
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
