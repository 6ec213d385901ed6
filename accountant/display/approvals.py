"""What people read of requests that wait for an owner's approval."""

from __future__ import annotations

from decimal import Decimal

from accountant.advice.preview import Preview
from accountant.display.numbers import (
    counted,
    counted_words,
    counting_cost,
    exact_percent,
    part_of,
    spent_line,
    spent_percent,
)
from accountant.display.times import moment
from accountant.policy import Policy
from accountant.records import Decision, First
from accountant.records.outcomes import Reason
from accountant.views.datasets import DatasetView

_THEN = (
    "Nothing is charged until then. To learn the answer, repeat it with its id (--id ID), or run "
    "the program again under the same name."
)


def waits(decision: Decision) -> bool:
    """Tell whether a decision, or the one that it repeats, is that a request waits.

    A repeat has a reason once nobody may approve the request any more.
    """
    first: First | None = decision.first if decision.outcome.is_repeat else None
    waited = first is not None and first.outcome.waits and first.reason is None
    return decision.outcome.waits or waited


def waiting_words(decision: Decision, owner: str) -> str:
    """Return what a request waits for, "" for any other decision.

    Args:
        owner: which owner to ask, in words.
    """
    if not waits(decision):
        return ""
    until = "" if decision.pending is None else f" until {moment(decision.pending.until)}"
    return (
        f"It takes so much of the budget that {owner} must approve it{until} "
        f"(`accountant approval list {decision.dataset}`). {_THEN}"
    )


def answer_words(decision: Decision) -> str:
    """Return what an owner's answer to a request that waits has done, "" for any other decision.

    Without a full stop, and without the owner's reason.
    """
    said = decision.pending
    if said is None or said.request is None:
        return ""
    if not decision.outcome.charges:
        return f"{said.by} has denied the request of {said.analyst}; nothing is charged"
    cost = spent_line(counting_cost(decision.cost, decision.left, decision.totals))
    what = "reserved" if decision.outcome.reserves else "charged"
    return f"{said.by} has approved the request of {said.analyst}: {cost} is {what}"


def denial_words(decision: Decision) -> str:
    """Return what an owner's denial has done, in a sentence, "" for any other decision."""
    is_denial = decision.reason is Reason.DENIED
    return f"{answer_words(decision)}." if is_denial and decision.pending else ""


def approval_words(policy: Policy) -> str:
    """Return how much of the budget a request may take without approval."""
    if not policy.approve_above:
        return "needs no approval"
    if idle := idle_approval(policy):
        return idle
    days = counted(int((policy.approve_within or "P7D")[1:-1]), "day")
    return (
        f"above {exact_percent(policy.approve_above)} of the budget waits until an owner approves "
        f"it, {days} at most"
    )


def idle_approval(policy: Policy) -> str:
    """Return that an approval above a part of the budget never applies, "" where it may."""
    above, cap = policy.approve_above, policy.most_per_request
    if not above or not cap or Decimal(above) < Decimal(cap) or Decimal(above) == 1:
        return ""
    return (
        f"above {exact_percent(above)} of the budget never waits for an approval: above "
        f"{exact_percent(cap)} it is refused, by the cap on one request"
    )


def cost_line(view: DatasetView, preview: Preview) -> str:
    """Return what a request costs, and which share of the budget that is."""
    cost = (preview.cost if preview.granted else preview.asked) or {}
    first = next(iter(view.budget))
    line = spent_line(counting_cost(cost, preview.left, budget=view.budget))
    if first not in cost:
        return line
    whole = view.budget[first]
    counted = counted_words(view.spent_ratio, first, str(view.totals[first]), whole)
    return f"{line}, {spent_percent(part_of(cost[first], whole))} of {counted}"
