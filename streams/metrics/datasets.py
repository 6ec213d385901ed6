"""Budgets and odometers, by dataset."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from prometheus_client.core import Metric

from accountant.amounts import UNIT
from accountant.dataset_ledger import DatasetLedger
from accountant.fractional import round_up_amounts
from accountant.policy import guarantee_of
from accountant.reservations.held import settled_ratio
from streams.metrics.snapshot import MetricsSnapshot
from streams.metrics.text_families import TextFamily, label, line

_DAY_MS: Final = 86_400_000
_BURN: Final = "privacy_filter_burn_ratio"

# Constant as long as a ledger has the same plan.
_FIXED: Final = {
    "privacy_guarantee": "The policy's guarantee for everything that is ever released, a constant.",
    "privacy_filter_budget": "Limits of the filter's sums.",
    "privacy_filter_horizon_seconds": "How long the budget should last, in seconds.",
    "privacy_dataset_generation": "Number of times that a dataset of this name was opened.",
    "privacy_dataset_opened_timestamp_seconds": "When the dataset was opened, since 1970.",
    "privacy_dataset_info": "The policy's filter, and what it protects.",
}
_MOVING: Final = {
    "privacy_filter_left": "Remaining amounts of the filter's sums.",
    "privacy_filter_reserved": "Amounts of the filter's sums that open reservations hold.",
    "privacy_filter_spent_ratio": "Part of the additive budget that is spent or reserved, 0 to 1.",
    "privacy_filter_settled_ratio": "Part of it that is spent and not reserved: it never falls.",
    "privacy_filter_delta_spent": "Sum of the deltas of the granted claims.",
    "privacy_filter_exhausted": "1 while the budget is used up.",
    "privacy_odometer_epsilon": "Upper bound on the privacy loss so far, in nats.",
    "privacy_dataset_closed": "1 once the dataset is closed and grants nothing more.",
    "privacy_dataset_paused": "1 while the dataset is paused and grants nothing.",
    "privacy_dataset_suspended": "1 while a reservation that went beyond its maximum stops grants.",
    "privacy_guarantee_void": "1 where none holds: a claim was false, or a release did not fit.",
}


_Lines = tuple[DatasetLedger, tuple[str, ...], tuple[str, ...]]
"""A ledger and its lines, in the order of `_FIXED` and of `_MOVING`.

A plain tuple, not a class: the garbage collector need not track tuples of texts.
"""


class DatasetCollector:
    """Shows the ledgers of a snapshot, and caches the lines of ledgers that have not changed."""

    def __init__(self) -> None:
        self._lines: dict[str, _Lines] = {}

    def collect(self, snapshot: MetricsSnapshot) -> Iterator[Metric]:
        """Return the families of every dataset; datasets that moved away have no series."""
        known, lines = self._lines, dict[str, _Lines]()
        for name, ledger in snapshot.ledgers.items():
            before = known.get(name)
            if before is None or before[0] is not ledger:
                before = _lines(ledger, before)
            lines[name] = before
        self._lines = lines
        fixed = zip(*[each[1] for each in lines.values()], strict=True)
        moving = zip(*[each[2] for each in lines.values()], strict=True)
        for families, columns in (_FIXED, fixed), (_MOVING, moving):
            for name, what in families.items():
                family = name.removesuffix("_info")
                typ = "gauge" if family == name else "info"
                yield TextFamily(family, what, typ, next(columns, ()))
        yield TextFamily(
            _BURN,
            "Settled ratio over the elapsed part of the horizon: 1 lasts exactly until its end.",
            "gauge",
            [_burn(ledger, snapshot.at) for ledger in snapshot.ledgers.values()],
        )


def _lines(ledger: DatasetLedger, before: _Lines | None) -> _Lines:
    fixed = None
    if before is not None:
        known = before[0]
        if known.plan is ledger.plan and known.opened_at == ledger.opened_at:
            fixed = before[1]
    return ledger, _fixed(ledger) if fixed is None else fixed, _moving(ledger)


def _fixed(ledger: DatasetLedger) -> tuple[str, ...]:
    """Return the lines of `_FIXED`, in its order."""
    found: dict[str, list[str]] = {name: [] for name in _FIXED}
    dataset = label("dataset", ledger.dataset)
    plan, policy = ledger.plan, ledger.plan.policy

    def add(name: str, value: float, **labels: str) -> None:
        further = [label(key, text) for key, text in labels.items()]
        found[name].append(line(name, ",".join([dataset, *further]), value))

    name, amount, delta = guarantee_of(policy)
    add("privacy_guarantee", float(amount), parameter=name)
    add("privacy_guarantee", float(delta), parameter="delta")
    for unit, capacity in zip(plan.kind.sums, plan.limits, strict=True):
        add("privacy_filter_budget", capacity / UNIT, unit=unit)
    if plan.horizon_seconds is not None:
        add("privacy_filter_horizon_seconds", plan.horizon_seconds)
    add("privacy_dataset_generation", ledger.generation)
    add("privacy_dataset_opened_timestamp_seconds", ledger.opened_at / 1000)
    add(
        "privacy_dataset_info",
        1,
        filter=plan.kind.name,
        protects=policy.unit,
        neighbours=policy.neighbours,
    )
    return tuple(["".join(lines) for lines in found.values()])


def _moving(ledger: DatasetLedger) -> tuple[str, ...]:
    """Return the lines of `_MOVING`, in its order; without helpers, since a scrape is mostly this.

    Names of datasets, units and odometers need no escapes.
    """
    plan = ledger.plan
    sums = plan.kind.sums
    of = f'{{dataset="{ledger.dataset}"'
    left = zip(sums, ledger.remaining, strict=True)
    readings = zip(plan.reader_names, ledger.readings, strict=True)
    held = _held_amounts(ledger)
    deltas = [total for name, total in zip(sums, ledger.totals, strict=False) if _is_delta(name)]
    spent = f"privacy_filter_delta_spent{of}}} {sum(deltas) / UNIT!r}\n" if deltas else ""
    return (
        "".join([f'privacy_filter_left{of},unit="{u}"}} {v / UNIT!r}\n' for u, v in left]),
        "".join([f'privacy_filter_reserved{of},unit="{u}"}} {v!r}\n' for u, v in held]),
        f"privacy_filter_spent_ratio{of}}} {ledger.spent_ratio!r}\n",
        f"privacy_filter_settled_ratio{of}}} {settled_ratio(ledger)!r}\n",
        spent,
        f"privacy_filter_exhausted{of}}} {ledger.exhausted:d}.0\n",
        "".join([f'privacy_odometer_epsilon{of},odometer="{o}"}} {v!r}\n' for o, v in readings]),
        f"privacy_dataset_closed{of}}} {ledger.closed:d}.0\n",
        f"privacy_dataset_paused{of}}} {ledger.facts.paused:d}.0\n",
        f"privacy_dataset_suspended{of}}} {ledger.suspended:d}.0\n",
        f"privacy_guarantee_void{of}}} {ledger.is_void:d}.0\n",
    )


def _held_amounts(ledger: DatasetLedger) -> list[tuple[str, float]]:
    """Return the amount of each of the filter's sums that open reservations hold."""
    sums = ledger.plan.kind.sums
    if ledger.held is None:
        return [(name, 0.0) for name in sums]
    amounts = round_up_amounts(ledger.held.amounts)
    return [(name, amount / UNIT) for name, amount in zip(sums, amounts, strict=False)]


@cache
def _is_delta(sum_name: str) -> bool:
    """Return whether a filter's sum adds up claims' deltas; a filter may have two such sums."""
    return sum_name == "delta" or sum_name.endswith("_delta")


def _burn(ledger: DatasetLedger, at: int) -> str:
    """Return the line of a dataset's burn ratio, which changes with time, too."""
    horizon = ledger.plan.horizon_seconds
    if horizon is None:
        return ""
    # A rate over the first minutes means nothing: the first day counts as a whole one.
    passed = max(at - ledger.opened_at, _DAY_MS) / 1000
    return line(_BURN, label("dataset", ledger.dataset), settled_ratio(ledger) * horizon / passed)
