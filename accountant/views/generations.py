"""Computes what becomes of the promise of a lifetime: that of all its generations together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET

from accountant.dataset_ledger import worst
from accountant.policy.lifetime import StoredLifetime, latest_shared
from accountant.views.datasets import DatasetView


def with_lifetimes(shown: Sequence[DatasetView], every: Iterable[DatasetView]) -> list[DatasetView]:
    """Return datasets, each of a lifetime with what became of its guarantee in all of them.

    Args:
        every: all datasets, whatever the reader sees: a false claim in any generation counts.
    """
    if all(view.lifetime is UNSET for view in shown):
        return list(shown)
    together = by_lifetime(every)
    return [
        view
        if view.lifetime is UNSET
        else _with_lifetime(view, view.lifetime, together.get(view.lifetime.identity, []))
        for view in shown
    ]


def _with_lifetime(
    view: DatasetView, lifetime: StoredLifetime, together: Iterable[DatasetView]
) -> DatasetView:
    # What remains of a shared one is the same for all its datasets.
    lifetime = latest_shared([lifetime, *(each.lifetime for each in together)]) or lifetime
    state = worst([view.lifetime_guarantee, *(each.guarantee for each in together)])
    return msgspec.structs.replace(view, lifetime=lifetime, lifetime_guarantee=state)


def by_lifetime(views: Iterable[DatasetView]) -> dict[tuple[bool, str], list[DatasetView]]:
    """Return the datasets of each lifetime, by its identity.

    Those of a lifetime that is not shared are generations, in their order.
    """
    found = dict[tuple[bool, str], list[DatasetView]]()
    for view in views:
        if view.lifetime is not UNSET:
            found.setdefault(view.lifetime.identity, []).append(view)
    for each in found.values():
        each.sort(key=lambda view: view.generation)
    return found
