"""A TCP proxy between Kafka clients and the local broker that breaks chosen messages.

It reads the frames of the Kafka protocol, so a fault strikes one request or one response and not
some number of bytes. Clients bootstrap to `FaultProxy.bootstrap`; the broker's second listener
tells them the proxy's address in all metadata, so they never go around it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from streams.testing import LocalBroker
from tests.faults.frames import (
    UNKNOWN_SERVER_ERROR,
    Action,
    Api,
    Fault,
    Request,
    read_frame,
    with_error,
    with_strange_versions,
    write_frame,
)
from tests.patience import PATIENCE_S

_HOST = "127.0.0.1"
_T = TypeVar("_T")


class FaultProxy:
    """The proxy of one broker, in a thread of its own so that a blocked test does not stop it."""

    def __init__(self, broker: LocalBroker) -> None:
        self._listen = broker.ports.proxy
        self._upstream = broker.ports.proxied
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._seen: list[Request] = []
        self._links: set[_Link] = set()
        self._refuse = False
        self._repeated: dict[bytes, bytes] = {}
        self._stale = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{_HOST}:{self._listen}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def inject(
        self,
        api: Api,
        action: Action,
        *,
        nth: int = 1,
        seconds: float = 0.0,
        client_id: str | None = None,
        code: int = UNKNOWN_SERVER_ERROR,
    ) -> Fault:
        """Let a fault strike the nth request of this kind from now on (of one client)."""
        fault = Fault(api, action, nth, seconds, client_id, code)
        with self._lock:
            self._faults.append(fault)
        return fault

    def sent(self, api: Api, *, client_id: str | None = None) -> list[Request]:
        """Return the requests of this kind that clients have sent, broken ones included."""
        with self._lock:
            return [
                request
                for request in self._seen
                if request.api == api and client_id in {None, request.client_id}
            ]

    def count(self, api: Api, *, client_id: str | None = None) -> int:
        """Return the number of requests of this kind from clients, broken ones included."""
        return len(self.sent(api, client_id=client_id))

    def resend(self, api: Api, *, client_id: str | None = None) -> bytes:
        """Send the latest request of this kind to the broker once more, as a late duplicate.

        Returns: the response body, which begins after the correlation id.
        """
        with self._lock:
            latest = next(
                request
                for request in reversed(self._seen)
                if request.api == api and client_id in {None, request.client_id}
            )
        return self._call(self._exchange(latest.frame))

    @contextmanager
    def away(self) -> Iterator[None]:
        """Make the broker unreachable: connections are reset, new ones too."""
        self._call(self._cut())
        try:
            yield
        finally:
            self._refuse = False

    @contextmanager
    def stale_ends(self) -> Iterator[None]:
        """Repeat the last answer about ends to readers, however far the logs have come.

        So answers a leader that was deposed and does not know it.
        """
        self._stale = True
        try:
            yield
        finally:
            self._stale = False

    def repeated(self, asked: bytes, response: bytes) -> bytes:
        """Return the answer to a question about the ends of logs."""
        with self._lock:
            if self._stale:
                return response[:4] + self._repeated.get(asked, response)[4:]
            self._repeated[asked] = response
            return response

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Hold everything in both directions; afterwards it arrives, late."""
        self._call(self._hold())
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._flow.set)

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        future: Future[_T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(PATIENCE_S)

    async def _open(self) -> None:
        self._flow = asyncio.Event()
        self._flow.set()
        self._late: set[asyncio.Task[None]] = set()
        self._running: set[asyncio.Task[Any]] = set()
        self._server = await asyncio.start_server(self._accept, _HOST, self._listen)

    async def _close(self) -> None:
        self._server.close()
        await self._cut()
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, *self._running, return_exceptions=True)

    async def _cut(self) -> None:
        self._refuse = True
        for link in self._links:
            link.reset()

    async def _hold(self) -> None:
        self._flow.clear()

    async def _exchange(self, frame: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(_HOST, self._upstream)
        try:
            await write_frame(writer, frame)
            return (await read_frame(reader))[4:]
        finally:
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, reader, writer)
        if self._refuse:
            link.reset()
            return
        task = asyncio.current_task()
        assert task is not None
        self._links.add(link)
        self._running.add(task)
        try:
            await link.run(self._upstream)
        finally:
            self._links.discard(link)
            self._running.discard(task)

    async def flow(self) -> None:
        """Return when messages may pass."""
        await self._flow.wait()

    def strike(self, request: Request) -> Fault | None:
        """Record a request and return the fault that is due on it, if any."""
        due: Fault | None = None
        with self._lock:
            self._seen.append(request)
            for fault in self._faults:
                if fault.api == request.api and fault.client_id in {None, request.client_id}:
                    fault.nth -= 1
                    if fault.nth == 0 and due is None:
                        due = fault
            self._faults = [fault for fault in self._faults if fault.nth > 0]
        return due

    def forward_late(self, request: Request, fault: Fault) -> None:
        """Send a request whose client is gone to the broker after the fault's seconds."""

        async def later() -> None:
            await asyncio.sleep(fault.seconds)
            await self._exchange(request.frame)
            fault.struck.set()

        task = self._loop.create_task(later())
        self._late.add(task)
        task.add_done_callback(self._late.discard)


class _Link:
    """One client connection and its connection to the broker."""

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._upstream: asyncio.StreamWriter | None = None
        self._due: dict[int, Fault] = {}
        self._asked: dict[int, bytes] = {}

    async def run(self, port: int) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, self._upstream = await asyncio.open_connection(_HOST, port)
            pumps = [
                asyncio.ensure_future(self._requests(self._upstream)),
                asyncio.ensure_future(self._responses(reader)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        self.reset()

    def reset(self) -> None:
        """Close both sides at once; the client sees a reset, not an orderly end."""
        sock = self._writer.get_extra_info("socket")
        with suppress(OSError):  # the client may have closed it already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        if self._upstream is not None:
            self._upstream.transport.abort()

    async def _requests(self, upstream: asyncio.StreamWriter) -> None:
        while True:
            request = Request.parse(await read_frame(self._reader))
            await self._proxy.flow()
            fault = self._proxy.strike(request)
            if fault is not None:
                if fault.action is Action.FORWARD_LATE:
                    self._proxy.forward_late(request, fault)
                    return
                if fault.action is Action.RESET_BEFORE:
                    fault.struck.set()
                    return
                self._due[request.correlation] = fault
            if request.api == Api.LIST_OFFSETS:
                self._asked[request.correlation] = request.content
            await write_frame(upstream, request.frame)

    async def _responses(self, reader: asyncio.StreamReader) -> None:
        silent = False
        while True:
            response = await read_frame(reader)
            await self._proxy.flow()
            (correlation,) = struct.unpack_from(">i", response)
            fault = self._due.pop(correlation, None)
            asked = self._asked.pop(correlation, None)
            if asked is not None:
                response = self._proxy.repeated(asked, response)
            if fault is not None:
                fault.struck.set()
                if fault.action is Action.RESET_AFTER:
                    return
                if fault.action is Action.ANSWER_ERROR:
                    response = with_error(response, fault.api, fault.code)
                if fault.action is Action.STRANGE_VERSIONS:
                    response = with_strange_versions(response)
                silent = silent or fault.action is Action.LOSE_RESPONSE
                await asyncio.sleep(fault.seconds)
            if not silent:
                await write_frame(self._writer, response)
