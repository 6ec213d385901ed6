"""`AsyncMechanismSession`: one run of a reservation, for programs with an event loop."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from streams.client._async.sender import AsyncRequestSender
from streams.client.connection.connection import AsyncConnection
from streams.client.releases.grants import POLL_S
from streams.client.releases.run_check import check_run
from streams.client.requests.request_notes import OPEN_SESSION, OnError, note_request
from streams.client.requests.requests import PreparedRequest, Unanswered, error_text
from streams.client.sessions.session_record import (
    WHOLE,
    OneStep,
    OutOfOrder,
    SessionRecord,
    check_process,
)
from streams.errors import AccountantWarning, Refused, Unavailable
from streams.replies.reply import Reply, awaitable_call

_NOT_ENTERED: Final = "not entered"
_OPEN: Final = "open"
_CLOSED: Final = "closed"


class AsyncMechanismSession:
    """A reservation, for one run of a mechanism: the context of one `async with` block.

    Entering reserves the maximum. `run` begins and runs the mechanism. Leaving settles: a claim
    of several levels at the last one that `show` stored, any other claim in full. An error in
    the block, a cancellation or a crash settles in full. A session that never ran is voided, and
    nothing stays charged.

    A session belongs to the process that made it, and does one step at a time. A program that
    runs again under the same name (`once`) ends the session that it left, and gets the stored
    answers.

    Attributes:
        reply: the ledger's answer to the request; None where an earlier run has it.
    """

    def __init__(
        self,
        sender: AsyncRequestSender,
        connection: AsyncConnection,
        open_record: Callable[[], Awaitable[SessionRecord]],
        *,
        wait: float,
    ) -> None:
        self._sender = sender
        self._connection = connection
        self._open_record = open_record
        self._wait = wait
        self._state = _NOT_ENTERED
        self._made_by = os.getpid()
        self._step = threading.Lock()
        self._has_run = False
        self._draw: Callable[[str], Any] | None = None
        self._found: SessionRecord | None = None
        self.reply: Reply | None = None

    @property
    def shown(self) -> str | None:
        """The last level that was shown, None before the first."""
        last = None if self._found is None else self._found.shown
        return last or None

    @property
    def request_id(self) -> str:
        """The id of the request that reserved."""
        return self._record.call.request_id

    @property
    def grant(self) -> str:
        """The hash of the decision that reserved, which a claim may name in `continues`."""
        return self._record.grant

    async def __aenter__(self) -> Self:
        check_process(self._made_by)
        with self._one_step():
            if self._state is not _NOT_ENTERED:
                raise OutOfOrder("a session is entered once. Call `reserve` for another one")
            self._state = _OPEN
        try:
            self._found = await self._open_record()
            with self._found.noting_errors():
                await self._reserve(self._found)
        except BaseException as error:
            await self._connection.complete(self._abandon, error)
            raise
        return self

    async def __aexit__(
        self, _: object, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if os.getpid() != self._made_by:
            if error is None:
                check_process(self._made_by)
            return  # the parent's session continues
        with self._naming_reservation():
            if error is None:
                try:
                    await self._connection.complete(self._close, True)
                except (Unavailable, Refused) as trouble:
                    # An error would lose an answer that is stored nowhere, and that the block has.
                    if not self._record.warning:
                        raise
                    what = f"the session of request_id {self.request_id} could not be ended"
                    warnings.warn(f"{what}: {trouble}", AccountantWarning, stacklevel=2)
            else:
                await self._connection.complete(self._abandon, error)

    @awaitable_call
    async def close(self) -> None:
        """Settle, or void what never ran, as leaving the block does; nothing is shown after it.

        A second call sends the same bytes again where the ledger has not answered.

        Raises: Unanswered: call it again, or run the program again under the same name.
        """
        check_process(self._made_by)
        with self._naming_reservation():
            await self._connection.complete(self._close, True)

    @awaitable_call
    async def run(self, mechanism: Callable[[], Any]) -> Any:
        """Begin, and run the mechanism once; it reads no data before the ledger's answer.

        Returns: the stored result. For a claim of several levels None: the mechanism returns the
            function that draws the answer of a level, and `show` calls it.

        Raises:
            NotGranted: `begin` was refused, such as after the deadline. Nothing ran.
            Unanswered: nothing ran. Call `run` again, or leave the block.
            ResultMissing: another run began. The mechanism does not run again.
            OutOfOrder: it has run.
            TypeError: its result cannot be encoded, so it is not shown.
        Warns: AccountantWarning: the disk does not take the result. It is returned this once.
        """
        with self._one_step():
            record = self._open_session()
            check_run(mechanism, awaited=True, kinds=record.storable_types)
            if self._has_run:
                raise OutOfOrder("the mechanism of a session runs once. Reserve again to run it")
            if record.is_over:
                self._has_run = True
                record.check_replayable()
                return None if record.shows_levels else record.stored_answer(WHOLE)
            begin = await self._connection.run(record.begin)
            then = ". Nothing ran. Call `run` again, or leave the block"
            reply = await self._send(begin, then)
            await self._connection.run(record.start, reply)
            self._has_run = True
            try:
                result = await self._connection.call(mechanism)
                if not record.shows_levels:
                    return await self._store(record, WHOLE, result)
                if not callable(result):
                    raise TypeError(
                        "the mechanism of a claim of several levels must return the function that "
                        f"draws the answer of a level, and returned {type(result).__name__}"
                    )
            except BaseException:
                record.failed = True
                raise
            self._draw = result
            return None

    @awaitable_call
    async def show(self, level: object) -> Any:
        """Draw the answer of a level, store it, and return it as it is stored.

        A session that is over returns its stored answers, and draws none.

        Args:
            level: the variance of a `brownian` claim, or the scale of an `ex_post` claim. It falls
                from one call to the next, from `first` to the least that was reserved.

        Raises:
            RequestInvalid: another level is meant; nothing was drawn.
            ResultMissing: the session is over, and this level was not shown.
            OutOfOrder: `run` comes first, or the mechanism has failed.
            TypeError: the answer cannot be encoded, so it is not shown.
        Warns: AccountantWarning: the disk does not take the answer. It is returned this once, and
            the session settles in full.
        """
        with self._one_step():
            record = self._open_session()
            text = record.check_level(level)
            if record.is_over:
                return record.stored_answer(text)
            if record.failed:
                raise OutOfOrder(
                    "the mechanism has failed, or its answer was not stored, so this session shows "
                    "nothing more"
                )
            if self._draw is None:
                raise OutOfOrder("nothing has begun: call `run` with the mechanism first")
            try:
                answer = await self._connection.call(self._draw, text)
                return await self._store(record, text, answer)
            except BaseException:
                record.failed = True
                raise

    async def _store(self, record: SessionRecord, level: str, answer: Any) -> Any:
        """Store an answer, and return it; warn where the disk does not take it."""
        stored = await self._connection.run(record.add, level, answer)
        if record.warning:
            warnings.warn(record.warning, AccountantWarning, stacklevel=4)
        return stored

    async def _reserve(self, record: SessionRecord) -> None:
        """Reserve, or end what an earlier run has left."""
        while True:
            while (row := await self._connection.run(record.enter)) is None:
                await self._connection.pause(POLL_S)
            if row.state in {"running", "closing"}:
                # The process that ran it has ended: what it did not settle is settled in full.
                await self._end(record, complete=False)
                if record.is_over:
                    return
                record.start_new()
                continue
            if row.state == "asked":
                self.reply = await self._sender.reply_to(record.call, self._wait)
                await self._connection.run(record.accept, self.reply)
            return

    def _naming_reservation(self) -> OnError:
        """Put the reservation's id on an error of the session's end: no step's id ends it."""

        def note(error: BaseException) -> None:
            if (record := self._found) is not None and record.is_entered:
                note_request(error, record.call, record.ended or OPEN_SESSION)

        return OnError(note)

    async def _close(self, complete: bool) -> None:
        record, was_busy = self._record, not self._step.acquire(blocking=False)
        try:
            self._state = _CLOSED
            await self._end(record, complete=complete and not was_busy)
        finally:
            if not was_busy:
                self._step.release()
            await self._connection.run(record.leave)

    async def _abandon(self, error: BaseException) -> None:
        """End the session because of an error; the error itself matters more than another one."""
        self._state, record = _CLOSED, self._found
        if record is None or not record.is_entered:
            return
        try:
            await self._close(False)
        except Exception as trouble:
            note_request(error, record.call, f"what it has used stays charged in full ({trouble})")
        else:
            if record.ended:
                note_request(error, record.call, record.ended)

    async def _end(self, record: SessionRecord, *, complete: bool) -> None:
        """Send the step that ends the session, until the ledger has taken it."""
        if record.is_over or not record.is_entered:
            return
        step = await self._connection.run(lambda: record.close(complete=complete))
        while step is not None:
            then = ". Until it is answered, the maximum stays charged. Call `close` again, or run "
            reply = await self._send(step, f"{then}the program again under the session's name")
            step = await self._connection.run(record.end, reply, step)
        if record.was_refused:
            warnings.warn(
                f"the session of request_id {record.call.request_id} was {record.ended}",
                AccountantWarning,
                stacklevel=5,
            )

    async def _send(self, step: PreparedRequest, then: str) -> Reply:
        """Send a step, and say of an error what to do then."""
        try:
            return await self._sender.reply_to(step, self._wait)
        except Unavailable as error:  # also of a client that was closed
            why = error.why if isinstance(error, Unanswered) else error_text(error)
            raise Unanswered(why, then, self.request_id) from error

    @property
    def _record(self) -> SessionRecord:
        if self._found is None:
            raise OutOfOrder("nothing is reserved: use the session in its `with` block")
        return self._found

    def _open_session(self) -> SessionRecord:
        record = self._record
        if self._state is _CLOSED:
            raise OutOfOrder("this session is over: it was settled or voided, and shows no more")
        return record

    def _one_step(self) -> OneStep:
        check_process(self._made_by)
        return OneStep(self._step)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session cannot be copied or pickled: it belongs to its process")
