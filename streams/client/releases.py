"""Grants tied to their runs, for the client that waits."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

from accountant.claims import Claim
from accountant.policy import Neighbours
from accountant.records import Decision
from accountant.records.given import given_seconds
from streams.client.answers.store import AnswerStore, Stored
from streams.client.grants import (
    LOOK_S,
    OF_EACH_CALL,
    TAGGED_JSON,
    Codec,
    Grant,
    Release,
    check_of_each_call,
    check_run_for,
    given_once,
)
from streams.client.methods import LedgerMethods
from streams.client.patience import WAIT_S
from streams.client.reply import Reply
from streams.client.requests import PreparedRequest, StatedClaim, Wanted
from streams.errors import AccountantWarning

T = TypeVar("T")
Given = ParamSpec("Given")


class Releases(LedgerMethods[Decision, Reply]):
    """`grant`, `release` and `released`."""

    def prepare(self, wanted: Wanted, wait: float) -> PreparedRequest:
        """Return the call by which a caller's wish is asked for."""
        raise NotImplementedError

    def ledger_id(self) -> str:
        """Return the random id of the ledger, empty where it is not known."""
        raise NotImplementedError

    def reply_to(self, call: PreparedRequest, wait: float) -> Reply:
        """Send a request until it is answered, the same bytes each time."""
        raise NotImplementedError

    def grant(
        self,
        dataset: str,
        claim: str | Claim | StatedClaim | Mapping[str, Any],
        *,
        analyst: str | None = None,
        purpose: str = "",
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
    ) -> Grant:
        """Ask, and enter the `with` only where the mechanism may run: once, within it.

        The arguments are those of `ask`. What is within it runs for this grant alone: `release`
        is for an answer that a retry is to get again.

        Raises: NotGranted: on entry. Unanswered: whether it is granted is unknown.
        """
        wait = given_seconds("wait", wait)

        def ask() -> tuple[Wanted, Reply]:
            how = (analyst, purpose, unit, neighbours, request_id, via)
            asked = self.wanted(dataset, claim, *how)
            return asked, self.replied(asked, wait)

        return Grant(ask)

    def release(
        self,
        dataset: str,
        claim: str | Claim | StatedClaim | Mapping[str, Any],
        run: Callable[[], T],
        *,
        analyst: str | None = None,
        purpose: str = "",
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
        store: AnswerStore | str | os.PathLike[str] | None = None,
        codec: Codec = TAGGED_JSON,
        once: str | None = None,
    ) -> T:
        """Ask, run the mechanism once, and return its answer, to every retry the same.

        The answer is stored before it is returned. Called again with the same name (`once`) or
        the same `request_id`, it returns the stored answer and charges nothing. Two calls without
        either are two requests.

        Args:
            once: a name for the answer, such as "age-by-district", for programs that run again:
                in this store it stands for this claim on this dataset, of this analyst and
                ledger: a file by whatever path, a gateway by its address as given, and of both
                the ledger's own id, since another may be made there. It excludes `request_id`.
            run: draws the answer; it is called at most once for a grant, unless it ended
                without an answer that anybody has seen. What it shows itself is shown.
            store: of answers, or the path of its file; see `AnswerStore`.
            codec: how answers become bytes, for other types than `encode_answer` takes; nothing
                is pickled.
            The others are those of `ask`; `wait` also for another's run of the same grant.
        Returns: the answer as it is stored.

        Raises:
            NotGranted: nothing ran. Unanswered: release again with its `request_id`.
            AnswerMissing: granted before, and no answer is stored here: nothing runs again.
            StillRunning: another process runs it.
            NameTaken: `once` stands for another claim, or for an answer of another ledger that
                was at this address before; nothing was asked or charged.
        Warns: AccountantWarning: the answer cannot be stored. It is returned, this once; where
            warnings are errors, nobody gets it, and it may run again.
        """
        check_run_for(run, codec, awaited=False)
        name = given_once(once, request_id)
        wait = given_seconds("wait", wait)
        asked = self.wanted(dataset, claim, analyst, purpose, unit, neighbours, request_id, via)
        kept_in = store if isinstance(store, AnswerStore) else AnswerStore(store)
        call = self.prepare(asked, wait)
        steps = Release(kept_in, call, codec, self.url, wait, name)
        with steps.under_way():
            if (repeats := steps.repeats()) is not None:
                warnings.warn(repeats, AccountantWarning, stacklevel=2)
            ledger_id = "" if name is None else self.ledger_id()
            if (kept := steps.begin(ledger_id)) is not None:
                return cast("T", steps.stored(kept))
            reply = self.reply_to(steps.call, wait)
            while (turn := steps.turn(reply)) is None:
                time.sleep(LOOK_S)
            if isinstance(turn, Stored):
                return cast("T", steps.stored(turn))
            encoded = steps.encoded(run())
            encoded.warn(stacklevel=2)
            steps.end(turn, encoded)
            return cast("T", encoded.answer)

    def released(
        self, dataset: str, claim: str | Claim | StatedClaim | Mapping[str, Any], **how: Any
    ) -> Callable[[Callable[Given, T]], Callable[Given, T]]:
        """Return a decorator: each call of the function is a `release` of its own.

        Args:
            how: further arguments of `release`, but for `once` and `request_id`: a call of the
                function takes those, since its answer is one of its own.
        Raises: RequestInvalid: `how` has one of these.
        """
        check_of_each_call(how)

        def decorate(function: Callable[Given, T]) -> Callable[Given, T]:
            @wraps(function)
            def call(*args: Given.args, **kwargs: Given.kwargs) -> T:
                own: dict[str, Any] = {key: kwargs.pop(key, None) for key in OF_EACH_CALL}
                run = partial(function, *args, **kwargs)
                return self.release(dataset, claim, run, **own, **how)

            return call

        return decorate
