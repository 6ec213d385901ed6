"""Usage of datasets by analyst, folded from decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from itertools import islice
from typing import Any, Final, Literal, Self, get_args

import msgspec

from accountant.amounts import Units, format_units, parse_units
from accountant.field_rules import Count, LedgerAmount, Name, Time
from accountant.records.encoded_decision import CountedDecision
from accountant.records.records import ReservationUpdate
from accountant.records.request_names import names_in_request
from accountant.times import iso

MAX_ANALYSTS: Final = 10_000
"""The most analysts with a row of their own in one dataset: the first to come."""

MAX_ROWS: Final = 1_000_000
"""The most rows of all datasets together; a row takes about 280 bytes."""

OTHERS: Final = "(others)"
"""The name of one row for all later analysts; `names.is_name` keeps analysts from taking it."""


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """What one analyst asked of one dataset, as far as this view was given decisions.

    It counts grants by analyst, not what an analyst knows: colleagues talk. Only the
    dataset's budget is a guarantee. Of a dataset the first `MAX_ANALYSTS` analysts that came
    are shown one by one, and all others together as one called `OTHERS`; so are those that come
    when the process already counts `MAX_ROWS` rows.

    Attributes:
        sequence: number of the dataset's last decision taken in.
        granted, refused: how many requests; a batch is one.
        spent: exact sum of what the grants cost, in `unit`, the budget's additive sum.
    """

    dataset: Name
    generation: Count
    analyst: str
    sequence: Count
    granted: Count
    refused: Count
    unit: str
    spent: LedgerAmount
    last_decided_at: Time


_decode_totals: Final = msgspec.json.Decoder(dict[str, str | int]).decode
decode_usage_view = msgspec.json.Decoder(UsageView).decode

By = Literal["analyst", "purpose", "day", "month"]
BYS: Final[tuple[By, ...]] = get_args(By)


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """The requests on one dataset with the same analyst, purpose, day or month.

    Attributes:
        key: the analyst, the purpose (any text, also none), the day `2026-11-23` or the month
            `2026-11`, in UTC, by the decision's own clock.
        granted, refused: how many requests; a batch is one.
        spent: exact sum of what the grants cost, in `unit`, the budget's additive sum.
        sequence, last_decided_at: of the last of them by number. A time may be earlier than that
            of another row with a smaller number, where the clock was reset.
    """

    dataset: str
    generation: int
    key: str
    granted: int
    refused: int
    unit: str
    spent: str
    sequence: int
    last_decided_at: str

    def view(self) -> UsageView:
        """Return the row of an analyst as clients know it."""
        return UsageView(
            dataset=self.dataset,
            generation=self.generation,
            analyst=self.key,
            sequence=self.sequence,
            granted=self.granted,
            refused=self.refused,
            unit=self.unit,
            spent=self.spent,
            last_decided_at=self.last_decided_at,
        )

    @classmethod
    def from_named_row(cls, row: dict[str, Any], by: By) -> Self:
        """Return what `as_named_row` has made a row of.

        Raises: DECODE_ERRORS: it is no such row.
        """
        return msgspec.convert({"key" if name == by else name: row[name] for name in row}, cls)

    def as_named_row(self, by: By) -> dict[str, Any]:
        """Return the row with its key under the name of what it is."""
        fields = msgspec.structs.asdict(self)
        return {by if name == "key" else name: value for name, value in fields.items()}


def analyst_in(request: msgspec.Raw) -> str | None:
    """Return the analyst of a decided request, None for an owner's record or a step."""
    names = names_in_request(request)
    return None if names.grant else names.analyst or None


def returned_by(
    step: ReservationUpdate, totals: msgspec.Raw | Mapping[str, str | int] | None
) -> Units:
    """Return what a step has given back of the budget's first sum.

    Args:
        totals: of the decision, decoded or not. The first sum is the one after the mechanisms.
    """
    if step.returned is None:
        return 0
    sums = _decode_totals(totals) if isinstance(totals, msgspec.Raw) else totals or ()
    _, first = islice(sums, 2)
    return parse_units(step.returned.get(first, "0"))


class Usage(msgspec.Struct, gc=False):
    """The running sums of a `UsageView`.

    Attributes:
        unit: the additive sum of the dataset's budget.
        generation: the dataset's generation.
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

    def take(
        self, sequence: int, decided_at: int, charged: Units | None, *, grants: bool = True
    ) -> bool:
        """Count one decision on a request of this analyst.

        Args:
            sequence: the decision's number in the dataset; a number counted before is ignored.
            decided_at: milliseconds since 1970.
            charged: the cost of a grant, in units of 1e-40; None for a refusal.
            grants: false where a step of a reservation gives something back.
        Returns: whether the decision is counted now, and was not before.
        """
        if sequence <= self.sequence:
            return False
        self.sequence, self.decided_at = sequence, decided_at
        if charged is None:
            self.refused += 1
        else:
            self.granted += grants
            self.spent += charged
        return True

    def view(self, dataset: str, analyst: str) -> UsageView:
        """Return these sums as a `UsageView`."""
        return UsageView(
            dataset=dataset,
            generation=self.generation,
            analyst=analyst,
            sequence=self.sequence,
            granted=self.granted,
            refused=self.refused,
            unit=self.unit,
            # Below 0 where the view has seen what came back, but not what was reserved.
            spent=format_units(max(0, self.spent)),
            last_decided_at=iso(self.decided_at),
        )


Unit = tuple[str, int]
"""The additive sum of a dataset's budget, and the dataset's generation."""

Rows = dict[str, Usage]
"""The usage of one dataset by analyst; `OTHERS` holds the rest where there are too many."""


class Vacancies:
    """The number of rows that one process can still add, over all datasets.

    Attributes:
        left: negative where rows of `OTHERS` exceed the limit.
    """

    __slots__ = ("left",)

    def __init__(self, maximum: int = MAX_ROWS) -> None:
        self.left = maximum


def row_of(rows: Rows, analyst: str, vacancies: Vacancies, unit: Unit) -> Usage:
    """Return the row that counts an analyst's requests; add it if it is missing.

    The rows are bounded: a name is free text and a refusal costs nothing, so any client could
    otherwise fill the memory. An analyst keeps the same row: no row is removed alone, and a
    dataset with a row of `OTHERS` gets no new one. A dataset's decisions come in order, so each
    row recognises a decision that it has counted before.

    Args:
        rows: the rows of the dataset.
        unit: the unit of the dataset.
    """
    row = rows.get(analyst)
    if row is None:
        apart = len(rows) < MAX_ANALYSTS and vacancies.left > 0 and OTHERS not in rows
        name = analyst if apart else OTHERS
        row = rows.get(name)
        if row is None:
            row = rows[name] = Usage(*unit)
            vacancies.left -= 1
    return row


class UsageTable:
    """The usage of all datasets, counted from decisions. Its calls must not be concurrent.

    Args:
        rows: the rows to update, by dataset, then by analyst.
        vacancies: the limit on the number of rows.
    """

    def __init__(
        self, rows: MutableMapping[str, Rows] | None = None, vacancies: Vacancies | None = None
    ) -> None:
        self.rows: MutableMapping[str, Rows] = {} if rows is None else rows
        self._vacancies = vacancies or Vacancies()

    def take(self, decided: Iterable[CountedDecision], unit_of: Callable[[str], Unit]) -> int:
        """Count the grants and refusals among decisions, each dataset's in the order of the log.

        Args:
            unit_of: returns a dataset's unit.
        Returns: number of grants and refusals that were not counted before.
        """
        dataset, rows, taken = None, None, 0
        for each in decided:
            analyst, sequence = each.analyst, each.sequence
            if analyst is None or sequence is None or each.dataset is None:
                continue  # an owner's record
            if each.dataset != dataset:  # a lookup in a Faust table takes a microsecond
                dataset = each.dataset
                rows = self.rows.get(dataset)
            row = None if rows is None else rows.get(analyst)
            if row is None:
                row = self._row(each.dataset, analyst, unit_of)
                rows = self.rows.get(each.dataset)
            taken += row is None or row.take(
                sequence, each.decided_at, each.charged, grants=each.outcome.charges
            )
        return taken

    def _row(self, dataset: str, analyst: str, unit_of: Callable[[str], Unit]) -> Usage | None:
        """Return the row of an analyst without a row of their own; None if none is to be kept."""
        rows = self.rows.get(dataset)
        if rows is None:
            rows = self.rows[dataset] = {}
        return row_of(rows, analyst, self._vacancies, unit_of(dataset))


def views_of(dataset: str, rows: Mapping[str, Usage]) -> list[UsageView]:
    """Return the usage of a dataset by analyst, with `OTHERS` at the end."""
    names = sorted(rows, key=lambda name: (name == OTHERS, name))
    return [rows[name].view(dataset, name) for name in names]
