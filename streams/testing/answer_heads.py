"""Heads of answers in memory, for stores without a ledger."""

from __future__ import annotations

from collections.abc import Sequence

from streams.answers.heads import StoredHead


class MemoryAnswerHeads:
    """`AnswerHeads` in memory.

    Attributes:
        heads: the last head of each partition.
        signed_heads: what `signed` returns of each partition.
        log_branch: what `branch` returns.
        fails: raised by the next `write`, once.
    """

    def __init__(self) -> None:
        self.heads = dict[int, StoredHead]()
        self.signed_heads = dict[int, Sequence[StoredHead]]()
        self.log_branch = 0
        self.fails: Exception | None = None

    def read(self, partition: int) -> StoredHead | None:
        """As `AnswerHeads.read`."""
        return self.heads.get(partition)

    def write(self, partition: int, head: StoredHead) -> None:
        """As `AnswerHeads.write`."""
        if self.fails is not None:
            failed, self.fails = self.fails, None
            raise failed
        before = self.heads.get(partition)
        if before is None or before.order <= head.order:
            self.heads[partition] = head

    def branch(self, partition: int) -> int:
        """As `AnswerHeads.branch`."""
        return self.log_branch

    def signed(self, partition: int) -> Sequence[StoredHead]:
        """As `AnswerHeads.signed`."""
        return self.signed_heads.get(partition, ())

    def close(self) -> None:
        """As `AnswerHeads.close`."""
