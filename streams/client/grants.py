"""A grant tied to its run: what is granted runs once, and what ran is answered once."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from accountant.advice.refused import refused_at, when_more
from accountant.errors import BudgetError
from accountant.records import encode
from accountant.records.outcomes import Outcome, Reason
from streams.client.answers.codec import decode_answer, encode_answer
from streams.client.answers.store import AnswerStore, Busy, StillRunning, Stored, Turn
from streams.client.reply import Reply
from streams.client.requests import PreparedRequest
from streams.errors import Refused

LOOK_S: Final = 0.05
"""How often a release looks whether another's run of the same grant has ended."""


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
        told = reply if first is None or first.granted else first
        self.reason = str(told.reason or told.outcome)
        self.fits = reply.fits
        self.request_id = reply.request_id
        said = [f"{reply.dataset or 'the request'} not granted: {self.reason}"]
        if at := refused_at(reply.decision):
            said.append(at)
        if reply.left:
            left = ", ".join(f"{name} {amount}" for name, amount in reply.left.items())
            said.append(f"left: {left}")
        if reply.fits:
            said.append(f"this would fit: {reply.fits}")
        if reply.reason is Reason.EXHAUSTED and reply.decision.level is not None:
            said.append(when_more(reply.decision))
        said += [then] if then else []
        super().__init__("; ".join(said))


class Codec(NamedTuple):
    """How answers become bytes and answers again."""

    encode: Callable[[Any], bytes] = encode_answer
    decode: Callable[[bytes], Any] = decode_answer


TAGGED_JSON: Final = Codec()


class Release:
    """One call of `release`: the steps around the asking and the running.

    Args:
        call: the request as it is sent.
        wait: seconds to wait for another's run of the same grant.
    """

    def __init__(
        self, store: AnswerStore, call: PreparedRequest, codec: Codec, wait: float
    ) -> None:
        self._store = store
        self._call = call
        self._codec = codec
        self._until = time.monotonic() + wait
        self._request = hashlib.sha256(call.body).hexdigest()

    def begin(self) -> None:
        """Do what is to be done before asking."""
        if self._call.fresh:
            self._store.asking(self._request)

    def turn(self, reply: Reply) -> Turn | Stored | None:
        """Return the right to run, or the stored answer; None to look again after `LOOK_S`.

        Raises: NotGranted. AnswerMissing. StillRunning: and the wait is over.
        """
        first = reply.first if reply.repeated else None
        if not reply.granted and not (first is not None and first.granted):
            stored = None
            if reply.outcome is Outcome.EXPIRED:  # the ledger has forgotten it, this store has not
                stored = self._store.found(self._request)
            elif self._call.fresh:
                self._store.refused(self._request)
            if stored is not None:
                return stored
            raise NotGranted(reply)
        receipt = encode(reply.receipt).decode()
        granted = reply.granted
        taken = self._store.take(reply.hash, self._request, granted=granted, receipt=receipt)
        if not isinstance(taken, Busy):
            return taken
        if time.monotonic() >= self._until:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(taken.since))
            raise StillRunning(
                f"this grant's mechanism runs already, since {since}, in {taken.process}: release "
                f"again with request_id {reply.request_id} to get its answer"
            )
        return None

    def keep(self, turn: Turn, answer: Any) -> Any:
        """Store an answer; return it as every retry will.

        Raises: TypeError: it cannot be stored; nobody has seen it, and it may run again.
        """
        try:
            data = self._codec.encode(answer)
            kept = self._codec.decode(data)
        except BaseException:
            self._store.failed(turn)
            raise
        try:
            self._store.keep(turn, data)
        except Refused:
            with contextlib.suppress(BudgetError):
                self._store.failed(turn)
            raise
        return kept

    def failed(self, turn: Turn) -> None:
        """Note that the run has ended without an answer."""
        self._store.failed(turn)

    def stored(self, stored: Stored) -> Any:
        """Return a stored answer."""
        return self._codec.decode(stored.answer)


def only_granted(reply: Reply) -> Reply:
    """Return a reply that is a grant.

    Raises: NotGranted: it is none; also where the id was granted before.
    """
    if reply.granted:
        return reply
    then = ""
    if reply.first is not None and reply.first.granted and reply.repeated:
        then = "it was granted before, to run once: `release` serves the answer that was stored"
    raise NotGranted(reply, then=then)
