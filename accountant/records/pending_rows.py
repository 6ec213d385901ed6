"""Requests that wait for an owner's approval: how records name them, and their row in `state`."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.records.outcomes import Outcome, Reason
from accountant.records.records import First
from accountant.times import iso
from accountant.versions import Format, reader

DAY_MS: Final = 86_400_000
KEPT_MS: Final = 7 * DAY_MS
"""How much longer than its deadline a row is kept, for repeats of the request."""
MAX_PENDING: Final = 1_000
"""The most requests of a dataset that wait."""
MAX_PENDING_EACH: Final = 50
"""The most requests of one analyst that wait."""
MAX_KEPT: Final = 10_000
"""The most rows of a dataset, those of answered requests included."""


class PendingRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="pending"):
    """The row in `state` of a request above `approve_above`; kept 7 days after its deadline.

    Attributes:
        dataset, pending: as in the key: the hash of the decision `pending`, by which records name
            it.
        sequence, partition_sequence, pending_at: of that decision.
        analyst, via, request_id: of the request.
        deadline: time until which an owner may approve it.
        resets: how many times the clock had been set back; left out if 0. Once it is set back
            again, the request has lapsed.
        body: the request, verbatim, while nobody has answered it.
        body_hash: SHA-256 of the body, in hexadecimal digits.
        first: the decision that answered it, as a repeat of the request shows it.
    """

    version: Format
    dataset: str
    pending: str
    sequence: int
    partition_sequence: int
    pending_at: int
    analyst: str
    via: str | UnsetType = UNSET
    request_id: str
    deadline: int
    resets: int | UnsetType = UNSET
    body: msgspec.Raw | UnsetType = UNSET
    body_hash: str
    first: First | UnsetType = UNSET

    @property
    def key(self) -> tuple[str, str]:
        """Its key in a `PendingTable`."""
        return self.dataset, self.pending

    @property
    def request_key(self) -> tuple[str, str]:
        """Analyst and id of the request."""
        return self.analyst, self.request_id

    @property
    def is_open(self) -> bool:
        """Whether nobody has answered it."""
        return self.first is UNSET

    @property
    def latest(self) -> int:
        """Number in the partition of the decision that answered it, else of `pending`."""
        return self.partition_sequence if self.first is UNSET else self.first.partition_sequence

    def first_answer(self, at: int, resets: int) -> First:
        """Return the decision that a repeat of the request shows: the answer, once there is one.

        Args:
            at, resets: as of `waits`.
        """
        if self.first is not UNSET:
            return self.first
        return First(
            partition_sequence=self.partition_sequence,
            decided_at=iso(self.pending_at),
            outcome=Outcome.PENDING,
            hash=self.pending,
            reason=None if self.waits(at, resets) else Reason.LAPSED,
        )

    @property
    def due(self) -> int:
        """The time from which it is not kept any more."""
        return self.deadline + KEPT_MS

    def waits(self, at: int, resets: int) -> bool:
        """Tell whether an owner may still answer it.

        Args:
            at: a time of the log. `resets`: how many times its clock has been set back.
        """
        return self.is_open and at < self.deadline and (self.resets or 0) == resets


decode_pending_row = reader(PendingRow)
_BEGIN: Final = b'{"dataset":"'
_PENDING: Final = b'","pending":"'


def pending_row_key(dataset: str, pending: str) -> bytes:
    """Return the key of a row: no name of a dataset begins with a brace."""
    return f'{{"dataset":"{dataset}","pending":"{pending}"}}'.encode()


def is_pending_row_key(key: bytes) -> bool:
    """Tell a pending request's key from those of other rows."""
    return key.startswith(_BEGIN) and _PENDING in key


class _PendingKey(msgspec.Struct, forbid_unknown_fields=True):
    dataset: str
    pending: str


_decode_key = msgspec.json.Decoder(_PendingKey).decode


def parse_pending_key(key: bytes) -> tuple[str, str]:
    """Return (dataset, pending) of a row's key.

    Raises: msgspec.MsgspecError, UnicodeDecodeError: it is none.
    """
    parsed = _decode_key(key)
    return parsed.dataset, parsed.pending
