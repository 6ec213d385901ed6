"""What the client that waits reads of a ledger."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from accountant.records.members import Member
from accountant.records.served import Me
from accountant.views.datasets import DatasetView
from accountant.views.heads import Head
from accountant.views.limit_views import AnalystBudget, LevelView
from accountant.views.usage import UsageView
from accountant.views.why import Why
from streams.client.reading.awaited import AwaitedReads

T = TypeVar("T")


class WaitedReads:
    """The reading half of `Accountant`."""

    _client: AwaitedReads

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    def datasets(self) -> list[DatasetView]:
        """Return every dataset, by name."""
        return self._call(self._client.datasets())

    def ordered_before(self) -> int | None:
        """As `Service.ordered_before`."""
        return self._call(self._client.ordered_before())

    def dataset(self, name: str) -> DatasetView | None:
        """Return one dataset, None if it was never opened."""
        return self._call(self._client.dataset(name))

    def heads(self) -> list[Head]:
        """Return the end of each partition's log.

        Kept where whoever runs the ledger cannot change them, they show later that nothing was cut
        off or written anew: `accountant audit --head`, and `--checkpoints` for signed ones.
        """
        return self._call(self._client.heads())

    def members(self, dataset: str) -> list[Member]:
        """Return a dataset's members by name, those whose time is over among them.

        A door tells owners, auditors and administrators of all, others of themselves alone.
        """
        return self._call(self._client.members(dataset))

    def limits(self, dataset: str) -> list[LevelView]:
        """Return a dataset's limits that are in force, by scope and name, with what is used.

        A door tells owners, auditors and administrators of all, others of those they stand under.
        """
        return self._call(self._client.limits(dataset))

    def budget(self, dataset: str, analyst: str | None = None) -> AnalystBudget:
        """Return what an analyst may still use of a dataset: its rest, and each limit.

        Args:
            analyst: without it the client's own, or whom the door knows the client as.
        Raises: RequestInvalid: no name is known, or the dataset was never opened.
        """
        return self._call(self._client.budget(dataset, analyst))

    def budgets(self, analyst: str | None = None) -> list[AnalystBudget]:
        """Return what an analyst may still use, dataset by dataset; closed ones are left out.

        A door answers for the one whom the token stands for; of others, for the datasets of which
        the token sees all. Of a file or on Kafka, every dataset is there.

        Raises:
            RequestInvalid: no name is known.
            NotPermitted: another's, and there is no dataset of which the token sees all.
        """
        return self._call(self._client.budgets(analyst))

    def me(self) -> Me:
        """Return whom the ledger knows this client as; nobody in a file and on Kafka.

        Raises: Unauthenticated: the door wants a token, or knows no such one.
        """
        return self._call(self._client.me())

    def usage(self, dataset: str) -> list[UsageView]:
        """Return who used a dataset, by analyst, since its log began.

        Raises: Unavailable: the index of usage is still behind; ask again.
        """
        return self._call(self._client.usage(dataset))

    def why(self, dataset: str, *, analyst: str | None = None) -> Why | None:
        """Return who used a dataset, for what and when, and how much longer it lasts.

        Forecasts are arithmetic about the past, and promise nothing. None if it was never opened.

        Args:
            analyst: whose row and forecast are there in any case, however little they spent; to
                others than those who see what all have asked, a door tells their own alone.
        Raises: Unavailable: the index of usage is still behind; ask again.
        """
        return self._call(self._client.why(dataset, analyst=analyst))
