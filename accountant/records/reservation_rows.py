"""Reservations on the wire: how a record names one, how long it lasts, and its row in `state`."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.claims import Claim
from accountant.errors import RequestInvalid
from accountant.field_rules import Count, Name
from accountant.records.limit_records import Scope, Texts
from accountant.versions import Format, reader

MAX_SETTLED: Final = 1_000
"""The most settled sessions of a dataset that a claim may continue."""
MAX_DROPPED: Final = 16
"""The most final reservations that one decision drops."""
_MAX_MS: Final = 30 * 86_400_000
_UNTIL: Final = re.compile(r"P(?:([1-9][0-9]?)D|T([1-9][0-9]{0,2})H|T([1-9][0-9]{0,4})M)")
_UNIT_MS: Final = (86_400_000, 3_600_000, 60_000)


class HolderCount(msgspec.Struct, frozen=True):
    """The holder of a refused reservation who has too many open: an analyst or an engine.

    Attributes:
        open: how many are open. `most`: how many the policy allows, its `open_per_holder`.
    """

    name: Name
    open: Count
    most: Count


Stage = Literal["reserved", "begun", "broken", "settled"]
"""How far a reservation has come: charged, its mechanism may run, it released beyond its maximum,
or it is a settled session that a claim may continue. Whether its deadline has passed is computed
from the decision's time."""

GuaranteeState = Literal["", "explained", "if_bounded", "void"]
"""What became of a guarantee, from best to worst: "" where no claim was ever found false; an
owner says why a settlement above its maximum was a mistake; what was released beyond a maximum was
charged, which counts only if its size was bounded in advance; it was not charged."""


def check_until(text: str) -> None:
    """Raise RequestInvalid unless a text is how long a reservation may last."""
    if not 0 < length_ms(text) <= _MAX_MS:
        rule = "must be a time such as PT30M, PT12H or P7D, from PT1M to P30D"
        raise RequestInvalid("reserve.until", rule, text)


def length_ms(text: str) -> int:
    """Return the length of a reservation in milliseconds, 0 where the text is none."""
    found = _UNTIL.fullmatch(text)
    if found is None:
        return 0
    return sum(
        int(part) * unit for part, unit in zip(found.groups(), _UNIT_MS, strict=True) if part
    )


class ChargeRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reservation was charged at one limit: `limits.charge.LimitCharge` on the wire.

    Attributes:
        scope, team, name: the limit's, as in its row.
        counted, paced, used: of the limit, its period and its share; `*_rounded_up` as of a
            decision.
        counted_since, begins_at, resets, shared_since: which count, period and share.
        after: as of `ReservationRow`, of a limit with a filter of its own.
    """

    scope: Scope
    team: str = ""
    name: str = ""
    counted: Texts | UnsetType = UNSET
    counted_rounded_up: Texts | UnsetType = UNSET
    counted_since: int = 0
    paced: Texts | UnsetType = UNSET
    paced_rounded_up: Texts | UnsetType = UNSET
    begins_at: int = 0
    resets: int = 0
    used: Texts | UnsetType = UNSET
    used_rounded_up: Texts | UnsetType = UNSET
    shared_since: int = 0
    after: Texts | UnsetType = UNSET
    after_rounded_up: Texts | UnsetType = UNSET


class ReservationRow(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reservation"
):
    """A reservation's row in `state`; it is dropped when the reservation is final.

    Attributes:
        dataset, grant: as in the key.
        sequence, partition_sequence: numbers of the decision `reserved`.
        analyst, via, purpose, claim: of the request; the claim of a settled session at the
            variance that it settled at.
        stage: `reserved`, `begun`, `broken` or `settled`.
        reserved_at, deadline: times.
        totals, rounded_up: what each of the dataset's totals was charged, exactly, and still is.
        levels: what each limit scope was charged, with the count, period and share that it was
            charged to.
        after, after_rounded_up: under gdp_residue, the state that the grant left, where its cost
            depended on the state: such a cost returns to this very state alone.
        datasets: of one over several datasets: all of them, the first one first.
        is_question: true of a question's; left out otherwise.
    """

    version: Format
    dataset: str
    grant: str
    sequence: int
    partition_sequence: int
    analyst: str
    via: str | UnsetType = UNSET
    purpose: str | UnsetType = UNSET
    claim: Claim
    stage: Stage
    reserved_at: int
    deadline: int
    totals: Texts
    rounded_up: Texts | UnsetType = UNSET
    after: Texts | UnsetType = UNSET
    after_rounded_up: Texts | UnsetType = UNSET
    levels: tuple[ChargeRow, ...] | UnsetType = UNSET
    datasets: tuple[str, ...] | UnsetType = UNSET
    is_question: bool | UnsetType = UNSET


decode_reservation_row = reader(ReservationRow)
_BEGIN: Final = b'{"dataset":"'
_GRANTED: Final = b'","grant":"'


def reservation_row_key(dataset: str, grant: str) -> bytes:
    """Return the key of a reservation's row: no name of a dataset begins with a brace."""
    return f'{{"dataset":"{dataset}","grant":"{grant}"}}'.encode()


def reservation_row_keys(dataset: str) -> tuple[bytes, bytes]:
    """Return two keys between which those of a dataset's reservations are, and no other."""
    first = _BEGIN + dataset.encode() + _GRANTED
    return first, first + b"\xff"


def is_reservation_row_key(key: bytes) -> bool:
    """Tell a reservation's key from those of datasets, members, levels and the partition."""
    return key.startswith(_BEGIN) and _GRANTED in key


class _ReservationKey(msgspec.Struct, forbid_unknown_fields=True):
    dataset: str
    grant: str


_decode_key = msgspec.json.Decoder(_ReservationKey).decode


def parse_reservation_key(key: bytes) -> tuple[str, str]:
    """Return (dataset, grant) of a reservation's key.

    Raises: msgspec.MsgspecError, UnicodeDecodeError: it is none.
    """
    parsed = _decode_key(key)
    return parsed.dataset, parsed.grant
