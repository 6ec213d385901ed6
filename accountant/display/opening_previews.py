"""What a policy would promise and admit, before a dataset is opened under it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from accountant.advice.compare import odometer_settings
from accountant.advice.fit import Fit, fit, unspent
from accountant.amounts import format_units
from accountant.claims.text import parse_claim
from accountant.display.approvals import approval_words
from accountant.display.datasets import (
    cap_words,
    filter_words,
    guarantee,
    in_force_words,
    open_words,
)
from accountant.display.numbers import exact_percent, remaining_amounts, spent_amount
from accountant.policy import Policy
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.policy.lifetime import StoredLifetime
from accountant.records.requests import Open
from accountant.views.confirmations import Confirmation
from accountant.views.datasets import DatasetView
from accountant.views.opening_refusals import lifetime_note, lifetime_of_opening, why_outside
from accountant.views.population import not_added_words

TYPICAL: Final = (
    "pure:0.01",
    "pure:0.1",
    "laplace:scale=100,sensitivity=1",
    "gaussian:sigma=100,sensitivity=1",
    "gaussian:sigma=20,sensitivity=1",
    "bounded_range:0.1",
    "approximate:epsilon=0.01,delta=1e-9",
)
"""Typical claims, to show how far a budget goes."""


def typical_fits(plan: CompiledPolicy) -> dict[str, Fit]:
    """Return how many of each typical claim fit an unspent budget."""
    return {text: fit(parse_claim(text), unspent(plan)) for text in TYPICAL}


def thresholds(plan: CompiledPolicy) -> dict[str, str]:
    """Return the spent amount of the additive unit that triggers each alert."""
    amounts = map(format_units, plan.thresholds)
    return dict(zip(plan.policy.alert_at, amounts, strict=True))


def preview_rows(name: str, plan: CompiledPolicy) -> list[tuple[str, str]]:
    """Return what the policy of a dataset promises, with its rules, as names and words."""
    policy = plan.policy
    in_force = in_force_words(policy, plan.in_force)
    whole = "ceiling" if in_force else "budget"
    return [
        ("guarantee", f"{guarantee(policy)}, per {policy.unit}, for all releases of {name}"),
        *([("in force", in_force)] if in_force else ()),
        ("filter", filter_words(policy)),
        ("neighbours", policy.neighbours),
        *((f"{whole}, {each.name}", each.text) for each in remaining_amounts(plan.budget_wire)),
        ("alerts", ", ".join(map(_alert, thresholds(plan).items()))),
        ("odometers", _odometers(plan) or "none"),
        ("horizon", policy.horizon or "–"),
        ("one request", cap_words(policy)),
        *([("a request", approval_words(policy))] if policy.approve_above else ()),
        ("one holder", open_words(policy)),
        ("a refusal", "ends the dataset" if policy.halt_on_refusal is True else "costs nothing"),
    ]


def takes_no_delta(plan: CompiledPolicy) -> str:
    """Return that no claim with a delta of its own ever fits, "" where one may."""
    if Decimal(plan.policy.delta_for_claims or "0"):
        return ""
    return "A claim with its own δ never fits: the policy has no δ for claims."


class OpeningBeside(NamedTuple):
    """An opening beside the datasets that are there.

    Attributes:
        not_added: why the budget would not add up with those of its population, "" if it would.
        lifetime: what it fixes or takes from, after it was charged; None for none.
        others: the datasets that are open already, as far as its owner sees them.
        refused: the opening would be refused, for the reason in `not_added`.
    """

    not_added: str
    lifetime: StoredLifetime | None
    others: Sequence[DatasetView] = ()
    refused: bool = False


def lifetime_words_of(beside: OpeningBeside, policy: Policy, asked: Sequence[Confirmation]) -> str:
    """Return what an opening does with a lifetime, "" where nothing or a question says it."""
    is_said = any(each.code == "takes_from_lifetime" for each in asked)
    if beside.refused or beside.lifetime is None or is_said:
        return ""
    return lifetime_note(beside.lifetime, policy, beside.others)


def opening_beside(
    record: Open, views: Sequence[DatasetView], ordered: int | None
) -> OpeningBeside:
    """Return what an opening does with the lifetime and the joint guarantee of its population.

    Args:
        views: the datasets that its owner sees. `ordered`: as of `joint_guarantee`.
    """
    others = [view for view in views if view.dataset != record.dataset]
    if why := why_outside(record, others):
        return OpeningBeside(why, None, others, refused=True)
    not_added = not_added_words(record.dataset, record.policy, others, ordered)
    return OpeningBeside(not_added, lifetime_of_opening(record, others), others)


def _alert(threshold: tuple[str, str]) -> str:
    ratio, amount = threshold
    return f"{exact_percent(ratio)} at {spent_amount(amount)}"


def _odometers(plan: CompiledPolicy) -> str:
    found = []
    for odometer in plan.policy.odometers or ():
        settings = odometer_settings(odometer)
        name = str(odometer.__struct_config__.tag)
        found.append(f"{name} ({settings})" if settings else name)
    return "\n".join(found)
