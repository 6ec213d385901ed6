"""Who asked for how much of a dataset, as far as one was shown its decisions."""

from __future__ import annotations

import msgspec

from accountant.amounts import Units, format_units
from accountant.clock import iso


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """What one analyst asked of one dataset, as far as this view was given decisions.

    It says who was granted what, not what an analyst knows: colleagues talk. Only the
    dataset's budget is a guarantee.

    Attributes:
        sequence: number of the dataset's last decision taken in.
        granted, refused: how many requests; a batch is one.
        spent: exact sum of what the grants cost, in `unit`, the budget's additive sum.
    """

    dataset: str
    generation: int
    analyst: str
    sequence: int
    granted: int
    refused: int
    unit: str
    spent: str
    last_decided_at: str


decode_usage_view = msgspec.json.Decoder(UsageView).decode


class _Asker(msgspec.Struct):
    analyst: str | None = None


_decode_asker = msgspec.json.Decoder(_Asker).decode


def analyst_in(request: msgspec.Raw) -> str | None:
    """Return who asks in a request that was decided, None for an owner's record."""
    return _decode_asker(request).analyst


class Usage:
    """The running sums behind a `UsageView`.

    Args:
        unit: the additive sum of the dataset's budget.
        generation: of the dataset.
    """

    __slots__ = ("decided_at", "generation", "granted", "refused", "sequence", "spent", "unit")

    def __init__(self, unit: str, generation: int) -> None:
        self.unit = unit
        self.generation = generation
        self.granted = self.refused = self.sequence = self.decided_at = 0
        self.spent: Units = 0

    def take(self, sequence: int, decided_at: int, charged: Units | None) -> None:
        """Take in the dataset's next decision on a request of this analyst.

        Args:
            sequence: its number in the dataset; one taken in already changes nothing.
            decided_at: milliseconds since 1970.
            charged: what a grant cost, in units of 1e-40; None for a refusal.
        """
        if sequence <= self.sequence:
            return
        self.sequence, self.decided_at = sequence, decided_at
        if charged is None:
            self.refused += 1
        else:
            self.granted += 1
            self.spent += charged

    def view(self, dataset: str, analyst: str) -> UsageView:
        """Return it as people look at it."""
        return UsageView(
            dataset=dataset,
            generation=self.generation,
            analyst=analyst,
            sequence=self.sequence,
            granted=self.granted,
            refused=self.refused,
            unit=self.unit,
            spent=format_units(self.spent),
            last_decided_at=iso(self.decided_at),
        )
