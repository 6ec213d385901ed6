"""Owners' records, made once, so that every retry has the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from accountant.errors import RequestInvalid
from accountant.exact import exact_text
from accountant.policy import Access, Policy
from accountant.policy.proposed import proposed
from accountant.records import VERSION, encode
from accountant.records.given import (
    given_policy,
    given_ratios,
    given_text,
    given_texts,
    given_until,
)
from accountant.records.inputs import check_body
from streams.client.requests import PreparedRequest

_TEXTS: Final = frozenset(
    {"reason", "horizon", "access", "visibility", "member", "team", "until", "as", "scope", "name"}
)
"""The fields that a caller gives as text, beside `dataset` and `by`."""


def _prepared(kind: str, dataset: str, by: str, request_id: str, **fields: object) -> bytes:
    """Return a checked record; a field that is None is left out.

    Raises: RequestInvalid.
    """
    head = {"version": VERSION, "type": kind, "request_id": request_id}
    given = {name: value for name, value in fields.items() if value is not None}
    for name in _TEXTS & given.keys():
        given[name] = given_text(name, given[name])
    who = {"dataset": given_text("dataset", dataset), "by": given_text("by", by)}
    body = encode({**head, **who, **given})
    check_body("admin", body)
    return body


def prepare_open(
    dataset: str,
    policy: Policy | Mapping[str, Any],
    *,
    by: str,
    reason: str,
    request_id: str,
    owners: Sequence[str] | None = None,
    as_given: bool = False,
    access: Access | None = None,
) -> PreparedRequest:
    """Return the call that opens a dataset.

    Args:
        as_given: nothing is proposed where the policy names none.
        access: where the policy names none.
    Raises: RequestInvalid.
    """
    fields = dict(given_policy(policy))
    if not as_given:
        fields = proposed(fields)
    if access is not None:
        fields.setdefault("access", access)
    body = _prepared(
        "open",
        dataset,
        by,
        request_id,
        policy=fields,
        reason=reason,
        owners=None if owners is None else given_texts("owners", owners),
    )
    return PreparedRequest("admin", body, dataset, by, request_id, opens=True)


def prepare_amend(
    dataset: str,
    *,
    alert_at: Sequence[object] | None,
    horizon: str | None,
    most_per_request: object,
    policy: Policy | Mapping[str, Any] | None,
    as_given: bool,
    access: str | None,
    visibility: str | None,
    follows: int | None,
    by: str,
    reason: str,
    request_id: str,
) -> PreparedRequest:
    """Return the call that changes a dataset's thresholds, horizon, cap, access or budget.

    Raises: RequestInvalid: also where none is given.
    """
    if all(
        each is None for each in (alert_at, horizon, most_per_request, policy, access, visibility)
    ):
        rule = "must be given, or horizon, most_per_request, access, visibility or policy"
        raise RequestInvalid("alert_at", rule, None)
    lower = None if policy is None else given_policy(policy)
    if lower is not None and not as_given:
        lower = proposed(lower)
    cap = None
    if most_per_request is not None:
        cap = exact_text(most_per_request, field="most_per_request", up=False)
    body = _prepared(
        "amend",
        dataset,
        by,
        request_id,
        alert_at=None if alert_at is None else given_ratios(alert_at),
        horizon=horizon,
        reason=reason,
        follows=follows,
        most_per_request=cap,
        access=access,
        visibility=visibility,
        policy=lower,
    )
    return PreparedRequest("admin", body, dataset, by, request_id)


def prepare_close(
    dataset: str, *, follows: int | None, by: str, reason: str, request_id: str
) -> PreparedRequest:
    """Return the call that closes a dataset.

    Raises: RequestInvalid.
    """
    body = _prepared("close", dataset, by, request_id, reason=reason, follows=follows)
    return PreparedRequest("admin", body, dataset, by, request_id)


def prepare_member(
    dataset: str,
    member: str,
    *,
    roles: Sequence[str],
    team: str | None,
    until: object,
    as_administrator: bool,
    follows: int | None,
    by: str,
    reason: str,
    request_id: str,
) -> PreparedRequest:
    """Return the call that says what somebody may do on a dataset; without roles, nothing more.

    Raises: RequestInvalid.
    """
    fields: dict[str, object] = {
        "member": member,
        "roles": given_texts("roles", roles),
        "team": team,
        "until": None if until is None else given_until(until),
        "reason": reason,
        "follows": follows,
        "as": "administrator" if as_administrator else None,
    }
    body = _prepared("member", dataset, by, request_id, **fields)
    return PreparedRequest("admin", body, dataset, by, request_id)


def prepare_limit(
    dataset: str,
    scope: str,
    name: str | None,
    *,
    part: object,
    policy: Mapping[str, Any] | None,
    pace: tuple[object, str] | None,
    reserved: object,
    follows: int | None,
    by: str,
    reason: str,
    request_id: str,
) -> PreparedRequest:
    """Return the call that limits what somebody may use; with no limit in it, that lifts it.

    Raises: RequestInvalid.
    """
    fields: dict[str, object] = {
        "scope": scope,
        "name": name,
        "part": _ratio("part", part),
        "policy": None if policy is None else given_policy(policy),
        "pace": None if pace is None else _pace(pace),
        "reserved": _ratio("reserved", reserved),
        "reason": reason,
        "follows": follows,
    }
    body = _prepared("limit", dataset, by, request_id, **fields)
    return PreparedRequest("admin", body, dataset, by, request_id)


def _ratio(field: str, given: object) -> str | None:
    return None if given is None else exact_text(given, field=field, up=False)


def _pace(given: object) -> dict[str, str | None]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise RequestInvalid("pace", 'must be a ratio and its period: ("0.01", "P1D")', given)
    return {"part": _ratio("pace", given[0]), "period": given_text("pace.period", given[1])}
