"""Owners' records, made once, so that every retry has the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accountant.errors import RequestInvalid
from accountant.exact import exact_text
from accountant.policy import Policy
from accountant.records import VERSION, encode
from accountant.records.given import given_policy, given_ratios, given_until
from accountant.records.inputs import check_body
from streams.client.requests import PreparedRequest


def _prepared(kind: str, dataset: str, by: str, request_id: str, **fields: object) -> bytes:
    """Return a checked record; a field that is None is left out.

    Raises: RequestInvalid.
    """
    head = {"version": VERSION, "type": kind, "request_id": request_id, "dataset": dataset}
    given = {name: value for name, value in fields.items() if value is not None}
    body = encode({**head, "by": by, **given})
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
) -> PreparedRequest:
    """Return the call that opens a dataset.

    Raises: RequestInvalid.
    """
    body = _prepared(
        "open",
        dataset,
        by,
        request_id,
        policy=given_policy(policy),
        reason=reason,
        owners=None if owners is None else _names("owners", owners),
    )
    return PreparedRequest("admin", body, dataset, by, request_id, opens=True)


def prepare_amend(
    dataset: str,
    *,
    alert_at: Sequence[object] | None,
    horizon: str | None,
    most_per_request: object,
    policy: Policy | Mapping[str, Any] | None,
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
        policy=None if policy is None else given_policy(policy),
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
        "roles": _names("roles", roles),
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
        "pace": None if pace is None else {"part": _ratio("pace", pace[0]), "period": pace[1]},
        "reserved": _ratio("reserved", reserved),
        "reason": reason,
        "follows": follows,
    }
    body = _prepared("limit", dataset, by, request_id, **fields)
    return PreparedRequest("admin", body, dataset, by, request_id)


def _ratio(field: str, given: object) -> str | None:
    return None if given is None else exact_text(given, field=field, up=False)


def _names(field: str, given: Sequence[str]) -> list[str]:
    # A text is a sequence of texts, too: `roles="analyst"` would be seven of them.
    if isinstance(given, str) or not isinstance(given, Sequence | set | frozenset):
        raise RequestInvalid(field, 'must be a list, such as ["ana"]', given)
    return list(given)
