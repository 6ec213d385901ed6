"""Cut reserved shares that a release made elsewhere leaves no room for: the newest record first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from accountant.amounts import Units, format_units
from accountant.dataset_ledger import DatasetLedger
from accountant.fractional import whole_down, whole_up
from accountant.limits.reserved_totals import Sums, any_reserved, minus, plus, smaller, unused_share
from accountant.limits.state import Key, LimitState, with_cut
from accountant.limits.store import LimitOverlay, LimitStore, reserved_after
from accountant.records.limit_records import ShareCut

MAX_NAMED: Final = 50
"""The most cut shares that one decision names: a larger record could halt its partition."""


class CutShares(NamedTuple):
    """The shares that a decision cuts.

    Attributes:
        states: the limits after it.
        named: those that the decision names, in the order in which they were cut.
        more: how many more there are.
    """

    states: tuple[LimitState, ...]
    named: tuple[ShareCut, ...] = ()
    more: int = 0

    @property
    def fields(self) -> dict[str, object]:
        """The fields of the decision."""
        return {"shares_cut": self.named, "more_shares_cut": self.more} if self.named else {}


def cut_shares(store: LimitStore, ledger: DatasetLedger) -> CutShares:
    """Return the shares to cut, so that spent and reserved amounts fit the budget again. Pure.

    Shares are cut in the order of the records that have set them, the newest first, each by what
    is missing and at most by its unused part. One that reserves nothing beside its team's share,
    which contains it, is cut only after that. A live decision and a replay both call this.

    Args:
        store: the limits after all else that the decision changes.
        ledger: the dataset after the decision.
    """
    dataset = ledger.dataset
    if not any(_missing(ledger, store.reserved(dataset))):
        return CutShares(())
    trial = LimitOverlay(store)
    shares = [each for each in store.of_dataset(dataset) if any_reserved(each.unused)]
    shares.sort(key=_set_by, reverse=True)
    cut: dict[Key, Sums] = {}
    moved = True
    while moved:
        moved = False
        for share in shares:
            missing = _missing(ledger, trial.reserved(dataset))
            state = trial.get(share.key)
            assert state is not None
            amounts = _whole(whole_up, smaller(state.unused, missing))
            if not any(amounts):
                continue
            after = with_cut(state, amounts, ledger.sequence)
            released = minus(trial.reserved(dataset), reserved_after(trial, state, after).total)
            if any(gained > 0 and less > 0 for gained, less in zip(released, missing, strict=True)):
                trial.put(after)
                cut[share.key] = plus(cut.get(share.key, ()), amounts)
                moved = True
    found = [(state, cut[state.key]) for key in cut if (state := trial.get(key)) is not None]
    named = tuple([_named(state, amounts) for state, amounts in found[:MAX_NAMED]])
    return CutShares(tuple([state for state, _ in found]), named, len(found) - len(named))


def _set_by(state: LimitState) -> int:
    assert state.rule is not None
    return state.rule.set_by


def _missing(ledger: DatasetLedger, reserved: Sums) -> Sums:
    """Return by how much spent and reserved amounts exceed the budget in force, in each sum."""
    if not any_reserved(reserved):
        return ()
    return unused_share(plus(ledger.spent, reserved), ledger.plan.limits)


def _named(state: LimitState, amounts: Sums) -> ShareCut:
    rule = state.rule
    assert rule is not None
    record = rule.record
    left = _whole(whole_down, state.unused)
    return ShareCut(
        record.scope,
        record.name,
        record.version,
        _texts(rule.share_sums, amounts),
        _texts(rule.share_sums, left),
    )


def _whole(rounded: Callable[[int], int], amounts: Sums) -> Sums:
    """Return the amounts in whole units: what is reserved is finite."""
    return tuple([rounded(each) for each in amounts if isinstance(each, int)])


def _texts(sums: tuple[str, ...], amounts: Iterable[Units]) -> dict[str, str]:
    return dict(zip(sums, map(format_units, amounts), strict=True))
