"""Who may send which record: 403 before anything is appended, by the rules of `decide`."""

from __future__ import annotations

from functools import partial
from typing import Final

from accountant.partition.permits import may_ask, may_decide
from accountant.records import Body, MechanismRequest, Open, SetMember
from accountant.records.outcomes import Outcome
from accountant.views.visibility import WHOLE, DatasetAccess
from streams.auth.principal import Principal, principal_of
from streams.auth.visibility import sight_of
from streams.http.context import HttpRequest, context_of
from streams.http.refusal import forbidden
from streams.logs import get_logger
from streams.settings.access import EVERYBODY, AccessSettings, listed
from streams.visibility import Sight

_log = get_logger(__name__)
_DONE: Final = frozenset(
    {
        *(Outcome.GRANTED, Outcome.OPENED, Outcome.AMENDED, Outcome.CLOSED),
        *(Outcome.MEMBER_SET, Outcome.MEMBER_REMOVED),
        *(Outcome.LIMIT_SET, Outcome.LIMIT_REMOVED),
    }
)


def check_may_send(request: HttpRequest, body: Body) -> None:
    """Check that the one who asks may send a record; where a door knows nobody, everybody may.

    Raises: HTTPProblem: they may not (403). Unavailable: that is not known now.
    """
    who = principal_of(request)
    if who is None:
        return
    context, sight = context_of(request), sight_of(request)
    _check_name(request, sight, who, body)
    if isinstance(body, Open):
        permitted = _may_open(context.settings, who, body) and _is_free(sight, body)
    elif isinstance(body, SetMember) and body.as_ is not None and not who.administrator:
        permitted = False
    else:
        permitted = _is_permitted(request, who, body)
    if not permitted:
        raise _refused(request, body, is_seen=_is_seen(sight, body.dataset))


def check_may_know(
    request: HttpRequest, body: Body, outcome: Outcome, *, tells: bool
) -> DatasetAccess:
    """Return what the one who has sent a record sees of its dataset, now that it is decided.

    Whoever lost the right in between was let through by this door and is refused by the log: with
    a decision that tells of a dataset which is theirs no more. Where the log did what the record
    wanted, they had the right when it was decided, and 403 would say that nothing was appended:
    an owner's own removal, a grant whose analyst is removed before the answer.
    Raises: HTTPProblem: they may not (403).
    """
    who = principal_of(request)
    if who is None:
        return WHOLE
    _note(who, body, outcome)
    found = sight_of(request).at(body.dataset)
    if found is None and tells and outcome not in _DONE:
        raise _refused(request, body, is_seen=False)
    return found or DatasetAccess(who.name, sees_all=False, sees_requests=False)


def _check_name(request: HttpRequest, sight: Sight, who: Principal, body: Body) -> None:
    """Check that a record says of itself whose it is."""
    if not isinstance(body, MechanismRequest):
        field, name = "by", body.by
    elif isinstance(body.via, str):
        field, name = "via", body.via
    else:
        field, name = "analyst", body.analyst
    if name != who.name:
        rule = f"must be {who.name}, as the token says"
        if field == "analyst" and "engine" in sight.roles(body.dataset):
            rule += f"; an engine that asks for others gives itself as `via`, {who.name}"
        raise forbidden(request, _action(body), f"{field} {rule}", field=field, rule=rule)


def _may_open(settings: AccessSettings, who: Principal, body: Open) -> bool:
    if who.administrator:
        return True
    owners = body.owners if isinstance(body.owners, tuple) else (body.by,)
    openers = settings.openers.strip()
    return (openers == EVERYBODY or who.name in listed(openers)) and who.name in owners


def _is_seen(sight: Sight, dataset: str) -> bool:
    """Tell whether there is a dataset of that name of which something is seen."""
    policy = sight.service.policy(dataset)
    return policy is not None and sight.of(dataset, policy) is not None


def _is_free(sight: Sight, body: Open) -> bool:
    """Tell whether a name is free, or that of a dataset which is seen anyhow.

    The decision on any other would show what was spent of it.
    """
    return sight.service.policy(body.dataset) is None or _is_seen(sight, body.dataset)


def _is_permitted(request: HttpRequest, who: Principal, body: Body) -> bool:
    context = context_of(request)
    policy = context.service.policy(body.dataset)
    if policy is None:
        return False
    lookup = partial(context.service.member, body.dataset)
    now = sight_of(request).now(body.dataset)
    if isinstance(body, MechanismRequest):
        return may_ask(policy, lookup, body, now)
    return may_decide(lookup, body, now)


def _action(body: Body) -> str:
    """Return what a record would do, as metrics name it."""
    return str(body.__struct_config__.tag)


def _refused(request: HttpRequest, body: Body, *, is_seen: bool) -> Exception:
    who = principal_of(request)
    what = _needed(who, body) if is_seen or isinstance(body, Open) else _unseen(body.dataset)
    return forbidden(request, _action(body), what, field="dataset", value=body.dataset)


def _unseen(dataset: str) -> str:
    """Return what is said alike of a dataset that is not theirs and of one that there is not."""
    return f"you have no role on dataset {dataset} now, or there is none of that name"


def _needed(who: Principal | None, body: Body) -> str:
    """Return who may send a record: to whom sees the dataset, or wants to open one."""
    name = body.dataset
    if isinstance(body, Open):
        return (
            f"dataset {name} is not yours to open: administrators may, and names in "
            "ACCOUNTANT_OPENERS for themselves, where the name is free"
        )
    if isinstance(body, MechanismRequest):
        if isinstance(body.via, str):
            needs = f"{body.via} needs the role engine and {body.analyst} the role analyst"
        else:
            needs = f"{body.analyst} needs the role analyst"
        return f"{needs} on dataset {name}: an owner of it gives roles"
    if isinstance(body, SetMember) and body.as_ is not None:
        return "only administrators may write `as: administrator`"
    what = f"that is for owners of dataset {name}, and you are none"
    if isinstance(body, SetMember) and who is not None and who.administrator:
        what += "; an administrator sets members by `as: administrator`, --as-administrator"
    return what


def _note(who: Principal, body: Body, outcome: Outcome) -> None:
    """Log what changes who may do what."""
    if outcome is Outcome.OPENED and isinstance(body, Open):
        owners = list(body.owners) if isinstance(body.owners, tuple) else [body.by]
        _log.info("dataset_opened", dataset=body.dataset, by=who.name, owners=owners)
    elif outcome in {Outcome.MEMBER_SET, Outcome.MEMBER_REMOVED} and isinstance(body, SetMember):
        _log.info(
            str(outcome),
            dataset=body.dataset,
            by=who.name,
            member=body.member,
            roles=list(body.roles),
            until=body.until,
            administrator=body.as_ is not None,
        )
