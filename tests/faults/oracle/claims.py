"""The validity of claims: docs/reference/records/request.md."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from tests.faults.oracle.amounts import UNIT
from tests.faults.oracle.reservations import is_grant
from tests.faults.oracle.texts import amount, is_delta, within

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
_MOST_TIMES: Final = 1_000_000
_MOST_CLAIMS: Final = 100
_MOST_NESTED: Final = 3
_MOST_MECHANISMS: Final = 10**9


def is_whole_claim(value: Any) -> bool:
    """Return whether a claim is valid, with as many mechanisms as a request may have."""
    return is_claim(value, 0) and mechanisms(value) <= _MOST_MECHANISMS


def refinements(claim: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a claim that refine an answer shown before."""
    inside = [*claim.get("claims", []), *filter(None, [claim.get("claim")])]
    own = [claim] if claim["type"] == "brownian" and "previous" in claim else []
    return own + [found for each in inside for found in refinements(each)]


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
