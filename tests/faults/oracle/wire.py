"""The validity of bodies, and the faults of invalid ones: docs/reference/records.md."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from tests.faults.oracle.claims import is_whole_claim, refinements
from tests.faults.oracle.owners import OWNERS
from tests.faults.oracle.reservations import is_grant, is_reserve
from tests.faults.oracle.texts import amount, is_hidden, is_id, is_name, is_short

MAX_BYTES: Final = 65_536
MOST_DEEP: Final = 16
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"]+')
_SPACE: Final = b" \t\r\n"
_ALL: Final = {"version", "type", "request_id", "dataset"}
_REQUESTS: Final[dict[str, tuple[set[str], set[str]]]] = {
    "request": (
        {"analyst", "claim", "unit", "neighbours"},
        {"purpose", "via", "reserve", "other_datasets"},
    ),
    "begin": ({"analyst", "grant"}, {"via"}),
    "settle": ({"analyst", "grant"}, {"via", "shown"}),
    "void": ({"analyst", "grant"}, {"via"}),
}
"""Required and optional fields by type, beside those of every record."""
MAX_RESERVING: Final = 8_192
MOST_OTHERS: Final = 15
_Expected = tuple[set[str], set[str], dict[str, Any], set[str]]
"""Required and optional fields, the rules of both, and the fields that do not match each other."""


class Read(NamedTuple):
    """A classified body.

    Attributes:
        reason: why it is none: `undecodable`, `oversize` or `invalid_field`; None of a sound one.
        text: its canonical bytes; None where it is not JSON.
        fields: its fields, where it is sound.
        broken: the top-level fields of which some break a rule; `body` of the whole.
    """

    reason: str | None
    text: bytes | None = None
    fields: dict[str, Any] = {}  # noqa: RUF012 (of a tuple, never changed)
    broken: frozenset[str] = frozenset()


class _InvalidBody(Exception):
    pass


def read(source: str, value: bytes | None) -> Read:
    """Return the classification of an input record."""
    if not value:
        return Read("undecodable")
    if len(value) > MAX_BYTES:
        return Read("oversize")
    try:
        found, text = _parsed(value)
    except (_InvalidBody, ValueError, RecursionError):
        return Read("undecodable")
    broken = _broken(source, found)
    if not broken and "reserve" in found:
        broken = _unfit_to_reserve(found, text)
    if broken:
        shown = "".join(map(_escaped, text.decode())).encode()
        # What outgrows a body is not repeated.
        return Read(
            "invalid_field", shown if len(shown) <= MAX_BYTES else None, broken=frozenset(broken)
        )
    return Read(None, text, found)


def canonical(value: bytes) -> bytes:
    """Return a JSON body without white space around it, on one line."""
    value = value.strip(_SPACE)
    if b"\n" in value or b"\r" in value:
        return "".join(_TOKEN.findall(value.decode())).encode()
    return value


def _parsed(value: bytes) -> tuple[Any, bytes]:
    text = value.decode().strip(" \t\r\n")
    found = json.loads(text, object_pairs_hook=_once, parse_constant=_constant)
    json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is no UTF-8
    if _depth(found) > MOST_DEEP:
        raise _InvalidBody
    return found, canonical(value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _InvalidBody
    return dict(pairs)


def _constant(_: str) -> None:
    raise _InvalidBody


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _broken(source: str, found: Any) -> set[str]:
    if not isinstance(found, dict):
        return {"body"}
    kinds = _REQUESTS if source == "requests" else OWNERS
    kind = found.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        return {"type"}
    needed, allowed, checks, broken = (_of_request if kind in _REQUESTS else _of_owner)(found)
    needed |= _ALL
    broken |= (needed - found.keys()) | (found.keys() - needed - allowed)
    broken |= {name for name, value in found.items() if any(map(is_hidden, _texts(value)))}
    checks = {**_common_rules(), **checks}
    present = found.keys() - broken
    return broken | {name for name in present if name in checks and not checks[name](found[name])}


def _of_request(found: dict[str, Any]) -> _Expected:
    needed, allowed = _REQUESTS[found["type"]]
    is_repeated = found.get("dataset") in _listed(found.get("other_datasets"))
    twice = {"other_datasets"} if found["type"] == "request" and is_repeated else set()
    return set(needed), allowed, _request_rules(), twice


def _of_owner(found: dict[str, Any]) -> _Expected:
    kind = OWNERS[found["type"]]
    needed, optional = kind.all_needed, kind.all_optional
    return {*needed}, {*optional}, {**needed, **optional}, kind.odd(found)


def _unfit_to_reserve(request: dict[str, Any], text: bytes) -> set[str]:
    """Return the fields of a sound request that a reservation may not have so."""
    known = all("continues" in each for each in refinements(request["claim"]))
    return ({"reserve"} if len(text) > MAX_RESERVING else set()) | (set() if known else {"claim"})


def _escaped(character: str) -> str:
    """Return a character of JSON in its repeated form; a tab is possible between words only."""
    hidden = is_hidden(character) and character != "\t"
    return f"\\u{ord(character):04x}" if hidden else character


def _texts(value: Any) -> str:
    """Return all the texts within a value, in order."""
    if isinstance(value, dict):
        return "".join(name + _texts(each) for name, each in value.items())
    if isinstance(value, list):
        return "".join(map(_texts, value))
    return value if isinstance(value, str) else ""


def _common_rules() -> dict[str, Any]:
    return {
        "version": lambda v: v == 1 and isinstance(v, int) and not isinstance(v, bool),
        "request_id": is_id,
        "dataset": is_name,
    }


def _request_rules() -> dict[str, Any]:
    return {
        "analyst": is_name,
        "via": is_name,
        "unit": lambda v: isinstance(v, str),
        "neighbours": lambda v: v in ("add_remove", "replace"),
        "purpose": is_short,
        "other_datasets": _are_others,
        "claim": is_whole_claim,
        "reserve": is_reserve,
        "grant": is_grant,
        "shown": _is_level,
    }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _are_others(value: Any) -> bool:
    """Return whether further datasets are 1 to 15 names, each once."""
    names = _listed(value)
    return (
        1 <= len(names) <= MOST_OTHERS and all(map(is_name, names)) and len({*names}) == len(names)
    )


def _is_level(value: Any) -> bool:
    return bool(amount(value))
