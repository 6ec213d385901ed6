"""Datasets for people: what they promise, whether they still grant, what they allow."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.display.limits import scope_words
from accountant.display.numbers import (
    counted,
    exact_percent,
    spent_amount,
    spent_line,
    spent_percent,
    symbol,
)
from accountant.display.reasons import OWNER
from accountant.display.times import moment
from accountant.foreign_text import escape_text
from accountant.policy import MAX_OPEN, Policy, guarantee_of
from accountant.policy.in_force import StoredBudgetInForce
from accountant.policy.lifetime import next_generation, remaining
from accountant.records import Decision
from accountant.records.reservation_rows import GuaranteeState
from accountant.views.datasets import Alert, DatasetView, State
from accountant.views.joint import BOUNDED_EXCESS, BOUNDED_RELEASES, JointGuarantee


class _PauseRequest(msgspec.Struct, rename={"role": "as"}):
    by: str
    reason: str = ""
    role: str = ""


_decode_pause = msgspec.json.Decoder(_PauseRequest).decode
STATES: Final[dict[State, str]] = {
    "open": "Requests are decided as they come.",
    "exhausted": "The budget is used up, or nearly: little more fits.",
    "halted": "A request did not fit, and this policy grants nothing after that.",
    "paused": "An owner, or an administrator, has paused it: nothing is granted until it is "
    "resumed.",
    "suspended": "A reservation released beyond its maximum: nothing is granted until it is "
    "resolved.",
    "closed": "An owner has closed it: nothing more is granted.",
}
"""What the state of a dataset means."""


def pause_words(pause: Decision) -> str:
    """Return who has paused a dataset, when, and why: `by olga at 2026-11-21 12:00 UTC: why`."""
    request = _decode_pause(pause.request)
    role = ", as administrator" if request.role else ""
    reason = f": {escape_text(request.reason)}" if request.reason else ", without a reason"
    return f"by {request.by}{role} at {moment(pause.decided_at)}{reason}"


def pauser_words(pause: Decision) -> str:
    """Return who can say when a pause ends: `an owner (olga)`, or an administrator."""
    request = _decode_pause(pause.request)
    return f"{'an administrator' if request.role else OWNER} ({request.by})"


def guarantee(policy: Policy) -> str:
    """Return a policy's constants, as its owner has written them where that says the same."""
    name, amount, delta = guarantee_of(policy)
    sign, text = ("ρ", policy.rho) if name == "rho" else ("ε", policy.epsilon)
    return f"{sign} = {_owner_text(text or '0', amount)}, δ = {_owner_text(policy.delta, delta)}"


def covered_words(view: DatasetView) -> str:
    """Return what of the time a guarantee covers, "" for all that was ever released."""
    spent = view.spent
    if spent is UNSET:
        return ""
    if spent.fixed_before:
        return (
            ", for what was released before the opening too, since the owner says that this budget "
            "was fixed before the first of it"
        )
    return ", for what is released from the opening on, not for what was released before"


def void_words(view: DatasetView) -> str:
    """Return why nothing is guaranteed."""
    if view.over_budget:
        return "a release made elsewhere did not fit the budget"
    if not view.is_void:
        return f"another {_one_of_lifetime(view)} guarantees nothing any more"
    return "a reservation released more than its maximum"


def void_sentence(view: DatasetView) -> str:
    """Return that a dataset, or its lifetime, guarantees nothing, and why; "" while it does."""
    if present_state(view) != "void":
        return ""
    since = " any more" if view.is_void else ""
    return f"dataset {view.dataset} guarantees nothing{since}: {void_words(view)}"


def _one_of_lifetime(view: DatasetView) -> str:
    is_shared = view.lifetime is not UNSET and view.lifetime.shared
    return "dataset of its lifetime" if is_shared else "generation"


def present_state(view: DatasetView) -> GuaranteeState:
    """Return what became of what a dataset guarantees, or of what its lifetime does."""
    return view.guarantee if view.lifetime is UNSET else view.lifetime_guarantee


def present_guarantee(view: DatasetView) -> str:
    """Return what a dataset guarantees now: its constants, unless a claim was false.

    They are those of its lifetime, where it has one: what all its datasets guarantee together.
    """
    if present_state(view) == "void":
        return f"none: {void_words(view)}"
    if view.lifetime is UNSET:
        return guarantee_and_conditions(view)
    together = "generations"
    if view.lifetime.shared:
        together = f"datasets of population {view.policy.population}"
    return guarantee_and_conditions(view, f" for all {together} together")


def guarantee_and_conditions(view: DatasetView, of_what: str = "") -> str:
    """Return the constants that hold, of what, and under which conditions."""
    lifetime, held = view.lifetime, guarantee(view.policy)
    if lifetime is not UNSET:
        held = f"{symbol(lifetime.field)} = {lifetime.amount}, δ = {lifetime.delta}"
    return f"{held}{of_what}{covered_words(view)}{_condition(view)}"


def uncertain_guarantee(view: DatasetView) -> str:
    """Return what a dataset guarantees where that is nothing, or has a condition; else ""."""
    is_certain = not present_state(view) and view.spent is UNSET
    return "" if is_certain else f"{view.dataset}: {present_guarantee(view)}"


def _condition(view: DatasetView) -> str:
    """Return on what the guarantee depends, "" if on nothing."""
    state = present_state(view)
    if state == "explained":
        return "; an owner has explained a settlement above a maximum as a mistake"
    if state != "if_bounded":
        return ""
    if view.recorded:
        return f", {BOUNDED_RELEASES}"
    if view.joint_guarantee and view.joint_guarantee.condition and view.lifetime is not UNSET:
        return view.joint_guarantee.with_condition  # that of all datasets of the lifetime
    if view.guarantee != state:
        return f", if another {_one_of_lifetime(view)} released only what was bounded before"
    return f", {BOUNDED_EXCESS}"


def _owner_text(text: str, value: Decimal) -> str:
    """Return the owner's own text where it says the same: 1e-6, not 0.000001."""
    return text if Decimal(text) == value else f"{value:f}"


def in_force_words(policy: Policy, budget: StoredBudgetInForce | UnsetType) -> str:
    """Return how much of a ceiling is in force, "" where all of it is."""
    if budget is UNSET:
        return ""
    sign, ceiling = ("ρ", policy.rho) if budget.rho else ("ε", policy.epsilon)
    if Decimal(budget.amount) == Decimal(ceiling or 0):
        return ""
    return f"{sign} = {budget.amount} of {ceiling}, the ceiling to which an owner may raise it"


def lifetime_words(view: DatasetView) -> str:
    """Return which generation a dataset is, and what remains of its lifetime; "" without one."""
    lifetime = view.lifetime
    if lifetime is UNSET:
        return ""
    amount = f"{symbol(lifetime.field)} = {lifetime.amount}, δ = {lifetime.delta}"
    whose, which = f"generations since {lifetime.first}", f"generation {view.generation}"
    if lifetime.shared:
        whose, which = f"datasets of population {view.policy.population}", view.dataset
    which = f"{amount} for all {whose}, of which {which} took {guarantee(view.policy)}"
    if view.renewed_as:
        return f"{which}; it was renewed as {view.renewed_as}"
    rest = ", ".join(f"{symbol(name)} = {each}" for name, each in remaining(lifetime).items())
    later = "further datasets and renewals" if lifetime.shared else "later generations"
    is_little = not view.closed and next_generation(lifetime, view.policy) is None
    little = f": too little to renew {view.dataset} as it is" if is_little else ""
    return f"{which}; {rest} remain for {later}{little}"


def filter_words(policy: Policy) -> str:
    """Return a policy's filter, what stands beside it, and what claims may spend of delta."""
    beside = "" if policy.beside is UNSET else f", {policy.beside} composition beside it"
    return f"{policy.filter}{beside}, δ for claims {_delta_for_claims(policy)}"


def _delta_for_claims(policy: Policy) -> str:
    """Return it as the guarantee spells delta, where the two are the same."""
    text = str(policy.delta_for_claims)
    delta = str(policy.delta or "0")
    return delta if Decimal(delta) == Decimal(text) else f"{Decimal(text)}"


def cap_words(policy: Policy) -> str:
    """Return how much of the budget one request may take."""
    ratio = policy.most_per_request
    if ratio is UNSET or Decimal(ratio) == 1:
        return "may take all that is left"
    return f"may take {exact_percent(ratio)} of the budget"


def open_words(policy: Policy) -> str:
    """Return how many open reservations one analyst or engine may have."""
    most = MAX_OPEN if policy.open_per_holder is UNSET else policy.open_per_holder
    return f"may have {counted(most, 'open reservation')}"


def more_words(count: int | None) -> str:
    """Return how many more requests like one would be granted."""
    if count is None:
        return "any number more like this"
    return f"about {count:,} more like this" if count else "no more like this"


def joint_words(joint: JointGuarantee) -> str:
    """Return what the datasets of a population promise together."""
    if joint.epsilon is None or joint.delta is None:
        return f"no guarantee: {joint.why}"
    constants = f"ε = {spent_amount(joint.epsilon)}, δ = {spent_amount(joint.delta)}"
    return f"{constants}{joint.with_condition}"


def joint_sentence(joint: JointGuarantee) -> str:
    """Return which datasets the same people are in, and their guarantee together."""
    together = f"{'guarantee' if joint.holds else 'have'} {joint_words(joint)}"
    return (
        f"The people of population {joint.population} are in {joint.names}. "
        f"Together they {together}."
    )


def approval_alert_words(alert: Alert) -> str:
    """Return what an alert says of a request that waits for an owner's approval, or did."""
    if alert.approval != "pending":
        return f"{alert.by} has {alert.approval} the request of {alert.analyst} on {alert.dataset}"
    until = "" if alert.until is None else f" until {moment(alert.until)}"
    return (
        f"a request of {alert.analyst} on {alert.dataset} waits{until} for an owner's approval "
        f"(`accountant approval list {alert.dataset}`)"
    )


def alert_words(alert: Alert) -> str:
    """Return what an alert says."""
    if alert.approval is not None and alert.analyst is not None:
        return approval_alert_words(alert)
    if alert.ask is not None:
        return f"{alert.asker} asks owners of {alert.dataset} for {alert.wants}: ask {alert.ask}"
    subject, what = alert.dataset, "budget"
    if alert.scope is not None:
        spender = (
            f"analyst {alert.analyst}" if alert.analyst else scope_words(alert.scope, alert.name)
        )
        subject, what = f"{spender} in {alert.dataset}", "limit"
    if alert.cut is not None:
        return (
            f"{subject} has less of its reserved share: a release made elsewhere has cut it by "
            f"{spent_line(alert.cut)}"
        )
    return (
        f"{subject} has reached {exact_percent(alert.threshold)} of its {what}: "
        f"{spent_percent(alert.spent_ratio)} is spent"
    )
