"""Members of a dataset: roles, a membership in decisions, and its row in `state`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.field_rules import Name, Rule, Until
from accountant.times import from_iso, iso
from accountant.versions import FORMAT, Format, reader

Role = Literal["owner", "analyst", "engine", "auditor", "curator", "lead"]
"""What a member may do: decide about the dataset, ask for oneself, ask for others, read all, run
sessions of questions, lead the analysts of a team."""
Roles = Annotated[tuple[Role, ...], Rule("Roles")]

ROLES: Final[tuple[Role, ...]] = ("owner", "analyst", "engine", "auditor", "curator", "lead")
MAX_MEMBERS: Final = 10_000
"""The limit of members of a dataset, expired ones included."""
MAX_OWNERS_NAMED: Final = 100
"""By the record that opens a dataset."""


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A membership as a decision has set it.

    Attributes:
        roles: in the order of `ROLES`; none after a removal.
        team: the member's only team in this dataset.
        until: the first moment at which it is over, as a time of the log; None for never.
    """

    member: Name
    roles: Roles
    team: Name | None = None
    until: Until | None = None

    def is_in_force(self, at: int) -> bool:
        """Tell whether there are roles, and their time is not over at `at`, in milliseconds."""
        return bool(self.roles) and (self.until is None or at < from_iso(self.until))


class MemberRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="member"):
    """A member's row in `state`, and what a partition keeps of the member.

    Attributes:
        dataset, member: as in the key.
        roles: in the order owner, analyst, engine, auditor, curator, lead.
        team, until: left out if there is none.
        sequence: of the decision that has set the row.
    """

    version: Format
    dataset: str
    member: str
    roles: tuple[Role, ...]
    team: str | UnsetType = UNSET
    until: int | UnsetType = UNSET
    sequence: int

    def holds(self, role: Role, at: int) -> bool:
        """Tell whether the member has a role at a time, in milliseconds since 1970."""
        return role in self.roles and self.is_in_force(at)

    def is_in_force(self, at: int) -> bool:
        """Tell whether the membership is not over at a time."""
        return self.until is UNSET or at < self.until

    def is_analyst_of(self, team: str) -> bool:
        """Tell whether the member's sole role is analyst, and the team is this one."""
        return self.roles == ("analyst",) and self.team == team

    @property
    def as_member(self) -> Member:
        """The membership as decisions and HTTP servers show it."""
        until = None if self.until is UNSET else iso(self.until)
        return Member(self.member, self.roles, self.team or None, until)


decode_member_row = reader(MemberRow)
_KEY: Final = b'{"dataset":"'
_MEMBER: Final = b'","member":"'


def sort_roles(roles: Iterable[Role]) -> tuple[Role, ...]:
    """Return roles in the order of `ROLES`, each once."""
    present = frozenset(roles)
    return tuple(role for role in ROLES if role in present)


def member_row(dataset: str, sequence: int, member: Member) -> MemberRow:
    """Return the row of a membership that the dataset's decision `sequence` has set."""
    return MemberRow(
        version=FORMAT,
        dataset=dataset,
        member=member.member,
        roles=member.roles,
        team=member.team or UNSET,
        until=UNSET if member.until is None else from_iso(member.until),
        sequence=sequence,
    )


def owner_rows(dataset: str, sequence: int, owners: Iterable[str]) -> list[MemberRow]:
    """Return the rows of the owners that an opening names."""
    return [member_row(dataset, sequence, Member(name, ("owner",))) for name in owners]


def member_row_key(dataset: str, member: str) -> bytes:
    """Return the key of a member's row: no name of a dataset begins with a brace."""
    return b'%s%s","member":"%s"}' % (_KEY, dataset.encode(), member.encode())


def member_keys(dataset: str) -> tuple[bytes, bytes]:
    """Return two keys between which those of a dataset's members are, and no other."""
    first = member_row_key(dataset, "").removesuffix(b'"}')
    return first, first + b"\xff"


def is_member_row_key(key: bytes) -> bool:
    """Tell a member's key from those of datasets and of the partition."""
    return key.startswith(_KEY) and _MEMBER in key


def parse_member_key(key: bytes) -> tuple[str, str]:
    """Return (dataset, member) of a member's key.

    Raises: msgspec.MsgspecError, UnicodeDecodeError: it is none.
    """
    parsed = _decode_key(key)
    return parsed.dataset, parsed.member


class _Key(msgspec.Struct, forbid_unknown_fields=True):
    dataset: str
    member: str


_decode_key = msgspec.json.Decoder(_Key).decode
