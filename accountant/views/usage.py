"""Who asked for how much of a dataset, as far as one was shown its decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Final

import msgspec

from accountant.amounts import Units, format_units
from accountant.records.decided import CountedDecision
from accountant.times import iso

MOST_ANALYSTS: Final = 10_000
"""So many analysts of a dataset are told apart, the first that come."""

MOST_ROWS: Final = 1_000_000
"""So many analysts of all datasets together; their rows take about 280 bytes each."""

OTHERS: Final = "(others)"
"""Stands for all later ones together; no analyst can have this name, see `inputs.is_name`."""


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """What one analyst asked of one dataset, as far as this view was given decisions.

    It says who was granted what, not what an analyst knows: colleagues talk. Only the
    dataset's budget is a guarantee. Of a dataset the first `MOST_ANALYSTS` analysts that came
    are shown one by one, and all others together as one called `OTHERS`; so are those that come
    when `MOST_ROWS` are told apart in the process.

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


class Usage(msgspec.Struct, gc=False):
    """The running sums behind a `UsageView`.

    Attributes:
        unit: the additive sum of the dataset's budget.
        generation: of the dataset.
        decided_at: milliseconds since 1970.
        spent: in units of 1e-40.
    """

    unit: str
    generation: int
    granted: int = 0
    refused: int = 0
    sequence: int = 0
    decided_at: int = 0
    spent: Units = 0

    def take(self, sequence: int, decided_at: int, charged: Units | None) -> bool:
        """Take in the dataset's next decision on a request of this analyst.

        Args:
            sequence: its number in the dataset; one taken in already changes nothing.
            decided_at: milliseconds since 1970.
            charged: what a grant cost, in units of 1e-40; None for a refusal.
        Returns: whether it was the next one, and not one taken in already.
        """
        if sequence <= self.sequence:
            return False
        self.sequence, self.decided_at = sequence, decided_at
        if charged is None:
            self.refused += 1
        else:
            self.granted += 1
            self.spent += charged
        return True

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


Unit = tuple[str, int]
"""The additive sum of a dataset's budget, and the dataset's generation."""

Rows = dict[str, Usage]
"""Who used one dataset, by analyst, and `OTHERS` where there are too many."""


class Vacancies:
    """How many more rows one process has room for, of all datasets together.

    Attributes:
        left: less than none where datasets have a row of `OTHERS` beyond.
    """

    __slots__ = ("left",)

    def __init__(self, most: int = MOST_ROWS) -> None:
        self.left = most


def row_of(rows: Rows, analyst: str, vacancies: Vacancies, unit: Unit) -> Usage:
    """Return the row where an analyst's requests count, a new one where that must be.

    A name is free text and a refusal costs nothing, so without a bound anybody could fill the
    memory. No row of a dataset is ever taken out alone, and once there are `OTHERS` no new one
    comes, so the same analyst finds the same row each time; since a dataset's decisions come in
    their order, one taken in already is known in any row.

    Args:
        rows: of the dataset.
        unit: of the dataset.
    """
    row = rows.get(analyst)
    if row is None:
        apart = len(rows) < MOST_ANALYSTS and vacancies.left > 0 and OTHERS not in rows
        name = analyst if apart else OTHERS
        row = rows.get(name)
        if row is None:
            row = rows[name] = Usage(*unit)
            vacancies.left -= 1
    return row


class UsageTable:
    """Who used what, counted from decisions. Calls are not concurrent.

    Args:
        rows: by dataset, then by analyst; kept up to date.
        vacancies: for rows.
    """

    def __init__(
        self, rows: MutableMapping[str, Rows] | None = None, vacancies: Vacancies | None = None
    ) -> None:
        self.rows: MutableMapping[str, Rows] = {} if rows is None else rows
        self._vacancies = vacancies or Vacancies()

    def take(self, decided: Iterable[CountedDecision], unit_of: Callable[[str], Unit]) -> int:
        """Count the grants and refusals among decisions, each dataset's in the order of the log.

        Args:
            unit_of: a dataset's.
        Returns: how many there were, without those taken in already.
        """
        dataset, rows, taken = None, None, 0
        for each in decided:
            analyst, sequence = each.analyst, each.sequence
            if analyst is None or sequence is None or each.dataset is None:
                continue  # an owner's record
            if each.dataset != dataset:  # to look in one of Faust's tables takes a microsecond
                dataset = each.dataset
                rows = self.rows.get(dataset)
            row = None if rows is None else rows.get(analyst)
            if row is None:
                row = self._row(each.dataset, analyst, unit_of)
                rows = self.rows.get(each.dataset)
            taken += row is None or row.take(sequence, each.decided_at, each.charged)
        return taken

    def _row(self, dataset: str, analyst: str, unit_of: Callable[[str], Unit]) -> Usage | None:
        """Return the row of an analyst who has none of their own; None: it is not to be kept."""
        rows = self.rows.get(dataset)
        if rows is None:
            rows = self.rows[dataset] = {}
        return row_of(rows, analyst, self._vacancies, unit_of(dataset))


def views_of(dataset: str, rows: Mapping[str, Usage]) -> list[UsageView]:
    """Return who used a dataset, by analyst, with the others at the end."""
    names = sorted(rows, key=lambda name: (name == OTHERS, name))
    return [rows[name].view(dataset, name) for name in names]
