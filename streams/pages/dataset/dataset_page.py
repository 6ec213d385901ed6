"""GET /pages/datasets/{dataset}: everything that the viewer may see of a dataset, on one page."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import msgspec
from litestar import Response, get
from litestar.params import FromPath
from msgspec import UNSET

from accountant.advice.fit import budget_of
from accountant.display.approvals import idle_approval
from accountant.display.asks import wanted_words
from accountant.display.columns import column_views, schema_words
from accountant.display.current_dataset import owner_words
from accountant.display.datasets import alert_words
from accountant.display.limits import by_use, whole_of_limits
from accountant.display.numbers import symbol
from accountant.display.one_way_choices import closing_words
from accountant.display.outside import recorded_notes, release_of
from accountant.display.pauses import person_pause_words
from accountant.display.teams import (
    notes_of_limit,
    notes_of_member,
    notes_of_pause,
    notes_of_person,
)
from accountant.display.texts import capital
from accountant.errors import RequestInvalid
from accountant.records import Decision, decode_decision
from accountant.records.header import decode_header
from accountant.records.inputs import check_body
from accountant.records.members import Member
from accountant.records.outcomes import Outcome, Reason
from accountant.records.person_pauses import PersonPause, pause_of
from accountant.records.requests import SetLimit
from accountant.times import from_iso, issued_at
from accountant.views.alerts import limit_alerts_of_view
from accountant.views.limit_views import ScopeView
from accountant.views.usage import analyst_in
from accountant.views.visibility import sees_decision
from accountant.views.why.forecast import TOO_YOUNG
from streams.auth.decision_pages import log_reading
from streams.auth.visibility import visibility_of
from streams.gateway.source_check import words_of_source
from streams.http.context import Context, HttpRequest, context_of
from streams.pages.dataset import form_data, preview_form, question_form
from streams.pages.dataset.answer_rows import recent_answers
from streams.pages.dataset.bars import scopes_of
from streams.pages.dataset.form_data import FormData
from streams.pages.dataset.forms import FORMS
from streams.pages.dataset.headline import headline, own_budget
from streams.pages.dataset.lasting_forms import not_brought_along
from streams.pages.dataset.odometers import odometer_rows
from streams.pages.dataset.page_data import (
    PageData,
    preview_claim,
    preview_question,
    read_page,
    with_filter,
)
from streams.pages.dataset.pending_rows import waiting_request
from streams.pages.dataset.question_form import QuestionForm
from streams.pages.dataset.request_filter import filter_links, filter_of
from streams.pages.dataset.request_rows import RequestRow, request_row
from streams.pages.dataset.reservation_rows import reservation_row
from streams.pages.dataset.spending import forecast_notes
from streams.pages.dataset.unseen import dataset_not_found
from streams.pages.flash import Message, message
from streams.pages.ids import new_id
from streams.pages.paths import dataset_page as dataset_address
from streams.pages.render import render_page
from streams.service.ledger_service import LedgerService

_NO_ASK: Final = frozenset({Reason.UNKNOWN_ASK, Reason.OTHER_ASK})
_MOST_MEMBERS: Final = 200
_MOST_ASKS: Final = 20
_MOST_LEVELS: Final = 200
_MOST_ALERTS: Final = 20
REFILLED: Final = ("member", "limit")
"""The forms that the page fills again from a refused record."""


@get("/pages/datasets/{dataset:str}", include_in_schema=False)
async def show_dataset_page(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Return the page of a dataset.

    Query parameters: `done` is the id of a form's record, and `by` its author without
    authentication. `member`, `person`, or `scope` and `name`, fill a form with current values.
    `accept` fills the form that accepts an ask for more, and `wants` opens the form that asks.
    `kind` and the fields of a claim ask for a preview. `requests_by`, `requests_team` and
    `requests_outcome` are the filter of the requests.
    """
    return await dataset_page(request, dataset)


async def dataset_page(
    request: HttpRequest,
    dataset: str,
    *,
    status: int = 200,
    sent: Mapping[str, FormData] = MappingProxyType({}),
    flash: Message | None = None,
    decided: Decision | None = None,
) -> Response[Any]:
    """Return the page of a dataset.

    Args:
        sent: forms as the browser sent them, by name, to be corrected and sent again.
        flash: the message on top of the page.
        decided: instead, the refusal of the form's record.
    """
    context, service = context_of(request), context_of(request).service
    found = await read_page(visibility_of(request), dataset, context.clock.now())
    if found is None:
        return await dataset_not_found(request, dataset)
    log_reading(request, dataset, reads_others=found.viewer.reads_others)
    query = {name: str(text) for name, text in request.query_params.items()}
    chosen = filter_of(query)
    found = await with_filter(service, found, chosen)
    if decided is not None:
        flash = message(decided, current=found.current)
    elif flash is None and "done" in query:
        decided = await _decision(service, found, query)
        notes = _notes(found, decided)
        if decided is not None and decided.outcome is Outcome.RENEWED:
            notes += await not_brought_along(service, found.view, found.now)
        flash = message(decided, notes, found.current)
        sent = _refill(found, decided)
    whose = query.get("analyst", found.example) if found.viewer.reads_others else ""
    preview = preview_form.parse_query({**query, "analyst": whose})
    if "kind" in query and status == 200:
        preview = await preview_claim(service, found, preview)
    questions = await _question_form(context, found, query, previews=status == 200)
    blank = {name: form.fill(found, query) for name, form in FORMS.items()}
    forms = {**blank, **sent}
    values: dict[str, Any] = {
        "source_words": await _source_words(request, found),
        "questions": questions,
        "answers": await recent_answers(
            context.answers, found.view.dataset, found.decisions, found.viewer.access
        ),
        **{f"{name}_form": form for name, form in forms.items()},
        "blank_answer": blank["answer"],
        "blank_ask_reply": blank["ask_reply"],
        "to_form": _anchor_to_send_again(forms),
        "preview": preview,
        "common_claims": preview_form.common_claims(preview, budget_of(found.view)),
        "request_filter": chosen,
        "filter_links": filter_links(chosen, dataset_address(dataset), found.members),
        "flash": flash,
        "asks_for_team": _asks_for_team(decided),
    }
    return render_page(request, "dataset/page.html", status=status, **_page_values(found), **values)


def _asks_for_team(decided: Decision | None) -> bool:
    """Tell whether a larger limit of the team would help a lead whose limit was refused."""
    if decided is None or decided.reason is not Reason.BEYOND_TEAM:
        return False
    return isinstance(check_body("admin", bytes(decided.request)).body, SetLimit)


async def _source_words(request: HttpRequest, found: PageData) -> str:
    """Return what an owner should know of the source; nobody else learns the cause."""
    is_owner = "owner" in found.viewer.roles or not found.viewer.is_authenticated
    return await words_of_source(request, found.view) if is_owner else ""


async def _question_form(
    context: Context, found: PageData, query: Mapping[str, str], *, previews: bool
) -> QuestionForm | None:
    """Return the form that asks, None where the viewer cannot ask or nobody would answer."""
    view, viewer = found.view, found.viewer
    may_ask = (viewer.asks or not viewer.is_authenticated) and not view.closed
    if view.schema is UNSET or context.answers is None or not may_ask:
        return None
    form = question_form.parse_query(query, view.schema)
    if "ask" not in query or not previews:
        return form
    return await preview_question(context.service, found, form, new_id(found.now))


def _notes(found: PageData, decision: Decision | None) -> list[str]:
    """Return what to know of a form's record: a team that is named nowhere else, and releases."""
    if decision is None:
        return []
    if decision.outcome.charges_team:
        return recorded_notes(decision)
    if decision.outcome.sets_policy:
        idle = idle_approval(found.view.policy)
        return [f"a request {idle}"] if idle else []
    if decision.outcome is Outcome.MEMBER_PAUSED and isinstance(decision.pause, PersonPause):
        return notes_of_pause(found.members, found.view.dataset, decision.pause)
    if decision.member is not None:
        return notes_of_member(found.levels, found.members, found.view.dataset, decision.member)
    limit = decision.limit
    if decision.outcome is not Outcome.LIMIT_SET or limit is None or limit.name is None:
        return []
    if limit.scope == "analyst":
        return notes_of_person(found.members, found.view.dataset, limit.name)
    return notes_of_limit(found.members, limit.name)


def _page_values(found: PageData) -> dict[str, Any]:
    view, viewer, now = found.view, found.viewer, found.now
    own_levels = () if found.budget is None else found.budget.levels
    levels = by_use(found.levels) if len(found.levels) > _MOST_LEVELS else found.levels
    reads_others = viewer.reads_others
    whole = whole_of_limits(view)
    return {
        "page_url": dataset_address(view.dataset),
        "api": f"/datasets/{quote(view.dataset, safe='')}",
        "head": headline(view, found.pause),
        "viewer": viewer,
        "own": None
        if found.budget is None
        else own_budget(found.budget, view.state, now, owner_words(found.members), view=view),
        "levels": scopes_of(
            [*levels[:_MOST_LEVELS], *found.uses[:_MOST_LEVELS]], now, found.members, whole=whole
        ),
        "limits_of": whole,
        "more_levels": max(0, len(found.levels) - _MOST_LEVELS),
        "alerts": _limit_alerts(found, found.levels if reads_others else own_levels),
        "reservations": list(map(reservation_row, found.reservations)),
        "more_reservations": found.has_more_reservations,
        "pending": [waiting_request(view, *each, viewer.name, now) for each in found.pending],
        "more_pending": found.has_more_pending,
        "releases": [each for each in map(release_of, found.releases) if each is not None],
        "asks": found.asks[:_MOST_ASKS],
        "more_asks": len(found.asks) > _MOST_ASKS,
        "wanted_words": wanted_words,
        "usage": found.usage,
        "requests": [
            _request_row(found, each, found.levels or own_levels) for each in found.decisions
        ],
        "recent": found.recent,
        "too_young": TOO_YOUNG,
        "forecast_note": forecast_notes(found.usage.forecasts),
        "columns": () if view.schema is UNSET else column_views(view.schema),
        "schema_note": "" if view.schema is UNSET else schema_words(view.schema),
        "odometers": odometer_rows(view),
        "members": [_member_row(each, found) for each in found.members[:_MOST_MEMBERS]],
        "person_pauses": list(map(person_pause_words, view.person_pauses)),
        "more_members": max(0, len(found.members) - _MOST_MEMBERS) if reads_others else 0,
        "filters": form_data.filters(),
        "closing_words": f"{capital(closing_words(view))}.",
        "budget_name": symbol(view.policy.budget_field),
        "ceiling": view.policy.amount if view.ceiling else "",
    }


def _limit_alerts(found: PageData, levels: Sequence[ScopeView]) -> list[str]:
    """Return what limits have reached, the nearest to their end first."""
    alerts = [alert for level in levels for alert in limit_alerts_of_view(found.view, level)]
    last = {(each.scope, each.name, each.analyst, each.cut is None): each for each in alerts}
    ordered = sorted(last.values(), key=lambda each: (each.cut is None, -each.spent_ratio))
    return [alert_words(each) for each in ordered[:_MOST_ALERTS]]


def _request_row(found: PageData, decision: Decision, levels: Sequence[ScopeView]) -> RequestRow:
    number = decision.sequence or 0
    is_open = found.has_more_reservations or any(
        each.sequence == number for each in found.reservations
    )
    step = found.steps.get(number)
    remarks = found.remarks.get(number, ())
    return request_row(
        decision, levels, found.now, found.current, step=step, is_open=is_open, remarks=remarks
    )


def _member_row(member: Member, found: PageData) -> dict[str, Any]:
    until, pauses = member.until, found.view.person_pauses
    own, of_team = pause_of(pauses, member.member, None), pause_of(pauses, None, member.team)
    return {
        "name": member.member,
        "roles": ", ".join(member.roles),
        "team": member.team or "",
        "until": until,
        "is_over": until is not None and from_iso(until) <= found.now,
        "may_change": found.viewer.may_change(member),
        "is_paused": (own or (of_team if member.team else None)) is not None,
    }


async def _decision(
    service: LedgerService, found: PageData, query: Mapping[str, str]
) -> Decision | None:
    """Return the decision on a form's record, None if it is not visible yet."""
    caller = found.viewer.name or query.get("by", "")
    request_id = query["done"]
    if issued_at(request_id) is None:
        return None
    value = await service.find(found.view.dataset, caller, request_id)
    if value is None or not sees_decision(found.viewer.access, decode_header(value)):
        return None
    decision = decode_decision(value)
    # Never show requests here: the id comes from the query string.
    own = msgspec.Raw(decision.input_body)  # of an approval the request is an analyst's
    return decision if analyst_in(own) is None else None


def _refill(found: PageData, decision: Decision | None) -> dict[str, FormData]:
    """Return the form whose record was refused with its values, and a new id."""
    if decision is None or not decision.outcome.is_refusal:
        return {}
    filled = dict[str, FormData]()
    for name in REFILLED:
        if FORMS[name].fill(found, {}) is not None:
            with contextlib.suppress(RequestInvalid):  # not the record of a form
                form = form_data.refill(name, decision.request, new_id(found.now))
                if form is not None and decision.reason in _NO_ASK:
                    form = form_data.without_ask(form)
                filled |= {} if form is None else {name: form}
    return filled


def _anchor_to_send_again(forms: Mapping[str, FormData | None]) -> str:
    """Return where the first form to correct or to confirm is on the page, "" for none."""
    wrong = (FORMS[name].anchor for name in FORMS if (form := forms[name]) and _is_wrong(form))
    return next(wrong, "")


def _is_wrong(form: FormData) -> bool:
    return bool(form.errors or form.values.get(form_data.CONFIRMED))
