"""What the datasets of one population promise together, beside each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accountant.views.datasets import DatasetView
    from streams.cli.reading.views.base import Views


def one_with_joint(view: DatasetView, views: Views) -> DatasetView:
    """Return a dataset with the joint guarantee of its population, where it has one.

    Only then, and where no server has told it, are the others read.
    """
    if not view.policy.population or view.joint_guarantee:
        return view
    return all_with_joint([view], views.read(), views)[0]


def all_with_joint(
    shown: Sequence[DatasetView], every: Sequence[DatasetView], views: Views
) -> Sequence[DatasetView]:
    """Return datasets with joint guarantees: a server's, which knows of datasets that it hides.

    Args:
        views: which have read `every`.
    """
    from accountant.views.population import with_joint

    is_told = any(view.joint_guarantee for view in shown)
    if is_told or not any(view.policy.population for view in shown):
        return shown
    return with_joint(shown, every, ordered=views.ordered_before())
