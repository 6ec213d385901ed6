"""Owners' forms for what no later record takes back: their records, and what each of them does."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from accountant.display.budget_in_force import lowering_words
from accountant.display.numbers import symbol
from accountant.display.one_way_choices import remarking_words
from accountant.display.outside import lasting_charge_words, recording_notes
from accountant.display.renewals import RenewalPlan
from accountant.display.teams import notes_of_limit
from accountant.display.texts import capital
from accountant.errors import RequestInvalid
from accountant.policy import Policy
from accountant.policy.compiled_policy import open_below
from accountant.records import Body, Decision, decode_decision, encode
from accountant.records.header import decode_header
from accountant.records.requests import RecordRelease, Remark, SetBudget
from accountant.views.confirmations import confirmation_words, confirmations_of_people
from accountant.views.datasets import DatasetView
from accountant.views.visibility import sees_decision
from streams.client._async.owner import AsyncOwner
from streams.client._async.sender import AsyncRequestSender
from streams.client.connection.connection import AsyncConnection
from streams.client.requests.admin_requests import (
    admin_context,
    budget_fields,
    record_fields,
    renew_fields,
)
from streams.client.requests.requests import Undecided
from streams.client.requests.succession import DatasetState, lacking
from streams.gateway.submit import DEFAULT_WAIT_S
from streams.http.context import Context
from streams.pages.dataset.form_data import (
    CONFIRMED,
    VOIDED,
    FormData,
    FormRecord,
    SentForm,
    admin_record,
)
from streams.pages.dataset.send_record import send_record
from streams.pages.ids import new_id
from streams.service.ledger_service import LedgerService
from streams.service.visibility import Visibility

_AT_A_TIME: Final = 500
_OWN: Final = ("reason", "by")
BUDGET: Final = ("epsilon", "rho", *_OWN, CONFIRMED)
CLOSING: Final = ("name", *_OWN)
RENEWAL: Final = ("renewed_as", "ceiling", *_OWN, CONFIRMED)
RELEASE: Final = ("claim", "released_at", "evidence", "team", *_OWN, CONFIRMED)
REMARK: Final = ("decision", "remark", "by", CONFIRMED)


class FormSubmission(NamedTuple):
    """What an owner wants to do to a dataset.

    Attributes:
        records: those that the form makes.
        view: the dataset, with its joint guarantee. `visibility`: the owner's.
    """

    sent: SentForm
    records: Sequence[FormRecord]
    view: DatasetView
    visibility: Visibility

    @property
    def body(self) -> Body:
        """The first of the records."""
        return self.records[0].checked.body


Effect = Callable[[FormSubmission], Awaitable[str]]
"""Returns what a form does, for its sender to confirm; "" for nothing to confirm.

Raises: RequestInvalid: it would be refused.
"""


def is_confirmed(form: FormData, effect: str) -> bool:
    """Tell whether a form was sent again, unchanged, by somebody who was shown this effect."""
    return form.values[CONFIRMED] == _proof(form, effect)


def to_confirm(form: FormData, effect: str) -> FormData:
    """Return the form that confirms an effect by being sent again."""
    return form._replace(values={**form.values, CONFIRMED: _proof(form, effect)}, is_open=True)


def _proof(form: FormData, effect: str) -> str:
    typed = sorted((name, text) for name, text in form.values.items() if name != CONFIRMED)
    return hashlib.sha256(encode([typed, effect])).hexdigest()[:32]


def budget_record(sent: SentForm) -> FormRecord:
    """Return the record that sets the budget in force.

    Raises: RequestInvalid: a field breaks a rule.
    """
    value = sent.form.values
    fields = budget_fields(value["epsilon"] or None, value["rho"] or None)
    return admin_record("budget", sent, fields)


async def budget_effect(submission: FormSubmission) -> str:
    """Return that a budget would stop all grants, "" where it would not."""
    body = submission.body
    if not isinstance(body, SetBudget):  # an owner declines an ask
        return ""
    limits = await submission.visibility.service.levels(submission.view.dataset)
    words = lowering_words(submission.view, limits, body.budget)
    return f"{capital(words)}." if words else ""


def closing_record(sent: SentForm) -> FormRecord:
    """Return the record that closes a dataset whose name was typed again.

    Raises: RequestInvalid: another name was typed.
    """
    name = sent.form.values["name"]
    if name != sent.dataset:
        rule = f"must be {sent.dataset}, the name of the dataset that you want to close"
        raise RequestInvalid("name", rule, name)
    return admin_record("close", sent, {})


def release_record(sent: SentForm) -> FormRecord:
    """Return the record of a release made elsewhere.

    Raises: RequestInvalid: a field breaks a rule.
    """
    value = sent.form.values
    for name in ("claim", "released_at"):
        if not value[name]:
            raise RequestInvalid(name, "must be given", "")
    team = value["team"] or None
    fields = record_fields(value["claim"], value["released_at"], value["evidence"], team, None)
    return admin_record("record", sent, fields)


async def release_effect(submission: FormSubmission) -> str:
    """Return what the record of a release does for ever."""
    body = submission.body
    assert isinstance(body, RecordRelease)
    service, dataset = submission.visibility.service, submission.view.dataset
    limits, members = await service.levels(dataset), await service.members(dataset)
    cuts = any(each.reserved for each in limits)
    notes = recording_notes(submission.view, body.claim, body.released_at, cuts=cuts)
    words = lasting_charge_words(submission.sent.form.values["claim"], dataset, body.team)
    if asked := confirmations_of_people(body, members, limits):
        notes.append(capital(confirmation_words(asked)))
    elif body.team:
        notes += [f"{capital(each)}." for each in notes_of_limit(members, body.team)]
    return " ".join([f"{capital(words)}.", *notes])


async def not_brought_along(service: LedgerService, old: DatasetView, at: int) -> list[str]:
    """Return which limits and members of a renewed dataset the next generation does not have.

    Args:
        at: milliseconds since 1970.
    """
    new = await service.dataset(old.renewed_as)
    if new is None:
        return []
    one, other = [
        DatasetState(each, await service.members(each.dataset), await service.levels(each.dataset))
        for each in (old, new)
    ]
    missing = lacking(one, other, at)
    what = f"{new.dataset} has not: {', '.join(missing)}. It grants without them: set them there"
    return [what] if missing else []


def remark_record(sent: SentForm) -> FormRecord:
    """Return the record of a remark on a decision.

    Raises: RequestInvalid: a field breaks a rule.
    """
    value = sent.form.values
    fields = {"decision": _number(value["decision"]), "remark": value["remark"]}
    return admin_record("remark", sent, fields)


async def remark_effect(submission: FormSubmission) -> str:
    """Return what a remark is about.

    Raises: RequestInvalid: there is no such decision.
    """
    assert isinstance(submission.body, Remark)
    number = submission.body.decision
    decision = await _find(submission, number)
    if decision is None and number > submission.view.sequence:
        rule = f"must be the number of a decision, at most {submission.view.sequence}"
        raise RequestInvalid("decision", rule, str(number))
    return f"{capital(remarking_words(submission.view.dataset, number, decision))}."


async def void(context: Context, submission: FormSubmission) -> Decision | None:
    """Void a reservation; the reason follows as a remark on the decision that reserved.

    Returns: the decision on the void, None while there is none.
    Raises: Unavailable.
    """
    sent, service = submission.sent, context.service
    reason = sent.form.values["reason"]
    # Before it is voided: afterwards the reservation is not among the open ones.
    number = await _number_of_grant(submission) if reason else None
    decision = await send_record(service, submission.records[0], "requests")
    if number is None or decision is None or not decision.outcome.is_applied:
        return decision
    form = FormData(new_id(context.clock.now()), {})
    fields = {"decision": number, "remark": f"{VOIDED}{reason}"}
    await send_record(service, admin_record("remark", sent._replace(form=form), fields))
    return decision


async def _number_of_grant(submission: FormSubmission) -> int | None:
    """Return the number of the decision that reserved what a form voids, None for none."""
    dataset, grant = submission.view.dataset, submission.sent.form.values["grant"]
    service, after = submission.visibility.service, 0
    while True:
        page = await service.reservations(dataset, after=after, limit=_AT_A_TIME)
        for each in page.reservations:
            if each.grant == grant:
                return each.sequence
        if len(page.reservations) < _AT_A_TIME:
            return None
        after = page.reservations[-1].sequence


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 15 and int(text) > 0):
        rule = "must be a decision's number in the dataset, such as 12"
        raise RequestInvalid("decision", rule, text)
    return int(text)


async def _find(submission: FormSubmission, number: int) -> Decision | None:
    """Return a decision by its number in the dataset, None for one that cannot be read."""
    dataset, visibility = submission.view.dataset, submission.visibility
    access = visibility.at(dataset)
    if access is None or number > submission.view.sequence:
        return None
    for value in await visibility.service.decisions(dataset, after=number - 1, limit=1):
        header = decode_header(value)
        if header.sequence == number and sees_decision(access, header):
            return decode_decision(value)
    return None


def renewal_record(sent: SentForm) -> FormRecord:
    """Return the record of a renewal; `renew` puts the policy into the one that is sent.

    Raises: RequestInvalid: a field breaks a rule.
    """
    new = sent.form.values["renewed_as"]
    given: dict[str, Any] = {"as_given": True, "owners": None, "schema": None, "ceiling": None}
    return admin_record("renew", sent, renew_fields(new, None, **given))


async def renewal_effect(submission: FormSubmission) -> str:
    """Return what becomes of the dataset, its reservations, its lifetime and its population.

    Raises: RequestInvalid: it would be refused.
    """
    view, new = submission.view, submission.sent.form.values["renewed_as"]
    policy, budget = _next_policy(submission), ""
    if policy is not None:
        # The policy names the budget. The filter may count it in another parameter.
        field = view.policy.budget_field
        budget = f"{symbol(field)} = {_policy_in_force(view)[field]}"
    pending = len(await submission.visibility.service.pending(view.dataset))
    schema = None if view.schema is UNSET else view.schema
    plan = RenewalPlan(view, new, policy, pending, schema, budget)
    if plan.refusal:
        raise RequestInvalid("renewed_as" if policy is None else "ceiling", plan.refusal, "")
    return f"If you renew it: {'; '.join(plan.words())}."


def _next_policy(submission: FormSubmission) -> Policy | None:
    """Return the policy below a typed ceiling, None for that of the dataset.

    Raises: RequestInvalid: the ceiling is no amount, or below the budget in force.
    """
    ceiling = submission.sent.form.values["ceiling"]
    if not ceiling:
        return None
    policy = msgspec.convert(_policy_in_force(submission.view), Policy)
    try:
        return open_below(policy, ceiling).policy
    except RequestInvalid as error:
        raise RequestInvalid("ceiling", error.rule, error.value) from None


def _policy_in_force(view: DatasetView) -> Mapping[str, Any]:
    """Return the policy of a dataset with its budget in force, as on the wire."""
    policy = msgspec.to_builtins(view.policy)
    in_force = view.in_force
    return policy if in_force is UNSET else {**policy, in_force.field: in_force.amount}


async def renew(context: Context, submission: FormSubmission) -> Decision | None:
    """Renew a dataset as `accountant dataset renew` does: limits and members follow.

    Returns: the decision, None while there is none.
    Raises: RequestInvalid. Unavailable.
    """
    sent, view = submission.sent, submission.view
    connection = AsyncConnection(context.settings, context.clock, wait=DEFAULT_WAIT_S)
    connection.attach(context.service)
    reason, request_id = sent.form.values["reason"], sent.form.request_id
    who = admin_context(sent.by, reason=reason, request_id=request_id, wait=DEFAULT_WAIT_S)
    owner = AsyncOwner(AsyncRequestSender(connection), who, context.clock)
    new, ceiling = sent.form.values["renewed_as"], sent.form.values["ceiling"]
    more: dict[str, Any] = {"as_given": True}
    if ceiling:
        schema = None if view.schema is UNSET else view.schema
        more |= {"policy": _policy_in_force(view), "ceiling": ceiling, "schema": schema}
    try:
        return await owner.renew(view.dataset, new, **more)
    except Undecided:
        return None
