"""One client's stream: first from the log, as far as the client is behind, then live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from accountant.errors import BudgetError
from accountant.views.alerts import alerts_of_waiting, limit_alerts_of_view
from accountant.views.datasets import DatasetView, alerts
from accountant.views.limit_views import ScopeView
from accountant.views.visibility import WHOLE, DatasetAccess, sees_alert
from streams.errors import Gone
from streams.gateway.events.event import EventFilter, LogEvent, alert_event
from streams.gateway.events.position import Position
from streams.gateway.events.replay_buffer import SLICE, ReplayBuffer
from streams.service.ledger_service import LedgerService
from streams.service.visibility import Visibility
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
MAX_BEHIND: Final = 20_000
"""Decisions read from the log for one client; a client further behind must page through them."""
PIECE_BYTES: Final = 65_536  # bounds the memory for a client that does not read
_KEEP_ALIVE_S: Final = 15.0
_BATCH: Final = 100  # datasets between two yields to the event loop
_MAX_UNSENT: Final = 1_000  # filtered decisions, after which the client gets its new position


class PositionNotInLog(Exception):
    """A client's position does not exist in this log."""


async def check_position(service: LedgerService, buffer: ReplayBuffer, position: Position) -> None:
    """Check that a client can resume at a position, and wait until this server has reached it.

    Raises:
        PositionNotInLog: the log has other decisions there, or none.
        Gone: the position is too far back, or archived.
        Unavailable.
    """
    count = service.partitions
    if len(position.numbers) != count:
        raise PositionNotInLog(
            f"it names {len(position.numbers)} partitions, and this ledger has {count}"
        )
    if position == buffer.position:
        return
    lasts = list[tuple[int, bytes]]()
    for partition, (number, needed) in enumerate(
        zip(position.numbers, position.needed(), strict=True)
    ):
        # Ask the log, not the buffer: another server may be ahead of this one. Read the next
        # decision too: it may be archived, although decision 0 never is.
        more = number < max(needed, buffer.position.numbers[partition])
        found = await service.log.read(partition, number, 1 + more)
        if len(found) < needed + 1 - number:
            raise PositionNotInLog(f"partition {partition} has no decision {needed} yet")
        lasts.append((number, found[0]))
    if Position.of(lasts).mark != position.mark:
        raise PositionNotInLog(
            "the log has other decisions there: it is another ledger, or one restored from a copy"
        )
    await buffer.reach(position.needed())
    behind = _behind(position, buffer.position)
    if behind > MAX_BEHIND:
        raise Gone(f"the log has {behind} newer decisions, and a stream sends at most {MAX_BEHIND}")


def _behind(position: Position, end: Position) -> int:
    return sum(
        max(0, last - number) for number, last in zip(position.numbers, end.numbers, strict=True)
    )


class EventStream:
    """Yields one client's events from a position on, in pieces of whole events.

    Args:
        position: where to begin; None for from now on.
        visibility: the client's visibility, checked again before each piece; None for all.
    """

    def __init__(
        self,
        service: LedgerService,
        buffer: ReplayBuffer,
        wanted: EventFilter,
        position: Position | None,
        visibility: Visibility | None = None,
    ) -> None:
        self._service = service
        self._buffer = buffer
        self._wanted = wanted
        self._visibility = None if visibility is None or visibility.is_whole else visibility
        self._is_new = position is None
        self._position = buffer.position if position is None else position
        self._place = buffer.next if position is None else None
        self._unsent = 0
        self._last_sent = 0.0

    async def pieces(self, before: list[DatasetView]) -> AsyncIterator[bytes]:
        """Yield pieces until the buffer ends."""
        if self._is_new:
            yield b": decisions and alerts from now on\n\n"
        else:
            yield b": decisions and alerts from Last-Event-ID on\n\n"
        for piece in past_alerts(before, self._wanted, self._visibility):
            yield piece
            await asyncio.sleep(0)  # very many datasets take most of a second
        async for piece in self._past_limit_alerts(before):
            yield piece
        yield self._position_line()
        try:
            while not self._buffer.ended:
                async for piece in self._next():
                    yield piece
                if self._is_quiet():
                    yield b": still here\n" + self._position_line()
        except BudgetError as error:
            # The response has begun, so it can carry no error: a reconnecting client gets it.
            _log.info("stream_of_events_ended", why=str(error))

    async def _past_limit_alerts(self, views: list[DatasetView]) -> AsyncIterator[bytes]:
        """Yield alerts of the thresholds that limits have reached, and of requests that wait."""
        for number, view in enumerate(views, 1):
            if number % _BATCH == 0:
                await asyncio.sleep(0)
            if self._wanted.dataset not in {None, view.dataset}:
                continue
            access = self._access(view.dataset)
            if access is None:
                continue
            piece = list[bytes]()
            for level in await self._limits_of(view.dataset):
                for alert in limit_alerts_of_view(view, level):
                    if sees_alert(access, alert):
                        piece.append(alert_event(alert))
            if view.policy.approve_above:
                waiting = await self._service.pending(view.dataset)
                for alert in alerts_of_waiting(view, waiting):
                    if sees_alert(access, alert):
                        piece.append(alert_event(alert))
            if piece:
                yield b"".join(piece)

    async def _limits_of(self, dataset: str) -> list[ScopeView]:
        """Return the limits of a dataset, and the client's own use under a default."""
        levels = await self._service.levels(dataset)
        caller = None if self._visibility is None else self._visibility.caller
        if caller is None or all(level.scope != "each" for level in levels):
            return levels
        own = await self._service.budget_for(dataset, caller.name)
        return levels if own is None else [*levels, *(each for each in own.levels if each.analyst)]

    async def _next(self) -> AsyncIterator[bytes]:
        """Yield the next events; nothing if none come for a while.

        Raises: Gone, Unavailable, LogDamaged.
        """
        place = self._place
        found = None if place is None else self._buffer.since(place)
        if place is None or found is None:
            async for piece in self._from_log():
                yield piece
        elif found:
            self._place = place + len(found)
            async for piece in self._encode_events(found):
                yield piece
        else:
            await self._buffer.more(place, _KEEP_ALIVE_S)

    async def _from_log(self) -> AsyncIterator[bytes]:
        """Yield the missed decisions from the log, in slices, up to the buffer's end."""
        end, place = self._buffer.position, self._buffer.next
        if _behind(self._position, end) > MAX_BEHIND:
            raise Gone(f"a client is more than {MAX_BEHIND} decisions behind")
        begun = self._position.begun
        # Begin with the partition whose next decision the client has in part.
        order = sorted(
            enumerate(end.numbers), key=lambda each: begun is None or each[0] != begun[0]
        )
        for partition, last in order:
            while (known := self._position.numbers[partition]) < last:
                count = min(SLICE, last - known)
                values = await self._service.log.read(partition, known + 1, count)
                if not values:
                    raise Gone(f"partition {partition} has no decision {known + 1}")
                found, position = list[LogEvent](), self._position
                for value in values:
                    found.append(LogEvent(partition, value, position))
                    position = found[-1].after
                async for piece in self._encode_events(found):
                    yield piece
                    await asyncio.sleep(0)
        self._place = place

    async def _encode_events(self, found: Sequence[LogEvent]) -> AsyncIterator[bytes]:
        """Yield the events of some decisions that match the client's filter and visibility."""
        piece, size = list[bytes](), 0
        accesses = dict[str | None, DatasetAccess | None]()
        for log_event in found:
            _, sent = self._position.begun or (0, 0)
            for dataset in log_event.datasets:
                if dataset not in accesses:
                    accesses[dataset] = self._access(dataset)
            event = log_event.encoded(self._wanted, sent=sent, access_of=accesses.get)
            self._position = log_event.after
            self._unsent += 1
            if event:
                piece.append(event)
                size += len(event)
                self._unsent = 0
            if size >= PIECE_BYTES:
                yield self._now(b"".join(piece))
                piece, size = [], 0
                accesses.clear()  # a slow reader may have lost its role meanwhile
        if piece:
            yield self._now(b"".join(piece))

    def _access(self, dataset: str | None) -> DatasetAccess | None:
        return WHOLE if self._visibility is None else self._visibility.at(dataset)

    def _position_line(self) -> bytes:
        """Return a line with the position alone, which clients do not take for an event."""
        self._unsent = 0
        return self._now(b"id: %s\n\n" % str(self._position).encode())

    def _now(self, piece: bytes) -> bytes:
        self._last_sent = asyncio.get_running_loop().time()
        return piece

    def _is_quiet(self) -> bool:
        seconds = asyncio.get_running_loop().time() - self._last_sent
        return self._unsent >= _MAX_UNSENT or seconds >= _KEEP_ALIVE_S


def past_alerts(
    views: list[DatasetView], wanted: EventFilter, visibility: Visibility | None = None
) -> Iterator[bytes]:
    """Yield alerts for the thresholds that datasets have reached so far, in batches."""
    piece, size = list[bytes](), 0
    for view in views:
        if wanted.dataset not in {None, view.dataset}:
            continue
        if visibility is not None and visibility.of(view.dataset, view.policy) is None:
            continue
        for alert in alerts(None, view):
            piece.append(alert_event(alert))
            size += len(piece[-1])
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
