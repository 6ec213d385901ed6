"""Wire types and their codec: JSON, with every amount an exact decimal string."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from accountant.claims import Claim
from accountant.policy import Neighbours, Policy
from accountant.records.outcomes import Outcome, Reason

VERSION: Final = 1
RULES: Final = 1
"""Version of the rules of adjudication; each decision carries the one that made it."""

NO_REQUEST: Final = msgspec.Raw(b"")
"""Stands where a decision repeats no request; never written."""

Version = Literal[1]
Source = Literal["requests", "admin"]
"""The two inputs of a partition."""


class MechanismRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="request"
):
    """An analyst asks to run one mechanism, or one batch of them.

    Attributes:
        request_id: UUIDv7; its time is the time of issue.
        analyst: opaque id of who asks.
        claim: what the mechanism promises, for `unit` and `neighbours`.
        purpose: at most 200 characters, for people.
    """

    version: Version
    request_id: str
    analyst: str
    dataset: str
    claim: Claim
    unit: str
    neighbours: Neighbours
    purpose: str = ""


class _Admin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    version: Version
    request_id: str
    dataset: str
    by: str


class Open(_Admin, frozen=True, tag="open"):
    """An owner opens a dataset under a policy."""

    policy: Policy
    reason: str = ""


class Amend(_Admin, frozen=True, tag="amend"):
    """An owner changes thresholds or horizon; the budget never changes."""

    alert_at: tuple[str, ...] | None = None
    horizon: str | None = None
    reason: str = ""


class Close(_Admin, frozen=True, tag="close"):
    """An owner closes a dataset: nothing more is granted."""

    reason: str = ""


AdminRecord = Open | Amend | Close
Body = MechanismRequest | AdminRecord


class Origin(msgspec.Struct, frozen=True):
    """Where an input record came from."""

    topic: str
    partition: int
    offset: int


class FieldError(msgspec.Struct, frozen=True):
    """Which rule an invalid input breaks."""

    field: str
    rule: str
    value: str


class First(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a repeated request was told the first time."""

    partition_sequence: int
    decided_at: str
    outcome: Outcome
    hash: str
    reason: Reason | None = None
    cost: dict[str, str] | None = None


class Genesis(msgspec.Struct, frozen=True):
    """What a partition's log fixes for ever, in its decision 0.

    Attributes:
        application: prefix of the transactional ids.
        partitions: how many there are; changing it would split ledgers.
        window_ms: how long an id is remembered after its issue.
        skew_ms: how far an id's time may be ahead of the clock.
    """

    application: str
    partition: int
    partitions: int
    window_ms: int
    skew_ms: int


class Decision(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    kw_only=True,
    tag_field="type",
    tag="decision",
):
    """One record of the decision log; a grant is its own charge.

    Attributes:
        partition_sequence: number of the record in its partition, from 0 without a gap.
        previous: hash of the record before it.
        decided_at, floor: the partition's clock, and the time at or below which an id has
            expired.
        sequence: number of the decision in its dataset.
        request: the input, verbatim but for white space around it; left out where it was
            not JSON or broke adjudication.
        cost: what was charged. `asked`: what a refused request would have cost.
        totals, left, odometers: of the dataset *after* the decision, rounded outward.
        crossed: ratios of `alert_at` first reached by this decision.
        fits: the largest claim of the kind asked for that would still be granted.
        policy, budget: of an opening (or amendment), resolved and rounded down.
    """

    version: int = VERSION
    partition_sequence: int
    previous: str
    decided_at: str
    floor: str
    rules: int = RULES
    outcome: Outcome
    reason: Reason | None = None
    dataset: str | None = None
    generation: int | None = None
    sequence: int | None = None
    cost: dict[str, str] | None = None
    asked: dict[str, str] | None = None
    fits: str | None = None
    totals: dict[str, str | int] | None = None
    left: dict[str, str] | None = None
    odometers: dict[str, str] | None = None
    crossed: tuple[str, ...] = ()
    first: First | None = None
    error: FieldError | None = None
    policy: Policy | None = None
    budget: dict[str, str] | None = None
    genesis: Genesis | None = None
    request: msgspec.Raw = NO_REQUEST
    source: Origin | None = None

    @property
    def was_granted(self) -> bool:
        """Whether the request was granted: now or, where it is repeated, the first time."""
        told = self.first if self.outcome is Outcome.REPEATED else self
        return told is not None and told.outcome is Outcome.GRANTED


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="snapshot"):
    """One dataset's ledger as `state` keeps it, a cache of the log.

    Attributes:
        halted: true, or left out.
    """

    version: int = VERSION
    dataset: str
    generation: int
    sequence: int
    policy: msgspec.Raw
    budget: dict[str, str]
    totals: dict[str, str | int]
    odometers: dict[str, str]
    crossed: int
    exhausted: bool
    closed: bool
    opened_at: int
    changed_at: int
    halted: bool | msgspec.UnsetType = msgspec.UNSET


class NextOffsets(msgspec.Struct, frozen=True):
    """The offset of each input that the next decision will be about."""

    requests: int = 0
    admin: int = 0


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="partition"):
    """One partition's head as `state` keeps it, written with every commit.

    Attributes:
        datasets: how many rows of datasets belong to it.
        checksum: of those rows, see `accountant.partition.checksum`; earlier rows lack it.
    """

    version: int = VERSION
    rules: int = RULES
    genesis: Genesis
    partition_sequence: int
    head: str
    decided_at: int
    floor: int
    next: NextOffsets
    datasets: int
    checksum: str | msgspec.UnsetType = msgspec.UNSET


encode = msgspec.json.Encoder().encode
decode_decision = msgspec.json.Decoder(Decision).decode
decode_snapshot = msgspec.json.Decoder(Snapshot).decode
decode_partition_row = msgspec.json.Decoder(PartitionRow).decode
decode_policy = msgspec.json.Decoder(Policy).decode

DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoders raise of bytes that hold something else; the last where it nests too deep."""


def partition_row_key(partition: int) -> bytes:
    """Return the key of a partition's row, outside the grammar of dataset names."""
    return b'{"partition":%d}' % partition
