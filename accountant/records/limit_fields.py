"""The rules of a limit record's fields that its scope decides, and its own policy resolved."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import Final

import msgspec
from msgspec import UNSET

from accountant.errors import UNKNOWN_FIELD, RequestInvalid
from accountant.policy import PARAMETERS, Policy, check_ratio, parameter_text, resolve
from accountant.policy.compiled_policy import open_plan
from accountant.records.limit_records import MAX_DAYS, LimitPolicy, PeriodLimit
from accountant.records.requests import SetLimit
from accountant.records.translate import translate
from accountant.values_to_write import period_to_write

BUDGET_FIELDS: Final = (
    *("filter", "epsilon", "rho", "delta", "delta_for_claims"),
    *(field for field in Policy.__struct_fields__ if field in PARAMETERS and field != "outside"),
)
"""The fields of a policy that a level's own budget may have, in the order of a policy.

Nobody records releases at a limit: the dataset's own policy says what may be recorded.
"""
_INSTEAD: Final = {
    "dataset": "of which a pace alone can be set",
    "reserved": "since a share is kept for a team or one analyst",
}
_PERIOD: Final = re.compile(r"P([1-9][0-9]{0,4})D")


def check_scope(record: SetLimit) -> None:
    """Check which fields a limit record has: what its scope can have, and one budget.

    Raises: RequestInvalid.
    """
    scope = record.scope
    if (record.name is None) is not (scope == "dataset"):
        must = "left out" if scope == "dataset" else "given"
        raise RequestInvalid("name", f"must be {must} for scope {scope}", record.name)
    if record.part is not None and record.policy is not None:
        rule = "must be left out where part is given: a limit has one budget"
        raise RequestInvalid("policy", rule, record.policy)
    if record.until is not None and record.removes:
        rule = "must be left out where part, policy, pace and reserved are"
        raise RequestInvalid("until", rule, record.until)
    for field, scopes in (
        ("part", ("team", "analyst", "each")),
        ("policy", ("team", "analyst", "each")),
        ("reserved", ("team", "analyst")),
    ):
        value = getattr(record, field)
        if value is not None and scope not in scopes:
            instead = _INSTEAD["reserved" if field == "reserved" else scope]
            rule = f"must be left out for scope {scope}, {instead}"
            raise RequestInvalid(field, rule, value)


def check_period_limit(field: str, limit: PeriodLimit) -> None:
    """Check a ratio and its period.

    Raises: RequestInvalid.
    """
    check_ratio(limit.part, field=f"{field}.part")
    days = _PERIOD.fullmatch(limit.period)
    if days is None or int(days[1]) > MAX_DAYS:
        rule = f"must be a number of days such as P30D, at most P{MAX_DAYS}D"
        hint = partial(period_to_write, limit.period)
        raise RequestInvalid(f"{field}.period", rule, limit.period, hint=hint)


def own_policy(policy: LimitPolicy) -> Policy:
    """Return a level's own budget as a resolved policy.

    Raises: RequestInvalid: a field is none of a budget, or breaks its rule.
    """
    for field, value in policy.items():
        if field not in BUDGET_FIELDS:
            known = f"the fields here are {', '.join(BUDGET_FIELDS)}"
            raise RequestInvalid(
                f"policy.{field}"[:200], UNKNOWN_FIELD, value, hint=partial(str, known)
            )
    return _resolve_cached(tuple(policy.items()))


@lru_cache(maxsize=1024)
def _resolve_cached(items: tuple[tuple[str, str | tuple[str, ...]], ...]) -> Policy:
    fields = dict(items)
    try:
        # A limit has no odometers.
        policy = msgspec.convert({**fields, "odometers": ()}, Policy)
    except msgspec.ValidationError as error:
        try:
            translate(error, fields, Policy)
        except RequestInvalid as wrong:
            raise wrong.under("policy") from None
    resolved = resolve(policy)
    open_plan(resolved)
    return resolved


def stored_policy(policy: LimitPolicy) -> LimitPolicy:
    """Return a level's own budget as decisions store it, from a valid record."""
    resolved = own_policy(policy)
    found = {**policy, "filter": resolved.filter}
    found["delta_for_claims"] = resolved.delta_for_claims or "0"
    return {field: found[field] for field in BUDGET_FIELDS if field in found}


def kind_of(policy: Policy) -> str:
    """Return what use is counted for: a filter and its parameters, as they are written."""
    parts = [policy.filter]
    for field in (*PARAMETERS, "beside"):
        value = getattr(policy, field)
        if value is not UNSET:
            parts.append(f"{field}={parameter_text(value)}")
    return ";".join(parts)
