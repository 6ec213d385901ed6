"""One decision as it goes into the log."""

from __future__ import annotations

import msgspec

from accountant.amounts import Units
from accountant.outcomes import Outcome, Reason
from accountant.records import Decision, decode_decision


class Encoded(msgspec.Struct, gc=False):
    """One decision as it goes into the log, with what the busiest readers need of it.

    Attributes:
        key: the record's key: the dataset, or the input's key where there is none.
        value: the decision's bytes, which the next one's hash covers.
        timestamp: decided_at, milliseconds since 1970.
        digest: SHA-256 of the value.
        partition_sequence, outcome, reason, dataset, sequence: as in `records.Decision`.
        analyst: who asked, of a granted request.
        charged: what it added to the first of the dataset's totals, in units of 1e-40.
        crossed: whether it crossed a threshold.
    """

    key: bytes | None
    value: bytes
    timestamp: int
    digest: bytes
    partition_sequence: int
    outcome: Outcome
    reason: Reason | None = None
    dataset: str | None = None
    sequence: int | None = None
    analyst: str | None = None
    charged: Units = 0
    crossed: bool = False
    made: Decision | None = None

    @property
    def decision(self) -> Decision:
        """The whole decision; decoded when it is first asked for, if it was never built."""
        if self.made is None:
            self.made = decode_decision(self.value)
        return self.made
