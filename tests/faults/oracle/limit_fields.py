"""The validity of `limit` records: docs/reference/records/limits.md."""

from __future__ import annotations

import re
from typing import Any, Final

from tests.faults.oracle.members import MEMBER_RULES
from tests.faults.oracle.policies import PARAMETERS, broken_policy, is_ratio
from tests.faults.oracle.texts import is_name

_SCOPES: Final = ("dataset", "team", "analyst", "each")
_OF_A_BUDGET: Final = {"filter", "epsilon", "rho", "delta", "delta_for_claims", *PARAMETERS} - {
    "outside"
}
_PERIOD: Final = re.compile(r"P([1-9][0-9]{0,4})D")
_LONGEST: Final = 36_500


def _is_pace(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"part", "period"}:
        return False
    period = value["period"]
    found = _PERIOD.fullmatch(period) if isinstance(period, str) else None
    return is_ratio(value["part"]) and found is not None and int(found[1]) <= _LONGEST


def _is_budget(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= _OF_A_BUDGET:
        return False
    # A dataset's policy may leave a field out by null; here each is a text or several.
    return None not in value.values() and not broken_policy(value)


LIMIT_RULES: Final[dict[str, Any]] = {
    "scope": lambda v: v in _SCOPES,
    "name": lambda v: v is None or is_name(v),
    "part": lambda v: v is None or is_ratio(v),
    "policy": lambda v: v is None or _is_budget(v),
    "pace": lambda v: v is None or _is_pace(v),
    "reserved": lambda v: v is None or is_ratio(v),
    "until": MEMBER_RULES["until"],
}
"""The rule of each field of a limit's record."""


def at_odds(record: dict[str, Any]) -> set[str]:
    """Return the fields of a limit's record that do not match its scope, or each other."""
    scope = record.get("scope")
    present = {name for name in LIMIT_RULES if record.get(name) is not None}
    unfit = {"part", "policy"} if {"part", "policy"} <= present else set()
    if not present & {"part", "policy", "pace", "reserved"}:
        unfit |= present & {"until"}
    if scope == "dataset":
        return unfit | present & {"name", "part", "policy", "reserved"}
    if scope == "each":
        unfit |= present & {"reserved"}
    return unfit if "name" in present or scope not in _SCOPES else unfit | {"name"}
