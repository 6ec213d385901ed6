"""Decide every request of a log again, and nothing else: one half of an audit in two processes.

The other half is an `Auditor` with `decides=False`: it checks the chain, the order and the sums.
Both read the whole log from decision 0, so neither has to trust a state of the other.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

import msgspec

from accountant.partition import Partition, hash_of
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records import Decision, Origin, Source, decode_decision
from accountant.records.inputs import Input
from accountant.replay.apply import apply, remember
from accountant.replay.replay import state_rows
from accountant.times import from_iso

_MAX_DRAFT: Final = 256


class _AskedRecord(msgspec.Struct, gc=False):
    """What it takes to decide a record again. All else follows, since its bytes are compared."""

    decided_at: str
    source: Origin | None = None
    request: msgspec.Raw = msgspec.Raw()
    approval: msgspec.Raw = msgspec.Raw()


_decode_asked: Final = msgspec.json.Decoder(_AskedRecord).decode


class DecidedLog(NamedTuple):
    """What a log comes to.

    Attributes:
        requests: how many records with a request were decided again.
        sequence, head: number and hash of the last record.
        rows: the hash of all rows of `state`.
    """

    requests: int
    sequence: int
    head: str
    rows: str


def hash_of_rows(partition: Partition) -> str:
    """Return the hash of all rows of `state` of a partition."""
    digest = hashlib.sha256()
    for key, value in state_rows(partition):
        digest.update(b"%d %d %b%b" % (len(key), len(value), key, value))
    return digest.hexdigest()


class Decider:
    """Takes a log record by record, and decides again each one that has a request."""

    def __init__(self, *, most_ids: int | None = None) -> None:
        """Expect a log from decision 0 on.

        Args:
            most_ids: the most ids that the deciding partition remembered.
        """
        self._most_ids = most_ids
        self._partition: Partition | None = None
        self._draft: Draft | None = None
        self._in_draft = 0
        self._requests = 0

    def take(self, value: bytes) -> bool:
        """Take the next record; return False if other bytes are decided.

        It may be right all the same: a reading may have another last digit on another machine.
        After False this decider must not be used.
        Raises: Exception: whatever reading a wrong record may raise.
        """
        partition = self._partition
        if partition is None:
            decision = decode_decision(value)
            if decision.genesis is None:
                return False
            partition = self._partition = Partition(decision.genesis, most_ids=self._most_ids)
            apply(partition, decision, hash_of(value))
            return True
        asked = _decode_asked(value)
        source, body = asked.source, bytes(asked.approval) or bytes(asked.request)
        if not body:
            self._take_without_request(partition, decode_decision(value), value)
            return True
        if source is None:
            return False
        if self._draft is None:
            self._draft = Draft(partition)
        at = from_iso(asked.decided_at)
        topic: Source = "admin" if source.topic == "admin" else "requests"
        if decide(self._draft, Input(topic, source.offset, None, body, at), at).value != value:
            return False
        self._requests += 1
        self._in_draft += 1
        if self._in_draft >= _MAX_DRAFT:
            self._absorb()
        return True

    def end(self) -> DecidedLog | None:
        """Return what the records come to, None if there were none."""
        self._absorb()
        partition = self._partition
        if partition is None:
            return None
        rows = hash_of_rows(partition)
        return DecidedLog(self._requests, partition.sequence, partition.head, rows)

    def _take_without_request(self, partition: Partition, decision: Decision, value: bytes) -> None:
        self._absorb()
        digest = hash_of(value)
        apply(partition, decision, digest)
        remember(partition, decision, digest)

    def _absorb(self) -> None:
        if self._draft is not None:
            self._draft.absorb()
        self._draft, self._in_draft = None, 0
