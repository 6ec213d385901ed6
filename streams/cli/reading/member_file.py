"""Reads a file of members, as JSON or CSV, for `member sync`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accountant.strict_json import read_json
from streams.errors import InputInvalid
from streams.files.private_files import read_trusted

if TYPE_CHECKING:
    from accountant.records.members import Member

_FIELDS: Final = ("member", "roles", "team", "until")
_BETWEEN: Final = re.compile(r"[\s,;|+]+")
_MOST_BYTES: Final = 64 << 20


def read_members(path: Path) -> list[Member]:
    """Return the members that a file lists.

    Raises: OSError; Refused: others may change it; InputInvalid: it is no list of members, one
        occurs twice, there is no owner, or there are too many.
    """
    from accountant.records.members import MAX_MEMBERS

    found: dict[str, Member] = {}
    for place, row in _rows(path):
        member = _member(f"{path}, {place}", row)
        if member.member in found:
            twice = f"{member.member} occurs twice; keep one of the two"
            raise InputInvalid(f"{path}, {place}: {twice}")
        found[member.member] = member
    if not any("owner" in member.roles for member in found.values()):
        hint = "give one of the members the role owner"
        raise InputInvalid(f"{path} has no owner, and a dataset must have one", hint=hint)
    if len(found) > MAX_MEMBERS:
        raise InputInvalid(f"{path} has {len(found):,} members, more than {MAX_MEMBERS:,}")
    return list(found.values())


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    content = read_trusted(
        path, _MOST_BYTES + 1, what="the file of members", then="review its members"
    )
    if len(content) > _MOST_BYTES:
        raise InputInvalid(f"{path} is longer than {_MOST_BYTES >> 20} MiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputInvalid(f"{path} must be UTF-8: {error.reason}") from error
    if text.lstrip().startswith(("[", "{")):
        yield from _json_rows(path, text)
    else:
        yield from _csv_rows(path, text)


def _json_rows(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        rows = read_json(text)
    except msgspec.MsgspecError as error:
        raise InputInvalid(f"{path} is not valid JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        example = '[{"member": "ana", "roles": ["analyst"]}]'
        raise InputInvalid(f"{path} must be an array of objects: {example}")
    for i, row in enumerate(rows, start=1):
        _check_fields(f"{path}, member {i}", row)
        yield f"member {i}", row


def _csv_rows(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    header = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = header
    _check_fields(f"{path}, line 1", header)
    if not {"member", "roles"} <= set(header):
        columns = "must have the columns member,roles and may have team,until"
        raise InputInvalid(f"{path}, line 1 {columns}")
    for row in reader:
        place = f"line {reader.line_num}"
        if None in row or None in row.values():
            raise InputInvalid(f"{path}, {place} must have {len(header)} columns, like line 1")
        roles = [role for role in _BETWEEN.split(row["roles"].strip()) if role]
        yield place, {**{name: value.strip() for name, value in row.items()}, "roles": roles}


def _check_fields(place: str, values: Sequence[str] | Mapping[str, Any]) -> None:
    from accountant.suggest import did_you_mean

    for name in values:
        if not isinstance(values, Mapping) and values.count(name) > 1:
            raise InputInvalid(f"{place}: {name or 'a column'} stands twice; keep one of the two")
        if name not in _FIELDS:
            meant = did_you_mean(name, _FIELDS)()
            rule = f"must be one of {', '.join(_FIELDS)}" + (f": {meant}" if meant else "")
            raise InputInvalid(f"{place}: {name or 'a column'} {rule}")


def _member(place: str, row: Mapping[str, Any]) -> Member:
    from accountant.errors import RequestInvalid
    from accountant.records.coerce import coerce_until
    from accountant.records.members import Member, sort_roles
    from accountant.records.names import check_name

    name, roles = row.get("member"), row.get("roles")
    team, until = row.get("team") or None, row.get("until") or None
    if not isinstance(name, str):
        raise InputInvalid(f"{place}: member must be a name")
    if not isinstance(roles, list) or not roles:
        raise InputInvalid(f"{place}: roles of {name[:100]} must be a list of at least one role")
    try:
        check_name("member", name)
        if team is not None:
            check_name("team", team if isinstance(team, str) else str(team))
        over = None if until is None else coerce_until(until)
    except RequestInvalid as error:
        raise InputInvalid(f"{place}: {error}") from error
    for role in roles:
        check_role(f"{place}: roles", role)
    if len(set(roles)) < len(roles):
        raise InputInvalid(f"{place}: roles of {name} must name each role once")
    if over is not None and "owner" in roles:
        raise InputInvalid(f"{place}: until of {name} must be left out: an owner does not expire")
    return Member(name, sort_roles(roles), team, over)


def check_role(what: str, role: object) -> None:
    """Check that a role exists.

    Args:
        what: names the place of the role in the message.
    Raises: InputInvalid.
    """
    from accountant.records.members import ROLES
    from accountant.suggest import did_you_mean

    if role not in ROLES:
        meant = did_you_mean(role, ROLES)()
        rule = f"must be {', '.join(ROLES[:-1])} or {ROLES[-1]}"
        got = f"got {str(role)[:80]}" + (f": {meant}" if meant else "")
        raise InputInvalid(f"{what} {rule}, {got}")
