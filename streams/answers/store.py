"""The protocol of a store of answers: of each grant, the first answer that was stored wins.

A draw that is not stored is no release: nobody has read it. What is stored is the answer of its
grant for ever, whatever crashes, runs again, or runs twice at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from streams.errors import Refused, Unavailable

StepKind = Literal["begin", "settle", "attempt_1", "attempt_2", "attempt_3"]
"""What is stored before it is done: a record that is sent, or a run of a plain question."""


class StoreDamaged(Unavailable):
    """A store's file cannot be read as one any more, so waiting does not help.

    Attributes:
        way_out: for whoever runs the process.
    """

    def __init__(self, message: str = "", way_out: str = "") -> None:
        super().__init__(message)
        self.way_out = way_out


@contextlib.contextmanager
def refusing_damage() -> Iterator[None]:
    """Raise `Refused` for a damaged store: nothing is tried again, and the way out is named."""
    try:
        yield
    except StoreDamaged as error:
        raise Refused(f"{error}. {error.way_out}") from error


class LogPlace(NamedTuple):
    """A place in a partition's log.

    Attributes:
        number: of the next decision to read.
        head: the hash of the decision before it, "" where there is none.
    """

    number: int
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAnswer:
    """An answer that may be stored.

    Attributes:
        grant: `sha256:...`, the hash of the decision that granted it.
        partition: of the grant's log.
        dataset, analyst, request_id: of the request.
        value: the answer, as readers get it: JSON.
    """

    grant: str
    partition: int
    dataset: str
    analyst: str
    request_id: str
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer(NewAnswer):
    """An answer as it is stored.

    Attributes:
        number: grows with each answer of a partition, from 1, with gaps.
    """

    number: int


class Answers(Protocol):
    """An iterator over answers as they become readable, until it is closed."""

    def __aiter__(self) -> AsyncIterator[StoredAnswer]: ...

    async def __anext__(self) -> StoredAnswer: ...

    def close(self) -> None:
        """Stop, awaiting nothing."""
        ...


class AnswerReader(Protocol):
    """What readers of answers need.

    Attributes:
        trouble: why no new answers come, and what to do; None while they do.

    Raises of every method: Unavailable: the store cannot be read now.
    """

    trouble: str | None

    async def get(self, grant: str) -> StoredAnswer | None:
        """Return the answer of a grant, None without any."""
        ...

    async def find(self, dataset: str, analyst: str, request_id: str) -> StoredAnswer | None:
        """Return the answer to a request, None without any."""
        ...

    async def page(self, dataset: str, *, after: int, limit: int) -> list[StoredAnswer]:
        """Return answers of a dataset after a number, in the order of their numbers."""
        ...

    def subscribe(self) -> Answers:
        """Subscribe to answers that this process stores or reads from now on.

        A reader that lags far behind loses the oldest; `page` has them all.
        """
        ...


class AnswerStore(AnswerReader, Protocol):
    """What a curator needs: several may write to one store at once.

    Raises of every method: Unavailable: the store cannot be used now, and whether something was
    stored is unknown. Call it again.
    """

    async def open_log(self, partition: int, ledger: str, begins: int) -> int:
        """Bind the store to a partition's log, once; return the number that it begins with.

        A store that was lost and made again begins after every grant of that moment: it cannot know
        which of them were answered, so none is answered again. The same holds after a restore.

        Args:
            ledger: the ledger's id.
            begins: the number of the decision that a new store begins with.

        Raises: Refused: the store belongs to another ledger, or is an older copy.
        """
        ...

    async def place(self, partition: int) -> LogPlace:
        """Return the place before which every grant has its answer, and no step is missing."""
        ...

    async def move(self, partition: int, place: LogPlace) -> None:
        """Store such a place; the last one wins."""
        ...

    async def put_first(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
        """Store answers of one partition on disk; return what is stored for their grants.

        Of a grant that has an answer already, nothing is stored, and the stored one is returned.
        """
        ...

    async def put_step(self, partition: int, grant: str, kind: StepKind, body: bytes) -> bytes:
        """Store a step of a grant before it is taken; the first one wins.

        Args:
            partition: of the grant's log.
            body: JSON.

        Returns: the stored one.
        """
        ...

    async def take_back(self, partition: int, grant: str, kind: StepKind, body: bytes) -> None:
        """Remove a step that was not taken, and never will be; only one with this very body."""
        ...

    async def close(self) -> None:
        """Close everything."""
        ...
