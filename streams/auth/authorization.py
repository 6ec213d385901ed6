"""Authorizes records: 403 before anything is appended, by the same rules as `decide`."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from msgspec import UNSET

from accountant.display.reasons import ASK_FOR_ROLE, UNNAMED_OWNER
from accountant.members.permits import is_by_administrator, may_send
from accountant.records import Body, ReservationStep
from accountant.records.header import decode_header
from accountant.records.kinds import kind_of
from accountant.records.outcomes import Outcome
from accountant.records.request_names import names_in_request
from accountant.records.requests import (
    AskMore,
    MechanismRequest,
    Open,
    Pause,
    Resume,
    SetMember,
    Settle,
)
from accountant.views.visibility import WHOLE, DatasetAccess
from streams.auth.principal import Principal, principal_of
from streams.auth.unknown_dataset import did_you_mean
from streams.auth.visibility import visibility_of
from streams.http.context import HttpRequest, context_of
from streams.http.refusal import forbidden
from streams.service.visibility import Visibility
from streams.settings.access import EVERYBODY, AccessSettings, listed
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)


async def check_may_send(request: HttpRequest, body: Body) -> None:
    """Check that the caller may send a record; without authentication everybody may.

    Raises: HTTPProblem: not allowed (403). Unavailable: the members are not known now.
    """
    visibility = visibility_of(request)
    caller = None if visibility.caller is None else principal_of(request)
    if caller is None:
        return
    _check_name(request, visibility, caller, body)
    for dataset in _datasets(body):
        await _check_dataset(request, caller, dataset, body)


async def _check_dataset(request: HttpRequest, caller: Principal, dataset: str, body: Body) -> None:
    context, visibility = context_of(request), visibility_of(request)
    if isinstance(body, Open):
        permitted = _may_open(context.settings, caller, body) and _is_free(visibility, body)
    elif is_by_administrator(body) and not caller.administrator:
        permitted = False
    else:
        permitted = _is_permitted(request, dataset, body)
    if isinstance(body, AskMore) and not permitted:
        # Of a dataset that was never opened, too: 403 would tell it from a hidden one.
        permitted = body.wants == "access"
    if isinstance(body, Settle) and not permitted:
        # Whoever is no member any more may still settle, and send the same bytes again.
        permitted = _holds(request, body) or await _has_sent(request, caller, body)
    if not permitted:
        if isinstance(body, Open) or _is_visible(visibility, dataset):
            what = _needed(caller, dataset, body, visibility.roles(dataset))
        else:
            what = _not_visible(caller, dataset) + await did_you_mean(request, dataset)
        raise _refused(request, dataset, body, what)


def _datasets(body: Body) -> tuple[str, ...]:
    return body.datasets if isinstance(body, MechanismRequest) else (body.dataset,)


def check_may_know(
    request: HttpRequest, body: Body, outcome: Outcome, *, shows_totals: bool
) -> DatasetAccess:
    """Return the sender's access to a record's dataset, now that the record is decided.

    The sender may lose a role after `check_may_send` and before the decision. The log then refuses
    the record, and the decision shows totals of a dataset that the sender no longer sees: 403. An
    applied record is answered in any case, since 403 would claim that nothing was appended: an
    owner removes themselves, or an analyst is removed between the grant and the answer.

    Args:
        shows_totals: the decision shows what is spent of the dataset.
    Raises: HTTPProblem: not allowed (403).
    """
    visibility = visibility_of(request)
    caller = None if visibility.caller is None else principal_of(request)
    if caller is None:
        return WHOLE
    _log_change(caller, body, outcome)
    for dataset in _datasets(body):
        if shows_totals and not outcome.is_applied and visibility.at(dataset) is None:
            raise _refused(request, dataset, body, _not_visible(caller, dataset))
    found = visibility.at(body.dataset)
    return found or DatasetAccess(caller.name, sees_all=False, sees_requests=False)


def _check_name(
    request: HttpRequest, visibility: Visibility, caller: Principal, body: Body
) -> None:
    """Check that a record names its sender as the token does."""
    if not isinstance(body, MechanismRequest | ReservationStep):
        field, name = "by", body.by
    elif isinstance(body.via, str):
        field, name = "via", body.via
    else:
        field, name = "analyst", body.analyst
    if name != caller.name:
        rule = f"must be {caller.name}, the name of your token"
        if field == "analyst" and "engine" in visibility.roles(body.dataset):
            rule += f"; an engine that asks for others sets `via` to {caller.name}"
        raise forbidden(request, _action(body), f"{field} {rule}", field=field, rule=rule)


def may_open(settings: AccessSettings, caller: Principal | None) -> bool:
    """Tell whether a caller may open datasets: an administrator, or one of the openers."""
    if caller is None or caller.administrator:
        return True
    openers = settings.openers.strip()
    return openers == EVERYBODY or caller.name in listed(openers)


def _may_open(settings: AccessSettings, caller: Principal, body: Open) -> bool:
    owners = body.owners if isinstance(body.owners, tuple) else (body.by,)
    is_owner = caller.administrator or caller.name in owners
    return is_owner and may_open(settings, caller)


def _is_visible(visibility: Visibility, dataset: str) -> bool:
    """Tell whether the dataset exists and the caller sees any of it."""
    policy = visibility.service.policy(dataset)
    return policy is not None and visibility.of(dataset, policy) is not None


def _is_free(visibility: Visibility, body: Open) -> bool:
    """Tell whether a name is free, or its dataset visible to the caller.

    The decision about a hidden dataset's name would show what was spent of it.
    """
    return visibility.service.policy(body.dataset) is None or _is_visible(visibility, body.dataset)


def _is_permitted(request: HttpRequest, dataset: str, body: Body) -> bool:
    context = context_of(request)
    policy = context.service.policy(dataset)
    if policy is None:
        return False
    lookup = partial(context.service.member, dataset)
    now = visibility_of(request).now(dataset)
    return may_send(policy, lookup, body, now)


def _holds(request: HttpRequest, step: Settle) -> bool:
    """Tell whether a reservation is the sender's, as far as this process has read the log."""
    found = context_of(request).service.open_reservation(step.dataset, step.grant)
    if found is None or found.analyst != step.analyst:
        return False
    return step.via in (UNSET, found.via)


async def _has_sent(request: HttpRequest, caller: Principal, step: Settle) -> bool:
    """Tell whether the caller's record of this id was decided already."""
    found = await context_of(request).service.find(step.dataset, step.analyst, step.request_id)
    if found is None:
        return False
    names = names_in_request(decode_header(found).request)
    return caller.name == (names.via or names.analyst)


def _action(body: Body) -> str:
    """Return the kind of a record, as the metric `privacy_http_not_permitted` names it."""
    return kind_of(body).name


def _refused(request: HttpRequest, dataset: str, body: Body, what: str) -> Exception:
    return forbidden(request, _action(body), what, field="dataset", value=dataset)


def _not_visible(caller: Principal, dataset: str) -> str:
    """Return the same words for a hidden dataset and for an unknown one."""
    return (
        f"dataset {dataset} was never opened, or you have no role on it; "
        f"you are signed in as {caller.name}"
    )


def signed_in_as(caller: Principal, roles: Collection[str]) -> str:
    """Return the end of a 403's message: the caller and their roles on the dataset."""
    words = ["administrator"] if caller.administrator else []
    shown = ", ".join([*words, *sorted(roles)]) or "no role"
    return f"you are signed in as {caller.name} ({shown})"


def _needed(caller: Principal, name: str, body: Body, roles: Collection[str]) -> str:
    """Return who may send a record. The caller sees the dataset `name`, or wants to open it."""
    signed_in = signed_in_as(caller, roles)
    if isinstance(body, Open):
        return (
            f"you may not open dataset {name}: only administrators may, and the names in "
            "ACCOUNTANT_OPENERS as its owners, where the name is free; you are signed in as "
            f"{caller.name}"
        )
    if isinstance(body, MechanismRequest | ReservationStep):
        if isinstance(body.via, str):
            needs = f"{body.via} needs the role engine and {body.analyst} the role analyst"
        else:
            needs = f"{body.analyst} needs the role analyst"
        command = ASK_FOR_ROLE.format(dataset=name, role="analyst", name=body.analyst)
        return f"{needs} on dataset {name}; ask {UNNAMED_OWNER} for it: `{command}`"
    if is_by_administrator(body):
        return f"only administrators may write `as: administrator`; {signed_in}"
    if isinstance(body, AskMore) and body.team is not None:
        return f"only members of team {body.team} may ask for a larger limit of it; {signed_in}"
    kind = kind_of(body)
    leads = ", or the lead of a team about its analysts" if "lead" in kind.senders else ""
    what = f"only owners of dataset {name} may do this{leads}; {signed_in}"
    if kind.allows_administrator and caller.administrator:
        what += f". An administrator {kind.does} by `as: administrator`, --as-administrator"
    return what


def _log_change(caller: Principal, body: Body, outcome: Outcome) -> None:
    """Log a change of ownership or membership, a pause or its end."""
    if outcome.sets_members and isinstance(body, Open):
        owners = list(body.owners) if isinstance(body.owners, tuple) else [body.by]
        _log.info("dataset_opened", dataset=body.dataset, by=caller.name, owners=owners)
    elif outcome.sets_one_member and isinstance(body, SetMember):
        _log.info(
            str(outcome),
            dataset=body.dataset,
            by=caller.name,
            member=body.member,
            roles=list(body.roles),
            until=body.until,
            administrator=body.as_ is not None,
        )
    elif outcome.switches_pause and isinstance(body, Pause | Resume):
        _log.info(
            f"dataset_{outcome}",
            dataset=body.dataset,
            by=caller.name,
            administrator=body.as_ is not None,
        )
