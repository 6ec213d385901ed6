"""The proposed policy, where an owner names a budget and little else."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec import UNSET

from accountant.amounts import is_wire
from accountant.filters import FILTERS
from accountant.filters.beside import BESIDE
from accountant.policy.policy import MAX_OPEN, Policy, resolve, sees_only_own

PROPOSED_CAP: Final = "0.1"
"""The `most_per_request` of a policy by default; "1" is none."""
PROPOSED_PER_HOLDER: Final = MAX_OPEN // 10
"""The `open_per_holder` of a policy by default, so that nobody fills a dataset's reservations."""
NO_BESIDE: Final = "none"
"""The `beside` of a policy without basic composition beside the filter."""
_DEFAULT_FILTER: Final = Policy().filter


def propose_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's fields with `beside`, the cap and `open_per_holder` where none is named.

    The first two together: a single large request can no longer end the filter by itself.

    Args:
        fields: of `Policy`, as on the wire; one that is None is not named.
    """
    found = dict(fields)
    kind = FILTERS.get(found.get("filter") or _DEFAULT_FILTER)
    takes_beside = kind is not None and kind.takes_beside and found.get("rho") is None
    if found.get("beside") is None:
        found["beside"] = BESIDE if takes_beside else NO_BESIDE
    if found["beside"] == NO_BESIDE:
        del found["beside"]
    if found.get("most_per_request") is None:
        found["most_per_request"] = PROPOSED_CAP
    if found.get("open_per_holder") is None:
        found["open_per_holder"] = PROPOSED_PER_HOLDER
    return found


def differences(has: Policy, asked: Policy) -> dict[str, tuple[str, str]]:
    """Return the fields in which two policies differ, with what each has there, in text.

    Raises: RequestInvalid: a field of `asked` breaks its rule.
    """
    one, other = _effective(has), _effective(resolve(asked))
    if other["open_per_holder"] == PROPOSED_PER_HOLDER:  # nobody has named it
        other["open_per_holder"] = one["open_per_holder"]
    return {
        field: (_text(one[field]), _text(other[field]))
        for field in one
        if _amount(one[field]) != _amount(other[field])
    }


def _effective(policy: Policy) -> dict[str, Any]:
    """Return a policy's fields, with what the fields mean that are left out."""
    found = msgspec.to_builtins(policy)
    meant = {
        "access": "anyone",
        "visibility": "own" if sees_only_own(policy) else "members",
        "most_per_request": "1",
        "approve_above": "1",
        "approve_within": "P7D",
        "halt_on_refusal": False,
    }
    return {field: found.get(field, meant.get(field)) for field in Policy.__struct_fields__}


def _amount(value: Any) -> Any:
    """Return a field so that amounts are equal however they are written."""
    if isinstance(value, str):
        return Decimal(value) if is_wire(value) else value
    if isinstance(value, list | tuple):
        return [_amount(each) for each in value]
    if isinstance(value, dict):
        return {name: _amount(each) for name, each in value.items()}
    return value


def _text(value: Any) -> str:
    if value is None or value is UNSET:
        return "nothing"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
