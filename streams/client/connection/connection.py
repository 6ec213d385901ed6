"""Connections of the two clients: one waits in an event loop, one in the caller's thread.

Every difference between the clients is in this file. The sync client's other code is generated
from the async client.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from html import escape
from typing import Any, TypeVar

from accountant.errors import BudgetError
from accountant.records import Decision, decode_decision
from streams.client.connection.connect import NoSuchLedger, connect_file_or_server
from streams.client.connection.retry import GRACE_S
from streams.client.connection.service_kind import token_source_of
from streams.client.connection.shared_files import UsedAfterFork, release
from streams.client.requests.requests import PreparedRequest
from streams.clock import Clock
from streams.embedded.service import EmbeddedService
from streams.errors import Unavailable
from streams.notebooks.display import client_html
from streams.service.ledger_service import Service, Submission
from streams.settings import Settings
from streams.tasks.broadcast import Subscription

T = TypeVar("T")
LoggedDecision = tuple[Decision, bytes | None]
"""A decision, and the bytes of its record in the log where they are known."""
Outcome = LoggedDecision | BudgetError | None
"""Of one call among many: its decision, its error, or None while it is undecided."""


class ConnectedLedger:
    """Holds the service that a client uses, and refuses it in a forked process.

    A file that does not exist is looked for again at each call.

    Args:
        wait: seconds to wait for Kafka, or for a locked file.
        read_only: read a file without a lock.
        replace_ledger: as of `EmbeddedService.open`.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        wait: float,
        read_only: bool = False,
        replace_ledger: bool = False,
    ) -> None:
        self._read_only = read_only
        self._replace_ledger = replace_ledger
        self._settings = settings
        self._clock = clock
        self._wait = wait
        self._service: Service | None = None
        self._file_is_missing = False
        self._connecting = threading.Lock()
        self._made_by = os.getpid()

    @property
    def token_source(self) -> str | None:
        """Where the client's token comes from, None if it sends none."""
        return token_source_of(self._service)

    def attach(self, service: Service) -> None:
        """Use a connected service; `close` closes it."""
        self._made_by = os.getpid()
        self._service, self._file_is_missing = service, False

    def get_service(self, *, create: bool = False) -> Service:
        """Return the service; if the file was missing, look for it again.

        Args:
            create: create the file if it still does not exist.

        Raises:
            UsedAfterFork: another process made the client.
            Unavailable: the client is not connected. NoSuchLedger: there is no file.
            Refused, LogDamaged: see `connect_file_or_server`.
        """
        if os.getpid() != self._made_by:
            raise UsedAfterFork(self._made_by)
        if self._file_is_missing:
            with self._connecting:
                if self._file_is_missing:
                    self._connect(create=create)
        if self._service is None:
            raise Unavailable(
                "this client is not connected: it was closed, or `async with` has not entered it. "
                "Make a new client, or use this one inside its `with`"
            )
        return self._service

    def _connect(self, *, create: bool = False) -> None:
        found = connect_file_or_server(
            self._settings,
            self._clock,
            create=create,
            replace_ledger=self._replace_ledger,
            wait=self._wait,
            read_only=self._read_only,
        )
        self._service, self._file_is_missing = found, False

    def _connect_first(self) -> bool:
        """Connect to a file or a server; return False where the ledger is on Kafka."""
        self._made_by = os.getpid()
        try:
            self._connect()
        except NoSuchLedger:
            self._file_is_missing = True
        return self._file_is_missing or self._service is not None

    async def _connect_to_kafka(self) -> None:
        from streams.kafka.service.connect import connect_kafka

        self._service = await connect_kafka(self._settings, wait=self._wait)

    def _detach(self) -> Service | None:
        """Forget the service; return it if no other client uses it, so that it can be closed."""
        service, self._service, self._file_is_missing = self._service, None, False
        if service is None or os.getpid() != self._made_by:
            return None
        return None if isinstance(service, EmbeddedService) and not release(service) else service


class AsyncConnection(ConnectedLedger):
    """Connection of the async client: waits in the caller's event loop."""

    async def connect(self) -> None:
        """Connect to the ledger.

        Raises: Unavailable: the broker does not answer in time. Others: see
            `connect_file_or_server`.
        """
        if not await asyncio.to_thread(self._connect_first):
            await self._connect_to_kafka()

    async def close(self) -> None:
        """Close the service, unless another client of this process uses it."""
        if (service := self._detach()) is not None:
            await service.close()

    async def reach_service(self, *, create: bool = False) -> Service:
        """Return the service, see `get_service`."""
        if self._file_is_missing:
            return await asyncio.to_thread(self.get_service, create=create)
        return self.get_service()

    async def read(
        self, read: Callable[[Service], Coroutine[Any, Any, T]], *, within: float | None = None
    ) -> T:
        """Run a read of the service.

        Raises: TimeoutError: it takes more than `within` seconds.
        """
        return await _read(await self.reach_service(), read, within)

    async def submit(
        self, service: Service, call: PreparedRequest, wait: float
    ) -> LoggedDecision | None:
        """Send a call once; None if it is not decided within `wait` seconds."""
        return await _submit(service, call, wait)

    async def submit_many(
        self, service: Service, calls: Sequence[PreparedRequest], wait: float
    ) -> list[Outcome]:
        """Send at most `BATCH_LINES` calls once; return an outcome for each, in order."""
        return await _submit_many(service, calls, wait)

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def run(self, step: Callable[..., T], *args: Any) -> T:
        """Call a function in a thread, and wait for its end even if the caller is cancelled."""
        return await run_uncancelled(step, *args)

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a caller's function: await an asynchronous one, run another in a thread."""
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        result = await run_uncancelled(function, *args)
        return await result if inspect.isawaitable(result) else result

    async def complete(self, step: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run steps to their end even if the caller is cancelled."""
        return await complete(step(*args))

    def stream(self, subscribe: Callable[[Service], AsyncIterator[T]]) -> AsyncIterator[T]:
        """Subscribe to a stream of the service."""
        return subscribe(self.get_service())

    def html(self) -> str:
        """Return the ledger's address for a notebook: a display cannot await the datasets."""
        return escape(self._settings.url)


class Connection(ConnectedLedger):
    """Connection of the sync client: connects in its constructor, waits in the caller's thread.

    An embedded ledger decides in the caller's thread. Other services are asynchronous: they run
    in the event loop of a thread, which the first such call starts.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        wait: float,
        read_only: bool = False,
        replace_ledger: bool = False,
    ) -> None:
        super().__init__(
            settings, clock, wait=wait, read_only=read_only, replace_ledger=replace_ledger
        )
        self._loop: LoopThread | None = None
        self._starting = threading.Lock()
        if not self._connect_first():
            self._run_in_loop(self._connect_to_kafka)

    def close(self) -> None:
        """Close the service, unless another client of this process uses it."""
        service = self._detach()
        if isinstance(service, EmbeddedService):
            service.close_sync()
        elif service is not None:
            self._run_in_loop(service.close)
        if self._loop is not None and os.getpid() == self._made_by:
            self._loop.close()
            self._loop = None

    def reach_service(self, *, create: bool = False) -> Service:
        """Return the service, see `get_service`."""
        return self.get_service(create=create)

    def read(
        self, read: Callable[[Service], Coroutine[Any, Any, T]], *, within: float | None = None
    ) -> T:
        """Run a read of the service.

        Raises: TimeoutError: it takes more than `within` seconds.
        """
        found: T = self._run_in_loop(_read, self.get_service(), read, within)
        return found

    def submit(self, service: Service, call: PreparedRequest, wait: float) -> LoggedDecision | None:
        """Send a call once; None if it is not decided within `wait` seconds."""
        if not isinstance(service, EmbeddedService):
            return self._run_in_loop(_submit, service, call, wait)
        decision = service.decide_sync(call.source, call.body, wait, checked=call.checked)
        return None if decision is None else (decision, None)

    def submit_many(
        self, service: Service, calls: Sequence[PreparedRequest], wait: float
    ) -> list[Outcome]:
        """Send at most `BATCH_LINES` calls once; return an outcome for each, in order."""
        return self._run_in_loop(_submit_many, service, calls, wait)

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def run(self, step: Callable[..., T], *args: Any) -> T:
        """Call a function."""
        return step(*args)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a caller's function."""
        return function(*args)

    def complete(self, step: Callable[..., T], *args: Any) -> T:
        """Run steps to their end."""
        return step(*args)

    def stream(self, subscribe: Callable[[Service], AsyncIterator[T]]) -> Iterator[T]:
        """Yield the items of a stream of the service."""

        async def subscribe_in_loop() -> AsyncIterator[T]:
            return subscribe(self.get_service())

        events = self._run_in_loop(subscribe_in_loop)
        try:
            while True:
                try:
                    yield self._run_in_loop(_next, events)
                except StopAsyncIteration:
                    return
        finally:
            if isinstance(events, Subscription):  # a generator ends when its last reader drops it
                events.close()

    def html(self) -> str:
        """Return a table of the datasets for a notebook, or the error where they cannot be read."""
        url = self._settings.url
        try:
            return client_html(url, self.read(lambda service: service.datasets()))
        except BudgetError as error:
            return escape(f"{url}: {error}")

    def _run_in_loop(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        if os.getpid() != self._made_by:
            raise UsedAfterFork(self._made_by)
        with self._starting:  # two threads may start it at once
            if self._loop is None:
                self._loop = LoopThread()
            loop = self._loop
        return loop.call(function, *args)


class LoopThread:
    """Runs coroutines in an event loop of its own thread, until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="ledger-client", daemon=True
        )
        self._thread.start()

    def call(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a coroutine function and return its result; an interrupt cancels it."""
        coroutine = function(*args)
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except BaseException:  # an interrupt
            with contextlib.suppress(ValueError):  # the loop runs it already
                coroutine.close()
            raise
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel the running coroutines and end the thread."""
        self.call(_cancel_others)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def run_uncancelled(step: Callable[..., T], *args: Any) -> T:
    """Call a function in a thread, and wait for its end even if the caller is cancelled."""
    return await complete(asyncio.to_thread(step, *args))


async def complete(steps: Awaitable[T]) -> T:
    """Await steps, and wait for their end even if the caller is cancelled."""
    running = asyncio.ensure_future(steps)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


async def _read(
    service: Service, read: Callable[[Service], Coroutine[Any, Any, T]], within: float | None
) -> T:
    async with asyncio.timeout(within):
        return await read(service)


async def _submit(service: Service, call: PreparedRequest, wait: float) -> LoggedDecision | None:
    async with asyncio.timeout(wait + GRACE_S):
        submit = partial(service.submit, new=True) if call.new else service.submit
        return _logged(await submit(call.source, call.body, wait=wait))


async def _submit_many(
    service: Service, calls: Sequence[PreparedRequest], wait: float
) -> list[Outcome]:
    # No timeout here: it would drop the decisions that are there already. Each service has its own.
    bodies, checked = [call.body for call in calls], [call.checked for call in calls]
    answers = await service.submit_many(bodies, wait=wait, checked=checked)
    return [each if isinstance(each, BudgetError) else _logged(each) for each in answers]


def _logged(answer: Submission) -> LoggedDecision | None:
    record = answer.decision
    if record is None:
        return None
    return (decode_decision(record) if answer.decoded is None else answer.decoded), record


async def _next(events: AsyncIterator[T]) -> T:
    return await anext(events)


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
