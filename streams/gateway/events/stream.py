"""What one client is sent: from the log as far as it is behind, then as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from accountant.errors import BudgetError
from accountant.views.alerts import limit_alerts_of_view
from accountant.views.datasets import DatasetView, alerts
from accountant.views.limit_views import LevelView
from accountant.views.visibility import WHOLE, DatasetAccess, sees_alert
from streams.errors import Gone
from streams.gateway.events.happened import EventFilter, Happened, alert_event
from streams.gateway.events.position import Position
from streams.gateway.events.ring import SLICE, Ring
from streams.logs import get_logger
from streams.service import LedgerService
from streams.visibility import Sight

_log = get_logger(__name__)
MOST_BEHIND: Final = 20_000
"""Decisions that are read from the log for one client before it has to page through them."""
PIECE_BYTES: Final = 65_536  # about the most that is kept for a client that does not read
_ALIVE_S: Final = 15.0
_AT_A_TIME: Final = 100  # datasets whose limits are looked at before others get their turn
_MOST_UNTOLD: Final = 1_000  # decisions that a client does not want, before it is told of them


class NotThisLog(Exception):
    """A position that is none of this log; the message says why."""


async def check(service: LedgerService, ring: Ring, position: Position) -> None:
    """Check that a client can go on from a position, and wait until this door has reached it.

    Raises:
        NotThisLog: the log has other decisions there, or none.
        Gone: it is too far behind, or archived.
        Unavailable.
    """
    count = service.partitions
    if len(position.numbers) != count:
        raise NotThisLog(
            f"it is of {len(position.numbers)} partitions, and this ledger has {count}"
        )
    if position == ring.position:
        return
    lasts = list[tuple[int, bytes]]()
    for partition, (number, needed) in enumerate(
        zip(position.numbers, position.needed(), strict=True)
    ):
        # The log and not the ring says what there is: another door may be ahead of this one. The
        # next one is read as well: it may be archived although decision 0 never is.
        more = number < max(needed, ring.position.numbers[partition])
        found = await service.read_log(partition, number, 1 + more)
        if len(found) < needed + 1 - number:
            raise NotThisLog(f"partition {partition} has no decision {needed} yet")
        lasts.append((number, found[0]))
    if Position.of(lasts).mark != position.mark:
        raise NotThisLog("the log has other decisions there: it is another ledger, or was put back")
    await ring.reach(position.needed())
    behind = _behind(position, ring.position)
    if behind > MOST_BEHIND:
        raise Gone(f"{behind} decisions have come since, and a stream begins {MOST_BEHIND} back")


def _behind(position: Position, end: Position) -> int:
    return sum(
        max(0, last - number) for number, last in zip(position.numbers, end.numbers, strict=True)
    )


class EventStream:
    """The events of one client from a position on; each piece of them is a whole number of events.

    Args:
        position: where to begin; None for from now on.
        sight: what the client sees, looked at anew before anything is sent; None for all.
    """

    def __init__(
        self,
        service: LedgerService,
        ring: Ring,
        wanted: EventFilter,
        position: Position | None,
        sight: Sight | None = None,
    ) -> None:
        self._service = service
        self._ring = ring
        self._wanted = wanted
        self._sight = None if sight is None or sight.is_whole else sight
        self._is_new = position is None
        self._position = ring.position if position is None else position
        self._place = ring.next if position is None else None
        self._untold = 0
        self._last_sent = 0.0

    async def pieces(self, before: list[DatasetView]) -> AsyncIterator[bytes]:
        """Yield what is sent, to the end of the ring."""
        if self._is_new:
            yield b": decisions and alerts from now on\n\n"
        else:
            yield b": decisions and alerts from Last-Event-ID on\n\n"
        for piece in crossed_before(before, self._wanted, self._sight):
            yield piece
            await asyncio.sleep(0)  # of very many datasets they take most of a second to make
        async for piece in self._levels_before(before):
            yield piece
        yield self._told()
        try:
            while not self._ring.ended:
                async for piece in self._next():
                    yield piece
                if self._is_quiet():
                    yield b": still here\n" + self._told()
        except BudgetError as error:
            # The answer has begun: what is wrong is said to whoever connects again.
            _log.info("stream_of_events_ended", why=str(error))

    async def _levels_before(self, views: list[DatasetView]) -> AsyncIterator[bytes]:
        """Yield the alerts of what levels have crossed before, some at a time."""
        for number, view in enumerate(views, 1):
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
            if self._wanted.dataset not in {None, view.dataset}:
                continue
            standing = self._standing(view.dataset)
            if standing is None:
                continue
            piece = list[bytes]()
            for level in await self._levels_of(view.dataset):
                for alert in limit_alerts_of_view(view, level):
                    if sees_alert(standing, alert):
                        piece.append(alert_event(alert))
            if piece:
                yield b"".join(piece)

    async def _levels_of(self, dataset: str) -> list[LevelView]:
        """Return the limits of a dataset, and what a client has used under a default."""
        levels = await self._service.levels(dataset)
        who = None if self._sight is None else self._sight.caller
        if who is None or all(level.scope != "each" for level in levels):
            return levels
        own = await self._service.budget_for(dataset, who.name)
        return levels if own is None else [*levels, *(each for each in own.levels if each.analyst)]

    async def _next(self) -> AsyncIterator[bytes]:
        """Yield what is next, nothing where that takes long.

        Raises: Gone, Unavailable, LogDamaged.
        """
        place = self._place
        found = None if place is None else self._ring.since(place)
        if place is None or found is None:
            async for piece in self._caught_up():
                yield piece
        elif found:
            self._place = place + len(found)
            async for piece in self._sent(found):
                yield piece
        else:
            await self._ring.more(place, _ALIVE_S)

    async def _caught_up(self) -> AsyncIterator[bytes]:
        """Yield from the log what leads to the ring's end, in slices."""
        end, place = self._ring.position, self._ring.next
        if _behind(self._position, end) > MOST_BEHIND:
            raise Gone(f"a client is more than {MOST_BEHIND} decisions behind")
        begun = self._position.begun
        # First the partition of whose next decision the client has a part.
        order = sorted(
            enumerate(end.numbers), key=lambda each: begun is None or each[0] != begun[0]
        )
        for partition, last in order:
            while (known := self._position.numbers[partition]) < last:
                most = min(SLICE, last - known)
                values = await self._service.read_log(partition, known + 1, most)
                if not values:
                    raise Gone(f"partition {partition} has no decision {known + 1}")
                found, position = list[Happened](), self._position
                for value in values:
                    found.append(await Happened.of(self._service, partition, value, position))
                    position = found[-1].after
                async for piece in self._sent(found):
                    yield piece
                    await asyncio.sleep(0)
        self._place = place

    async def _sent(self, found: Sequence[Happened]) -> AsyncIterator[bytes]:
        """Yield the events that the client wants, and sees, of some decisions."""
        piece, size = list[bytes](), 0
        standings = dict[str | None, DatasetAccess | None]()
        for happened in found:
            _, sent = self._position.begun or (0, 0)
            if happened.dataset not in standings:
                standings[happened.dataset] = self._standing(happened.dataset)
            standing = standings[happened.dataset]
            event = happened.encoded(self._wanted, sent=sent, standing=standing)
            self._position = happened.after
            self._untold += 1
            if event:
                piece.append(event)
                size += len(event)
                self._untold = 0
            if size >= PIECE_BYTES:
                yield self._now(b"".join(piece))
                piece, size = [], 0
                standings.clear()  # a client that reads slowly may be no member any more
        if piece:
            yield self._now(b"".join(piece))

    def _standing(self, dataset: str | None) -> DatasetAccess | None:
        return WHOLE if self._sight is None else self._sight.at(dataset)

    def _told(self) -> bytes:
        """Return the position alone: for a client, no event."""
        self._untold = 0
        return self._now(b"id: %s\n\n" % str(self._position).encode())

    def _now(self, piece: bytes) -> bytes:
        self._last_sent = asyncio.get_running_loop().time()
        return piece

    def _is_quiet(self) -> bool:
        seconds = asyncio.get_running_loop().time() - self._last_sent
        return self._untold >= _MOST_UNTOLD or seconds >= _ALIVE_S


def crossed_before(
    views: list[DatasetView], wanted: EventFilter, sight: Sight | None = None
) -> Iterator[bytes]:
    """Yield the alerts of what was crossed before, some at a time."""
    piece, size = list[bytes](), 0
    for view in views:
        if wanted.dataset not in {None, view.dataset}:
            continue
        if sight is not None and sight.of(view.dataset, view.policy) is None:
            continue
        for alert in alerts(None, view):
            piece.append(alert_event(alert))
            size += len(piece[-1])
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
