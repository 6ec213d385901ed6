"""Budgets and odometers, by dataset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prometheus_client.core import Metric

from accountant.amounts import UNIT
from accountant.ledger import Ledger
from streams.metrics.rendered import Rendered, label, line
from streams.metrics.source import Snapshot

_DAY_MS: Final = 86_400_000
_BURN: Final = "privacy_filter_burn_ratio"

Add = Callable[[str, str, float], None]
"""Takes a metric's name, further labels, and a value."""

# What is the same as long as a ledger keeps its plan.
_FIXED: Final = {
    "privacy_guarantee": "What the policy promises of all that is ever released, a constant.",
    "privacy_filter_budget": "What the filter's sums may reach.",
    "privacy_filter_horizon_seconds": "How long the budget is meant to last, in seconds.",
    "privacy_dataset_generation": "Which opening of the name this is.",
    "privacy_dataset_opened_timestamp_seconds": "When it was opened, since 1970.",
    "privacy_dataset_info": "The policy's filter, and what it protects.",
}
_MOVING: Final = {
    "privacy_filter_left": "What the filter's sums may still grow by.",
    "privacy_filter_spent_ratio": "Part of the additive budget that is spent, 0 to 1.",
    "privacy_filter_delta_spent": "Sum of the deltas of the granted claims.",
    "privacy_filter_exhausted": "1 once the budget is used up.",
    "privacy_odometer_epsilon": "Upper bound on what has leaked so far, in nats.",
    "privacy_dataset_closed": "1 once nothing more is granted.",
}


class _Lines(NamedTuple):
    """A ledger's lines, in the order of `_FIXED` and of `_MOVING`."""

    ledger: Ledger
    fixed: tuple[str, ...]
    moving: tuple[str, ...]


class DatasetCollector:
    """Shows the ledgers of a snapshot; keeps the lines of those that have not changed."""

    def __init__(self) -> None:
        self._lines: dict[str, _Lines] = {}

    def collect(self, snapshot: Snapshot) -> Iterator[Metric]:
        """Return the families of every dataset: one that moved away leaves no series."""
        known, lines = self._lines, dict[str, _Lines]()
        for name, ledger in snapshot.ledgers.items():
            before = known.get(name)
            if before is None or before.ledger is not ledger:
                before = _lines(ledger, before)
            lines[name] = before
        self._lines = lines
        fixed = zip(*[each.fixed for each in lines.values()], strict=True)
        moving = zip(*[each.moving for each in lines.values()], strict=True)
        for families, columns in (_FIXED, fixed), (_MOVING, moving):
            for name, what in families.items():
                family = name.removesuffix("_info")
                typ = "gauge" if family == name else "info"
                yield Rendered(family, what, typ, next(columns, ()))
        yield Rendered(
            _BURN,
            "Spent ratio over the part of the horizon that has passed: 1 lasts as long as meant.",
            "gauge",
            [_burn(ledger, snapshot.at) for ledger in snapshot.ledgers.values()],
        )


def _lines(ledger: Ledger, before: _Lines | None) -> _Lines:
    same = before is not None and before.ledger.plan is ledger.plan
    same = same and before is not None and before.ledger.opened_at == ledger.opened_at
    fixed = before.fixed if same and before is not None else _render(ledger, _FIXED, _add_fixed)
    return _Lines(ledger, fixed, _render(ledger, _MOVING, _add_moving))


def _render(
    ledger: Ledger, names: dict[str, str], fill: Callable[[Ledger, Add], None]
) -> tuple[str, ...]:
    found: dict[str, list[str]] = defaultdict(list)
    dataset = label("dataset", ledger.dataset)

    def add(name: str, labels: str, value: float) -> None:
        found[name].append(line(name, f"{dataset},{labels}" if labels else dataset, value))

    fill(ledger, add)
    return tuple(["".join(found.get(name, ())) for name in names])


def _add_fixed(ledger: Ledger, add: Add) -> None:
    plan, policy = ledger.plan, ledger.plan.policy
    for parameter in ("epsilon", "rho", "delta"):
        amount = getattr(policy, parameter)
        if amount is not None:
            add("privacy_guarantee", label("parameter", parameter), float(amount))
    for unit, capacity in zip(plan.kind.sums, plan.capacity, strict=True):
        add("privacy_filter_budget", label("unit", unit), capacity / UNIT)
    if plan.horizon_seconds is not None:
        add("privacy_filter_horizon_seconds", "", plan.horizon_seconds)
    add("privacy_dataset_generation", "", ledger.generation)
    add("privacy_dataset_opened_timestamp_seconds", "", ledger.opened_at / 1000)
    what = (
        label("filter", plan.kind.name),
        label("protects", policy.unit),
        label("neighbours", policy.neighbours),
    )
    add("privacy_dataset_info", ",".join(what), 1)


def _add_moving(ledger: Ledger, add: Add) -> None:
    plan = ledger.plan
    for unit, left in zip(plan.kind.sums, ledger.left, strict=True):
        add("privacy_filter_left", label("unit", unit), left / UNIT)
    add("privacy_filter_spent_ratio", "", ledger.spent_ratio)
    if "delta" in plan.kind.sums:
        spent = ledger.totals[plan.kind.sums.index("delta")]
        add("privacy_filter_delta_spent", "", spent / UNIT)
    add("privacy_filter_exhausted", "", ledger.exhausted)
    for odometer, reading in zip(plan.reader_names, ledger.readings, strict=True):
        add("privacy_odometer_epsilon", label("odometer", odometer), reading)
    add("privacy_dataset_closed", "", ledger.closed)


def _burn(ledger: Ledger, at: int) -> str:
    """Return the line of a dataset's burn, which changes with time alone."""
    horizon = ledger.plan.horizon_seconds
    if horizon is None:
        return ""
    # Of the first minutes no pace can be told: the first day counts as a whole one.
    passed = max(at - ledger.opened_at, _DAY_MS) / 1000
    return line(_BURN, label("dataset", ledger.dataset), ledger.spent_ratio * horizon / passed)
