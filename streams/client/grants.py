"""A grant tied to its run: what is granted runs once, and what ran is answered once."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec
from msgspec import UNSET

from accountant.claims.text import claim_text
from accountant.display.numbers import left_line
from accountant.display.refusals import refusal_words, when_more
from accountant.errors import BudgetError, RequestInvalid
from accountant.records import MechanismRequest, encode
from accountant.records.coerce import coerce_text
from accountant.records.outcomes import Outcome
from streams.client.connection import run_uncancelled
from streams.client.reply import Reply
from streams.client.request_notes import (
    GRANTED,
    IN_DOUBT,
    NOT_SENT,
    RELEASED,
    OnError,
    note_request,
)
from streams.client.requests import PreparedRequest, RequestDraft, prepare_body
from streams.client.results.codec import decode_result, encode_result, storable_types
from streams.client.results.run_check import check_run
from streams.client.results.store import (
    OtherRun,
    ResultMissing,
    ResultStore,
    SentRequest,
    StillRunning,
    StoredResult,
    Turn,
    ledger_name,
)
from streams.clock import steady
from streams.errors import AccountantWarning

POLL_S: Final = 0.05
"""How often a release looks whether another's run of the same grant has ended."""


_decode_request = msgspec.json.Decoder(MechanismRequest).decode


_LONGEST_NAME: Final = 200
PER_CALL_ARGUMENTS: Final = ("once", "request_id")


class NotGranted(BudgetError):
    """The ledger did not grant the request: nothing may run.

    Attributes:
        reply: what it replied.
        reason: the reason code, or the outcome where there is none.
        fits: the largest claim of its kind that would be granted, None where nothing is known.
        request_id: of the request.
    """

    def __init__(self, reply: Reply, *, then: str = "") -> None:
        self.reply = reply
        first = reply.first if reply.repeated else None
        decision_shown = reply if first is None or first.granted else first
        self.reason = str(decision_shown.reason or decision_shown.outcome)
        self.fits = reply.fits
        self.request_id = reply.request_id
        waiting = when_more(reply.decision)
        remaining = left_line(reply.decision.left)
        parts = (
            f"{reply.dataset or 'the request'} not granted: {self.reason}.",
            refusal_words(reply.decision),
            f"Left: {remaining}." if remaining else "",
            f"This would fit: {reply.fits}." if reply.fits else "",
            "" if waiting is None else waiting.text,
            then,
        )
        super().__init__(" ".join(each for each in parts if each))


class Codec(NamedTuple):
    """How answers become bytes and answers again."""

    encode: Callable[[Any], bytes] = encode_result
    decode: Callable[[bytes], Any] = decode_result


TAGGED_JSON: Final = Codec()


class EncodedResult(NamedTuple):
    """An answer on its way to the store.

    Attributes:
        data: its bytes, None where it cannot be stored.
        warning: what to tell the caller then.
    """

    data: bytes | None
    result: Any
    warning: str | None = None

    def warn(self, stacklevel: int) -> None:
        """Warn the caller of what cannot be stored; where that is an error, nobody got it."""
        if self.warning is not None:
            warnings.warn(self.warning, AccountantWarning, stacklevel=stacklevel + 1)


def parse_once(once: object, request_id: object) -> str | None:
    """Return the name of an answer, None for one without.

    Raises: RequestInvalid.
    """
    if once is None:
        return None
    name = coerce_text("once", once)
    if not 0 < len(name) <= _LONGEST_NAME:
        raise RequestInvalid("once", f"must be a name of 1 to {_LONGEST_NAME} characters", once)
    if request_id is not None:
        raise RequestInvalid("once", "excludes `request_id`: a name has an id of its own", once)
    return name


def check_shared_arguments(kwargs: Mapping[str, object]) -> None:
    """Check that what all calls of a function share names no single answer.

    Raises: RequestInvalid.
    """
    for key in PER_CALL_ARGUMENTS:
        if kwargs.get(key) is not None:
            rule = "must be given to each call of the function: each draws an answer of its own"
            raise RequestInvalid(key, rule, kwargs[key])


def check_run_and_codec(run: object, codec: Codec, *, awaited: bool) -> None:
    """Check, before anything is charged, that a function can be run and its answer stored.

    Raises: RequestInvalid.
    """
    for name in Codec._fields:
        if not callable(getattr(codec, name, None)):
            rule = f"must be a Codec: two functions, `encode` and `decode`; {name} is none"
            raise RequestInvalid("codec", rule, codec)
    check_run(run, awaited=awaited, kinds=storable_types() if codec == TAGGED_JSON else None)


class Release:
    """One call of `release`: the steps around the asking and the running.

    Args:
        call: the request as it is sent, unless its name is bound to another id.
        ledger: the address of the ledger that it is sent to.
        wait: seconds to wait for another's run of the same grant.
        once: the name of the answer, None for one without.

    Attributes:
        call: the request to send.
    """

    def __init__(
        self,
        store: ResultStore,
        call: PreparedRequest,
        codec: Codec,
        ledger: str,
        wait: float,
        once: str | None = None,
    ) -> None:
        self.call = call
        self._store = store
        self._codec = codec
        self._ledger = ledger_name(ledger)
        self._until = steady() + wait
        self._once = once
        self._asked = to_sent_request(call, self._ledger)
        self._run = uuid4().hex
        self._known = NOT_SENT

    def noting_errors(self) -> OnError:
        """Have every error of the block carry the request's id, and let a later call run it."""
        return OnError(self._record_failure)

    def _record_failure(self, error: BaseException) -> None:
        if self._known is RELEASED:
            # The error says what happened; what the store says of it comes second.
            with contextlib.suppress(Exception):
                self._store.mark_failed(self._asked.request, self._run)
        missing = isinstance(error, ResultMissing)
        note_request(error, self.call, GRANTED if missing else self._known)

    def repeat_warning(self) -> str | None:
        """Return what to warn of where this asks anew what was released before, else None."""
        if self._once is not None or not self.call.fresh:
            return None
        if not self._store.is_repeated(self._asked):
            return None
        return (
            f"{self._asked.dataset} was released before with {self._asked.claim} and the same "
            "purpose: this call draws new noise and is charged again. To get one answer however "
            'often the program runs, write release(..., once="NAME"), with a name for each answer'
        )

    def record_request(self, ledger_id: str = "") -> StoredResult | None:
        """Note the request before it is sent; return the answer that its name has already.

        Args:
            ledger_id: the random id of the ledger; empty where it is not known.
        Raises: NameTaken: the name stands for another claim, or for an answer of another ledger.
            ResultMissing: its answer could not be stored.
        """
        if self._once is None:
            self._store.record_request(self._asked, own=self.call.fresh)
        else:
            body = self._store.bind_name(self._once, self._asked, self.call.body, ledger_id)
            if body != self.call.body:
                self.call = prepare_body(body)
                self._asked = to_sent_request(self.call, self._ledger)
                if (stored := self._store.get_result(self._asked.request)) is not None:
                    self._known = RELEASED
                    return stored
        self._known = IN_DOUBT
        return None

    def take_turn(self, reply: Reply) -> Turn | StoredResult | None:
        """Return the right to run, or the stored answer; None to look again after `POLL_S`.

        Raises: NotGranted. ResultMissing. StillRunning: and the wait is over.
        """
        decision = self._grant_hash(reply)
        self._known = RELEASED
        taken = self._store.take_turn(
            Turn(decision, self._asked.request, self._run),
            granted=reply.granted,
            receipt=encode(reply.receipt).decode(),
        )
        if not isinstance(taken, OtherRun):
            return taken
        if steady() >= self._until:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(taken.since))
            again = (
                f"with request_id {reply.request_id}" if self._once is None else "by the same name"
            )
            raise StillRunning(
                f"this grant's mechanism runs already, since {since}, in {taken.process}: release "
                f"again {again} to get its answer"
            )
        return None

    def _grant_hash(self, reply: Reply) -> str:
        """Return the hash of the decision that has granted the request.

        Raises: NotGranted.
        """
        first = reply.first if reply.repeated else None
        if reply.granted or (first is not None and first.granted):
            return reply.hash
        if reply.outcome is not Outcome.EXPIRED:
            self._known = NOT_SENT
            self._store.discard_request(self._asked.request)
            raise NotGranted(reply)
        # The ledger has forgotten the id. Where it was granted here, this store has not.
        granted = self._store.grant_hash(self._asked.request)
        if granted is not None:
            return granted
        if self._once is None:
            raise NotGranted(reply)
        self._store.unbind_name(self._asked.request)
        raise NotGranted(reply, then=f"The name {self._once!r} is free: release once more.")

    def run(self, reply: Reply, run: Callable[[], Any]) -> Any:
        """Return the answer: that of this run, or the stored one of another.

        Raises: as `turn`.
        """
        while (turn := self.take_turn(reply)) is None:
            time.sleep(POLL_S)
        if isinstance(turn, StoredResult):
            return self.decode_result(turn)
        encoded = self.encode_result(run())
        encoded.warn(stacklevel=3)
        self.store_result(turn, encoded)
        return encoded.result

    async def run_async(self, reply: Reply, run: Callable[[], Any]) -> Any:
        """As `run`; a function that is not asynchronous runs in a thread."""
        # A thread cannot be cancelled: a cancelled caller waits, so that the store knows what ran.
        running = asyncio.ensure_future(self._run_async(reply, run))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if inspect.iscoroutinefunction(run):
                running.cancel()
            await asyncio.wait([running])
            raise

    async def _run_async(self, reply: Reply, run: Callable[[], Any]) -> Any:
        with self.noting_errors():
            while (turn := await run_uncancelled(self.take_turn, reply)) is None:  # noqa: ASYNC110
                # Another process may run it: nothing here could be notified of its end.
                await asyncio.sleep(POLL_S)
            if isinstance(turn, StoredResult):
                return self.decode_result(turn)
            if inspect.iscoroutinefunction(run):
                result = await run()
            else:
                result = await asyncio.to_thread(run)
                if inspect.isawaitable(result):
                    result = await result
            encoded = await run_uncancelled(self.encode_result, result)
            encoded.warn(stacklevel=2)
            await run_uncancelled(self.store_result, turn, encoded)
            return encoded.result

    def encode_result(self, result: Any) -> EncodedResult:
        """Return an answer as every retry will get it, where it can be stored."""
        try:
            data = self._codec.encode(result)
            if not isinstance(data, bytes):
                raise TypeError(f"the codec's encode returned {type(data).__name__}, not bytes")
            return EncodedResult(data, self._codec.decode(data))
        except Exception as error:
            return EncodedResult(
                None,
                result,
                f"the answer of request_id {self.call.request_id} is not stored: {error}. "
                "Unless warnings are errors, it is returned this once, and its mechanism never "
                "runs again: keep it",
            )

    def store_result(self, turn: Turn, encoded: EncodedResult) -> None:
        """Store an answer, or that it cannot be stored, before the caller gets it."""
        if encoded.data is None:
            self._store.mark_unstorable(turn)
        else:
            self._store.store_result(turn, encoded.data)

    def decode_result(self, stored: StoredResult) -> Any:
        """Return a stored answer."""
        return self._codec.decode(stored.answer)


def to_sent_request(call: PreparedRequest, ledger: str) -> SentRequest:
    """Return a request as the store notes it."""
    request = _decode_request(call.body)
    claim = f"{claim_text(request.claim)}, unit {request.unit}, neighbours {request.neighbours}"
    if request.via is not UNSET:
        claim += f", via {request.via}"
    return SentRequest(
        hashlib.sha256(call.body).hexdigest(),
        call.request_id,
        ledger,
        call.dataset,
        call.caller,
        claim,
        request.purpose,
    )


class Grant:
    """A `with` that is entered only where its request is granted.

    Args:
        ask: returns the request and its reply.
    """

    def __init__(self, ask: Callable[[], tuple[RequestDraft, Reply]]) -> None:
        self._ask = ask

    def __enter__(self) -> Reply:
        self._asked, reply = self._ask()
        return require_granted(reply, self._asked)

    def __exit__(self, _: object, error: BaseException | None, _at: object) -> None:
        if error is not None:
            note_request(error, self._asked, GRANTED)


class AsyncGrant:
    """As `Grant`, for `async with`."""

    def __init__(self, ask: Callable[[], Awaitable[tuple[RequestDraft, Reply]]]) -> None:
        self._ask = ask

    async def __aenter__(self) -> Reply:
        self._asked, reply = await self._ask()
        return require_granted(reply, self._asked)

    async def __aexit__(self, _: object, error: BaseException | None, _at: object) -> None:
        if error is not None:
            note_request(error, self._asked, GRANTED)


def require_granted(reply: Reply, call: RequestDraft) -> Reply:
    """Return a reply that is a grant.

    Raises: NotGranted: it is none; also where the id was granted before.
    """
    if reply.granted:
        return reply
    then, known = "", IN_DOUBT if reply.outcome is Outcome.EXPIRED else NOT_SENT
    if reply.first is not None and reply.first.granted and reply.repeated:
        then = "It was granted before, to run once: `release` serves the answer that was stored."
        known = GRANTED
    error = NotGranted(reply, then=then)
    note_request(error, call, known)
    raise error
