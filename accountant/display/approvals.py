"""What people read of requests that wait for an owner's approval."""

from __future__ import annotations

from accountant.display.numbers import counted, exact_percent
from accountant.display.times import moment
from accountant.policy import Policy
from accountant.records import Decision, First

_THEN = (
    "Nothing is charged until then. Send the same request again, or run the program again under "
    "the same name, to learn the answer."
)


def waits(decision: Decision) -> bool:
    """Tell whether a decision, or the one that it repeats, is that a request waits."""
    first: First | None = decision.first if decision.outcome.is_repeat else None
    return decision.outcome.waits or (first is not None and first.outcome.waits)


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


def approval_words(policy: Policy) -> str:
    """Return how much of the budget a request may take without approval."""
    if not policy.approve_above:
        return "needs no approval"
    days = counted(int((policy.approve_within or "P7D")[1:-1]), "day")
    return (
        f"above {exact_percent(policy.approve_above)} of the budget waits until an owner approves "
        f"it, {days} at most"
    )
