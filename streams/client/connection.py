"""How a client waits for its ledger: in an event loop, or in the caller's own thread.

All that the two clients do differently is here; the rest of one is generated from the other.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from html import escape
from typing import Any, TypeVar

from accountant.errors import BudgetError
from accountant.records import Decision, decode_decision
from streams.broadcast import Subscription
from streams.client.connect import NoSuchLedger, connect_here
from streams.client.http.service import HttpService
from streams.client.notebooks.display import client_html
from streams.client.requests import PreparedRequest
from streams.client.retry import GRACE_S
from streams.client.shared_files import UsedAfterFork, release
from streams.clock import Clock
from streams.embedded.service import EmbeddedService
from streams.errors import Unavailable
from streams.service import Service
from streams.settings import Settings

T = TypeVar("T")
Decided = tuple[Decision, bytes | None]
"""A decision, with the log's record where its bytes are known."""


class ConnectedLedger:
    """The service that a client uses, of the process that made the client.

    A file that does not exist is looked for again at each call.

    Args:
        wait: seconds to wait for Kafka, or for a file that another process holds.
        read_only: read a file without a lock, whoever holds it.
    """

    def __init__(
        self, settings: Settings, clock: Clock, *, wait: float, read_only: bool = False
    ) -> None:
        self._read_only = read_only
        self._settings = settings
        self._clock = clock
        self._wait = wait
        self._service: Service | None = None
        self._is_absent = False
        self._looking = threading.Lock()
        self._made_by = os.getpid()

    @property
    def shows_token(self) -> bool:
        """Whether it sends a token."""
        return isinstance(self._service, HttpService) and self._service.has_token

    def attach(self, service: Service) -> None:
        """Use a service that is connected already; `close` closes it."""
        self._made_by = os.getpid()
        self._service, self._is_absent = service, False

    def look(self, *, make: bool = False) -> Service:
        """Return the service in use; where there was no file, look again.

        Args:
            make: make the file if there still is none.

        Raises:
            UsedAfterFork: another process made the client.
            Unavailable: not connected. NoSuchLedger: there is no file.
            Refused, LogDamaged: as `connect_here`.
        """
        if os.getpid() != self._made_by:
            raise UsedAfterFork(self._made_by)
        if self._is_absent:
            with self._looking:
                if self._is_absent:
                    self._find(make=make)
        if self._service is None:
            raise Unavailable(
                "not connected: the client was let go, or is used before its `async with`"
            )
        return self._service

    def _find(self, *, make: bool = False) -> None:
        settings, read_only = self._settings, self._read_only
        found = connect_here(settings, self._clock, make=make, wait=self._wait, read_only=read_only)
        self._service, self._is_absent = found, False

    def _find_first(self) -> bool:
        """Tell whether the ledger is in a file or behind a gateway, and not on Kafka."""
        self._made_by = os.getpid()
        try:
            self._find()
        except NoSuchLedger:
            self._is_absent = True
        return self._is_absent or self._service is not None

    async def _find_on_kafka(self) -> None:
        from streams.kafka.connect import connect_kafka

        self._service = await connect_kafka(self._settings, wait=self._wait)

    def _let_go(self) -> Service | None:
        """Forget the service; return it where it is to be closed."""
        service, self._service, self._is_absent = self._service, None, False
        if service is None or os.getpid() != self._made_by:
            return None
        return None if isinstance(service, EmbeddedService) and not release(service) else service


class AsyncConnection(ConnectedLedger):
    """Waits in the event loop of whoever calls."""

    async def connect(self) -> None:
        """Connect to the ledger.

        Raises: Unavailable: the broker does not answer in time. Others: as `connect_here`.
        """
        if not await asyncio.to_thread(self._find_first):
            await self._find_on_kafka()

    async def close(self) -> None:
        """Close the service, unless another client of this process uses it."""
        if (service := self._let_go()) is not None:
            await service.close()

    async def reached(self, *, make: bool = False) -> Service:
        """Return the service in use, as `look`."""
        if self._is_absent:
            return await asyncio.to_thread(self.look, make=make)
        return self.look()

    async def read(
        self, read: Callable[[Service], Coroutine[Any, Any, T]], *, within: float | None = None
    ) -> T:
        """Return what is read of the service.

        Raises: TimeoutError: it takes more than `within` seconds.
        """
        return await _read(await self.reached(), read, within)

    async def submit(self, service: Service, call: PreparedRequest, wait: float) -> Decided | None:
        """Send a call once; None if it is not decided within `wait` seconds."""
        return await _submit(service, call, wait)

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def run(self, step: Callable[..., T], *args: Any) -> T:
        """Call a function in a thread, and wait for its end even where the caller is cancelled."""
        return await run_to_its_end(step, *args)

    def stream(self, subscribe: Callable[[Service], AsyncIterator[T]]) -> AsyncIterator[T]:
        """Return a stream of the service."""
        return subscribe(self.look())

    def html(self) -> str:
        """Return the ledger's address for a notebook, which cannot wait for more."""
        return escape(self._settings.url)


class Connection(ConnectedLedger):
    """Connected when it is made; waits in the caller's thread.

    An embedded ledger decides there. Other services are asynchronous: they run in the event loop
    of a thread that starts with the first such call.
    """

    def __init__(
        self, settings: Settings, clock: Clock, *, wait: float, read_only: bool = False
    ) -> None:
        super().__init__(settings, clock, wait=wait, read_only=read_only)
        self._loop: LoopThread | None = None
        self._starting = threading.Lock()
        if not self._find_first():
            self._in_loop(self._find_on_kafka())

    def close(self) -> None:
        """Close the service, unless another client of this process uses it."""
        service = self._let_go()
        if isinstance(service, EmbeddedService):
            service.close_sync()
        elif service is not None:
            self._in_loop(service.close())
        if self._loop is not None and os.getpid() == self._made_by:
            self._loop.close()
            self._loop = None

    def reached(self, *, make: bool = False) -> Service:
        """Return the service in use, as `look`."""
        return self.look(make=make)

    def read(
        self, read: Callable[[Service], Coroutine[Any, Any, T]], *, within: float | None = None
    ) -> T:
        """Return what is read of the service.

        Raises: TimeoutError: it takes more than `within` seconds.
        """
        return self._in_loop(_read(self.look(), read, within))

    def submit(self, service: Service, call: PreparedRequest, wait: float) -> Decided | None:
        """Send a call once; None if it is not decided within `wait` seconds."""
        if not isinstance(service, EmbeddedService):
            return self._in_loop(_submit(service, call, wait))
        decision = service.decide_sync(call.source, call.body, wait, checked=call.checked)
        return None if decision is None else (decision, None)

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def run(self, step: Callable[..., T], *args: Any) -> T:
        """Call a function."""
        return step(*args)

    def stream(self, subscribe: Callable[[Service], AsyncIterator[T]]) -> Iterator[T]:
        """Yield what a stream of the service does."""

        async def begin() -> AsyncIterator[T]:
            return subscribe(self.look())

        events = self._in_loop(begin())
        try:
            while True:
                try:
                    yield self._in_loop(_next(events))
                except StopAsyncIteration:
                    return
        finally:
            if isinstance(events, Subscription):  # a generator ends with its last reader
                events.close()

    def html(self) -> str:
        """Return the datasets for a notebook; only the address where they cannot be read."""
        url = self._settings.url
        try:
            return client_html(url, self.read(lambda service: service.datasets()))
        except BudgetError as error:
            return escape(f"{url}: {error}")

    def _in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if os.getpid() != self._made_by:
            coroutine.close()
            raise UsedAfterFork(self._made_by)
        with self._starting:  # two threads may be the first at once
            if self._loop is None:
                self._loop = LoopThread()
            loop = self._loop
        return loop.call(coroutine)


class LoopThread:
    """Runs coroutines in its own thread's event loop; made running, ended by `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="ledger-client", daemon=True
        )
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns; interrupting this cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        self.call(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def run_to_its_end(step: Callable[..., T], *args: Any) -> T:
    """Call a function in a thread, and wait for its end even where the caller is cancelled."""
    taken = asyncio.ensure_future(asyncio.to_thread(step, *args))
    try:
        return await asyncio.shield(taken)
    except asyncio.CancelledError:
        await asyncio.wait([taken])
        raise


async def _read(
    service: Service, read: Callable[[Service], Coroutine[Any, Any, T]], within: float | None
) -> T:
    async with asyncio.timeout(within):
        return await read(service)


async def _submit(service: Service, call: PreparedRequest, wait: float) -> Decided | None:
    async with asyncio.timeout(wait + GRACE_S):
        answer = await service.submit(call.source, call.body, wait=wait)
    record = answer.decision
    return None if record is None else (decode_decision(record), record)


async def _next(events: AsyncIterator[T]) -> T:
    return await anext(events)


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
