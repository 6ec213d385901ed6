"""Computes what datasets about the same people promise together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, Decimal
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import precise
from accountant.filters import Guarantee
from accountant.policy import Policy, guarantee_of
from accountant.policy.lifetime import StoredLifetime, latest_shared, taken_from
from accountant.times import ClockResets, iso
from accountant.views.datasets import DatasetView
from accountant.views.generations import by_lifetime, with_lifetimes
from accountant.views.joint import BOUNDED_EXCESS, BOUNDED_RELEASES, JointGuarantee

Sees = Callable[[DatasetView], bool]
_Named = Callable[[DatasetView], str]

_UNNAMED: Final = "another dataset"
_NEVER: Final = ":"  # above all digits, so above all times


def _everything(_: DatasetView) -> bool:
    return True


def ordered_before(resets: Sequence[ClockResets]) -> int | None:
    """Return the time, in milliseconds, before which times of decisions give their order.

    Of two decisions the one with the earlier time came first, if that time is before it. Of two
    later ones either may have come first.

    Args:
        resets: those of each partition's clock.
    Returns: None where no clock was set back, and 0 where nothing is known of the order.
    """
    if not any(number for number, _ in resets):
        return None
    # A clock only rises until its reset, and after that no decision has a time before the reset's.
    # The times of earlier resets are not known. Other partitions' times cannot be compared with
    # those of a clock that was ahead.
    number, last_to = resets[0]
    return last_to if len(resets) == 1 and number == 1 else 0


def is_alone(view: DatasetView) -> bool:
    """Tell whether a dataset's promise has nothing to do with other datasets."""
    return not view.policy.population and view.lifetime is UNSET


def with_joint(
    shown: Sequence[DatasetView],
    every: Sequence[DatasetView],
    sees: Sees = _everything,
    *,
    ordered: int | None,
) -> list[DatasetView]:
    """Return datasets, each with what it promises together with others.

    That is the joint guarantee of its population, and what became of that of its lifetime.

    Args:
        shown: those to return.
        every: all datasets, whatever the reader sees.
        sees, ordered: as of `joint_guarantee`.
    """
    wanted = {view.policy.population for view in shown if view.policy.population}
    joint = {
        each.population: each
        for each in joint_guarantees(
            [view for view in every if view.policy.population in wanted], sees, ordered=ordered
        )
    }
    return [
        msgspec.structs.replace(view, joint_guarantee=joint[str(view.policy.population)])
        if view.policy.population
        else view
        for view in with_lifetimes(shown, every)
    ]


def joint_guarantees(
    views: Iterable[DatasetView], sees: Sees = _everything, *, ordered: int | None
) -> list[JointGuarantee]:
    """Return the joint guarantee of each population of which a dataset is seen, by its name.

    Args:
        sees, ordered: as of `joint_guarantee`.
    """
    found: dict[str, list[DatasetView]] = {}
    for view in views:
        if view.policy.population:
            found.setdefault(view.policy.population, []).append(view)
    return [
        joint_guarantee(name, views, sees, ordered=ordered)
        for name, views in sorted(found.items())
        if any(map(sees, views))
    ]


def joint_guarantee(
    population: str,
    views: Sequence[DatasetView],
    sees: Sees = _everything,
    *,
    ordered: int | None,
) -> JointGuarantee:
    """Return what datasets of one population promise together, to every reader the same.

    Basic composition of guarantees that were all fixed before anything was released
    (docs/theory.md, section 9). A dataset that was opened after a look at another one has a
    budget that may depend on what was seen, and no sum bounds that. A dataset that was closed
    unused before any look releases nothing, and does not count. All datasets of a lifetime count
    as one that promises the lifetime, opened with the first: others may join it at any time.

    Args:
        views: every dataset of the population, whatever the reader sees, one at least.
        sees: whether the reader may see that a dataset is there. The others count, unnamed.
        ordered: as of `ordered_before`, read after `views`. Without a certain order there is no
            sum.
    """
    certain = _NEVER if ordered is None else iso(ordered)
    parts = sorted(_counted(views, sees), key=lambda part: part.view.dataset)
    parts = _counting(parts, certain)
    views = [part.view for part in parts]
    named_alone = [each for part in parts for each in part.named_alone]
    visible = frozenset(view.dataset for view in named_alone if sees(view))
    names = tuple(sorted(visible))
    others = len(named_alone) - len(names)

    def named(view: DatasetView) -> str:
        return view.dataset if view.dataset in visible or sees(view) else _UNNAMED

    def broken(why: str) -> JointGuarantee:
        return JointGuarantee(population=population, datasets=names, others=others, why=why)

    why = _without_guarantee(parts, named) or _differing(views, named)
    why = why or _opened_after_a_grant(views, certain, named)
    if why is not None:
        return broken(why)
    promised = list(map(_promised, views))
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
        condition=_condition(parts),
    )


def joint_after_opening(
    dataset: str,
    policy: Policy,
    views: Iterable[DatasetView],
    sees: Sees = _everything,
    *,
    ordered: int | None,
    lifetime: StoredLifetime | UnsetType = UNSET,
) -> tuple[JointGuarantee, JointGuarantee] | None:
    """Return what a population promises now, and what it would promise once a dataset is opened.

    None for a dataset without a population, or with one that no other dataset has.

    Args:
        policy: resolved, of the dataset; `lifetime`: its own.
        views: all datasets, whatever the reader sees.
        sees, ordered: as of `joint_guarantee`.
    """
    name = policy.population or ""
    same = [view for view in views if name and view.policy.population == name]
    if not same:
        return None
    shared = latest_shared(view.lifetime for view in same)
    if shared is not None:
        lifetime = shared  # it joins that, or is refused
    opened = msgspec.structs.replace(
        same[0],
        dataset=dataset,
        policy=policy,
        opened_at=_NEVER,  # after all that was granted
        granted_at=None,
        closed=False,
        closed_at=None,
        guarantee="",
        lifetime=lifetime,
        generation=1,
    )

    def sees_it(view: DatasetView) -> bool:
        return view is opened or sees(view)

    before = joint_guarantee(name, same, sees, ordered=ordered)
    return before, joint_guarantee(name, [*same, opened], sees_it, ordered=ordered)


def not_added_words(
    dataset: str, policy: Policy, seen: Iterable[DatasetView], ordered: int | None
) -> str:
    """Return why a new dataset's budget would not add up with its population's, "" if it would.

    Args:
        policy: resolved, of the dataset.
        seen: the datasets that the reader sees; a server says what the others have made of it.
        ordered: as of `joint_guarantee`.
    """
    views = list(seen)
    known = _known(policy, views)
    # Whoever has made the views has judged the order of what is there.
    order = ordered if known is None else None
    joint = joint_after_opening(dataset, policy, views, ordered=order)
    if joint is None:
        return ""
    now = known or joint[0]
    if why := now.why or joint[1].why:
        return f"nothing any more: {why}"
    same = [view for view in views if view.policy.population == policy.population]
    if now.others and latest_shared(view.lifetime for view in same) is None:
        hidden = f"{now.others:,} other dataset{'s' if now.others > 1 else ''}"
        return f"perhaps: {hidden} of these people must be without a grant, and are hidden from you"
    return ""


def condition_words(policy: Policy, seen: Iterable[DatasetView]) -> str:
    """Return on what the joint guarantee of a new dataset's population depends: `, if ...`, or "".

    Args:
        policy, seen: as of `not_added_words`. A new dataset adds no condition.
    """
    views = [view for view in seen if view.policy.population == policy.population]
    if policy.population is UNSET or not views:
        return ""
    # The order decides whether there is a sum, and not on what it depends.
    joint = _known(policy, views) or joint_guarantee(policy.population, views, ordered=None)
    return joint.with_condition


def _known(policy: Policy, views: Iterable[DatasetView]) -> JointGuarantee | None:
    """Return the joint guarantee as a server has sent it, None if it did not."""
    return next(
        (
            view.joint_guarantee
            for view in views
            if view.policy.population == policy.population and view.joint_guarantee
        ),
        None,
    )


class _Counted(NamedTuple):
    """What counts once in a sum.

    Attributes:
        view: a dataset, or as one all datasets of a lifetime, with the name of the latest that the
            reader sees.
        datasets: those that it stands for.
    """

    view: DatasetView
    datasets: Sequence[DatasetView]

    @property
    def named_alone(self) -> Sequence[DatasetView]:
        """The datasets that readers know by names of their own: of generations the latest."""
        is_shared = self.view.lifetime is not UNSET and self.view.lifetime.shared
        return self.datasets if is_shared else (self.view,)


def _counted(views: Sequence[DatasetView], sees: Sees) -> list[_Counted]:
    found = [_Counted(view, (view,)) for view in views if view.lifetime is UNSET]
    for together in by_lifetime(views).values():
        looks = [view.granted_at for view in together if view.granted_at is not None]
        one = msgspec.structs.replace(
            next(filter(sees, reversed(together)), together[-1]),
            opened_at=min(together, key=_taken_by).opened_at,
            granted_at=min(looks, default=None),
            closed_at=None,
        )
        found.append(_Counted(one, together))
    return found


def _taken_by(view: DatasetView) -> tuple[int, str]:
    """Sort datasets of a lifetime by when they took from it; the one that has fixed it is first."""
    taken = 0 if view.lifetime is UNSET else taken_from(view.lifetime)
    return taken, view.opened_at


def _promised(view: DatasetView) -> Guarantee:
    """Return what a dataset adds to a sum: its own guarantee, or that of its lifetime."""
    if view.lifetime is UNSET:
        return guarantee_of(view.policy)
    lifetime = view.lifetime
    return Guarantee(lifetime.field, Decimal(lifetime.amount), Decimal(lifetime.delta))


def _counting(parts: Sequence[_Counted], certain: str) -> list[_Counted]:
    """Return what counts: not the datasets that were closed before anything was granted on any.

    One that guarantees nothing counts in any case: something was released there.

    Args:
        certain: before it, times give the order.
    """
    looks = [part.view.granted_at for part in parts if part.view.granted_at is not None]
    # Partitions have clocks of their own: the same millisecond counts as after.
    look = min(*looks, certain) if looks else _NEVER
    return [
        part
        for part in parts
        if part.view.granted_at is not None
        or part.view.closed_at is None
        or part.view.closed_at >= look
        or any(each.over_budget or each.is_void for each in part.datasets)
    ]


def _without_guarantee(parts: Sequence[_Counted], named: _Named) -> str | None:
    """Return which dataset guarantees nothing any more, and why, None if all do."""
    for view in (each for part in parts for each in part.datasets):
        if view.over_budget:
            return f"a release made elsewhere did not fit the budget of {named(view)}"
        if view.is_void:
            return f"a reservation on {named(view)} released more than its maximum"
    return None


def _condition(parts: Sequence[_Counted]) -> str | None:
    """Return on what a sum depends, None if on nothing: the worst of what its datasets say.

    A release that was recorded afterwards, or what a reservation released beyond its maximum, is
    a mechanism of the dataset that charges it (decision 0108). That dataset is the interactive
    mechanism of the sum (docs/theory.md, section 9) if its size was a constant, too.
    """
    bounded = [view for part in parts for view in part.datasets if view.guarantee == "if_bounded"]
    if not bounded:
        return None
    return BOUNDED_RELEASES if any(view.recorded for view in bounded) else BOUNDED_EXCESS


def _differing(views: Sequence[DatasetView], named: _Named) -> str | None:
    """Return why guarantees are not of one kind, so that they cannot be added up."""
    for view in views:
        if guarantee_of(view.policy).name != "epsilon":
            return f"{named(view)} promises a rho, and no (epsilon, delta)"
    for first, view in pairwise(views):
        for field in ("unit", "neighbours"):
            one, other = getattr(first.policy, field), getattr(view.policy, field)
            if one != other:
                return f"{named(first)} has {field} {one}, {named(view)} has {other}"
    return None


def _opened_after_a_grant(views: Sequence[DatasetView], certain: str, named: _Named) -> str | None:
    """Return which dataset was opened, or may have been, once something was granted on another.

    Partitions have clocks of their own: the same millisecond counts as after.

    Args:
        certain: before it, times give the order.
    """
    granted = sorted(
        (view for view in views if view.granted_at is not None),
        key=lambda view: (str(view.granted_at), view.dataset),
    )
    for view in views:
        # A dataset's own first grant is no look before its opening; of others the earliest counts.
        for looked_at in granted[:2]:
            if looked_at is view:
                continue
            look, there = str(looked_at.granted_at), named(looked_at)
            # What is opened from now on is opened later, whatever the clock says.
            if view.opened_at != _NEVER and min(look, view.opened_at) >= certain:
                return (
                    "the ledger's clock was set back, so it is not known whether "
                    f"{named(view)} was opened after something was granted on {there}"
                )
            if look <= view.opened_at:
                opens = "would be opened" if view.opened_at == _NEVER else "was opened"
                return f"{named(view)} {opens} after something was granted on {there}"
    return None
