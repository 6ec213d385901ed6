"""What is on the wire: requests, decisions, outcomes. Each kind of record is in `requests`."""

from __future__ import annotations

from accountant.records.dataset_row import Snapshot, decode_snapshot
from accountant.records.records import (
    DECODE_ERRORS,
    NO_REQUEST,
    Decision,
    FieldError,
    First,
    Genesis,
    Origin,
    decode_decision,
    decode_policy,
    encode,
)
from accountant.records.requests import (
    VERSION,
    AdminRecord,
    Body,
    ReservationStep,
    Reserve,
    Source,
    Version,
)
from accountant.records.state_rows import (
    NextOffsets,
    PartitionRow,
    decode_partition_row,
    partition_row_key,
)
from accountant.versions import FORMAT, RULES, Format, check_maker

__all__ = [
    "DECODE_ERRORS",
    "FORMAT",
    "NO_REQUEST",
    "RULES",
    "VERSION",
    "AdminRecord",
    "Body",
    "Decision",
    "FieldError",
    "First",
    "Format",
    "Genesis",
    "NextOffsets",
    "Origin",
    "PartitionRow",
    "ReservationStep",
    "Reserve",
    "Snapshot",
    "Source",
    "Version",
    "check_maker",
    "decode_decision",
    "decode_partition_row",
    "decode_policy",
    "decode_snapshot",
    "encode",
    "partition_row_key",
]
