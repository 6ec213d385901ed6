"""Answers that cannot be trusted: none is shown, and what the server says in their place."""

from __future__ import annotations

from typing import NoReturn

from streams.answers.store import StoredAnswer
from streams.errors import Unavailable
from streams.tasks.broadcast import Broadcast, Subscription


class UntrustedAnswers:
    """An `AnswerReader` that reads nothing, since an older copy would show what it lacks as new.

    Args:
        why: what is wrong with the store, and how to repair it.
    """

    def __init__(self, why: str) -> None:
        self.trouble: str | None = (
            f"no question gets an answer, and none is shown; requests are decided. {why}. Do that "
            "while the server is stopped, then start it again"
        )

    async def get(self, grant: str) -> StoredAnswer | None:
        """Raise, as each of these methods does. Raises: Unavailable."""
        self._refuse()

    async def find(self, dataset: str, analyst: str, request_id: str) -> StoredAnswer | None:
        """As `get`."""
        self._refuse()

    async def page(self, dataset: str, *, after: int, limit: int) -> list[StoredAnswer]:
        """As `get`."""
        self._refuse()

    def subscribe(self) -> Subscription[StoredAnswer]:
        """Return a subscription to which nothing comes."""
        return Broadcast[StoredAnswer]().subscribe()

    def _refuse(self) -> NoReturn:
        # The cause names files: it is for whoever may read the notes of /readyz.
        raise Unavailable(
            "the answers cannot be read now. What was granted is charged once, and is answered or "
            "fails later. Whoever runs the server finds what to do with `accountant ready`"
        )
