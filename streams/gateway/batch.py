"""POST /requests/batch: many requests in one body, each decided as if sent alone."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, cast

import msgspec
from litestar import post
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from accountant.records.inputs import Undecodable
from accountant.records.outcomes import Reason
from streams.auth.principal import principal_of
from streams.errors import Unavailable
from streams.gateway.batch_lines import Line, LineGroup
from streams.gateway.contract.openapi import BatchOperation
from streams.gateway.submit import wait_of, wrong_content_type
from streams.http.context import HttpRequest, context_of
from streams.http.problems import NDJSON, HTTPProblem, oversize, problem
from streams.ndjson import LineSplitter
from streams.telemetry.trace_context import current_exchange

MAX_LINES: Final = 1_000
MAX_BATCH_BYTES: Final = 8 << 20
MAX_UNDECIDED: Final = 500
"""Lines of one batch that are decided at a time."""
MAX_HELD_BYTES: Final = 4 << 20
"""Bytes of undecided lines and unsent responses of one batch. Beyond it no more is read."""
MAX_BATCHES: Final = 16
"""Batches of one server at a time."""
MAX_BATCHES_OF_ONE: Final = 4
"""Batches of one authenticated caller at a time. Without authentication nobody has a name."""
_MEDIA_TYPES: Final = (NDJSON, "application/ndjson")
_PIECE_BYTES: Final = 65_536
_RETRY_AFTER_S: Final = 1
_TOO_MANY_LINES: Final = f"the body must have at most {MAX_LINES:,} lines: the rest was not decided"
_TOO_LONG: Final = f"the body must be at most {MAX_BATCH_BYTES} bytes"


@post(
    "/requests/batch",
    operation_class=BatchOperation,
    status_code=200,
    tags=["requests"],
    request_max_body_size=None,  # checked as it is read
)
async def submit_batch(request: HttpRequest) -> ASGIResponse:
    """Ask to run many mechanisms, one request a line.

    At most 1,000 lines and 8 MiB. Each line is authorized, counted in the rate limit, decided and
    shown as if sent alone to POST /requests. The response has one line for each line, in order:
    the decision, the problem, or `pending` with a `location` if it is not decided in time. A
    problem changes nothing for other lines: the batch is not atomic. Empty lines get a problem too.
    Decisions are sent while the body is still being read. After a cut, send the same bytes again:
    a decided line is not charged twice. `Prefer: replay=original` does nothing here: a repeated
    line stays `repeated`.
    """
    wrong = wrong_content_type(request, _MEDIA_TYPES)
    if wrong is not None:
        raise HTTPProblem(wrong)
    if int(request.headers.get("content-length") or 0) > MAX_BATCH_BYTES:
        raise HTTPProblem(oversize(_TOO_LONG))
    caller = principal_of(request)
    open_batches: OpenBatches = request.app.state.setdefault("batches", OpenBatches())
    slot = open_batches.begin(None if caller is None else caller.name)
    try:
        # Start the response after the first bytes: a client may wait for `100 Continue` until then.
        first = await _Body(request).read()
        if first is not None and not first.content and first.is_last:
            what = "the body must have a line: send one request a line"
            raise Undecodable(Reason.UNDECODABLE, what)
    except BaseException:
        slot.close()
        raise
    return _BatchResponse(slot, request, first)


class OpenBatches:
    """The server's open batches, of which each occupies memory."""

    def __init__(self) -> None:
        self._open: set[_Slot] = set()

    def begin(self, name: str | None) -> _Slot:
        """Register a batch.

        Args:
            name: the caller; None without authentication.
        Raises: Unavailable: the server has too many. HTTPProblem: the caller has too many.
        """
        own = 0 if name is None else sum(each.name == name for each in self._open)
        if own >= MAX_BATCHES_OF_ONE:
            what = (
                f"{name} has {own} open batches, the limit of one caller: send this one again "
                "when one of them has ended"
            )
            headers = {"Retry-After": str(_RETRY_AFTER_S)}
            raise HTTPProblem(problem(429, "too_many_batches", what, headers=headers))
        if len(self._open) >= MAX_BATCHES:
            raise Unavailable(
                f"this server has {MAX_BATCHES} open batches, its limit: send this one again later"
            )
        slot = _Slot(self._open, name)
        self._open.add(slot)
        return slot


class _Slot:
    """One batch's place among the open ones."""

    def __init__(self, among: set[_Slot], name: str | None) -> None:
        self._among = among
        self.name = name

    def close(self) -> None:
        """Unregister the batch. Safe to repeat."""
        self._among.discard(self)


class _Piece(msgspec.Struct, frozen=True):
    content: bytes
    is_last: bool


class _Body:
    """The body of a request as a stream: nothing is read before it is asked for."""

    def __init__(self, request: HttpRequest) -> None:
        self._receive = request.receive

    async def read(self) -> _Piece | None:
        """Return the next bytes, None if the client has disconnected."""
        while True:
            message: Any = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            piece = _Piece(message.get("body", b""), not message.get("more_body", False))
            if piece.content or piece.is_last:
                return piece


class _BatchResponse(ASGIResponse):
    """The response to a batch; it frees the batch's slot however it ends."""

    def __init__(self, slot: _Slot, request: HttpRequest, first: _Piece | None) -> None:
        super().__init__(media_type=NDJSON, status_code=200)
        self._slot = slot
        self._batch = _Batch(request, first)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            head = {"type": "http.response.start", "status": 200}
            await send(cast(Any, head | {"headers": [(b"content-type", NDJSON.encode())]}))
            async for piece in self._batch.run():
                body = {"type": "http.response.body", "body": piece, "more_body": True}
                await send(cast(Any, body))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._slot.close()
            await self._batch.close()


class _Batch:
    """Decides the lines of a body as they arrive, a bounded number at a time.

    A client may send the whole body before it reads a response. So lines are read while responses
    wait to be sent, up to `MAX_HELD_BYTES`.

    Args:
        first: the first bytes of the body, None if the client has disconnected.
    """

    def __init__(self, request: HttpRequest, first: _Piece | None) -> None:
        self._request = request
        self._first = first
        self._body = _Body(request)
        self._max_line = context_of(request).settings.most_body
        self._wait = wait_of(request.headers.get("prefer"))
        self._groups: deque[asyncio.Task[bytes]] = deque()
        self._undecided = 0
        self._held = 0
        self._has_room = asyncio.Event()
        self._has_news = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._is_cut = False  # the client has disconnected, and reads no response

    async def run(self) -> AsyncIterator[bytes]:
        """Yield the responses in the order of the lines, those that are ready as one piece."""
        self._reading = asyncio.create_task(self._read_lines(), name="lines of a batch")
        self._reading.add_done_callback(lambda _: self._has_news.set())
        while (self._groups or not self._reading.done()) and not self._is_cut:
            self._has_news.clear()
            ready, size = list[bytes](), 0
            while self._groups and self._groups[0].done() and size < _PIECE_BYTES:
                ready.append(self._groups.popleft().result())
                size += len(ready[-1])
            if not ready:
                await self._has_news.wait()
                continue
            yield b"".join(ready)
            self._held -= size
            self._has_room.set()
        await self._reading  # raises what has ended it

    async def close(self) -> None:
        """Stop. A line that was appended is still decided."""
        tasks: list[asyncio.Task[Any]] = [*self._groups]
        if self._reading is not None:
            tasks.append(self._reading)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_lines(self) -> None:
        number, exchange = 0, current_exchange()
        async for lines in self._each_piece():
            if number > MAX_LINES:
                continue  # read to the end: closing the connection now could lose sent responses
            group = self._new_group()
            for line in lines:
                number += 1
                if exchange is not None:
                    exchange.lines = number
                if number > MAX_LINES:
                    await group.add(oversize(_TOO_MANY_LINES), is_first=False)
                    break  # the rest is not even split: it may be millions of lines
                if self._is_full(group):
                    await self._start(group)
                    await self._until_room()
                    group = self._new_group()
                await group.add(line, is_first=number == 1)
            await self._start(group)

    def _new_group(self) -> LineGroup:
        return LineGroup(self._request, self._wait)

    def _is_full(self, group: LineGroup) -> bool:
        undecided, held = self._undecided + len(group), self._held + group.size
        return undecided >= MAX_UNDECIDED or held >= MAX_HELD_BYTES

    async def _start(self, group: LineGroup) -> None:
        """Have the lines of a group decided; groups are appended in the order of these calls."""
        if group:
            self._add(group)
            await asyncio.sleep(0)  # starts the group's task

    async def _until_room(self) -> None:
        while self._undecided >= MAX_UNDECIDED or self._held >= MAX_HELD_BYTES:
            self._has_room.clear()
            await self._has_room.wait()

    async def _each_piece(self) -> AsyncIterator[Iterator[Line]]:
        """Yield the lines that each piece of the body completes, with problems in their places.

        Nothing of an incomplete body's last line: shortened by a cut, it may still be valid JSON.
        """
        splitter, size = LineSplitter(self._max_line), 0
        too_long = oversize(f"the body must be at most {self._max_line} bytes")
        piece = self._first
        while piece is not None:
            size += len(piece.content)
            if size > MAX_BATCH_BYTES:
                yield iter([oversize(f"{_TOO_LONG}: the rest was not decided")])
                return
            lines = splitter.feed(piece.content)
            found = itertools.chain(lines, splitter.end()) if piece.is_last else lines
            yield (too_long if line is None else line for line in found)
            if piece.is_last:
                return
            piece = await self._body.read()
        self._is_cut = True

    def _add(self, group: LineGroup) -> None:
        task = asyncio.create_task(group.decide())
        self._groups.append(task)
        self._undecided += len(group)
        self._held += group.size

        def count(done: asyncio.Task[bytes]) -> None:
            self._undecided -= len(group)
            self._held += (0 if done.cancelled() else len(done.result())) - group.size
            self._has_room.set()
            self._has_news.set()

        task.add_done_callback(count)
