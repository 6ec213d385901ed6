"""Permissions by a dataset's own records: docs/reference/records/member.md."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tests.faults.oracle.expected import Fields
from tests.faults.oracle.texts import is_name, is_time, millis

ROLES: Final = ("owner", "analyst", "engine", "auditor", "curator", "lead")
"""The order of the roles in a decision."""
MOST: Final = 10_000
MOST_OWNERS: Final = 100
MAY_BE_IN_A_POLICY: Final = ("access", "visibility", "population")


class Member(NamedTuple):
    """One membership.

    Attributes:
        until: milliseconds since 1970, None where it does not end.
        sequence: number of the dataset's decision that has set it.
    """

    roles: tuple[str, ...]
    team: str | None
    until: int | None
    sequence: int


class Members:
    """The members of one dataset."""

    def __init__(self) -> None:
        self.all: dict[str, Member] = {}

    def open(self, owners: list[str]) -> None:
        """Add the owners that an opening names."""
        self.all = {name: Member(("owner",), None, None, 1) for name in owners}

    @property
    def owners(self) -> int:
        """The number of owners."""
        return sum("owner" in each.roles for each in self.all.values())

    def has(self, name: str, role: str, at: int) -> bool:
        """Return whether a membership is valid at a time, and has a role."""
        found = self.all.get(name)
        if found is None or role not in found.roles:
            return False
        return found.until is None or at < found.until

    def team(self, name: str, at: int) -> str | None:
        """Return the team of a member, by a valid membership, whatever its roles."""
        found = self.all.get(name)
        if found is None or (found.until is not None and at >= found.until):
            return None
        return found.team

    def may_ask(self, request: Fields, access: str, at: int) -> bool:
        """Return whether an analyst may ask, perhaps through an engine."""
        if "via" in request and not self.has(request["via"], "engine", at):
            return False
        return access != "members" or self.has(request["analyst"], "analyst", at)

    def may_govern(self, record: Fields, at: int) -> bool:
        """Return whether an admin request comes from an owner, or needs none."""
        if record.get("as") == "administrator":
            return True
        return not self.owners or self.has(record["by"], "owner", at)

    def team_led(self, record: Fields, at: int) -> str | None:
        """Return the team whose lead sends a record, None where the sender governs or leads none.

        It says nothing of what the record is about.
        """
        name = record["by"]
        if self.may_govern(record, at) or not self.has(name, "lead", at):
            return None
        return self.all[name].team

    def may_lead(self, record: Fields, access: str, at: int) -> bool:
        """Return whether a lead may send a record about somebody of the team, or a newcomer."""
        team = self.team_led(record, at)
        kind = record["type"]
        if team is None or kind not in ("member", "limit") or record.get("answers"):
            return False
        if kind == "limit":
            return record["scope"] == "analyst" and self._is_led(record.get("name"), team)
        name, roles = record["member"], record["roles"]
        if access != "members" or (name in self.all and not self._is_led(name, team)):
            return False
        return roles == [] or (roles == ["analyst"] and record.get("team") == team)

    def led(self, team: str) -> list[str]:
        """Return the people that the leads of a team may touch."""
        return [name for name in self.all if self._is_led(name, team)]

    def _is_led(self, name: str | None, team: str) -> bool:
        found = self.all.get(name or "")
        return found is not None and (found.roles, found.team) == (("analyst",), team)

    def pause_of(self, pauses: list[Fields], sender: Fields) -> Fields | None:
        """Return the pause that keeps a sender from asking, and from a begin.

        Each name that a record has counts, with the team of its membership, valid or not.
        """
        for name in (sender["analyst"], sender.get("via")):
            found = self.all.get(name) if name else None
            own = [each for each in pauses if name and each.get("member") == name]
            of_team = [each for each in pauses if found and each.get("team") == found.team]
            of_team = [each for each in of_team if "team" in each]
            if own or of_team:
                return (own or of_team)[0]
        return None

    def refusal(self, record: Fields) -> str | None:
        """Return why a permitted member's record is not applied."""
        name, roles = record["member"], record["roles"]
        found = self.all.get(name)
        if found is None and not roles:
            return "unknown_member"
        was_owner = found is not None and "owner" in found.roles
        if was_owner and "owner" not in roles and self.owners == 1:
            return "last_owner"
        if found is None and len(self.all) >= MOST:
            return "too_many_members"
        return None

    def take(self, record: Fields, sequence: int) -> Fields:
        """Apply a member's record; return the fields of its decision."""
        name = record["member"]
        roles = tuple(role for role in ROLES if role in record["roles"])
        said: Fields = {"member": name, "roles": list(roles)}
        if not roles:
            del self.all[name]
            return said
        team, until = record.get("team"), record.get("until")
        self.all[name] = Member(roles, team, None if until is None else millis(until), sequence)
        more = {"team": team, "until": until}
        return said | {field: value for field, value in more.items() if value is not None}

    def counts(self) -> Fields:
        """Return what the dataset's row says of them."""
        counts = {"owners": self.owners, "members": len(self.all)}
        return {name: count for name, count in counts.items() if count}

    def rows(self, dataset: str) -> dict[bytes, Fields]:
        """Return the row of each, by its key."""
        return {
            row_key(dataset, name): _row(dataset, name, each) for name, each in self.all.items()
        }


def row_key(dataset: str, name: str) -> bytes:
    """Return the key of a member's row; names need no escape."""
    return f'{{"dataset":"{dataset}","member":"{name}"}}'.encode()


def _row(dataset: str, name: str, member: Member) -> Fields:
    row: Fields = {
        "type": "member",
        "version": 2,
        "dataset": dataset,
        "member": name,
        "roles": list(member.roles),
    }
    if member.team is not None:
        row["team"] = member.team
    if member.until is not None:
        row["until"] = member.until
    return {**row, "sequence": member.sequence}


def are_owners(value: Any) -> bool:
    """Return whether an opening's owners are 1 to 100 names, each once."""
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_OWNERS:
        return False
    return all(map(is_name, value)) and len(set(value)) == len(value)


def are_roles(value: Any) -> bool:
    """Return whether a record's roles are known ones, each once."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return False
    return set(value) <= set(ROLES) and len(set(value)) == len(value)


def contradicted(record: Fields) -> set[str]:
    """Return the fields of a member's record that the roles do not go with."""
    roles = record.get("roles")
    if not are_roles(roles):
        return set()
    unfit = set() if roles else {"team", "until"}
    if "owner" in roles:  # who does not expire, so that the last one stays
        unfit.add("until")
    lacks = {"team"} if "lead" in roles and record.get("team") is None else set()
    return lacks | {field for field in unfit if record.get(field) is not None}


MEMBER_RULES: Final[dict[str, Any]] = {
    "member": is_name,
    "roles": are_roles,
    "team": lambda v: v is None or is_name(v),
    "until": lambda v: v is None or is_time(v),
}
"""What each field of a member's record must be."""


def is_access(value: Any) -> bool:
    """Return whether a text says who may ask."""
    return value in ("members", "anyone")


def is_visibility(value: Any) -> bool:
    """Return whether a text says what an analyst sees of others' requests."""
    return value in ("own", "members")
