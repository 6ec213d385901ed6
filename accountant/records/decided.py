"""One decision as it goes into the log."""

from __future__ import annotations

import msgspec

from accountant.amounts import Units
from accountant.records import Decision, decode_decision
from accountant.records.outcomes import Outcome, Reason


class CountedDecision(msgspec.Struct, gc=False):
    """One decision, as far as the busiest readers look at it: those who count.

    Attributes:
        partition_sequence, outcome, reason, dataset, sequence: as in `records.Decision`.
        decided_at: milliseconds since 1970.
        value: its bytes.
        analyst: whose request was granted or refused, None of any other decision.
        charged: what a grant added to the first of the dataset's totals, in units of 1e-40; 0 if
            that is infinite now. None of any other decision.
        crossed: whether it crossed a threshold.
    """

    partition_sequence: int
    outcome: Outcome
    reason: Reason | None
    dataset: str | None
    sequence: int | None
    decided_at: int
    value: bytes
    analyst: str | None
    charged: Units | None
    crossed: bool


class Encoded(CountedDecision, gc=False):
    """One decision as it goes into the log; the next one's hash covers its `value`.

    Attributes:
        key: the input's own key, under which the decision is written.
        digest: SHA-256 of the value.
    """

    key: bytes | None
    digest: bytes
    made: Decision | None = None

    @property
    def decision(self) -> Decision:
        """The whole decision; decoded when it is first asked for, if it was never built."""
        if self.made is None:
            self.made = decode_decision(self.value)
        return self.made
