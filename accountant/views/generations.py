"""Computes what becomes of the promise of a lifetime: that of all its generations together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET

from accountant.dataset_ledger import worst
from accountant.records.reservation_rows import GuaranteeState
from accountant.views.datasets import DatasetView


def with_lifetimes(shown: Sequence[DatasetView], every: Iterable[DatasetView]) -> list[DatasetView]:
    """Return datasets, each of a lifetime with what became of its guarantee in all generations.

    Args:
        every: all datasets, whatever the reader sees: a false claim in any generation counts.
    """
    states = dict[str, GuaranteeState]()
    if any(view.lifetime is not UNSET for view in shown):
        for first, views in by_lifetime(every).items():
            states[first] = worst([view.guarantee for view in views])
    return [
        view
        if view.lifetime is UNSET
        else msgspec.structs.replace(
            view,
            lifetime_guarantee=worst(
                [view.lifetime_guarantee, states.get(view.lifetime.first, "")]
            ),
        )
        for view in shown
    ]


def by_lifetime(views: Iterable[DatasetView]) -> dict[str, list[DatasetView]]:
    """Return the generations of each lifetime, by the name of its first, in their order."""
    found = dict[str, list[DatasetView]]()
    for view in views:
        if view.lifetime is not UNSET:
            found.setdefault(view.lifetime.first, []).append(view)
    for each in found.values():
        each.sort(key=lambda view: view.generation)
    return found
