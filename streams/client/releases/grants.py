"""Runs the mechanism of a grant once, and stores its result for every retry."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import time
import unicodedata
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec
from msgspec import UNSET

from accountant.claims.text import claim_text
from accountant.errors import RequestInvalid
from accountant.records import encode
from accountant.records.coerce import coerce_text
from accountant.records.outcomes import Outcome
from accountant.records.requests import MechanismRequest
from streams.client.connection.connection import run_uncancelled
from streams.client.questions.asked_question import AskedQuestion
from streams.client.releases.codec import decode_result, encode_result, storable_types
from streams.client.releases.process_identity import process_words
from streams.client.releases.run_check import check_run
from streams.client.releases.store import (
    OtherRun,
    ResultMissing,
    ResultName,
    ResultStore,
    SentRequest,
    StillRunning,
    StoredResult,
    Turn,
    ledger_name,
)
from streams.client.requests.request_notes import (
    GRANTED,
    IN_DOUBT,
    NOT_SENT,
    RELEASED,
    OnError,
    known_unsent,
    note_request,
)
from streams.client.requests.requests import PreparedRequest, RequestDraft, prepare_body
from streams.clock import steady
from streams.errors import AccountantWarning, Refused
from streams.replies.not_granted import NotGranted
from streams.replies.reply import Reply

POLL_S: Final = 0.05
"""How often a release checks whether a run of the same grant elsewhere has ended."""


_decode_request = msgspec.json.Decoder(MechanismRequest).decode


_LONGEST_NAME: Final = 200
PER_CALL_ARGUMENTS: Final = ("once", "request_id")


class Codec(NamedTuple):
    """Two functions that encode a result as bytes and decode it."""

    encode: Callable[[Any], bytes] = encode_result
    decode: Callable[[bytes], Any] = decode_result


TAGGED_JSON: Final = Codec()


def is_charged(reply: Reply) -> bool:
    """Whether a request is granted or reserved, by this decision or by the one it repeats."""
    first = reply.first if reply.repeated else None
    return reply.outcome.charges or (first is not None and first.outcome.charges)


class EncodedResult(NamedTuple):
    """A result before it is stored.

    Attributes:
        data: its bytes, None if it cannot be encoded.
        warning: for the caller, if it is not stored.
    """

    data: bytes | None
    result: Any
    warning: str | None = None

    def warn(self, stacklevel: int) -> None:
        """Warn the caller of a result that cannot be stored; if this raises, nobody gets it."""
        if self.warning is not None:
            warnings.warn(self.warning, AccountantWarning, stacklevel=stacklevel + 1)


def parse_once(once: object, request_id: object, *, new: bool = False) -> ResultName | None:
    """Return the checked name of a result, None if it has none.

    Two spellings of one text in Unicode are one name.

    Args:
        new: the name is meant, although it is nearly another one.
    Raises: RequestInvalid.
    """
    if once is None:
        return None
    name = coerce_text("once", once)
    if not 0 < len(name) <= _LONGEST_NAME:
        raise RequestInvalid("once", f"must be a name of 1 to {_LONGEST_NAME} characters", once)
    if request_id is not None:
        raise RequestInvalid("once", "excludes `request_id`: a name has its own id", once)
    return ResultName(unicodedata.normalize("NFC", name), new)


def check_shared_arguments(kwargs: Mapping[str, object]) -> None:
    """Check that the shared arguments of a function's calls do not name a single result.

    Raises: RequestInvalid.
    """
    for key in PER_CALL_ARGUMENTS:
        if kwargs.get(key) is not None:
            rule = "must be passed to each call of the function: each call draws its own result"
            raise RequestInvalid(key, rule, kwargs[key])


def check_run_and_codec(run: object, codec: Codec, *, awaited: bool) -> None:
    """Check before the charge that a function can be called and its result stored.

    Raises: RequestInvalid.
    """
    check_codec(codec)
    check_run(run, awaited=awaited, kinds=storable_types() if codec == TAGGED_JSON else None)


def check_codec(codec: Codec) -> None:
    """Check that a codec has its two functions.

    Raises: RequestInvalid.
    """
    for name in Codec._fields:
        if not callable(getattr(codec, name, None)):
            rule = f"must be a Codec of two functions: `{name}` is not a function"
            raise RequestInvalid("codec", rule, codec)


class Release:
    """One call of `release`: the steps before and after asking and running.

    Args:
        call: the request to send, unless its name is bound to another id.
        ledger: address of the ledger.
        wait: seconds to wait for a run of the same grant elsewhere.
        once: name of the result, if any.
        released: as of `EngineMechanism`.

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
        once: ResultName | None = None,
        released: Callable[[], bool] | None = None,
    ) -> None:
        self.call = call
        self._store = store
        self._codec = codec
        self._ledger = ledger_name(ledger)
        self._until = steady() + wait
        self._once = once
        self._released = released
        self._asked = to_sent_request(call, self._ledger)
        self._run = uuid4().hex
        self._known = known_unsent(call)

    def noting_errors(self) -> OnError:
        """Put the request's id on every error of the block, and let a later call run the grant."""
        return OnError(self._record_failure)

    def _record_failure(self, error: BaseException) -> None:
        if self._known is RELEASED:
            # The error itself matters more than a failure of the store.
            again = self._released is None or not self._released()
            with contextlib.suppress(Exception):
                self._store.mark_failed(self._asked.request, self._run, again=again)
        missing = isinstance(error, ResultMissing)
        note_request(error, self.call, GRANTED if missing else self._known)

    def repeat_warning(self) -> str | None:
        """Return a warning if this is a new request for something that was released before."""
        if self._once is not None or not self.call.fresh:
            return None
        if not self._store.is_repeated(self._asked):
            return None
        return (
            f"{self._asked.dataset} was released before with {self._asked.claim} and the same "
            "purpose. This call draws new noise and is charged again. To get one result however "
            'often the program runs, pass once="NAME", with a name for each result'
        )

    def record_request(self, ledger_id: str = "") -> StoredResult | None:
        """Record the request before it is sent; return the result that its name already has.

        Args:
            ledger_id: the random id of the ledger; empty if unknown.
        Raises: NameTaken: the name belongs to another claim or another ledger.
            SimilarName: it is nearly another one.
            ResultMissing: its result could not be stored.
        """
        if self._once is None:
            self._store.record_request(self._asked, own=self.call.fresh)
        else:
            body = self._store.bind_name(self._once, self._asked, self.call.body, ledger_id)
            if body != self.call.body:
                self.call = prepare_body(body)
                self._known = IN_DOUBT  # an earlier call has perhaps sent it
                self._asked = to_sent_request(self.call, self._ledger)
                if (stored := self._store.get_result(self._asked.request)) is not None:
                    self._known = RELEASED
                    return stored
        self._known = IN_DOUBT
        return None

    def take_turn(self, reply: Reply) -> Turn | StoredResult | None:
        """Return the right to run, or the stored result; None to check again after `POLL_S`.

        Raises: NotGranted. ResultMissing. StillRunning: the wait is over.
        """
        decision = self._grant_hash(reply)
        self._known = RELEASED
        taken = self._store.take_turn(
            Turn(decision, self._asked.request, self._run),
            granted=reply.outcome.charges,
            receipt=encode(reply.receipt).decode(),
            after_crash=self._released is None,
        )
        if not isinstance(taken, OtherRun):
            return taken
        if steady() >= self._until:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(taken.since))
            again = (
                f"with request_id {reply.request_id}" if self._once is None else "under its name"
            )
            raise StillRunning(
                f"the mechanism of this grant has been running since {since}, in "
                f"{process_words(taken.process)}. "
                f"Release again {again} to get its result"
            )
        return None

    def _grant_hash(self, reply: Reply) -> str:
        """Return the hash of the decision that granted the request.

        Raises: NotGranted.
        """
        if is_charged(reply):
            return reply.hash
        if reply.waits:
            # The name keeps its request: a later call finds the grant, days later too.
            self._known = IN_DOUBT
            raise NotGranted(reply)
        if reply.outcome is not Outcome.EXPIRED:
            self._known = NOT_SENT
            self._store.discard_request(self._asked.request)
            raise NotGranted(reply)
        # The ledger has forgotten the id. This store has not, if it was granted here.
        granted = self._store.grant_hash(self._asked.request)
        if granted is not None:
            return granted
        if self._once is None:
            raise NotGranted(reply)
        self._store.unbind_name(self._asked.request)
        raise NotGranted(reply, then=f"The name {self._once.text!r} is free: release again.")

    def run(self, reply: Reply, run: Callable[[], Any]) -> Any:
        """Return the result of this run, or the stored result of an earlier one.

        Raises: see `take_turn`.
        """
        while (turn := self.take_turn(reply)) is None:
            time.sleep(POLL_S)
        if isinstance(turn, StoredResult):
            return self.decode_result(turn)
        encoded = self.store_result(turn, self.encode_result(run()))
        encoded.warn(stacklevel=4)
        self.mark_unstored(turn, encoded)
        return encoded.result

    async def run_async(self, reply: Reply, run: Callable[[], Any]) -> Any:
        """Do what `run` does, in an event loop; a synchronous function runs in a thread."""
        # A thread cannot be cancelled. A cancelled caller waits, so that the store is right.
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
                # Another process may be running it, and cannot notify this one.
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
            encoded = await run_uncancelled(self.store_result, turn, encoded)
            encoded.warn(stacklevel=2)
            await run_uncancelled(self.mark_unstored, turn, encoded)
            return encoded.result

    def encode_result(self, result: Any) -> EncodedResult:
        """Encode a result, and decode it as every retry will get it."""
        try:
            data = self._codec.encode(result)
            if not isinstance(data, bytes):
                raise TypeError(f"the codec's encode returned {type(data).__name__}, not bytes")
            return EncodedResult(data, self._codec.decode(data))
        except Exception as error:
            return EncodedResult(
                None,
                result,
                f"the result of request_id {self.call.request_id} is not stored: {error}. "
                "Unless warnings are errors, it is returned this once, and its mechanism never "
                "runs again. Save it yourself",
            )

    def store_result(self, turn: Turn, encoded: EncodedResult) -> EncodedResult:
        """Store a result, before the caller gets it; return it with a warning if that fails."""
        if encoded.data is None:
            return encoded
        try:
            self._store.store_result(turn, encoded.data)
        except Refused as error:
            return encoded._replace(
                warning=f"the result of request_id {self.call.request_id} is not stored: {error}. "
                "Unless an error follows, it is returned, and its mechanism never runs again. "
                "Save it yourself; or make room, and release it again in this process with this "
                "request_id or its name, which stores it"
            )
        return encoded

    def mark_unstored(self, turn: Turn, encoded: EncodedResult) -> None:
        """Record that the caller gets a result that is not stored.

        Raises: Refused: not even that can be stored, so nobody gets the result.
        """
        if encoded.warning is None:
            return
        try:
            self._store.mark_unstorable(turn, encoded.data)
        except Refused as error:
            raise Refused(
                f"{error}. The result was drawn, and is not returned: another process might run "
                "the mechanism again. Make room, and release it again in this process, which has it"
            ) from error

    def decode_result(self, stored: StoredResult) -> Any:
        """Decode a stored result."""
        return self._codec.decode(stored.answer)


def to_sent_request(call: PreparedRequest, ledger: str) -> SentRequest:
    """Return a request as the store records it."""
    request = _decode_request(call.body)
    if request.question is not UNSET and request.noise is not UNSET:
        claim = AskedQuestion(request.question, request.noise, request.stop).text
    else:
        assert request.claim is not UNSET
        claim = f"{claim_text(request.claim)}, unit {request.unit}, neighbours {request.neighbours}"
    if request.via is not UNSET:
        claim += f", via {request.via}"
    if request.reserve is not UNSET:
        claim += ", as a reservation"
    if request.other_datasets is not UNSET:
        claim += f", also on {', '.join(request.other_datasets)}"
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
    """A `with` block that is entered only if its request is granted.

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
    """An `async with` block that is entered only if its request is granted.

    Args:
        ask: returns the request and its reply.
    """

    def __init__(self, ask: Callable[[], Awaitable[tuple[RequestDraft, Reply]]]) -> None:
        self._ask = ask

    async def __aenter__(self) -> Reply:
        self._asked, reply = await self._ask()
        return require_granted(reply, self._asked)

    async def __aexit__(self, _: object, error: BaseException | None, _at: object) -> None:
        if error is not None:
            note_request(error, self._asked, GRANTED)


def require_granted(reply: Reply, call: RequestDraft) -> Reply:
    """Return a reply if it is a grant.

    Raises: NotGranted: it is not; also if the id was granted before.
    """
    if reply.granted:
        return reply
    kept = reply.waits or reply.outcome is Outcome.EXPIRED
    then, known = "", IN_DOUBT if kept else NOT_SENT
    if reply.first is not None and reply.first.granted and reply.repeated:
        then = "This id was granted before, for one run. `release` returns the stored result."
        known = GRANTED
    error = NotGranted(reply, then=then)
    note_request(error, call, known)
    raise error
