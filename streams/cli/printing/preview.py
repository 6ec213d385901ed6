"""Prints what a policy would promise and admit, before a dataset is opened under it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

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
from accountant.display.numbers import exact_percent, remaining_amounts, spent_amount, symbol
from accountant.display.one_way_choices import one_way_choices
from accountant.policy import guarantee_of
from accountant.policy.compiled_policy import CompiledPolicy

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


def preview_json(name: str, plan: CompiledPolicy, *, not_added: str) -> dict[str, Any]:
    """Return the preview for scripts; amounts are exact.

    Args:
        not_added: as of `one_way_choices`.
    """
    kind, amount, delta = guarantee_of(plan.policy)
    return {
        "preview": True,
        "dataset": name,
        "guarantee": {kind: f"{amount:f}", "delta": f"{delta:f}"},
        "policy": plan.policy,
        "budget": plan.budget_wire,
        "thresholds": thresholds(plan),
        "one_way": [each._asdict() for each in one_way_choices(plan, not_added=not_added)],
        "fits": {text: found.count for text, found in typical_fits(plan).items() if found.accepted},
        "not_taken": [text for text, found in typical_fits(plan).items() if not found.accepted],
    }


def thresholds(plan: CompiledPolicy) -> dict[str, str]:
    """Return the spent amount of the additive unit that triggers each alert."""
    amounts = map(format_units, plan.thresholds)
    return dict(zip(plan.policy.alert_at, amounts, strict=True))


def preview_table(name: str, plan: CompiledPolicy, *, not_added: str) -> RenderableType:
    """Return the preview for people.

    Args:
        not_added: as of `one_way_choices`.
    """
    policy, unit = plan.policy, plan.kind.sums[0]
    in_force = in_force_words(policy, plan.in_force)
    whole = "ceiling" if in_force else "budget"
    rows = [
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
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, value in rows:
        grid.add_row(label, value)
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    table.add_column("claim", no_wrap=True)
    table.add_column(f"cost ({symbol(unit)})", justify="right")
    table.add_column("fit", justify="right", style="bold")
    for text, found in typical_fits(plan).items():
        count = "unlimited" if found.count is None else str(found.count)
        cells = (spent_amount(found.cost), count) if found.accepted else ("not accepted", "–")
        table.add_row(text, *cells)
    if not Decimal(policy.delta_for_claims or "0"):
        remark = "A claim with its own δ never fits: the policy has no δ for claims."
        table.caption, table.caption_justify = remark, "left"
    head = Text(f"{name}: a preview, nothing was opened", style="bold")
    return Group(head, _questions(plan, not_added), grid, table)


def _questions(plan: CompiledPolicy, not_added: str) -> Table:
    """Return what the opening fixes for ever, as questions with answers."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    table.add_column("fixed for ever by the opening")
    table.add_column("here", no_wrap=True)
    table.add_column("to have it, open with")
    for each in one_way_choices(plan, not_added=not_added):
        answer = ("yes", "") if each.allowed else ("no", each.change)
        table.add_row(each.question, *answer)
    return table


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
