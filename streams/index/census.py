"""Who used a dataset: the rows of an index by analyst, purpose, day or month."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

import msgspec

from accountant.amounts import format_units, parse_units
from accountant.views.usage import UsageView

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

    def named(self, by: By) -> dict[str, Any]:
        """Return the row with its key under the name of what it is."""
        fields = msgspec.structs.asdict(self)
        return {by if name == "key" else name: value for name, value in fields.items()}


@runtime_checkable
class Indexed(Protocol):
    """A service that keeps an index."""

    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        """Return who used a dataset, in the order of the keys.

        Raises: Unavailable: the index is behind, or cannot be read.
        """
        ...


def together(rows: Iterable[UsageRow], key: str) -> UsageRow | None:
    """Return the sum of rows of one dataset, under another key; None of no rows."""
    found = list(rows)
    if not found:
        return None
    last = max(found, key=lambda row: row.sequence)
    return msgspec.structs.replace(
        last,
        key=key,
        granted=sum(row.granted for row in found),
        refused=sum(row.refused for row in found),
        spent=format_units(sum(parse_units(row.spent) for row in found)),
    )


def by_month(days: Iterable[UsageRow]) -> list[UsageRow]:
    """Return rows of days as rows of months."""
    months: dict[str, list[UsageRow]] = {}
    for row in days:
        months.setdefault(row.key[:7], []).append(row)
    summed = (together(rows, month) for month, rows in sorted(months.items()))
    return [row for row in summed if row is not None]
