"""Reads of one dataset that combine several parts: usage, `why`, and the overview."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from accountant.amounts import format_units
from accountant.errors import BudgetError
from accountant.partition import hash_of
from accountant.records import Decision, decode_decision
from accountant.records.header import DecisionHeader, decode_header
from accountant.records.members import Member
from accountant.records.outcomes import Outcome, Reason
from accountant.records.request_names import RequestNames, decode_remark, names_in_request
from accountant.views.asks import visible_asks
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget, ScopeView
from accountant.views.overview import CallerRoles, Overview, RecentRequests, UsageSum
from accountant.views.usage import By, UsageRow, UsageView
from accountant.views.visibility import (
    Caller,
    DatasetAccess,
    redact_decision,
    sees_decision,
    visible_limits,
    visible_why,
)
from accountant.views.why import (
    UsageByKey,
    UsageSums,
    Why,
    first_day,
    remaining_by_scope,
    spenders,
    why_of,
)
from streams.clock import Clock
from streams.errors import Gone, Unavailable
from streams.service.ledger_service import MAX_READ, LedgerService
from streams.service.visibility import Visibility

MOST_RECENT: Final = 20
MOST_RESERVATIONS: Final = 51
_MOST_REMARKS: Final = 5
"""On one request."""
_FIRST, _AT_A_TIME = 60, 1_000
_LONGEST_TROUBLE: Final = 300
_TRIES: Final = 3  # for an overview whose caller's rights change meanwhile


RequestSelector = Callable[[DecisionHeader, RequestNames], bool]
"""Tells which requests are read, by the header of the decision and the names in the request."""


class UsageSource(Protocol):
    """The parts that usage and `why` need."""

    async def dataset(self, name: str) -> DatasetView | None: ...

    async def members(self, dataset: str) -> list[Member]: ...

    async def levels(self, dataset: str) -> list[ScopeView]: ...

    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None: ...

    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]: ...

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None: ...


async def usage_of(source: UsageSource, dataset: str) -> list[UsageView]:
    """As `Service.usage`."""
    return [row.view() for row in await source.usage_by(dataset, "analyst")]


async def why_of_dataset(
    source: UsageSource, dataset: str, *, now: int, analyst: str | None = None
) -> Why | None:
    """As `Service.why`; `now` in milliseconds since 1970."""
    view = await source.dataset(dataset)
    if view is None:
        return None
    sums = await source.sums(dataset, since_day=first_day(now))
    if sums is None:
        return None
    members, levels = await source.members(dataset), await source.levels(dataset)
    return await _why(source, view, sums, members, levels, now, analyst)


async def _why(
    source: UsageSource,
    view: DatasetView,
    sums: UsageSums,
    members: list[Member],
    levels: list[ScopeView],
    now: int,
    analyst: str | None,
) -> Why:
    budgets = dict[str, AnalystBudget]()
    if levels:
        for name in spenders(sums, members, analyst)[1]:
            budget = await source.budget_for(view.dataset, name)
            if budget is not None:
                budgets[name] = budget
    left = remaining_by_scope(view, levels, budgets, {each.team for each in members if each.team})
    # In a thread: thousands of rows would keep the loop from answering others.
    return await asyncio.to_thread(why_of, view, sums, members, now=now, analyst=analyst, left=left)


async def overview_of(
    service: LedgerService, dataset: str, caller: Caller | None, clock: Clock
) -> Overview | None:
    """As `LedgerService.overview`."""
    visibility = Visibility(service, clock, caller)
    for _ in range(_TRIES):
        found = await visibility.dataset(dataset)
        if found is None:
            return None
        overview = await _overview(service, visibility, *found, clock.now())
        if visibility.at(dataset) == found[1]:
            return overview
    raise Unavailable(f"what {dataset} shows changes too often now")


async def _overview(
    service: LedgerService,
    visibility: Visibility,
    view: DatasetView,
    access: DatasetAccess,
    now: int,
) -> Overview:
    """Return an overview for a caller with some access; it takes several steps."""
    dataset, caller = view.dataset, visibility.caller
    (view,) = await visibility.with_joint([view])
    roles = _roles(visibility, view, access)
    members, limits = await service.members(dataset), await service.levels(dataset)
    budget = None
    if caller is not None and roles.asks:
        budget = await service.budget_for(dataset, caller.name)
    held = await service.reservations(dataset, after=0, limit=MOST_RESERVATIONS, access=access)
    waiting = await service.pending(dataset, access=access)
    overview = Overview(
        dataset=view,
        caller=roles,
        members=tuple(each for each in members if access.is_shown(each.member)),
        limits=tuple(visible_limits(access, limits)),
        budget=budget,
        requests=await _recent(service, view, access),
        reservations=held.reservations,
        pending=tuple(waiting[:MOST_RESERVATIONS]),
        asks=tuple(visible_asks(await service.asks(dataset), access)),
    )
    analyst = roles.name if roles.asks else None
    try:
        sums = await service.sums(dataset, since_day=first_day(now))
    except Unavailable as error:  # an index that is behind leaves out this part alone
        return msgspec.structs.replace(overview, trouble=_words(error))
    if sums is None:
        return overview
    why = await _why(service, view, sums, members, limits, now, analyst)
    overview = msgspec.structs.replace(overview, why=visible_why(why, access))
    if not access.sees_requests:
        return overview
    return msgspec.structs.replace(
        overview,
        analysts=_by_key(sums.analysts),
        days=_by_key(sums.days),
        purposes=_by_key(sums.purposes),
    )


def _by_key(rows: Iterable[UsageByKey]) -> tuple[UsageSum, ...]:
    return tuple(
        UsageSum(
            key=row.key, granted=row.granted, refused=row.refused, spent=format_units(row.spent)
        )
        for row in sorted(rows)
    )


def _roles(visibility: Visibility, view: DatasetView, access: DatasetAccess) -> CallerRoles:
    caller = visibility.caller
    return CallerRoles(
        name=None if caller is None else caller.name,
        roles=tuple(sorted(visibility.roles(view.dataset))),
        asks=visibility.asks(view),
        sees_all=access.sees_all,
        sees_requests=access.sees_requests,
    )


async def _recent(
    service: LedgerService, view: DatasetView, access: DatasetAccess
) -> RecentRequests:
    """Return the latest requests; an index that is behind leaves out this part alone."""
    try:
        return await recent_requests(service, view.dataset, access, view.sequence)
    except Unavailable as error:
        return RecentRequests(trouble=_words(error))


def _words(error: Unavailable) -> str:
    text = str(error)
    return text if len(text) <= _LONGEST_TROUBLE else f"{text[:_LONGEST_TROUBLE]}..."


class DecisionSource(Protocol):
    """Pages of decisions."""

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]: ...


async def recent_requests(
    source: DecisionSource,
    dataset: str,
    access: DatasetAccess,
    sequence: int,
    *,
    limit: int = MOST_RECENT,
    selector: RequestSelector | None = None,
) -> RecentRequests:
    """Return the latest requests that concern a caller, back from decision `sequence`.

    One that waited for an approval is left out once it is answered: the answer is among them.

    At most `MAX_READ` decisions are read: all of them may be others'.

    Args:
        selector: which of them; None for all.
    Raises: Unavailable.
    """
    found, read, upto, size = _Recent(access, limit, selector), 0, sequence, _FIRST
    while upto > 0 and not found.is_full and read < MAX_READ:
        after = max(0, upto - size)
        archived = False
        try:
            values = await _between(source, dataset, after, upto)
        except Gone as error:
            values, archived = [], True
            if error.after is not None and after < error.after < upto:
                values = await _between(source, dataset, error.after, upto)
        # In a thread: to decode a thousand decisions takes some milliseconds.
        await asyncio.to_thread(found.take, values)
        if archived:
            read += len(values)
            return found.requests(read=read, archived=True)
        read += upto - after
        upto, size = after, _AT_A_TIME
    return found.requests(read=read, is_whole=upto <= 0)


async def _between(source: DecisionSource, dataset: str, after: int, upto: int) -> list[bytes]:
    """Return the decisions of a dataset from number `after` + 1 to `upto`, in their order."""
    found, limit = list[bytes](), upto - after
    while len(found) < limit:
        # A page is shorter than asked for where decisions are long.
        page = await source.decisions(dataset, after=after + len(found), limit=limit - len(found))
        if not page:
            break
        found += page
    return found


async def last_pause(source: DecisionSource, view: DatasetView) -> Decision | None:
    """Return the decision that has paused a dataset; None if it is not paused, or that is unknown.

    It is looked for among the dataset's latest decisions.
    """
    found = await _latest(source, view, Outcome.PAUSED, 1) if view.paused else []
    return found[0] if found else None


async def latest_releases(source: DecisionSource, view: DatasetView) -> list[Decision]:
    """Return the records of releases made elsewhere, the newest first.

    They are looked for among the dataset's latest decisions.
    """
    if not view.recorded:
        return []
    return await _latest(source, view, Outcome.RECORDED, MOST_RECENT)


async def _latest(
    source: DecisionSource, view: DatasetView, outcome: Outcome, most: int
) -> list[Decision]:
    """Return a dataset's latest decisions with an outcome, the newest first."""
    found, upto, size = list[Decision](), view.sequence, _FIRST
    with suppress(BudgetError):  # they are archived, or the caller may not see them
        while upto > max(0, view.sequence - MAX_READ):
            after = max(0, upto - size)
            for value in reversed(await _between(source, view.dataset, after, upto)):
                if decode_header(value).outcome is outcome:
                    found.append(decode_decision(value))
                if len(found) == most:
                    return found
            upto, size = after, _AT_A_TIME
    return found


class _Recent:
    """Collects the latest requests, the last step of each reservation among them, and remarks.

    Args:
        access: the caller's. `limit`: how many at most. `selector`: as of `recent_requests`.
    """

    def __init__(
        self, access: DatasetAccess, limit: int, selector: RequestSelector | None = None
    ) -> None:
        self._selector = selector
        self._access = access
        self._limit = limit
        self._requests = list[msgspec.Raw]()
        self._requested = list[int]()
        self._last_steps = dict[str, msgspec.Raw]()
        self._steps = dict[int, msgspec.Raw]()
        self._remarks = dict[int, list[msgspec.Raw]]()
        self._answered = set[str]()

    @property
    def is_full(self) -> bool:
        """Whether there are as many requests as are wanted."""
        return len(self._requests) >= self._limit

    def take(self, values: Sequence[bytes]) -> None:
        """Take decisions in their order, before those that were taken so far."""
        for value in reversed(values):
            if self.is_full:
                break
            self._take(value)

    def _take(self, value: bytes) -> None:
        line = decode_header(value)
        if not sees_decision(self._access, line):
            return
        if line.outcome is Outcome.REMARKED:
            on = self._remarks.setdefault(decode_remark(line.request).decision, [])
            if len(on) < _MOST_REMARKS:
                on.append(msgspec.Raw(redact_decision(self._access, line, value)))
            return
        answers = None if line.pending is None else line.pending.request
        if answers and (line.outcome.charges or line.reason is Reason.DENIED):
            self._answered.add(answers)
        elif line.outcome.waits and hash_of(value) in self._answered:
            return  # its answer is listed
        asked = names_in_request(line.request)
        if asked.grant and line.outcome.is_applied:
            shown = msgspec.Raw(redact_decision(self._access, line, value))
            self._last_steps.setdefault(asked.grant, shown)
        elif line.outcome.answers_request and asked.analyst:
            if not self._access.lists(asked.analyst, asked.via, line.sequence):
                return
            if self._selector is not None and not self._selector(line, asked):
                return
            self._requests.append(msgspec.Raw(redact_decision(self._access, line, value)))
            self._requested.append(line.sequence or 0)
            if line.outcome.reserves:
                step = self._last_steps.get(line.part_of or hash_of(value))
                if step is not None:
                    self._steps[line.sequence or 0] = step

    def requests(self, **read: Any) -> RecentRequests:
        """Return what was collected."""
        remarks = {
            number: tuple(self._remarks[number])
            for number in self._requested
            if number in self._remarks
        }
        return RecentRequests(
            decisions=tuple(self._requests), steps=self._steps, remarks=remarks, **read
        )
