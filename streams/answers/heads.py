"""The head of a store's chain, as it stands outside of the store.

An older copy of the answers does not know what was answered since. Drawing those questions again
would release them a second time. So the head is written elsewhere before an answer is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ChainHead(NamedTuple):
    """The last entry of a chain.

    Attributes:
        number: of the entry, 0 without any.
        hash: `sha256:...`, of the entry; of no entry, of the log that the chain belongs to.
    """

    number: int
    hash: str


class StoredHead(NamedTuple):
    """The head of a partition's answers, outside of their store.

    Attributes:
        head: of the chain.
        branch: of the log at that time: how many rollbacks it had accepted.
        begun: how often the store has begun again since the log's last rollback.
        begins: number of the first decision whose grants only this store has answered.
    """

    head: ChainHead
    branch: int
    begun: int
    begins: int

    @property
    def order(self) -> tuple[int, int, int]:
        """By which heads follow one another."""
        return self.branch, self.begun, self.head.number


class AnswerHeads(Protocol):
    """Where the heads of a store's chains stand.

    Raises of every method: Unavailable: it cannot be used now. Refused: it is damaged.
    """

    def read(self, partition: int) -> StoredHead | None:
        """Return the head that was written last, None if none ever was."""
        ...

    def write(self, partition: int, head: StoredHead) -> None:
        """Write a head, synced to disk. An older one than the last is not written."""
        ...

    def branch(self, partition: int) -> int:
        """Return the log's branch now."""
        ...

    def signed(self, partition: int) -> Sequence[StoredHead]:
        """Return the signed heads that can be read, their `begins` left at 0."""
        ...

    def close(self) -> None:
        """Sign what is left to sign, and end; wait a few seconds at most. Never raises."""
        ...
