"""Metrics of the use of datasets' limits, with a capped number of series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple

from accountant.dataset_ledger import DatasetLedger
from accountant.limits.state import LimitState
from accountant.partition import Partition
from accountant.records.limit_records import Scope, Texts
from accountant.times import from_iso
from accountant.views.limit_views import DatasetLimits, ScopeView, scope_view
from streams.metrics.snapshot import ScopeUse

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily, Metric

_ORDER: Final[dict[Scope, int]] = {"dataset": 0, "team": 0, "analyst": 1}
"""The order of display. Per-analyst defaults are absent: they can apply to very many analysts."""
_LABELS: Final = ("dataset", "scope", "name")


class _LimitInForce(NamedTuple):
    """A limit in force, ordered by display."""

    order: int
    dataset: str
    name: str
    scope: Scope
    level: LimitState
    ledger: DatasetLedger
    partition: Partition


def shown_scopes(
    partitions: Iterable[Partition], at: int, limit: int
) -> tuple[list[ScopeUse], int]:
    """Return the current limits to show, and how many others are in force.

    Another thread may change the partitions meanwhile; each limit is as after some commit.

    Args:
        at: the time, milliseconds since 1970.
        limit: how many to show: of datasets and teams before those of analysts, by name.
    """
    found = [each for partition in partitions for each in _in_force(partition, at)]
    shown = nsmallest(limit, found, key=lambda each: each[:4])
    uses = [ScopeUse(dataset=each.dataset, level=_view_now(each, at)) for each in shown]
    return uses, len(found) - len(uses)


def _in_force(partition: Partition, at: int) -> Iterator[_LimitInForce]:
    for dataset, ledger in partition.ledgers.copy().items():
        if not ledger.limits:
            continue
        for level in partition.levels.limits_of(dataset):
            is_over = level.until is not None and level.until <= at
            if level.is_in_force and not is_over and level.scope in _ORDER:
                order = _ORDER[level.scope]
                yield _LimitInForce(
                    order, dataset, level.name, level.scope, level, ledger, partition
                )


def _view_now(found: _LimitInForce, at: int) -> ScopeView:
    partition = found.partition
    divided = DatasetLimits(found.ledger, partition.levels, at, partition.resets)
    assert found.level.rule is not None
    return scope_view(divided, found.level, found.level.rule)


def scope_families(levels: Sequence[ScopeUse] | None, not_shown: int) -> Iterator[Metric]:
    """Return the families of limits; none if a setting switches them off."""
    if levels is None:
        return
    from prometheus_client.core import GaugeMetricFamily

    spent = _gauge("spent_ratio", "Part of a limit's additive budget that is used, 0 to 1.")
    left = _gauge("left", "Remaining amounts of the sums under a limit.", "unit")
    share = _gauge("share_used_ratio", "Part of a reserved share that is used, 0 to 1.")
    paced = _gauge("pace_used_ratio", "Part of a period limit used in this period, 0 to 1.")
    ends = _gauge("pace_ends_timestamp_seconds", "When a period limit resets, since 1970.")
    for use in levels:
        level = use.level
        labels = [use.dataset, level.scope, level.name or ""]
        if level.spent_ratio is not None:
            spent.add_metric(labels, level.spent_ratio)
        for unit, amount in (level.left or {}).items():
            left.add_metric([*labels, unit], float(amount))
        if level.reserved is not None:
            share.add_metric(labels, 1 - _ratio(level.reserved.left, level.reserved.budget))
        if level.pace is not None:
            paced.add_metric(labels, _ratio(level.pace.used, level.pace.budget))
            ends.add_metric(labels, from_iso(level.pace.ends_at) / 1000)
    yield from (spent, left, share, paced, ends)
    yield GaugeMetricFamily(
        "privacy_levels_not_shown",
        "Limits in force that are not shown, because of the cap.",
        not_shown,
    )


def _gauge(name: str, what: str, *more: str) -> GaugeMetricFamily:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"privacy_level_{name}", what, labels=[*_LABELS, *more])


def _ratio(part: Texts, whole: Texts) -> float:
    """Return a part of the additive sum, in [0, 1]."""
    one, total = (float(next(iter(texts.values()))) for texts in (part, whole))
    return min(1.0, one / total) if total and math.isfinite(one) else 1.0
