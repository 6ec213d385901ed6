"""What the datasets of one population promise together, beside each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from accountant.views.datasets import DatasetView
    from accountant.views.population import JointGuarantee
    from streams.cli.reading.views.base import Views


def joint_of(view: DatasetView, views: Views) -> JointGuarantee | None:
    """Return what a dataset promises with the others of its population, None where it has none.

    Only then are the others read.
    """
    from accountant.views.population import joint_guarantee

    name = view.policy.population
    if not name:
        return None
    return joint_guarantee(name, [each for each in views.read() if each.policy.population == name])


def with_joint(view: DatasetView, joint: JointGuarantee | None) -> Any:
    """Return a dataset as JSON has it, with the joint guarantee of its population, if any."""
    if joint is None:
        return view
    return {**msgspec.structs.asdict(view), "joint_guarantee": joint}
