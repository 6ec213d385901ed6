"""The forms on a dataset's page: one entry for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import UNSET

from accountant.display.asks import membership_for, own_budget
from accountant.policy.in_force import BudgetInForce
from accountant.records import Decision, Source
from accountant.records.asks import AskKind
from accountant.views.asks import AskView
from streams.http.context import Context
from streams.pages.dataset import amend_form, form_data, lasting_forms, many_forms
from streams.pages.dataset.form_data import FormData, FormRecord, SentForm
from streams.pages.dataset.lasting_forms import Effect, FormSubmission
from streams.pages.dataset.page_data import PageData
from streams.pages.ids import new_id

Query = Mapping[str, str]


class PageForm(NamedTuple):
    """A form of a dataset's page.

    Attributes:
        path: where a browser sends it, below the page's address.
        anchor: where the page has it.
        what: what it does with the dataset, as a refusal says it: `set its members`.
        names: of its inputs.
        fill: returns it with current values, by the query of the page; None where the page has
            none.
        records: the records that it makes, by the button that was pressed. Raises RequestInvalid:
            a field breaks a rule.
        source: the topic of its records.
        for_administrators: administrators send it, too, where they are not owners.
        for_leads: leads send it, about their analysts.
        for_everybody: whoever sees the dataset sends it, and of some records those who do not.
        effect: what it does, which its sender confirms; None for nothing to confirm.
        send: sends it, where that takes more than one record.
    """

    path: str
    anchor: str
    what: str
    names: tuple[str, ...]
    fill: Callable[[PageData, Query], FormData | None]
    records: Callable[[SentForm, str], Sequence[FormRecord]]
    source: Source = "admin"
    for_administrators: bool = False
    for_leads: bool = False
    for_everybody: bool = False
    effect: Effect | None = None
    send: Callable[[Context, FormSubmission], Awaitable[Decision | None]] | None = None


def _by(found: PageData) -> str:
    """Return the author that a form suggests without authentication: the only owner."""
    owners = [each.member for each in found.members if "owner" in each.roles]
    return owners[0] if not found.viewer.is_authenticated and len(owners) == 1 else ""


def _blank(found: PageData, names: tuple[str, ...], **more: str) -> FormData:
    return form_data.blank_form(names, new_id(found.now), by=_by(found), **more)


def _member(found: PageData, query: Query) -> FormData | None:
    leads, name = found.viewer.leads, query.get("member")
    if not found.viewer.sets_members and not leads:
        return None
    ask = None if leads else _accepted(found, query, "access")
    if ask is not None:
        after = membership_for(ask, found.members, found.now)
        return form_data.accept_by_member(new_id(found.now), after, ask, by=_by(found))
    known = next((each for each in found.members if each.member == name), None)
    if known is not None and not found.viewer.may_change(known):
        known = None
    return form_data.member_form(new_id(found.now), known, by=_by(found), team=leads)


def _limit(found: PageData, query: Query) -> FormData | None:
    leads = found.viewer.leads
    if not (found.viewer.sets_limits or leads) or found.view.closed:
        return None
    ask = None if leads else _accepted(found, query, "limit")
    wanted = query.get("scope"), query.get("name") or None
    if ask is not None:
        wanted = ask.scope
    known = next((each for each in found.levels if (each.scope, each.name) == wanted), None)
    if known is not None and leads and known.scope != "analyst":
        known = None
    if ask is not None:
        own = {} if ask.budget is None else own_budget(found.view.policy, _amount_of(ask.budget))
        return form_data.accept_by_limit(new_id(found.now), known, ask, own, by=_by(found))
    if known is not None or not leads:
        return form_data.limit_form(new_id(found.now), known, by=_by(found))
    default = next((each for each in found.levels if each.scope == "each"), None)
    kept = form_data.pace_values(None if default is None else default.pace)
    return form_data.limit_form(new_id(found.now), None, by=_by(found), scope="analyst", **kept)


def _accepted(found: PageData, query: Query, wants: AskKind) -> AskView | None:
    """Return the open ask that the page's query names, if it is for this."""
    number = query.get("accept", "")
    named = (each for each in found.asks if str(each.ask) == number and each.wants == wants)
    return next((each for each in named if each.is_open), None)


def _amount_of(budget: BudgetInForce) -> dict[str, str]:
    return {budget.field: budget.amount}


def _more(found: PageData, query: Query) -> FormData | None:
    viewer = found.viewer
    if not viewer.is_authenticated or viewer.sets_limits or found.view.closed:
        return None
    usual = "limit" if viewer.asks else (form_data.TEAM_LIMIT if viewer.team else "access")
    values = {"wants": query.get("wants", usual), "role": "analyst", "team": found.team}
    shown = _blank(found, form_data.MORE, sum=found.view.policy.budget_field, **values)
    return shown._replace(is_open="wants" in query)


def _ask_reply(found: PageData, _: Query) -> FormData | None:
    has_none = not found.viewer.sets_limits or not any(each.is_open for each in found.asks)
    return (
        None
        if has_none
        else _blank(found, form_data.ANSWER_TO_ASK, sum=found.view.policy.budget_field)
    )


def _pause(found: PageData, _: Query) -> FormData | None:
    if not found.viewer.sets_members or found.view.closed:
        return None
    return _blank(found, form_data.PAUSE)


def _person(found: PageData, query: Query) -> FormData | None:
    if not found.viewer.sets_members or found.view.closed:
        return None
    shown = _blank(found, form_data.PERSON, member=query.get("person", ""))
    return shown._replace(is_open="person" in query)


def _members(found: PageData, _: Query) -> FormData | None:
    return _blank(found, many_forms.MANY) if found.viewer.sets_members else None


def _limits(found: PageData, _: Query) -> FormData | None:
    has_none = not found.viewer.sets_limits or found.view.closed
    return None if has_none else _blank(found, many_forms.MANY)


def _void(found: PageData, _: Query) -> FormData | None:
    has_none = not found.viewer.sets_limits or not found.reservations
    return None if has_none else _blank(found, form_data.VOID)


def _answer(found: PageData, _: Query) -> FormData | None:
    has_none = not found.viewer.sets_limits or not found.pending
    return None if has_none else _blank(found, form_data.ANSWER)


def _budget(found: PageData, _: Query) -> FormData | None:
    if not found.viewer.sets_limits or found.view.closed:
        return None
    policy, in_force = found.view.policy, found.view.in_force
    amount = policy.amount if in_force is UNSET else in_force.amount
    return _blank(found, lasting_forms.BUDGET, **{policy.budget_field: amount})


def _amendment(found: PageData, _: Query) -> FormData | None:
    has_none = not found.viewer.sets_limits or found.view.closed
    return None if has_none else _blank(found, amend_form.AMENDMENT)


def _closing(found: PageData, _: Query) -> FormData | None:
    has_none = not found.viewer.sets_limits or found.view.closed
    return None if has_none else _blank(found, lasting_forms.CLOSING)


def _renewal(found: PageData, _: Query) -> FormData | None:
    view = found.view
    is_renewable = view.lifetime is not UNSET and not view.renewed_as
    has_none = not found.viewer.sets_limits or not is_renewable
    return None if has_none else _blank(found, lasting_forms.RENEWAL)


def _release(found: PageData, _: Query) -> FormData | None:
    has_none = not found.viewer.sets_limits or found.view.closed
    return None if has_none else _blank(found, lasting_forms.RELEASE)


def _remark(found: PageData, query: Query) -> FormData | None:
    if not found.viewer.sets_limits:
        return None
    shown = _blank(found, lasting_forms.REMARK, decision=query.get("remark", "")[:20])
    return shown._replace(is_open="remark" in query)


FORMS: Final[Mapping[str, PageForm]] = MappingProxyType(
    {
        "limit": PageForm(
            path="limits",
            anchor="set-limit",
            what="set its limits",
            names=form_data.LIMIT,
            fill=_limit,
            records=lambda sent, action: [form_data.limit_record(sent, removes=action == "remove")],
            for_leads=True,
        ),
        "member": PageForm(
            path="members",
            anchor="set-member",
            what="set its members",
            names=form_data.MEMBER,
            fill=_member,
            records=lambda sent, action: [
                form_data.member_record(sent, removes=action == "remove")
            ],
            for_administrators=True,
            for_leads=True,
        ),
        "members": PageForm(
            path="members/many",
            anchor="set-members",
            what="set its members",
            names=many_forms.MANY,
            fill=_members,
            records=lambda sent, _: many_forms.member_lines(sent),
            for_administrators=True,
            effect=many_forms.members_effect,
            send=many_forms.send_lines,
        ),
        "limits": PageForm(
            path="limits/many",
            anchor="set-limits",
            what="set its limits",
            names=many_forms.MANY,
            fill=_limits,
            records=lambda sent, _: many_forms.limit_lines(sent),
            effect=many_forms.limits_effect,
            send=many_forms.send_lines,
        ),
        "pause": PageForm(
            path="pause",
            anchor="pause",
            what="pause or resume it",
            names=form_data.PAUSE,
            fill=_pause,
            records=lambda sent, action: [form_data.pause_record(sent, resumes=action == "resume")],
            for_administrators=True,
        ),
        "person": PageForm(
            path="members/pause",
            anchor="pause-person",
            what="pause or resume its people",
            names=form_data.PERSON,
            fill=_person,
            records=lambda sent, action: [
                form_data.person_record(sent, resumes=action == "resume")
            ],
            for_administrators=True,
        ),
        "answer": PageForm(
            path="pending",
            anchor="pending",
            what="approve or deny its requests",
            names=form_data.ANSWER,
            fill=_answer,
            records=lambda sent, action: [
                form_data.answer_record(sent, denies=action != "approve")
            ],
        ),
        "ask_reply": PageForm(
            path="more/answer",
            anchor="asks",
            what="answer what is asked of its owners",
            names=form_data.ANSWER_TO_ASK,
            fill=_ask_reply,
            records=lambda sent, action: [
                form_data.answer_to_ask(sent, declines=action != "accept")
            ],
            effect=lasting_forms.budget_effect,
        ),
        "more": PageForm(
            path="more",
            anchor="ask-more",
            what="ask its owners for more",
            names=form_data.MORE,
            fill=_more,
            records=lambda sent, _: [form_data.ask_record(sent)],
            for_everybody=True,
        ),
        "void": PageForm(
            path="reservations",
            anchor="reservations",
            what="void the reservations of others",
            names=form_data.VOID,
            fill=_void,
            records=lambda sent, _: [form_data.void_record(sent)],
            source="requests",
            send=lasting_forms.void,
        ),
        "budget": PageForm(
            path="budget",
            anchor="set-budget",
            what="set its budget in force",
            names=lasting_forms.BUDGET,
            fill=_budget,
            records=lambda sent, _: [lasting_forms.budget_record(sent)],
            effect=lasting_forms.budget_effect,
        ),
        "amendment": PageForm(
            path="amend",
            anchor="amend",
            what="amend it",
            names=amend_form.AMENDMENT,
            fill=_amendment,
            records=lambda sent, _: [amend_form.amend_record(sent)],
        ),
        "release": PageForm(
            path="record",
            anchor="record",
            what="record a release made elsewhere",
            names=lasting_forms.RELEASE,
            fill=_release,
            records=lambda sent, _: [lasting_forms.release_record(sent)],
            effect=lasting_forms.release_effect,
        ),
        "remark": PageForm(
            path="remark",
            anchor="remark",
            what="remark on its decisions",
            names=lasting_forms.REMARK,
            fill=_remark,
            records=lambda sent, _: [lasting_forms.remark_record(sent)],
            effect=lasting_forms.remark_effect,
        ),
        "renewal": PageForm(
            path="renew",
            anchor="renew",
            what="renew it",
            names=lasting_forms.RENEWAL,
            fill=_renewal,
            records=lambda sent, _: [lasting_forms.renewal_record(sent)],
            effect=lasting_forms.renewal_effect,
            send=lasting_forms.renew,
        ),
        "closing": PageForm(
            path="close",
            anchor="close",
            what="close it",
            names=lasting_forms.CLOSING,
            fill=_closing,
            records=lambda sent, _: [lasting_forms.closing_record(sent)],
        ),
    }
)
"""By name; the first one with an error is where the page's message leads."""
