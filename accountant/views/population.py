"""What datasets about the same people promise together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Decimal

import msgspec

from accountant.amounts import precise
from accountant.policy import guarantee_of
from accountant.views.datasets import DatasetView


class JointGuarantee(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one person's data may do to everything that datasets of one population release.

    Attributes:
        population: its name.
        datasets: those that were looked at, by name, the closed ones among them.
        epsilon, delta: the sums of their guarantees, exact; None where none holds.
        why: why none holds.
    """

    population: str
    datasets: tuple[str, ...]
    epsilon: str | None = None
    delta: str | None = None
    why: str | None = None

    @property
    def holds(self) -> bool:
        """Whether there is one."""
        return self.why is None


def joint_guarantees(views: Iterable[DatasetView]) -> list[JointGuarantee]:
    """Return the joint guarantee of each population that datasets name, by its name."""
    found: dict[str, list[DatasetView]] = {}
    for view in views:
        if view.policy.population:
            found.setdefault(view.policy.population, []).append(view)
    return [joint_guarantee(name, found[name]) for name in sorted(found)]


def joint_guarantee(population: str, views: Sequence[DatasetView]) -> JointGuarantee:
    """Return what datasets of one population promise together.

    Basic composition of guarantees that were all fixed before anything was released
    (docs/theory.md, section 9). A dataset that was opened after a look at another one has a
    budget that may depend on what was seen, and no sum bounds that.

    Args:
        views: every dataset of the population that is known of, one at least.
    """
    views = sorted(views, key=lambda view: view.dataset)
    names = tuple(view.dataset for view in views)
    why = _differing(views) or _opened_after_a_look(views)
    if why is not None:
        return JointGuarantee(population=population, datasets=names, why=why)
    promised = [guarantee_of(view.policy) for view in views]
    with precise() as context:
        context.rounding = ROUND_CEILING
        epsilon = sum((each.amount for each in promised), Decimal(0))
        delta = sum((each.delta for each in promised), Decimal(0))
    if delta >= 1:
        why = "the sum of delta reaches 1, which promises nothing"
        return JointGuarantee(population=population, datasets=names, why=why)
    return JointGuarantee(
        population=population, datasets=names, epsilon=f"{epsilon:f}", delta=f"{delta:f}"
    )


def _differing(views: Sequence[DatasetView]) -> str | None:
    """Return why guarantees are not of one kind, so that they cannot be added up."""
    for view in views:
        if guarantee_of(view.policy).name != "epsilon":
            return f"{view.dataset} promises a rho, and no (epsilon, delta)"
    first = views[0]
    for view in views[1:]:
        for field in ("unit", "neighbours"):
            here, there = getattr(first.policy, field), getattr(view.policy, field)
            if here != there:
                return f"{first.dataset} has {field} {here}, {view.dataset} has {there}"
    return None


def _opened_after_a_look(views: Sequence[DatasetView]) -> str | None:
    """Return which dataset was opened once something was granted on another one.

    Partitions have clocks of their own: the same millisecond counts as after.
    """
    granted = sorted(
        (view.granted_at, view.dataset) for view in views if view.granted_at is not None
    )
    for view in views:
        # A dataset's own first grant is no look before its opening; of others the earliest counts.
        for at, looked_at in granted[:2]:
            if looked_at != view.dataset and at <= view.opened_at:
                return f"{view.dataset} was opened after something was granted on {looked_at}"
    return None
