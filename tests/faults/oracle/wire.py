"""The validity of bodies, and the faults of invalid ones: docs/reference/records.md."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from typing import Any, Final, NamedTuple

from tests.faults.oracle.amounts import UNIT
from tests.faults.oracle.limit_fields import LIMIT_RULES, MAY_BE_IN_A_LIMIT, at_odds
from tests.faults.oracle.members import (
    MEMBER_RULES,
    are_owners,
    contradicted,
    is_access,
    is_visibility,
)
from tests.faults.oracle.policies import (
    broken_policy,
    is_horizon,
    is_per_holder,
    is_ratio,
    ratios_are_broken,
)
from tests.faults.oracle.reservations import is_grant, is_reserve
from tests.faults.oracle.texts import amount, is_delta, is_hidden, is_name, within

MAX_BYTES: Final = 65_536
MOST_DEEP: Final = 16
_ID: Final = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"]+')
_SPACE: Final = b" \t\r\n"
_ALL: Final = {"version", "type", "request_id", "dataset"}
_AMENDED: Final = {
    *("alert_at", "horizon", "most_per_request", "access", "visibility", "open_per_holder"),
}
_FIELDS: Final[dict[str, tuple[set[str], set[str]]]] = {
    "request": (
        _ALL | {"analyst", "claim", "unit", "neighbours"},
        {"purpose", "via", "reserve", "other_datasets"},
    ),
    "begin": (_ALL | {"analyst", "grant"}, {"via"}),
    "settle": (_ALL | {"analyst", "grant"}, {"via", "shown"}),
    "void": (_ALL | {"analyst", "grant"}, {"via"}),
    "open": (_ALL | {"by", "policy"}, {"reason", "owners"}),
    "amend": (
        _ALL | {"by"},
        {"reason", "follows", "policy", *_AMENDED},
    ),
    "close": (_ALL | {"by"}, {"reason", "follows"}),
    "pause": (_ALL | {"by"}, {"reason", "follows", "as"}),
    "resume": (_ALL | {"by"}, {"reason", "follows", "as"}),
    "resolve": (_ALL | {"by", "grant"}, {"reason", "follows", "claim", "mistaken"}),
    "member": (_ALL | {"by", "member", "roles"}, {"reason", "follows", "team", "until", "as"}),
    "limit": (_ALL | {"by", "scope"}, MAY_BE_IN_A_LIMIT),
}
"""By type: required and optional fields."""
_CLAIMS: Final[dict[str, tuple[set[str], set[str]]]] = {
    "pure": ({"epsilon"}, set()),
    "approximate": ({"epsilon", "delta"}, set()),
    "probabilistic": ({"epsilon", "delta"}, set()),
    "randomized_response": ({"epsilon"}, {"delta"}),
    "zcdp": ({"rho"}, set()),
    "approximate_zcdp": ({"rho", "delta"}, set()),
    "gdp": ({"mu"}, set()),
    "bounded_range": ({"eta"}, set()),
    "laplace": ({"scale", "sensitivity"}, set()),
    "gaussian": ({"sigma", "sensitivity"}, set()),
    "subsampled_gaussian": ({"sigma", "sensitivity", "rate"}, set()),
    "brownian": ({"variance", "sensitivity"}, {"previous", "first", "sampler", "continues"}),
    "ex_post": ({"epsilon"}, {"delta", "sensitivity", "first", "least"}),
    "interactive": ({"claim"}, set()),
    "repeat": ({"claim", "times"}, set()),
    "all_of": ({"claims"}, set()),
}
_MAY_BE_INTERACTIVE: Final = {
    *("pure", "approximate", "randomized_response", "zcdp", "approximate_zcdp", "gdp"),
    *("laplace", "gaussian", "subsampled_gaussian"),
}
_EPSILON: Final = Fraction("1e-12"), Fraction(1000)
_RHO: Final = Fraction("1e-25"), Fraction(10**6)
_NOISE: Final = {"scale", "sigma", "variance", "previous", "first", "least"}
_OF_A_SESSION: Final = {"sensitivity", "first", "least"}
"""The fields of an ex-post claim of several answers: all of them, or none."""
_NO_AMOUNTS: Final = {"sampler", "continues"}
_REQUESTS: Final = {"request", "begin", "settle", "void"}
MAX_RESERVING: Final = 8_192
MOST_OTHERS: Final = 15
_MOST_TIMES: Final = 1_000_000
_MOST_CLAIMS: Final = 100
_MOST_NESTED: Final = 3
_MOST_MECHANISMS: Final = 10**9


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


def issued(request_id: str) -> int:
    """Return the creation time of an id, milliseconds since 1970."""
    return int(request_id.replace("-", "")[:12], 16)


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
    kind = found.get("type")
    if (
        not isinstance(kind, str)
        or kind not in _FIELDS
        or (kind in _REQUESTS) != (source == "requests")
    ):
        return {"type"}
    needed, allowed = _FIELDS[kind]
    broken = (needed - found.keys()) | (found.keys() - needed - allowed)
    broken |= {name for name, value in found.items() if any(map(is_hidden, _texts(value)))}
    present = found.keys() - broken
    rules = _request_rules if kind in _REQUESTS else _owner_rules
    checks = {**_common_rules(), **rules(kind)}
    if kind == "resolve" and (found.get("claim") is None) == (found.get("mistaken") is None):
        broken |= {"claim"}
    if kind == "request" and found.get("dataset") in _listed(found.get("other_datasets")):
        broken |= {"other_datasets"}
    if kind == "member":
        broken |= contradicted(found)
    if kind == "limit":
        broken |= at_odds(found)
    return broken | {name for name in present if name in checks and not checks[name](found[name])}


def _unfit_to_reserve(request: dict[str, Any], text: bytes) -> set[str]:
    """Return the fields of a sound request that a reservation may not have so."""
    known = all("continues" in each for each in refinements(request["claim"]))
    return ({"reserve"} if len(text) > MAX_RESERVING else set()) | (set() if known else {"claim"})


def refinements(claim: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a claim that refine an answer shown before."""
    inside = [*claim.get("claims", []), *filter(None, [claim.get("claim")])]
    own = [claim] if claim["type"] == "brownian" and "previous" in claim else []
    return own + [found for each in inside for found in refinements(each)]


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
        "request_id": lambda v: isinstance(v, str) and _ID.fullmatch(v) is not None,
        "dataset": is_name,
    }


def _request_rules(_: str) -> dict[str, Any]:
    return {
        "analyst": is_name,
        "via": is_name,
        "unit": lambda v: isinstance(v, str),
        "neighbours": lambda v: v in ("add_remove", "replace"),
        "purpose": _is_short,
        "other_datasets": _are_others,
        "claim": _is_whole_claim,
        "reserve": is_reserve,
        "grant": is_grant,
        "shown": _is_level,
    }


def _owner_rules(kind: str) -> dict[str, Any]:
    def optional(check: Any) -> Any:
        return lambda v: (v is None and kind == "amend") or check(v)

    return {
        "by": is_name,
        "reason": _is_short,
        "follows": lambda v: v is None or (isinstance(v, int) and not isinstance(v, bool)),
        "alert_at": optional(lambda v: not ratios_are_broken(v)),
        "horizon": optional(is_horizon),
        "most_per_request": optional(is_ratio),
        "policy": optional(lambda v: not broken_policy(v)),
        "access": optional(is_access),
        "visibility": optional(is_visibility),
        "open_per_holder": optional(lambda v: is_per_holder(v) or (type(v) is int and v == 0)),
        "owners": are_owners,
        "grant": is_grant,
        "claim": lambda v: v is None or _is_whole_claim(v),
        "mistaken": lambda v: v is None or (_is_short(v) and bool(v)),
        **MEMBER_RULES,
        **(LIMIT_RULES if kind == "limit" else {}),
    }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _are_others(value: Any) -> bool:
    """Return whether further datasets are 1 to 15 names, each once."""
    names = _listed(value)
    return (
        1 <= len(names) <= MOST_OTHERS and all(map(is_name, names)) and len({*names}) == len(names)
    )


def _is_short(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 200


def _is_whole_claim(value: Any) -> bool:
    return is_claim(value, 0) and mechanisms(value) <= _MOST_MECHANISMS


def _is_level(value: Any) -> bool:
    return bool(amount(value))


def mechanisms(claim: dict[str, Any]) -> int:
    """Return the number of mechanisms in a valid claim."""
    if claim["type"] == "repeat":
        return int(claim["times"]) * mechanisms(claim["claim"])
    if claim["type"] == "all_of":
        return sum(map(mechanisms, claim["claims"]))
    return 1


def is_claim(claim: Any, nested: int) -> bool:
    """Return whether a claim has the fields of its kind, each valid."""
    kind = claim.get("type") if isinstance(claim, dict) else None
    if not isinstance(kind, str) or kind not in _CLAIMS:
        return False
    needed, allowed = _CLAIMS[kind]
    present = claim.keys() - {"type"}
    if not needed <= present <= needed | allowed:
        return False
    if kind == "interactive":
        return _is_interactive(claim["claim"])
    if kind in {"repeat", "all_of"}:
        return nested < _MOST_NESTED and _is_batch(claim, nested)
    if claim.get("sampler", "normal") not in ("normal", "discrete"):
        return False
    if "continues" in claim and ("previous" not in claim or not is_grant(claim["continues"])):
        return False
    return _is_atom(kind, {name: amount(claim[name]) for name in present - _NO_AMOUNTS})


def _is_interactive(inner: Any) -> bool:
    kind = inner.get("type") if isinstance(inner, dict) else None
    if kind not in _MAY_BE_INTERACTIVE or not is_claim(inner, 0):
        return False
    return kind != "approximate_zcdp" or not amount(inner["delta"])


def _is_batch(claim: dict[str, Any], nested: int) -> bool:
    if claim["type"] == "repeat":
        times = claim["times"]
        if not isinstance(times, int) or isinstance(times, bool):
            return False
        return 1 <= times <= _MOST_TIMES and is_claim(claim["claim"], nested + 1)
    parts = claim["claims"]
    if not isinstance(parts, list) or not 1 <= len(parts) <= _MOST_CLAIMS:
        return False
    return all(is_claim(part, nested + 1) for part in parts)


def _is_atom(kind: str, of: dict[str, Fraction | None]) -> bool:
    if None in of.values():
        return False
    present = {name: value for name, value in of.items() if value is not None}
    for name, value in present.items():
        if name in {"epsilon", "mu", "eta"} and not within(value, *_EPSILON):
            return False
        if name == "rho" and not within(value, *_RHO):
            return False
        if name == "delta" and not is_delta(value):
            return False
        if name in _NOISE and not value:
            return False
        if name == "rate" and not _EPSILON[0] <= value <= 1:
            return False
    return _follows_soundly(kind, present)


def _follows_soundly(kind: str, present: dict[str, Fraction]) -> bool:
    """Return whether the values derived from the fields are within bounds, too."""
    if kind == "laplace":
        return within(present["sensitivity"] / present["scale"], *_EPSILON)
    if kind in {"gaussian", "subsampled_gaussian"}:
        return within(present["sensitivity"] ** 2 / (2 * present["sigma"] ** 2), *_RHO)
    if kind == "brownian":
        precision = 1 / present["variance"]
        if "previous" in present:
            precision -= 1 / present["previous"]
        first = present.get("first", present["variance"])
        if first < present["variance"] or first >= present.get("previous", first + 1):
            return False
        return precision > 0 and within(present["sensitivity"] ** 2 / 2 * precision, *_RHO)
    if kind == "ex_post" and _OF_A_SESSION & present.keys():
        return _is_session(present)
    return True


def _is_session(present: dict[str, Fraction]) -> bool:
    """Return whether an ex-post claim of several answers has the levels of its maximum."""
    if not present.keys() >= _OF_A_SESSION or present.get("delta"):
        return False
    if present["first"] < present["least"]:
        return False
    bound = present["sensitivity"] / present["least"] * UNIT
    return present["epsilon"] * UNIT in (bound, math.ceil(bound))
