"""Asks for more: what is asked of a dataset's owners, and the row of one in `state`."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.field_rules import Ratio
from accountant.policy.in_force import BudgetInForce
from accountant.records.limit_records import Scope
from accountant.records.members import Role
from accountant.versions import Format, reader

AskKind = Literal["access", "limit", "budget"]
"""What somebody may ask owners for: a role, a larger limit of theirs, or a larger budget."""
AskState = Literal["open", "accepted", "declined"]

MAX_ASKS_OF_PERSON: Final = 10
"""The most open asks of one person in a dataset."""
MAX_ASKS: Final = 500
"""The most open asks in a dataset."""


class AskRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ask"):
    """An ask's row in `state`, open or answered.

    Attributes:
        dataset, ask: as in the key; `ask` is the number of the decision that took it.
        by, wants, role, part, budget, team, reason: of the ask.
        asked_at: a time.
        state: `open`, `accepted` or `declined`; the fields below are left out while it is open.
        answered_at, answered_by: when an owner has answered, and who.
        answer: number of the decision that is the answer.
        why: the owner's reason; left out where it is empty.
    """

    version: Format
    dataset: str
    ask: int
    by: str
    wants: AskKind
    role: Role | UnsetType = UNSET
    part: Ratio | UnsetType = UNSET
    budget: BudgetInForce | UnsetType = UNSET
    team: str | UnsetType = UNSET
    reason: str
    asked_at: int
    state: AskState = "open"
    answered_at: int | UnsetType = UNSET
    answered_by: str | UnsetType = UNSET
    answer: int | UnsetType = UNSET
    why: str | UnsetType = UNSET

    @property
    def is_open(self) -> bool:
        """Whether no owner has answered."""
        return self.state == "open"

    @property
    def scope(self) -> tuple[Scope, str]:
        """Scope and name of the limit that is asked for."""
        return limit_of_ask(self.by, self.team or None)


def limit_of_ask(by: str, team: str | None) -> tuple[Scope, str]:
    """Return scope and name of the limit that an ask is for: a person's own, or a team's."""
    return ("team", team) if team else ("analyst", by)


decode_ask_row = reader(AskRow)
_BEGIN: Final = b'{"dataset":"'
_ASK: Final = b'","ask":'


def ask_row_key(dataset: str, ask: int) -> bytes:
    """Return the key of an ask's row: no name of a dataset begins with a brace."""
    return b"%s%s%s%d}" % (_BEGIN, dataset.encode(), _ASK, ask)


def is_ask_row_key(key: bytes) -> bool:
    """Tell an ask's key from those of datasets, members, levels, reservations and partitions."""
    return key.startswith(_BEGIN) and _ASK in key


def parse_ask_key(key: bytes) -> tuple[str, int]:
    """Return (dataset, ask) of an ask's key.

    Raises: msgspec.MsgspecError, UnicodeDecodeError: it is none.
    """
    parsed = _decode_key(key)
    return parsed.dataset, parsed.ask


class _AskKey(msgspec.Struct, forbid_unknown_fields=True):
    dataset: str
    ask: int


_decode_key = msgspec.json.Decoder(_AskKey).decode
