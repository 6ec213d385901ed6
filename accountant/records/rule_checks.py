"""The checks of the rules that the fields of admin records name in their types.

A rule with a check here needs no line for a field: its type says it all. Words and order of these
errors are in every log that has a refused record.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import msgspec
from msgspec import UNSET

from accountant.claims.fields import check_grant
from accountant.errors import RequestInvalid
from accountant.field_rules import rule_of
from accountant.policy import check_alerts, check_days_to_approve, check_horizon, check_ratio
from accountant.records.limit_fields import check_period_limit, own_policy
from accountant.records.members import MAX_OWNERS_NAMED
from accountant.records.names import check_name
from accountant.records.requests import AdminRecord
from accountant.times import from_iso, iso

MAX_PURPOSE: Final = 200
"""Characters of a text for people."""
_CHECKED_FIRST: Final = frozenset({"request_id", "dataset", "by", "reason"})
"""The fields that `inputs` checks, of every admin record before all others."""


def check_note(field: str, text: str) -> None:
    """Check the length of a text for people, such as a reason.

    Raises: RequestInvalid.
    """
    if len(text) > MAX_PURPOSE:
        raise RequestInvalid(field, f"must be at most {MAX_PURPOSE} characters", text)


def _check_until(field: str, text: str) -> None:
    try:
        sound = iso(from_iso(text)) == text
    except (ValueError, OverflowError):
        sound = False
    if not sound:
        raise RequestInvalid(field, "must be a time such as 2026-11-21T10:00:00.012Z", text)


def _check_owners(field: str, owners: tuple[str, ...]) -> None:
    for i, name in enumerate(owners):
        check_name(f"{field}[{i}]", name)
    if not 1 <= len(owners) <= MAX_OWNERS_NAMED or len(set(owners)) < len(owners):
        rule = f"must be 1 to {MAX_OWNERS_NAMED} names, each once"
        raise RequestInvalid(field, rule, f"{len(owners)} names")


def _check_roles(field: str, roles: tuple[str, ...]) -> None:
    if len(set(roles)) < len(roles):
        raise RequestInvalid(field, "must name each role once", ", ".join(roles))


_CHECKS: Final[dict[str, Callable[[str, Any], object]]] = {
    "Grant": lambda field, text: check_grant(text, field),
    "Hash": lambda field, text: check_grant(text, field),
    "ApproveWithin": lambda field, text: check_days_to_approve(text, field=field),
    "Horizon": lambda field, text: check_horizon(text, field=field),
    "LimitPolicy": lambda _, policy: own_policy(policy),
    "Name": check_name,
    "Note": check_note,
    "Owners": _check_owners,
    "PeriodLimit": check_period_limit,
    "Ratio": lambda field, text: check_ratio(text, field=field),
    "Roles": _check_roles,
    "Thresholds": lambda field, ratios: check_alerts(ratios, field=field),
    "Until": _check_until,
}


@cache
def _checks_of(kind: type[AdminRecord]) -> tuple[tuple[str, Callable[[Any], object]], ...]:
    """Return the checks of a kind's fields, in the order of the wire."""
    ruled = ((field, rule_of(field.type)) for field in msgspec.structs.fields(kind))
    return tuple(
        (field.name, partial(_CHECKS[rule], field.encode_name))
        for field, rule in ruled
        if rule is not None and field.name not in _CHECKED_FIRST
    )


def check_rules(record: AdminRecord) -> None:
    """Check the fields of an admin record by the rules that their types name.

    Raises: RequestInvalid: naming field, rule and value.
    """
    for name, check in _checks_of(type(record)):
        value = getattr(record, name)
        if value is not None and value is not UNSET:
            check(value)
