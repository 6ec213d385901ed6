"""How long a call goes on asking a ledger that does not answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from accountant.errors import RequestInvalid
from accountant.records.inputs import Undecodable
from streams.client.request_notes import NOT_SENT, note_request
from streams.client.requests import PreparedRequest, Wanted, unanswered, words
from streams.errors import Refused, Unavailable, Unreadable
from streams.service import Answer, Service

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
WAIT_S: Final = 5.0
"""How long a call waits for its decision where it does not say so, in seconds."""
GRACE_S: Final = 1.5
"""How long after its wait a call may still take, for what is under way then."""

T = TypeVar("T")


class Patience:
    """How long a call may still take, all of its retries together."""

    def __init__(self, wait: float) -> None:
        self._until = time.monotonic() + wait
        self._longest = _FIRST_PAUSE_S

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._until - time.monotonic())

    def pause(self, least: float = 0.0) -> float | None:
        """Return how long to pause before the next attempt, None if there is to be none.

        The pauses grow, with jitter.

        Args:
            least: seconds that the door has asked to wait.
        """
        pause = least + self._longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, hides nothing
        self._longest = min(2 * self._longest, _LONGEST_PAUSE_S)
        return None if pause >= self.left else pause


async def looked_up(
    look: Callable[[], Awaitable[T]], call: PreparedRequest | Wanted, wait: float
) -> T:
    """Return what a call needs to know before it is sent, however often that is to be asked.

    Raises: Unanswered: it cannot be read in time.
    """
    patience = Patience(wait)
    while True:
        try:
            async with asyncio.timeout(patience.left + GRACE_S):
                return await look()
        except TimeoutError:
            why = f"the ledger does not answer within {wait:g} s: nothing was heard"
            raise unanswered(call, why) from None
        except Unavailable as error:
            pause = patience.pause(error.after)
            if pause is None:
                raise unanswered(call, words(error)) from error
        await asyncio.sleep(pause)


async def answered(service: Service, call: PreparedRequest, wait: float) -> Answer:
    """Submit until there is an answer."""
    patience = Patience(wait)
    trouble = "nothing was heard"
    heard = True  # no attempt has ended without an answer
    while True:
        left = patience.left
        try:
            async with asyncio.timeout(left + GRACE_S):
                return await service.submit(call.source, call.body, wait=left)
        except Unreadable as error:
            raise unanswered(call, words(error)) from error
        except (RequestInvalid, Undecodable, Refused) as error:
            if heard:
                note_request(error, call, NOT_SENT)
            raise
        except TimeoutError:
            why = f"the ledger does not answer within {wait:g} s: {trouble}"
            raise unanswered(call, why) from None
        except Unavailable as error:
            heard = False
            trouble = words(error)
            pause = patience.pause(error.after)
            if pause is None:
                raise unanswered(call, trouble) from error
        await asyncio.sleep(pause)
