"""What commands read of datasets, wherever the ledger is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from accountant.advice.preview import Preview
from accountant.claims import Claim
from accountant.records.members import Member
from accountant.records.previews import PreviewRequest
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget, LevelView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Views(AbstractContextManager["Views"]):
    """Reads datasets again and again; made by `open_views`."""

    def read(self) -> list[DatasetView]:
        """Return every dataset as it stands now, by name.

        Raises: Unavailable, Refused, LogDamaged.
        """
        raise NotImplementedError

    def one(self, name: str) -> DatasetView | None:
        """Return one dataset as it stands now, None if it was never opened; the rest is not read.

        Raises: Unavailable, Refused, LogDamaged.
        """
        raise NotImplementedError

    def ordered_before(self) -> int | None:
        """Return before which time the times of decisions tell their order; ask after `read`.

        As `accountant.views.population.ordered_before`.
        Raises: Unavailable, Refused, LogDamaged.
        """
        raise NotImplementedError

    def members(self, name: str) -> list[Member]:
        """Return a dataset's members by name, those whose time is over among them.

        Raises: Unavailable, Refused, LogDamaged.
        """
        raise NotImplementedError

    def levels(self, name: str) -> list[LevelView]:
        """Return a dataset's limits that are in force, of those that are shown.

        Raises: Unavailable, Refused, LogDamaged.
        """
        raise NotImplementedError

    def budget(self, name: str, analyst: str | None) -> AnalystBudget | None:
        """Return what an analyst may still use, None of a dataset that was never opened.

        Args:
            analyst: None for whom a token stands for.
        Raises: Unavailable, Refused, LogDamaged, RequestInvalid.
        """
        raise NotImplementedError

    def budgets_in(self, view: DatasetView, analysts: Iterable[str]) -> dict[str, AnalystBudget]:
        """Return what each of some analysts may still use of a dataset.

        Raises: Unavailable, Refused, LogDamaged.
        """
        found = {name: self.budget(view.dataset, name) for name in analysts}
        return {name: budget for name, budget in found.items() if budget is not None}

    def budgets(self, analyst: str | None) -> list[AnalystBudget]:
        """Return what an analyst may still use of each open dataset, by name; see `budget`."""
        names = [view.dataset for view in self.read() if not view.closed]
        found = [self.budget(name, analyst) for name in names]
        return [budget for budget in found if budget is not None]

    @property
    def knows_caller(self) -> bool:
        """Whether a token says who asks."""
        return False

    def preview(self, view: DatasetView, asked: PreviewRequest) -> Preview:
        """Return what a request would be told on a dataset.

        Raises: Unavailable, Refused, LogDamaged, RequestInvalid.
        """
        raise NotImplementedError

    def rollbacks(self) -> Mapping[int, int]:
        """Return how many losses each partition's log has accepted, of those that have.

        Raises: Unavailable, Refused, LogDamaged.
        """
        raise NotImplementedError

    def last_granted(self, name: str) -> Claim | None:
        """Return the claim of the last grant on a dataset that `one` has read, None if not known.

        Raises: LogDamaged.
        """
        return None

    def close(self) -> None:
        """Let go of the ledger."""

    def __exit__(self, *_: object) -> None:
        self.close()
