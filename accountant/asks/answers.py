"""What asking and answering does to a dataset's asks, of a live decision and of a replay alike.

An answered ask stays until its place is needed: by the person's next ask, or the dataset's. So the
rows of a dataset are at most `MAX_ASKS`, without a clock that drops them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
from msgspec import UNSET

from accountant.records.asks import MAX_ASKS, MAX_ASKS_OF_PERSON, AskRow
from accountant.records.outcomes import Reason
from accountant.records.requests import AskMore, DeclineAsk, SetBudget, SetLimit, SetMember
from accountant.versions import FORMAT

Answer = SetMember | SetLimit | SetBudget | DeclineAsk
"""A record that may answer an ask."""
ANSWERS: Final = (SetMember, SetLimit, SetBudget, DeclineAsk)


class Asks(Protocol):
    """Asks of datasets, which an ask and its answer change."""

    def get(self, dataset: str, name: str, /) -> AskRow | None: ...
    def of(self, dataset: str, /) -> list[AskRow]: ...
    def put(self, row: AskRow, /) -> None: ...
    def remove(self, dataset: str, name: str, /) -> None: ...


def has_room(rows: Sequence[AskRow], by: str) -> bool:
    """Tell whether a dataset takes one more ask of a person.

    Args:
        rows: all that the dataset has.
    """
    is_open = [row for row in rows if row.is_open]
    own = sum(row.by == by for row in is_open)
    return own < MAX_ASKS_OF_PERSON and len(is_open) < MAX_ASKS


def take_ask(asks: Asks, record: AskMore, sequence: int, at: int) -> AskRow:
    """Add an ask, and drop answered ones whose places it needs; return it.

    Args:
        sequence: number of the decision that takes it.
        at: the decision's time, milliseconds since 1970.
    """
    _make_place(
        [row for row in asks.of(record.dataset) if row.by == record.by], asks, MAX_ASKS_OF_PERSON
    )
    _make_place(asks.of(record.dataset), asks, MAX_ASKS)
    row = AskRow(
        version=FORMAT,
        dataset=record.dataset,
        ask=sequence,
        by=record.by,
        wants=record.wants,
        role=record.role or UNSET,
        part=record.part or UNSET,
        budget=record.budget,
        team=record.team or UNSET,
        reason=record.reason,
        asked_at=at,
    )
    asks.put(row)
    return row


def _make_place(rows: Sequence[AskRow], asks: Asks, most: int) -> None:
    """Drop the oldest answered ask of some where there are as many as there may be."""
    answered = [row for row in rows if not row.is_open]
    if len(rows) >= most and answered:
        asks.remove(answered[0].dataset, str(answered[0].ask))


def answered_by(record: object) -> int | None:
    """Return the number of the ask that a record answers if it is applied; None for none."""
    if isinstance(record, DeclineAsk):
        return record.ask
    return record.answers if isinstance(record, SetMember | SetLimit | SetBudget) else None


def refusal_of_answer(row: AskRow | None, record: Answer) -> Reason | None:
    """Return why a record is no answer to an ask; None where it is one.

    Args:
        row: of the ask that the record names; None where the dataset has none.
    """
    if row is None or not row.is_open:
        return Reason.UNKNOWN_ASK
    return None if _fits(row, record) else Reason.OTHER_ASK


def _fits(row: AskRow, record: Answer) -> bool:
    """Tell whether a record gives the very person or team what is asked for, or declines it."""
    if isinstance(record, DeclineAsk):
        return record.asker == row.by
    if isinstance(record, SetMember):
        return row.wants == "access" and record.member == row.by and row.role in record.roles
    if isinstance(record, SetLimit):
        is_theirs = (record.scope, record.name) == row.scope
        return row.wants == "limit" and is_theirs and not record.removes
    return row.wants == "budget"


def take_answer(asks: Asks, row: AskRow, record: Answer, sequence: int, at: int) -> AskRow:
    """Replace an ask by the same with its answer, and return that.

    Args:
        sequence: number of the decision that applies the record.
        at: the decision's time, milliseconds since 1970.
    """
    answered = msgspec.structs.replace(
        row,
        state="declined" if isinstance(record, DeclineAsk) else "accepted",
        answered_at=at,
        answered_by=record.by,
        answer=sequence,
        why=record.reason or UNSET,
    )
    asks.put(answered)
    return answered
