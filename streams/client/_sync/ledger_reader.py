# Generated from _async/ledger_reader.py by `make client`: change that file instead.
"""`LedgerReader`: the calls of a client that only read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar, get_args

from accountant.errors import RequestInvalid
from accountant.records import Decision, decode_decision
from accountant.records.coerce import coerce_text, optional_text
from accountant.records.http_bodies import Me
from accountant.records.members import Member
from accountant.views.asks import AskView
from accountant.views.datasets import Alert, DatasetView
from accountant.views.heads import Head
from accountant.views.limit_views import AnalystBudget, ScopeView
from accountant.views.overview import Overview
from accountant.views.pending import PendingView
from accountant.views.period import parse_period
from accountant.views.period_report import PeriodReport
from accountant.views.reservations import ReservationView
from accountant.views.usage import By, UsageRow, UsageView
from accountant.views.why import Why
from streams.client._sync.sender import RequestSender
from streams.client.connection.connection import Connection
from streams.client.connection.lookups import (
    all_reservations,
    find_in_dataset,
    get_budget,
    get_budgets,
    get_me,
    get_ordered_before,
    get_page,
    list_of_dataset,
)
from streams.client.requests.requests import default_analyst
from streams.replies.shown_amounts import with_shown_amounts
from streams.service.dataset_reads import last_pause
from streams.service.ledger_service import Service

T = TypeVar("T")


class LedgerReader:
    """What a ledger shows to a client.

    Attributes:
        analyst: the name in calls without one.
    """

    analyst: str | None
    _connection: Connection
    _sender: RequestSender

    def datasets(self) -> list[DatasetView]:
        """Return all datasets, ordered by name."""
        return with_shown_amounts(self._connection.read(lambda service: service.datasets()))

    def dataset(self, name: str) -> DatasetView:
        """Return one dataset.

        Raises: UnknownDataset: it does not exist.
        """
        name = coerce_text("name", name)
        return self._find(name, lambda service: service.dataset(name))

    def last_pause(self, dataset: str) -> Decision | None:
        """Return the decision that has paused a dataset: who, when, and why.

        None if the dataset is not paused, or if the caller may not see the decision.

        Raises: UnknownDataset: it does not exist.
        """
        view = self.dataset(dataset)
        return self._connection.read(lambda service: last_pause(service, view))

    def ordered_before(self) -> int | None:
        """Return the time before which decision times of different datasets give their order.

        It is in milliseconds since 1970; None if they never do. Call it after `datasets`.
        """
        return self._connection.read(get_ordered_before)

    def heads(self) -> list[Head]:
        """Return the last record of each partition's log.

        Store them where the ledger's operator cannot change them. Later they prove that nothing
        was cut off or rewritten: `accountant audit --head`, or `--checkpoints` for signed ones.
        """
        return self._connection.read(lambda service: service.heads())

    def members(self, dataset: str) -> list[Member]:
        """Return a dataset's members by name, including expired ones.

        A server shows all members to owners, auditors and administrators, and other callers
        only themselves.

        Raises: UnknownDataset: the dataset does not exist.
        """
        dataset = coerce_text("dataset", dataset)
        return self._list(dataset, lambda service: service.members(dataset))

    def asks(self, dataset: str) -> list[AskView]:
        """Return a dataset's asks for more and their answers, the oldest first.

        A server shows all to owners, auditors and administrators, and other callers their own.

        Raises: UnknownDataset: the dataset does not exist.
        """
        dataset = coerce_text("dataset", dataset)
        return self._list(dataset, lambda service: service.asks(dataset))

    def limits(self, dataset: str) -> list[ScopeView]:
        """Return a dataset's limits by scope and name, with their usage.

        A server shows all limits to owners, auditors and administrators, and other callers
        those that apply to them.

        Raises: UnknownDataset: the dataset does not exist.
        """
        dataset = coerce_text("dataset", dataset)
        return self._list(dataset, lambda service: service.levels(dataset))

    def reservations(self, dataset: str) -> list[ReservationView]:
        """Return a dataset's open reservations, in the order of their decisions.

        A server shows all of them to owners, auditors and administrators, and other callers
        their own. A ledger's file shows all.

        Raises: UnknownDataset: the dataset does not exist.
        """
        dataset = coerce_text("dataset", dataset)
        return self._list(dataset, lambda service: all_reservations(service, dataset))

    def pending(self, dataset: str) -> list[PendingView]:
        """Return a dataset's requests that wait for approval, in the order of their decisions.

        A server shows all of them to owners, auditors and administrators, and other callers
        their own. A ledger's file shows all.

        Raises: UnknownDataset: the dataset does not exist.
        """
        dataset = coerce_text("dataset", dataset)
        return self._list(dataset, lambda service: service.pending(dataset))

    def budget(self, dataset: str, analyst: str | None = None) -> AnalystBudget:
        """Return the remaining budget of an analyst on a dataset, with each limit.

        Args:
            analyst: by default the client's own, or the name in the token.
        Raises: RequestInvalid: no name is known. UnknownDataset: the dataset does not exist.
        """
        dataset = coerce_text("dataset", dataset)
        name = optional_text("analyst", analyst) or default_analyst(self.analyst)
        return with_shown_amounts(
            self._connection.read(lambda service: get_budget(service, dataset, name))
        )

    def budgets(self, analyst: str | None = None) -> list[AnalystBudget]:
        """Return the remaining budgets of an analyst, without closed datasets.

        A server returns those of the token's own name. For another analyst, it returns the
        datasets on which the token has full visibility. A file and Kafka return all datasets.

        Raises:
            RequestInvalid: no name is known.
            NotPermitted: another analyst, and the token has full visibility of no dataset.
        """
        name = optional_text("analyst", analyst) or default_analyst(self.analyst)
        return with_shown_amounts(self._connection.read(lambda service: get_budgets(service, name)))

    def me(self) -> Me:
        """Return the caller that the ledger authenticates; nobody for a file and on Kafka.

        Raises: Unauthenticated: the server requires a token, or does not know this one.
        """
        return self._connection.read(get_me)

    def usage(self, dataset: str) -> list[UsageView]:
        """Return the usage of a dataset by analyst, since its log began.

        Raises:
            UnknownDataset: the dataset does not exist.
            Unavailable: the usage index lags behind the log; ask again.
        """
        dataset = coerce_text("dataset", dataset)
        return self._list(dataset, lambda service: service.usage(dataset))

    def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        """Return the usage of a dataset by analyst, purpose, day or month, ordered by key.

        Raises:
            UnknownDataset: the dataset does not exist.
            NotPermitted: the server hides other analysts' requests, and `by` is not `analyst`.
            Unavailable: the usage index lags behind the log; ask again.
        """
        dataset = coerce_text("dataset", dataset)
        if by not in get_args(By):
            raise RequestInvalid("by", f"must be one of {', '.join(get_args(By))}", by)
        return self._list(dataset, lambda service: service.usage_by(dataset, by))

    def overview(self, dataset: str) -> Overview:
        """Return everything that the page of a dataset shows.

        A server shows what the token's caller may see; a file and Kafka show everything.

        Raises: UnknownDataset: the dataset does not exist.
        """
        dataset = coerce_text("dataset", dataset)
        return self._find(dataset, lambda service: service.overview(dataset, None))

    def why(self, dataset: str, *, analyst: str | None = None) -> Why:
        """Return the usage of a dataset by analyst, purpose and time, and how long it will last.

        Forecasts extrapolate past usage; they guarantee nothing.

        Args:
            analyst: whose row and forecast are always included. A server shows callers without
                full visibility only their own.

        Raises:
            UnknownDataset: the dataset does not exist.
            Unavailable: the usage index lags behind the log; ask again.
        """
        dataset, analyst = coerce_text("dataset", dataset), optional_text("analyst", analyst)
        return self._find(dataset, lambda service: service.why(dataset, analyst=analyst))

    def report(
        self, dataset: str, *, month: str = "", first: str = "", last: str = ""
    ) -> PeriodReport:
        """Return what was asked, granted and spent in a period, by month, team and purpose.

        It also has tables by analyst and by outcome.

        Args:
            month: such as `2026-10`; or `first` and `last`, days such as `2026-10-01`, in UTC. By
                default, all time.

        Raises:
            UnknownDataset: the dataset does not exist.
            NotPermitted: the server hides other analysts' requests.
        """
        dataset = coerce_text("dataset", dataset)
        period = parse_period(
            coerce_text("month", month), coerce_text("first", first), coerce_text("last", last)
        )
        return self._find(dataset, lambda service: service.report(dataset, period))

    def decision(self, dataset: str, analyst: str, request_id: str) -> Decision | None:
        """Return the decision on a request of the last hour, None if there is none.

        Older decisions are in the log: `accountant log export --id`.

        Raises: UnknownDataset: the dataset does not exist.
        """
        dataset = coerce_text("dataset", dataset)
        analyst = coerce_text("analyst", analyst)
        request_id = coerce_text("request_id", request_id)
        found = self._connection.read(lambda service: service.find(dataset, analyst, request_id))
        if found is None:
            self.dataset(dataset)  # raises for a misspelt name
            return None
        decision = decode_decision(found)
        self._sender.matching.check_lookup(dataset, analyst, request_id, decision)
        return decision

    def requests(self, dataset: str, *, after: int = 0) -> Iterator[Decision]:
        """Yield the numbered decisions on a dataset in order, to the last one.

        Repeats and other decisions without a number in the dataset are left out.

        Args:
            after: start after the decision with this number.

        Raises:
            UnknownDataset: the dataset does not exist.
            Gone: the next decision is in an archive.
            Unavailable: the index lags behind the log; resume after the last decision.
        """
        found = self._page(dataset, after)
        if not found:
            self.dataset(dataset)  # raises for a misspelt name
        while found:
            yield from found
            after = found[-1].sequence or after
            found = self._page(dataset, after)

    def _find(self, dataset: str, read: Callable[[Service], Coroutine[Any, Any, T | None]]) -> T:
        return with_shown_amounts(
            self._connection.read(lambda service: find_in_dataset(service, dataset, read))
        )

    def _list(
        self, dataset: str, read: Callable[[Service], Coroutine[Any, Any, list[T]]]
    ) -> list[T]:
        return with_shown_amounts(
            self._connection.read(lambda service: list_of_dataset(service, dataset, read))
        )

    def _page(self, dataset: str, after: int) -> list[Decision]:
        return self._connection.read(lambda service: get_page(service, dataset, after))

    def events(self) -> Iterator[Decision]:
        """Yield new decisions as they become visible.

        A stream from a server reconnects where it was cut: nothing is lost, nothing comes twice.
        In process, a reader that is too slow loses the oldest decisions.

        Raises: Unavailable: the server does not come back. Gone: the stream was cut too long ago;
            read the missing decisions with `requests`.
        """
        return self._connection.stream(lambda service: service.events())

    def alerts(self) -> Iterator[Alert]:
        """Yield alerts when thresholds are reached; `datasets` and `limits` have earlier ones."""
        return self._connection.stream(lambda service: service.alerts())
