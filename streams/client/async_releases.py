"""Grants tied to their runs, for the client that is awaited."""

from __future__ import annotations

import asyncio
import inspect
import os
import warnings
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
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
    AsyncGrant,
    Codec,
    Release,
    check_of_each_call,
    check_run_for,
    given_once,
)
from streams.client.methods import LedgerMethods
from streams.client.patience import WAIT_S
from streams.client.reply import Call, Reply, must_be_awaited
from streams.client.requests import PreparedRequest, StatedClaim, Wanted
from streams.errors import AccountantWarning

T = TypeVar("T")
Given = ParamSpec("Given")


class AsyncReleases(LedgerMethods[Call[Decision], Call[Reply]]):
    """`grant`, `release` and `released`."""

    def prepare(self, wanted: Wanted, wait: float) -> Call[PreparedRequest]:
        """Return the call by which a caller's wish is asked for."""
        raise NotImplementedError

    def ledger_id(self) -> Call[str]:
        """Return the random id of the ledger, empty where it is not known."""
        raise NotImplementedError

    def reply_to(self, call: PreparedRequest, wait: float) -> Call[Reply]:
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
    ) -> AsyncGrant:
        """As `Accountant.grant`."""
        wait = given_seconds("wait", wait)

        async def ask() -> tuple[Wanted, Reply]:
            how = (analyst, purpose, unit, neighbours, request_id, via)
            asked = self.wanted(dataset, claim, *how)
            return asked, await self.replied(asked, wait)

        return AsyncGrant(ask)

    @must_be_awaited
    async def release(
        self,
        dataset: str,
        claim: str | Claim | StatedClaim | Mapping[str, Any],
        run: Callable[[], T | Awaitable[T]],
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
        """As `Accountant.release`; `run` may also be asynchronous, else a thread runs it."""
        check_run_for(run, codec, awaited=True)
        name = given_once(once, request_id)
        wait = given_seconds("wait", wait)
        asked = self.wanted(dataset, claim, analyst, purpose, unit, neighbours, request_id, via)
        kept_in = store if isinstance(store, AnswerStore) else AnswerStore(store)
        call = await self.prepare(asked, wait)
        steps = Release(kept_in, call, codec, self.url, wait, name)
        with steps.under_way():
            if (repeats := await _finished(steps.repeats)) is not None:
                warnings.warn(repeats, AccountantWarning, stacklevel=2)
            ledger_id = "" if name is None else await self.ledger_id()
            if (kept := await _finished(steps.begin, ledger_id)) is not None:
                return cast("T", steps.stored(kept))
            reply = await self.reply_to(steps.call, wait)
            # A thread cannot be cancelled: who is, waits for it, so that the store knows what ran.
            running = asyncio.ensure_future(_run(steps, reply, run))
            try:
                return cast("T", await asyncio.shield(running))
            except asyncio.CancelledError:
                if inspect.iscoroutinefunction(run):
                    running.cancel()
                await asyncio.wait([running])
                raise

    def released(
        self, dataset: str, claim: str | Claim | StatedClaim | Mapping[str, Any], **how: Any
    ) -> Callable[[Callable[Given, Awaitable[T]]], Callable[Given, Call[T]]]:
        """As `Accountant.released`, for asynchronous functions."""
        check_of_each_call(how)

        def decorate(function: Callable[Given, Awaitable[T]]) -> Callable[Given, Call[T]]:
            @wraps(function)
            def call(*args: Given.args, **kwargs: Given.kwargs) -> Call[T]:
                own: dict[str, Any] = {key: kwargs.pop(key, None) for key in OF_EACH_CALL}

                async def run() -> T:
                    return await function(*args, **kwargs)

                return self.release(dataset, claim, run, **own, **how)

            return call

        return decorate


async def _run(steps: Release, reply: Reply, run: Callable[[], Any]) -> Any:
    with steps.under_way():
        while (turn := await _finished(steps.turn, reply)) is None:  # noqa: ASYNC110
            # Another process may be the one that runs: nothing here could be told of its end.
            await asyncio.sleep(LOOK_S)
        if isinstance(turn, Stored):
            return steps.stored(turn)
        if inspect.iscoroutinefunction(run):
            answer = await run()
        else:
            answer = await asyncio.to_thread(run)
            if inspect.isawaitable(answer):
                answer = await answer
        encoded = await _finished(steps.encoded, answer)
        encoded.warn(stacklevel=2)
        await _finished(steps.end, turn, encoded)
        return encoded.answer


async def _finished(step: Callable[..., T], *args: Any) -> T:
    """Take a step in a thread, and wait for its end even where the caller is cancelled."""
    taken = asyncio.ensure_future(asyncio.to_thread(step, *args))
    try:
        return await asyncio.shield(taken)
    except asyncio.CancelledError:
        await asyncio.wait([taken])
        raise
