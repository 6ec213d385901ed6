"""The steps of a session that need no ledger: what to send next, what to store, what to show."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final
from uuid import uuid4

import msgspec
from msgspec import UNSET

from accountant.claims import Brownian, ExPost
from accountant.claims.fields import check_noise
from accountant.errors import BudgetError, RequestInvalid
from accountant.exact_numbers import exact_text
from accountant.records import VERSION, encode
from accountant.records.outcomes import Outcome, Reason
from accountant.records.requests import Begin, MechanismRequest, Settle, Void
from streams.client.connection.shared_files import UsedAfterFork
from streams.client.releases.codec import storable_types
from streams.client.releases.grants import TAGGED_JSON, Codec, to_sent_request
from streams.client.releases.process_identity import process_words
from streams.client.releases.store import (
    OtherRun,
    ResultMissing,
    ResultName,
    ResultStore,
    StillRunning,
    StoredResult,
    ledger_name,
)
from streams.client.requests.request_notes import IN_DOUBT, NOT_SENT, OnError, note_request
from streams.client.requests.requests import PreparedRequest, new_id, prepare_body
from streams.client.sessions.session_rows import SessionRow, SessionRows
from streams.clock import Clock, steady
from streams.errors import Refused
from streams.replies.not_granted import NotGranted
from streams.replies.reply import Reply

WHOLE: Final = ""
"""The level of an answer that is a mechanism's only one."""

_decode_request = msgspec.json.Decoder(MechanismRequest).decode
_RETRIED: Final = frozenset({Reason.OVERLOADED, Reason.ISSUED_IN_FUTURE, Reason.INTERNAL_ERROR})
"""Reasons for which the same step may be granted later."""


class OutOfOrder(BudgetError):
    """A session was used in a way that its steps do not allow: nothing was run or shown."""


class SessionRecord:
    """One run of a session: its request, its stored steps, and what may happen next.

    Args:
        call: the request to send, unless its name is bound to another one.
        ledger: address of the ledger.
        once: name of the session, if any.
        wait: seconds to wait for another run of the session.

    Attributes:
        call: the request that reserves.
        grant: hash of the decision that reserved; "" before.
        ended: how the session has ended, for people; "" before.
        was_refused: the ledger refused the step that ends it, so the maximum stays charged.
        failed: the mechanism raised an error, or an answer is not stored, so the session settles
            in full.
        warning: for the caller of the answer that is not stored; "" without one.
        is_over: only stored answers are shown.
        is_entered: this run owns the session.
    """

    def __init__(
        self,
        store: ResultStore,
        call: PreparedRequest,
        codec: Codec,
        ledger: str,
        ledger_id: str,
        once: ResultName | None,
        wait: float,
        clock: Clock,
    ) -> None:
        self._store = store
        self._codec = codec
        self._ledger = ledger_name(ledger)
        self._ledger_id = ledger_id
        self._once = once
        self._own_call = call
        self._until = steady() + wait
        self._clock = clock
        self._fresh_steps = set[str]()
        self._bind(call)

    def _bind(self, call: PreparedRequest) -> None:
        self.call = call
        self.ended = ""
        self.was_refused = False
        self.failed = False
        self.warning = ""
        self.is_over = False
        self.is_entered = False
        self.grant = ""
        self._begin: bytes | None = None
        self._answers = dict[str, StoredResult]()
        sent = to_sent_request(call, self._ledger)
        self._rows = SessionRows(self._store, sent.request, uuid4().hex)
        self._request = _decode_request(call.body)
        claim = self._request.claim
        self._session_claim = (
            claim if isinstance(claim, Brownian | ExPost) and claim.is_session else None
        )

    @property
    def shows_levels(self) -> bool:
        """Whether the claim is one of several answers at falling levels."""
        return self._session_claim is not None

    @property
    def storable_types(self) -> tuple[type, ...] | None:
        """The types of results that `run` can store; None if unknown."""
        plain = not self.shows_levels and self._codec == TAGGED_JSON
        return storable_types() if plain else None

    @property
    def shown(self) -> str | None:
        """The last level that was shown, None before the first."""
        return next(reversed(self._answers), None)

    def enter(self) -> SessionRow | None:
        """Own the session; None while another run of it lasts.

        Raises: NameTaken. StillRunning: the wait is over.
        """
        sent = to_sent_request(self._own_call, self._ledger)
        if self._once is None:
            self._store.record_request(sent, own=False)
        else:
            body = self._store.bind_name(self._once, sent, self._own_call.body, self._ledger_id)
            if body != self._own_call.body:
                self._bind(prepare_body(body))
        found = self._rows.enter()
        if not isinstance(found, OtherRun):
            self.is_entered = True
            self.grant = found.decision
            self._answers = self._rows.answers()
            self._begin = found.step if found.state == "beginning" else None
            self.is_over = found.state == "over"
            return found
        if steady() >= self._until:
            raise StillRunning(
                f"this session is open in {process_words(found.process)}. Wait for its end, or "
                "reserve under another name. It never ends if a block around this one has it"
            )
        return None

    def start_new(self) -> None:
        """Use the caller's own request, after the one of an earlier run was voided."""
        self._bind(self._own_call)

    def accept(self, reply: Reply) -> None:
        """Store the answer to the request that reserves.

        Raises: NotGranted: there is no reservation.
        """
        first = reply.first if reply.repeated else None
        outcome = reply.outcome if first is None else first.outcome
        if outcome.reserves:
            self.grant = reply.hash
            self._rows.reserve(reply.hash)
            return
        then = ""
        if reply.outcome is Outcome.EXPIRED:
            then = (
                "The ledger has forgotten the id. If it was granted, the reservation lapses, and "
                "its maximum stays charged"
            )
            then += "." if self._once is None else f". The name {self._once.text!r} is free."
        self._discard()
        refused = NotGranted(reply, then=then)
        note_request(refused, self.call, IN_DOUBT if then else NOT_SENT)
        raise refused

    def begin(self) -> PreparedRequest:
        """Return the `begin` to send: its bytes are stored first, and are the same at a retry."""
        if self._begin is None:
            step = self._step(Begin)
            self._rows.begin(step)
            self._begin = step
        return self._prepared(self._begin)

    def start(self, reply: Reply) -> None:
        """Store that the mechanism may run now, and never again.

        Raises:
            NotGranted: `begin` was refused.
            ResultMissing: another run may have run the mechanism.
        """
        if reply.outcome is Outcome.BEGUN:
            self._rows.start()
            return
        if reply.outcome.is_repeat:
            first = reply.first
            if first is not None and first.outcome is Outcome.BEGUN:
                # Another run has sent it, and perhaps run: only the whole maximum is safe.
                self._rows.start()
                self.failed = True
                raise ResultMissing(
                    "another process began this session, and its answers are not in this store. "
                    "Its mechanism does not run again, and its whole maximum stays charged. "
                    "Reserve under another name, which is charged again"
                )
            if first is not None and first.outcome.is_refusal:
                self._undo_begin()
        if reply.reason in {Reason.ALREADY_BEGUN, Reason.NOT_OPEN}:
            self._rows.finish()
            self.is_over = True
            raise ResultMissing(
                f"this reservation was used outside of {self._store.path}: {reply.why} Its "
                "mechanism does not run here. Reserve again, which is charged again"
            )
        if reply.outcome.has_no_effect:
            self._undo_begin()
        raise NotGranted(reply)

    def _undo_begin(self) -> None:
        self._rows.undo_begin()
        self._begin = None

    def check_level(self, level: object) -> str:
        """Return the text of a level that may be shown next.

        Raises: RequestInvalid: it is above the first, below the least or not below the last one.
        """
        claim = self._session_claim
        if claim is None:
            raise OutOfOrder(
                "this claim has one answer, which `run` returns. `show` is for claims with `first`"
            )
        text = exact_text(level, field="level", up=True)
        value = check_noise(text, "level")
        if self.is_over:
            return text
        least = claim.variance if isinstance(claim, Brownian) else str(claim.least)
        if not Decimal(least) <= value <= Decimal(str(claim.first)):
            rule = f"must be between {claim.first} and {least}, as reserved"
            raise RequestInvalid("level", rule, text)
        if self.shown is not None and value >= Decimal(self.shown):
            rule = f"must be below {self.shown}, the last level shown"
            raise RequestInvalid("level", rule, text)
        return text

    def add(self, level: str, value: Any) -> Any:
        """Store an answer, and return it as it is stored.

        One that the disk does not take is returned with a `warning`: the stored row says that the
        mechanism runs, so it never runs again, and the session settles in full.

        Raises: TypeError: it cannot be encoded, so it is not shown.
        """
        data = self._codec.encode(value)
        if not isinstance(data, bytes):
            raise TypeError(f"the codec's encode returned {type(data).__name__}, not bytes")
        decoded = self._codec.decode(data)
        try:
            self._rows.add(level, data)
        except Refused as error:
            self.failed = True
            self.warning = (
                f"the answer of request_id {self.call.request_id} is not stored: {error}. Unless "
                "warnings are errors, it is returned this once. Its mechanism never runs again. "
                "The session settles in full, and shows nothing more. Save the answer yourself"
            )
            return decoded
        self._answers[level] = StoredResult(data)
        return decoded

    def stored_answer(self, level: str) -> Any:
        """Return the answer at a level of a session that is over.

        Raises: ResultMissing: it was not shown then.
        """
        for name, stored in self._answers.items():
            if name == level or (level and name and Decimal(name) == Decimal(level)):
                return self._codec.decode(stored.answer)
        if level and self._answers:
            raise ResultMissing(
                f"this session is over, and shows nothing more: level {level} was not shown. "
                f"Stored levels: {', '.join(self._answers)}"
            )
        raise ResultMissing(
            "this session began before, and ended without a stored answer. Its mechanism does not "
            "run again, and its whole maximum stays charged. Reserve under another name, which "
            "is charged again"
        )

    def check_replayable(self) -> None:
        """Check that a session that is over has stored answers.

        Raises: ResultMissing.
        """
        if not self._answers:
            self.stored_answer(WHOLE)

    def close(self, *, complete: bool) -> PreparedRequest | None:
        """Return the step that ends the session; its bytes are stored first.

        Nothing is shown after this call. None where there is nothing to send.

        Args:
            complete: the session ended as planned; otherwise it settles in full.
        """

        def make(row: SessionRow) -> bytes:
            if row.state != "running":
                return self._step(Void)
            shown = row.shown if complete and not self.failed else None
            return self._settle(shown if self.shows_levels else None)

        step = self._rows.close(make)
        return None if step is None else self._prepared(step)

    def end(self, reply: Reply, step: PreparedRequest) -> PreparedRequest | None:
        """Store the answer to the step that ends the session; return the step to send instead.

        Raises: OutOfOrder: the ledger does not take the step now.
        """
        body = prepare_body(step.body).checked
        assert body is not None
        voids = isinstance(body.body, Void)
        first = reply.first if reply.repeated else None
        outcome = reply.outcome if first is None else first.outcome
        reason = reply.reason if first is None else first.reason
        if outcome is Outcome.VOIDED:
            self.ended = "voided, nothing stays charged"
            self._discard()
            return None
        if outcome is Outcome.SETTLED:
            assert isinstance(body.body, Settle)
            shown = body.body.shown
            self.ended = "settled in full" if shown is UNSET else f"settled at {shown}"
            self._finish()
            return None
        if outcome is Outcome.EXPIRED:
            # Whether the first one was decided is unknown. In full, it may be sent twice.
            return self._instead(self._step(Void) if voids else self._settle(None))
        if voids and reason is Reason.ALREADY_BEGUN:
            return self._instead(self._settle(None))
        if not outcome.is_refusal or reason in _RETRIED:
            raise OutOfOrder(f"the ledger did not take the last step of this session: {reply.why}")
        self.ended = f"not {'voided' if voids else 'settled'} ({reason}), the maximum stays charged"
        self.was_refused = True
        if voids:
            self._discard()
        else:
            self._finish()
        return None

    def leave(self) -> None:
        """Let another run own the session."""
        self._rows.leave()

    def noting_errors(self) -> OnError:
        """Put the request's id on every error of the block."""

        def note(error: BaseException) -> None:
            # Another run may have sent a request whose id this one did not make.
            sent = self.is_entered or isinstance(error, StillRunning) or not self.call.fresh
            note_request(error, self.call, IN_DOUBT if sent else NOT_SENT)

        return OnError(note)

    def _discard(self) -> None:
        self._rows.discard()
        self.is_entered = False

    def _finish(self) -> None:
        self._rows.finish()
        self.is_over = True

    def _instead(self, step: bytes) -> PreparedRequest:
        self._rows.replace_step(step)
        return self._prepared(step)

    def _settle(self, shown: str | None) -> bytes:
        return self._step(Settle, shown=UNSET if shown is None else shown)

    def _step(self, kind: Callable[..., Begin | Settle | Void], **fields: Any) -> bytes:
        request, request_id = self._request, new_id(self._clock)
        self._fresh_steps.add(request_id)
        return encode(
            kind(
                version=VERSION,
                request_id=request_id,
                analyst=request.analyst,
                dataset=request.dataset,
                grant=self.grant,
                via=request.via,
                **fields,
            )
        )

    def _prepared(self, step: bytes) -> PreparedRequest:
        call = prepare_body(step)
        return call._replace(fresh=call.request_id in self._fresh_steps)


class OneStep:
    """A context that one step of a session enters at a time."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise OutOfOrder(
                "another step of this session is running: a session does one step at a time, and "
                "its mechanism calls none of them"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def check_process(made_by: int) -> None:
    """Check that a session is used in the process that made it.

    Raises: UsedAfterFork.
    """
    if os.getpid() != made_by:
        raise UsedAfterFork(made_by)
