"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Self

import msgspec
from msgspec import UNSET

from accountant.advice.preview import Preview
from accountant.claims import Claim
from accountant.errors import RequestInvalid
from accountant.policy import Access, Neighbours
from accountant.records import Decision, decode_decision
from accountant.records.given import given_seconds, given_text, optional_text
from accountant.records.previews import asked_in
from accountant.views.datasets import Alert
from accountant.views.heads import Head
from streams.client.async_releases import AsyncReleases
from streams.client.connect import AbsentLedger, connect_here, let_go, settings_of
from streams.client.http import HttpService
from streams.client.identity import me_of, own_name, shows_token
from streams.client.matching import Matching
from streams.client.methods import refuse_old_close
from streams.client.one_a_process import UsedAfterFork
from streams.client.owned.methods import Make, MakeOpen
from streams.client.owned.opened import check_same_policy, was_open
from streams.client.patience import GRACE_S, WAIT_S, answered, looked_up
from streams.client.reading.awaited import AwaitedReads
from streams.client.reply import Call, Reply, must_be_awaited
from streams.client.request_notes import NOT_SENT, noted
from streams.client.requests import (
    SOMEBODY,
    PreparedRequest,
    StatedClaim,
    Unanswered,
    Wanted,
    undecided,
)
from streams.clock import Clock, SystemClock
from streams.embedded.service import EmbeddedService
from streams.errors import Gone, Refused, Unavailable, Unreadable
from streams.service import Service
from streams.settings import Settings

CONNECT_S: Final = 10.0
_NOBODY: Final = "preview"  # is not sent
_USUAL: Final[tuple[str, Neighbours]] = ("person", "add_remove")
_PAGE: Final = 500  # decisions


class AsyncAccountant(AwaitedReads, AsyncReleases):
    """A ledger, for programs with an event loop; use it as an `async with` context.

    Outcomes are values: a refusal is a `Reply` with a reason, and `fits` says what would
    still be granted. Raised are RequestInvalid or Undecodable (nothing was sent),
    Unavailable (ask again with the same request_id), and Refused (someone must act).

    Args:
        url: `sqlite:///accountant.db`, `http://host:port` or `kafka://host:port`; without it
            `ACCOUNTANT_URL`, or the first of these. A relative path is one in the directory
            that is the current one when the client is made.
        token: shown to the door at the address, and nowhere else; without it `ACCOUNTANT_TOKEN`,
            or what is in the file `ACCOUNTANT_TOKEN_FILE`. A file that is opened here and Kafka
            ask for none.
        analyst: who asks, where a call does not say so; without it `ACCOUNTANT_ANALYST`, and with
            a token whom the door knows.
        via: the engine that asks for them, where a call does not say so.
        settings: all of them, instead of those in the environment.
        wait: seconds to wait for a connection to Kafka, at least 2, or for a file that another
            process holds without an address.

    A file that is not there is made by the first opening of a dataset, and by nothing else.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        analyst: str | None = None,
        via: str | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        wait: float = CONNECT_S,
    ) -> None:
        self.settings = settings_of(url, token, settings)
        self.url = self.settings.url
        self.analyst = optional_text("analyst", analyst)
        self.via = optional_text("via", via)
        self.clock = clock or SystemClock()
        self._open: Service | None = None
        self._made_by = os.getpid()
        self._connect_s = given_seconds("wait", wait)
        self._looking = threading.Lock()
        self._stated: dict[str, tuple[str, Neighbours]] = {}
        self._ledger_id = ""
        self.matching = Matching()

    async def __aenter__(self) -> Self:
        here = await asyncio.to_thread(
            connect_here, self.settings, self.clock, wait=self._connect_s
        )
        self.attach(here or await self.connect_kafka())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    @property
    def shows_token(self) -> bool:
        """Whether there is a door that a token is shown to."""
        return shows_token(self._open)

    async def connect_kafka(self) -> Service:
        """Return the service of a ledger on Kafka.

        Raises: Unavailable: the broker does not answer in time.
        """
        from streams.kafka.connect import connect_kafka

        return await connect_kafka(self.settings, wait=self._connect_s)

    def attach(self, service: Service) -> None:
        """Use a service that is connected already; `disconnect` closes it."""
        self._made_by = os.getpid()
        self._open = service

    @must_be_awaited
    async def disconnect(self) -> None:
        """Let go of the ledger."""
        service, self._open = self._open, None
        if service is not None and self.is_own:
            await let_go(service)

    def close(self, *dataset: object, **rest: object) -> Call[None]:
        """Let go of the ledger, as `disconnect`. A dataset is closed by `close_dataset`."""
        refuse_old_close(dataset, rest)
        return self.disconnect()

    @property
    def is_own(self) -> bool:
        """Whether this process made the client, and is no fork of the one that did."""
        return os.getpid() == self._made_by

    def check_process(self) -> None:
        """Check that this process made the client.

        Raises: UsedAfterFork.
        """
        if not self.is_own:
            raise UsedAfterFork(self._made_by)

    @property
    def _service(self) -> Service:
        self.check_process()
        if self._open is None:
            raise Unavailable(
                "not connected: the client was let go, or is used before its `async with`"
            )
        return self._open

    def look(self, *, make: bool = False) -> Service:
        """Return the service in use; where there was no file, look again.

        Args:
            make: make the file if there still is none.
        Raises: Unavailable: not connected. Refused, LogDamaged: as `connect_here`.
        """
        if not isinstance(self._service, AbsentLedger):
            return self._service
        with self._looking:
            if isinstance(self._service, AbsentLedger):
                self._open = connect_here(
                    self.settings, self.clock, make=make, wait=self._connect_s
                )
            return self._service

    async def _reached(self, *, make: bool = False) -> Service:
        if not isinstance(self._service, AbsentLedger):
            return self._service
        return await asyncio.to_thread(self.look, make=make)

    @must_be_awaited
    async def decision(self, dataset: str, analyst: str, request_id: str) -> Decision | None:
        """As `Accountant.decision`."""
        asked = (
            given_text("dataset", dataset),
            given_text("analyst", analyst),
            given_text("request_id", request_id),
        )
        found = await self._found(*asked)
        if found is None:
            return None
        decision = decode_decision(found)
        self.matching.check_lookup(*asked, decision)
        return decision

    def cost(
        self,
        dataset: str,
        claim: str | Claim | StatedClaim | Mapping[str, Any],
        *,
        analyst: str | None = None,
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
    ) -> Call[Preview]:
        """As `Accountant.cost`."""
        wait = given_seconds("wait", wait)
        who = optional_text("analyst", analyst) or self.named()
        wanted = self.wanted(dataset, claim, who or _NOBODY, "", unit, neighbours, via=via)
        return Call(self._cost(wanted, who, wait))

    async def _cost(self, wanted: Wanted, who: str | None, wait: float) -> Preview:
        call = await self.prepare(wanted, wait)
        # Where only a token says who asks, the door knows it.
        asked = asked_in(call.body)
        asked = msgspec.structs.replace(asked, analyst=who, via=asked.via if who else UNSET)
        found = await (await self._reached()).preview(wanted.dataset, asked)
        if found is None:
            raise RequestInvalid("dataset", "must have been opened", wanted.dataset)
        return found

    async def requests(self, dataset: str, *, after: int = 0) -> AsyncIterator[Decision]:
        """As `Accountant.requests`."""
        while found := await self.page(dataset, after):
            for decision in found:
                yield decision
            after = found[-1].sequence or after

    async def page(self, dataset: str, after: int) -> list[Decision]:
        """Return the first of a dataset's decisions after a number, none at their end."""
        dataset = given_text("dataset", dataset)
        found = await (await self._reached()).decisions(dataset, after=after, most=_PAGE)
        return [decode_decision(value) for value in found]

    def events(self) -> AsyncIterator[Decision]:
        """As `Accountant.events`."""
        return self.look().events()

    def alerts(self) -> AsyncIterator[Alert]:
        """Yield thresholds as they are crossed; `datasets` and `limits` say what was before."""
        return self.look().alerts()

    def known_statement(self, dataset: str) -> tuple[str, Neighbours] | None:
        """Return what `stated` has returned before for a dataset that is open."""
        return self._stated.get(dataset)

    @must_be_awaited
    async def stated(self, dataset: str) -> tuple[str, Neighbours]:
        """Return unit and neighbours of a dataset's policy; the usual ones of an unknown one."""
        dataset = given_text("dataset", dataset)
        known = self._stated.get(dataset)
        if known is None:
            view = await (await self._reached()).dataset(dataset)
            if view is None:
                return _USUAL
            known = self._stated[dataset] = view.policy.unit, view.policy.neighbours
        return known

    def decided(self, call: PreparedRequest, wait: float) -> Call[Decision]:
        """Send a call until it is answered, the same bytes each time.

        Raises: Unanswered: it never was, or not in time.
        """
        return Call(self._decided(call, wait))

    async def _decided(self, call: PreparedRequest, wait: float) -> Decision:
        with noted(call):
            decision, _ = await self._answer(call, wait)
            if call.is_own_repeat(decision):
                first = await self._first(call)
                return decision if first is None else self.matching.first(call, decision, first)
            return decision

    def replied(self, wanted: Wanted, wait: float) -> Call[Reply]:
        """Ask, with the unit and neighbours of the dataset's policy where none are given."""
        return Call(self._replied(wanted, wait))

    async def _replied(self, wanted: Wanted, wait: float) -> Reply:
        return await self.reply_to(await self.prepare(wanted, wait), wait)

    @must_be_awaited
    async def prepare(self, wanted: Wanted, wait: float) -> PreparedRequest:
        """Return the call by which a caller's wish is asked for.

        Raises: Unanswered: the dataset's policy is needed, and cannot be read in time.
        """
        with noted(wanted, NOT_SENT):
            if wanted.is_stated:
                return wanted.prepared()
            return await looked_up(lambda: self._prepared(wanted), wanted, wait)

    async def _prepared(self, wanted: Wanted) -> PreparedRequest:
        if wanted.analyst is None:
            wanted = wanted._replace(analyst=await own_name(self._service, "analyst"))
        return wanted.prepared(*await self.stated(wanted.dataset))

    def said(self, by: str | None, make: Make, wait: float) -> Call[Decision]:
        """Send the record that somebody makes; None for whom the door knows the client as."""
        if by is not None:
            return self.decided(make(by), wait)
        return Call(self._said_as_known(make, wait))

    def opened(self, by: str | None, make: MakeOpen, wait: float) -> Call[Decision]:
        """Open a dataset, or find it open under the same policy.

        Raises: PolicyDiffers: it is open under another one.
        """
        return Call(self._opened(by, make, wait))

    async def _opened(self, by: str | None, make: MakeOpen, wait: float) -> Decision:
        access: Access | None = None
        if self.shows_token:
            me = await looked_up(lambda: me_of(self._service), make(SOMEBODY), wait)
            access = "members" if me.authentication else None
        if by is None:
            by = await looked_up(lambda: own_name(self._service, "by"), make(SOMEBODY), wait)
        call = make(by, access=access)
        decision = await self._decided(call, wait)
        await self._check_opened(call, decision, wait)
        return decision

    async def _check_opened(self, call: PreparedRequest, decision: Decision, wait: float) -> None:
        if was_open(decision):
            view = await looked_up(lambda: self.dataset(call.dataset), call, wait)
            if view is not None:
                check_same_policy(call, decision, view.policy)

    @must_be_awaited
    async def check_opened(self, call: PreparedRequest, decision: Decision, wait: float) -> None:
        """Check what a dataset that was opened before has for its policy."""
        await self._check_opened(call, decision, wait)

    async def _said_as_known(self, make: Make, wait: float) -> Decision:
        call = make(SOMEBODY)
        with noted(call, NOT_SENT):
            name = await looked_up(lambda: own_name(self._service, "by"), call, wait)
        return await self._decided(make(name), wait)

    @must_be_awaited
    async def ledger_id(self) -> str:
        """Return the random id of the ledger in a file or behind a gateway, else nothing.

        It is asked for once. Nothing also where a gateway does not tell it, or not now: stored
        answers are there without it.

        Raises: NoSuchLedger: there is no file. Unavailable, LogDamaged: the file cannot be read.
        """
        if self._ledger_id:
            return self._ledger_id
        service = await self._reached()
        if isinstance(service, HttpService):
            with contextlib.suppress(TimeoutError, Unavailable, Refused, Gone):
                async with asyncio.timeout(GRACE_S):
                    self._ledger_id = _ledger_in(await service.heads())
        elif isinstance(service, EmbeddedService | AbsentLedger):
            self._ledger_id = _ledger_in(await service.heads())
        return self._ledger_id

    @must_be_awaited
    async def reply_to(self, call: PreparedRequest, wait: float) -> Reply:
        """Send a request until it is answered, the same bytes each time.

        Raises: Unanswered: it never was, or not in time.
        """
        with noted(call):
            decision, record = await self._answer(call, wait)
            own = call.is_own_repeat(decision)
            first = await self._first(call) if own else None
            if first is not None:
                found = self.matching.first(call, decision, first)
                return Reply(found, call.request_id, record=first)
            return Reply(decision, call.request_id, own_repeat=own, record=record)

    async def _answer(self, call: PreparedRequest, wait: float) -> tuple[Decision, bytes]:
        """Return the decision on a call, with the log's record."""
        with noted(call, NOT_SENT):
            service = await self._reached(make=call.opens)
        try:
            answer = await answered(service, call, wait)
            if answer.decision is None:
                raise undecided(call, wait)
            decision = decode_decision(answer.decision)
            self.matching.check(call, decision)
        except Unanswered:
            self.matching.not_answered(call)
            raise
        return decision, answer.decision

    async def _found(self, dataset: str, who: str, request_id: str) -> bytes | None:
        return await (await self._reached()).find(dataset, who, request_id)

    async def _first(self, call: PreparedRequest) -> bytes | None:
        try:
            async with asyncio.timeout(GRACE_S):
                return await self._found(call.dataset, call.who, call.request_id)
        except (TimeoutError, Unavailable, Unreadable):
            return None


def _ledger_in(heads: list[Head]) -> str:
    return heads[0].ledger if heads else ""
