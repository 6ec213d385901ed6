"""The protocol between servers, clients and a ledger, embedded or on Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from accountant.advice.preview import Preview
from accountant.errors import BudgetError
from accountant.partition import hash_of
from accountant.policy import Policy
from accountant.records import Decision, Source
from accountant.records.inputs import CheckedInput
from accountant.records.members import Member, MemberRow
from accountant.records.previews import PreviewRequest
from accountant.reservations.reservation import Reservation
from accountant.views.asks import AskView
from accountant.views.datasets import Alert, DatasetView
from accountant.views.heads import Head, head_of, ledger_of
from accountant.views.limit_views import AnalystBudget, ScopeView
from accountant.views.overview import Overview
from accountant.views.pending import PendingView
from accountant.views.period import Period
from accountant.views.period_report import PeriodReport
from accountant.views.reservations import OpenReservations, ReservationPage
from accountant.views.usage import By, UsageRow, UsageView
from accountant.views.visibility import WHOLE, Caller, DatasetAccess
from accountant.views.why import UsageSums, Why
from streams.log.async_log import AsyncLog

MAX_READ: Final = 5_000
"""Decisions to read at most for one page, since all of them may be hidden from the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The outcome of a submitted body so far.

    Attributes:
        decision: the bytes of its decision as in the log, None while it is undecided.
        digest: their SHA-256, if the deciding process knows it.
        partition, offset: where the body was appended.
        decoded: the decision itself, where it was decoded already.
    """

    decision: bytes | None
    partition: int
    offset: int | None = None
    digest: bytes | None = None
    decoded: Decision | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether requests are being decided, and if not, why.

    Attributes:
        ready: every part that this process is responsible for works.
        reasons: for each part that does not, the problem and what to do.
        notes: problems that do not keep requests from being decided.
    """

    ready: bool
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()


class Service(Protocol):
    """A ledger, wherever it is stored.

    Raises of every method: streams.errors.Unavailable where the ledger cannot be reached or
    is overloaded; the caller retries with the same bytes.
    """

    async def submit(
        self,
        source: Source,
        body: bytes,
        *,
        wait: float,
        checked: CheckedInput | None = None,
        new: bool = False,
    ) -> Submission:
        """Append a body, unchanged, and wait at most `wait` seconds for its decision.

        Args:
            checked: the result of `inputs.check` for this body, where the caller has it already;
                the body is canonical then, and nothing reads it again.
            new: what a server of HTTP would ask its client back is meant. No other service asks.
        """
        ...

    async def submit_many(
        self,
        bodies: Sequence[bytes],
        *,
        wait: float,
        checked: Sequence[CheckedInput | None] | None = None,
    ) -> list[Submission | BudgetError]:
        """Append requests in their order, and wait at most `wait` seconds for all decisions.

        Each is decided as if `submit` had it alone. Nothing is raised for one of them.

        Args:
            checked: for each body what `submit` takes; None for none.
        Returns: for each body, in order, its answer, or the error that `submit` would raise.
        """
        ...

    async def find(self, dataset: str, caller: str, request_id: str) -> bytes | None:
        """Return the decision on a request whose id is still remembered, None if unknown."""
        ...

    async def datasets(self) -> list[DatasetView]:
        """Return every dataset, by name."""
        ...

    async def dataset(self, name: str) -> DatasetView | None:
        """Return one dataset, None if it was never opened."""
        ...

    async def preview(self, dataset: str, asked: PreviewRequest) -> Preview | None:
        """Return the decision that a request would get now, None if the dataset was never opened.

        Nothing is written. The named analyst's limits apply.
        Raises: RequestInvalid: the claim breaks a rule.
        """
        ...

    async def levels(self, dataset: str) -> list[ScopeView]:
        """Return a dataset's limits that are in force, by scope and name.

        A team's per-analyst default is listed once, without use.
        """
        ...

    async def reservations(
        self, dataset: str, *, after: int, limit: int, access: DatasetAccess = WHOLE
    ) -> ReservationPage:
        """Return a dataset's open reservations in the order of their decisions, a page at a time.

        Args:
            after: only those decided after this number in the dataset.
            limit: how many at most.
            access: the caller's, who sees those that concern them. HTTP clients leave it out: the
                server identifies the caller by the token.
        """
        ...

    async def pending(self, dataset: str, *, access: DatasetAccess = WHOLE) -> list[PendingView]:
        """Return a dataset's requests that wait for approval, in the order of their decisions.

        Args:
            access: as of `reservations`.
        """
        ...

    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None:
        """Return an analyst's remaining budget of a dataset, None if it was never opened."""
        ...

    async def overview(self, dataset: str, caller: Caller | None) -> Overview | None:
        """Return all that a caller sees of a dataset; None if it is unknown or hidden from them.

        Args:
            caller: None without authentication, where everybody sees all. HTTP clients pass None
                too: the server identifies the caller by the token.
        """
        ...

    async def usage(self, dataset: str) -> list[UsageView]:
        """Return who has used a dataset, by analyst, since its log began.

        Raises: Unavailable: the index of usage is behind, or cannot be read.
        """
        ...

    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        """Return who used a dataset, in the order of the keys.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        ...

    async def why(self, dataset: str, *, analyst: str | None = None) -> Why | None:
        """Return who used a dataset, for what and when, and how much longer it lasts.

        None if it was never opened.

        Args:
            analyst: include this analyst's row and forecast, however little they spent.

        Raises: Unavailable: the index of usage is behind, or cannot be read.
        """
        ...

    async def report(
        self, dataset: str, period: Period, *, access: DatasetAccess = WHOLE
    ) -> PeriodReport | None:
        """Return what was asked, granted and spent in a period; None if it was never opened.

        Args:
            access: as of `reservations`; of a caller who `may_report`.
        """
        ...

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        """Return decisions of a dataset as in the log, in the order of their numbers in it.

        A decision over several datasets is as this dataset sees it.

        Returns the `limit` decisions after number `after`, or fewer if they exceed
        `MAX_PAGE_BYTES`; none only at the end. A decision without a number in the dataset, such as
        a repeat, is on no page.

        Raises: Gone: the log's beginning was archived, and the next one with it.
        """
        ...

    async def members(self, dataset: str) -> list[Member]:
        """Return a dataset's members by name, expired ones included."""
        ...

    async def asks(self, dataset: str) -> list[AskView]:
        """Return a dataset's asks for more and their answers, the oldest first."""
        ...

    async def heads(self) -> list[Head]:
        """Return the end of each partition's log."""
        ...

    def ordered_before(self) -> int | None:
        """Return the time before which decisions are ordered by their times.

        As `accountant.views.population.ordered_before`. Call it after `datasets`.
        """
        ...

    def events(self) -> AsyncIterator[Decision]:
        """Yield decisions as they become visible, from now on.

        A subscriber that falls far behind loses the oldest ones; every decision carries
        running totals, so the next one brings it up to date.
        """
        ...

    def alerts(self) -> AsyncIterator[Alert]:
        """Yield an alert for each threshold reached from now on; one may come twice, by its id."""
        ...

    def readiness(self) -> Readiness:
        """Tell whether requests are being decided."""
        ...

    async def close(self) -> None:
        """Close everything; undecided bodies stay undecided."""
        ...


class LedgerService(Service, Protocol):
    """A ledger whose log this process can read: what a server needs."""

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        ...

    def partition_of(self, dataset: str) -> int:
        """Return the partition of a dataset."""
        ...

    def check_is_known(self, dataset: str) -> None:
        """Check that this process knows a dataset if it is open.

        Raises: Unavailable: it may be open, although `dataset` and `datasets` do not show it.
        """
        ...

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        """Return the sums behind `why` and usage, None if the dataset was never opened.

        Args:
            since_day: the first day of each analyst's daily sums, such as `2026-11-23`.
        Raises: Unavailable: the index is behind, or cannot be read.
        """
        ...

    async def dry_run(
        self, dataset: str, records: Sequence[tuple[bytes, CheckedInput]]
    ) -> list[Decision]:
        """Return the decisions that owners' records would get now, one after the other.

        Nothing is written.

        Args:
            records: bodies, and what checking them gave.
        """
        ...

    async def default_levels(self, dataset: str) -> list[ScopeView]:
        """Return what analysts have used under the defaults of their teams, by name."""
        ...

    async def open_reservations(self, dataset: str) -> OpenReservations:
        """Return a dataset's open reservations; none of one that was never opened.

        Raises: Unavailable: they are not known now.
        """
        ...

    def policy(self, dataset: str) -> Policy | None:
        """Return a dataset's policy, None if it was never opened.

        Raises: Unavailable: this is not known now.
        """
        ...

    def member(self, dataset: str, name: str) -> MemberRow | None:
        """Return a person's membership of a dataset, None without any.

        Raises: Unavailable: this is not known now.
        """
        ...

    def open_reservation(self, dataset: str, grant: str) -> Reservation | None:
        """Return an open reservation of a dataset, None for any other grant.

        Raises: Unavailable: this is not known now.
        """
        ...

    def memberships(self, name: str) -> list[MemberRow]:
        """Return all memberships of a person, by dataset.

        Any thread may call it.
        Raises: Unavailable: this is not known now.
        """
        ...

    def decided_at(self, dataset: str) -> int:
        """Return the time of the last decision in a dataset's partition, milliseconds since 1970.

        As far as this process has read the log; 0 where it has read nothing of the partition.
        Raises: Unavailable: nothing is known of it now.
        """
        ...

    @property
    def log(self) -> AsyncLog:
        """The log of decisions, and of those that become visible."""
        ...

    def branch(self, partition: int) -> int | None:
        """Return the number of rollbacks that the log has accepted, None while unknown."""
        ...

    def newest_checkpoint(self, partition: int) -> bytes | None:
        """Return the newest checkpoint that this process has signed, None if it signs none."""
        ...


async def heads_of(service: LedgerService) -> list[Head]:
    """Return the end of each partition's log.

    Raises: as `DecisionLog.read`.
    """
    (first,) = await service.log.read(0, 0, 1)
    ledger, found = ledger_of(first) or hash_of(first), list[Head]()
    for partition in range(service.partitions):
        note = service.newest_checkpoint(partition)  # first: never newer than `value`
        _, value = await service.log.last(partition)
        found.append(head_of(ledger, partition, value, service.branch(partition), note))
    return found
