"""Computes what datasets about the same people promise together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, Decimal
from itertools import pairwise
from typing import Final

import msgspec

from accountant.amounts import precise
from accountant.policy import guarantee_of
from accountant.views.datasets import DatasetView
from accountant.views.joint import JointGuarantee

Sees = Callable[[DatasetView], bool]
_Named = Callable[[DatasetView], str]

_UNNAMED: Final = "another dataset"


def _everything(_: DatasetView) -> bool:
    return True


def with_joint(
    shown: Sequence[DatasetView], every: Iterable[DatasetView], sees: Sees = _everything
) -> list[DatasetView]:
    """Return datasets, each of a population with the joint guarantee of that.

    Args:
        shown: those to return.
        every: all that there are, whoever reads.
        sees: as of `joint_guarantee`.
    """
    wanted = {view.policy.population for view in shown if view.policy.population}
    joint = {
        each.population: each
        for each in joint_guarantees(
            [view for view in every if view.policy.population in wanted], sees
        )
    }
    return [
        msgspec.structs.replace(view, joint_guarantee=joint[str(view.policy.population)])
        if view.policy.population
        else view
        for view in shown
    ]


def joint_guarantees(
    views: Iterable[DatasetView], sees: Sees = _everything
) -> list[JointGuarantee]:
    """Return the joint guarantee of each population of which a dataset is seen, by its name."""
    found: dict[str, list[DatasetView]] = {}
    for view in views:
        if view.policy.population:
            found.setdefault(view.policy.population, []).append(view)
    return [
        joint_guarantee(name, views, sees)
        for name, views in sorted(found.items())
        if any(map(sees, views))
    ]


def joint_guarantee(
    population: str, views: Sequence[DatasetView], sees: Sees = _everything
) -> JointGuarantee:
    """Return what datasets of one population promise together, to every reader the same.

    Basic composition of guarantees that were all fixed before anything was released
    (docs/theory.md, section 9). A dataset that was opened after a look at another one has a
    budget that may depend on what was seen, and no sum bounds that. A dataset that was closed
    unused before any look releases nothing, and does not count.

    Args:
        views: every dataset of the population, whoever reads, one at least.
        sees: whether the reader may see that a dataset is there. The others count, unnamed.
    """
    views = _counting(sorted(views, key=lambda view: view.dataset))
    seen = frozenset(view.dataset for view in views if sees(view))
    names = tuple(sorted(seen))
    others = len(views) - len(names)

    def named(view: DatasetView) -> str:
        return view.dataset if view.dataset in seen else _UNNAMED

    def broken(why: str) -> JointGuarantee:
        return JointGuarantee(population=population, datasets=names, others=others, why=why)

    why = _differing(views, named) or _opened_after_a_look(views, named)
    if why is not None:
        return broken(why)
    promised = [guarantee_of(view.policy) for view in views]
    with precise() as context:
        context.rounding = ROUND_CEILING
        epsilon = sum((each.amount for each in promised), Decimal(0))
        delta = sum((each.delta for each in promised), Decimal(0))
    if delta >= 1:
        return broken("the sum of delta reaches 1, which promises nothing")
    return JointGuarantee(
        population=population,
        datasets=names,
        others=others,
        epsilon=f"{epsilon:f}",
        delta=f"{delta:f}",
    )


def _counting(views: Sequence[DatasetView]) -> list[DatasetView]:
    """Return the datasets without those that were closed before anything was granted on any."""
    looks = [view.granted_at for view in views if view.granted_at is not None]
    # Partitions have clocks of their own: the same millisecond counts as after. `:` is above all
    # digits, so above all times: nothing was granted yet.
    look = min(looks, default=":")
    return [
        view
        for view in views
        if view.granted_at is not None or view.closed_at is None or view.closed_at >= look
    ]


def _differing(views: Sequence[DatasetView], named: _Named) -> str | None:
    """Return why guarantees are not of one kind, so that they cannot be added up."""
    for view in views:
        if guarantee_of(view.policy).name != "epsilon":
            return f"{named(view)} promises a rho, and no (epsilon, delta)"
    for first, view in pairwise(views):
        for field in ("unit", "neighbours"):
            here, there = getattr(first.policy, field), getattr(view.policy, field)
            if here != there:
                return f"{named(first)} has {field} {here}, {named(view)} has {there}"
    return None


def _opened_after_a_look(views: Sequence[DatasetView], named: _Named) -> str | None:
    """Return which dataset was opened once something was granted on another one.

    Partitions have clocks of their own: the same millisecond counts as after.
    """
    granted = sorted(
        (view for view in views if view.granted_at is not None),
        key=lambda view: (str(view.granted_at), view.dataset),
    )
    for view in views:
        # A dataset's own first grant is no look before its opening; of others the earliest counts.
        for looked_at in granted[:2]:
            if looked_at is not view and str(looked_at.granted_at) <= view.opened_at:
                there = named(looked_at)
                return f"{named(view)} was opened after something was granted on {there}"
    return None
