"""Rows of `state` of levels: a limit with what was used under it, or an analyst's use alone."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.records.limits.limits import LimitTold, Scope, Texts
from accountant.records.made_by import Format, reader


class CountRow(msgspec.Struct, frozen=True, kw_only=True):
    """Some sums that are counted.

    Attributes:
        since: version of the limit from which on they are counted.
        rounded_up: as of a decision.
    """

    since: int
    totals: Texts
    rounded_up: Texts | UnsetType = UNSET


class PacedRow(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in one period.

    Attributes:
        begins_at: when the period begins, in milliseconds since 1970.
        rounded_up: as of a decision.
        resets: how many times the clock had been set back.
    """

    begins_at: int
    totals: Texts
    rounded_up: Texts | UnsetType = UNSET
    resets: int | UnsetType = UNSET


class PeriodsRow(msgspec.Struct, frozen=True, kw_only=True):
    """The periods of a pace, in force or the last one.

    Attributes:
        length: of each, as `P1D`.
        first_at: when the first one begins, in milliseconds since 1970.
        first: how long that is, if another length.
    """

    length: str
    first_at: int
    first: str | UnsetType = UNSET


class RuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a limit's row keeps beside what decisions tell.

    Attributes:
        kind: the filter that use is counted for; left out before there was a limit.
        counted_since: version from which on.
        periods: left out before there was a pace.
        shared_since: version from which on the use of its share is counted.
    """

    kind: str | UnsetType = UNSET
    counted_since: int | UnsetType = UNSET
    periods: PeriodsRow | UnsetType = UNSET
    shared_since: int | UnsetType = UNSET


class LevelRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="level"):
    """A level's row in `state`.

    Attributes:
        scope, name: whom it is about; "" names the dataset.
        team: whose default it is, in a row of an analyst's use under that.
        sequence: number of the dataset's decision that has set or moved it last.
        limit, rule: the last record about it, also where that has removed it; left out in a row
            of use under a default.
        counted, paced, used: under its limit, in its pace, of its share.
    """

    version: Format
    dataset: str
    scope: Scope
    team: str | UnsetType = UNSET
    name: str
    sequence: int
    limit: LimitTold | UnsetType = UNSET
    rule: RuleRow | UnsetType = UNSET
    counted: CountRow | UnsetType = UNSET
    paced: PacedRow | UnsetType = UNSET
    used: CountRow | UnsetType = UNSET


decode_level_row = reader(LevelRow)
_BEGIN: Final = b'{"dataset":"'
_SCOPED: Final = b'","scope":"'


def level_row_key(dataset: str, scope: str, team: str, name: str) -> bytes:
    """Return the key of a level's row: no name of a dataset begins with a brace."""
    within = f'","team":"{team}' if team else ""
    return f'{{"dataset":"{dataset}","scope":"{scope}{within}","name":"{name}"}}'.encode()


def level_row_keys(dataset: str) -> tuple[bytes, bytes]:
    """Return two keys between which those of a dataset's levels are, and no other."""
    first = _BEGIN + dataset.encode() + _SCOPED
    return first, first + b"\xff"


def is_level_row_key(key: bytes) -> bool:
    """Tell a level's key from those of datasets, of members and of the partition."""
    return key.startswith(_BEGIN) and _SCOPED in key
