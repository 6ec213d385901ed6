"""What is asked of a ledger, the same for the client that waits and the one that is awaited."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar, cast
from uuid import UUID

from accountant.claims import Claim
from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from accountant.records.given import (
    given_claim,
    given_id,
    given_seconds,
    given_text,
    optional_text,
)
from streams.client.owned.methods import OwnerMethods
from streams.client.patience import WAIT_S
from streams.client.requests import PreparedRequest, StatedClaim, Wanted, new_id, prepared

ANALYST: Final = "ACCOUNTANT_ANALYST"

D_co = TypeVar("D_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)


class LedgerMethods(OwnerMethods[D_co], Generic[D_co, R_co]):
    """Requests and owners' records.

    `D_co` is a decision and `R_co` a reply, or what is awaited for one. What is wrong with a
    call is raised by the call itself, before anything is sent.

    Attributes:
        clock: dates the ids.
        url: the address of the ledger.
        analyst: who asks where a call does not say so.
        via: the engine that asks for them, where a call does not say so.
    """

    url: str
    analyst: str | None
    via: str | None

    def decided(self, call: PreparedRequest, wait: float) -> D_co:
        """Send a call until it is answered, the same bytes each time."""
        raise NotImplementedError

    def replied(self, wanted: Wanted, wait: float) -> R_co:
        """Ask, with the unit and neighbours of the dataset's policy where none are given."""
        raise NotImplementedError

    def ask(
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
    ) -> R_co:
        """Ask to run one mechanism on a dataset; read `granted` of what it replies.

        `grant` and `release` do the same and raise where nothing is granted.

        Args:
            dataset: its name.
            claim: what the mechanism promises, as text (`gaussian:sigma=20,sensitivity=1`),
                as a value of `accountant.claims`, as a dict of the wire, or as an engine's
                adapter states it. Amounts are taken exactly, or refused with how to write them.
            analyst: who asks; without it the client's own, which with a token is by default
                whom the door knows the client as.
            purpose: for people, at most 200 characters.
            unit, neighbours: what the promise is for; those of the dataset's policy where they
                are not given.
            request_id: of an earlier call, to ask again; without it a new one.
            via: the name of the engine that asks for the analyst, the token's own: it needs the
                role `engine`, and the analyst must be named.
            wait: seconds to wait for the decision, retries included; a call that is under way
                then takes at most about two more.
        Raises: RequestInvalid, Unanswered (its `request_id` is to ask again with), Refused.
        """
        wait = given_seconds("wait", wait)
        wanted = self.wanted(dataset, claim, analyst, purpose, unit, neighbours, request_id, via)
        return self.replied(wanted, wait)

    def wanted(
        self,
        dataset: str,
        claim: object,  # whatever a notebook hands over
        analyst: str | None = None,
        purpose: str = "",
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
    ) -> Wanted:
        """Return what a caller asks for, checked as far as it is known.

        Raises: RequestInvalid.
        """
        if isinstance(claim, StatedClaim):
            for field, given, stated in (
                ("unit", unit, claim.unit),
                ("neighbours", neighbours, claim.neighbours),
            ):
                if given is not None and given != stated:
                    raise RequestInvalid(field, f"must be {stated}, as the engine states", given)
            claim, unit, neighbours = claim
        else:
            claim = given_claim(claim)
        who = optional_text("analyst", analyst) or own_analyst(self.analyst)
        engine = optional_text("via", via) or optional_text("via", self.via)
        if who is None and engine is not None:
            rule = "must be given where an engine asks, as `via` says"
            raise RequestInvalid("analyst", rule, who)
        if who is None and not self.shows_token:
            rule = f"must be given to the call, to the client, or as {ANALYST}"
            raise RequestInvalid("analyst", rule, who)
        fresh = request_id is None
        sent_id = new_id(self.clock) if request_id is None else given_id(request_id)
        wanted = Wanted(
            given_text("dataset", dataset),
            claim,
            who,
            given_text("purpose", purpose),
            optional_text("unit", unit),
            cast("Neighbours | None", optional_text("neighbours", neighbours)),
            sent_id,
            fresh,
            engine,
        )
        if not wanted.is_stated:
            wanted.check()
        return wanted

    def new_request_id(self) -> str:
        """Return a new request id, to be kept before asking: a UUIDv7 of this moment."""
        return new_id(self.clock)

    def submit(self, body: bytes, *, wait: float = WAIT_S) -> D_co:
        """Send a body of your own, a request or an admin record; retries send the same bytes."""
        wait = given_seconds("wait", wait)
        if not isinstance(body, bytes | bytearray | memoryview):
            raise RequestInvalid("body", "must be bytes", body)
        return self.decided(prepared(bytes(body)), wait)


def own_analyst(analyst: object) -> str | None:
    """Return who asks by a client's own word: what it was made with, else the environment's.

    Raises: RequestInvalid: it is no text.
    """
    return optional_text("analyst", analyst or os.environ.get(ANALYST) or None)


def refuse_old_close(dataset: tuple[object, ...], rest: Mapping[str, object]) -> None:
    """Raise where `close` is called as it was before: it closes the client now.

    Raises: TypeError.
    """
    if dataset or rest:
        raise TypeError(
            "close() closes the client and takes nothing: a dataset is closed by "
            "close_dataset(name, by=...)"
        )
