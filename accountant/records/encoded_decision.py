"""The encoded form of one decision."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from accountant.amounts import Units
from accountant.records import Decision, decode_decision
from accountant.records.outcomes import Outcome, Reason


class CountedDecision(msgspec.Struct, gc=False):
    """The fields of one decision that views and metrics count, the busiest readers.

    Attributes:
        partition_sequence, outcome, reason, dataset, sequence: as in `records.Decision`.
        decided_at: milliseconds since 1970.
        analyst: the analyst of a granted or refused request, and of a step of a reservation; None
            for any other decision.
        charged: the amount that a grant added to the first of the dataset's totals, in units of
            1e-40, or a step of a reservation, below 0 for what comes back; 0 if that total is
            infinite now. None for any other decision.
    """

    partition_sequence: int
    outcome: Outcome
    reason: Reason | None
    dataset: str | None
    sequence: int | None
    decided_at: int
    analyst: str | None
    charged: Units | None


class EncodedDecision(CountedDecision, gc=False):
    """One decision ready for the log; the next decision holds the hash of its `value`.

    Attributes:
        crossed: whether the decision has alerts: it crossed a threshold, of the dataset or of one
            of its levels, it cuts a share, or a request waits or is answered.
        value: the decision's bytes.
        key: the input's key, which is also the key of the decision's record.
        digest: SHA-256 of the value.
        cached: the whole decision, None until it is built or decoded.
        parts: of a decision over several datasets, one for each of them, as `by_dataset` of
            `records.parts` has them.
    """

    crossed: bool
    value: bytes
    key: bytes | None
    digest: bytes
    cached: Decision | None = None
    parts: tuple[EncodedDecision, ...] = ()

    @property
    def decision(self) -> Decision:
        """The whole decision, decoded at first use unless `decide` has built it."""
        if self.cached is None:
            self.cached = decode_decision(self.value)
        return self.cached


def by_dataset(records: Iterable[EncodedDecision]) -> list[EncodedDecision]:
    """Return decisions with each one over several datasets replaced by its parts."""
    found: list[EncodedDecision] = []
    for each in records:
        if each.parts:
            found += each.parts
        else:
            found.append(each)
    return found
