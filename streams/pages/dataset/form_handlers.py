"""POST of owners' forms below /pages/datasets/{dataset}: members, limits, pause and more."""

from __future__ import annotations

from typing import Any, Final, Literal
from urllib.parse import urlencode

from litestar import Response, post
from litestar.params import FromPath
from litestar.response import Redirect

from accountant.display.reasons import REASONS
from accountant.display.texts import capital
from accountant.errors import RequestInvalid
from accountant.records import Decision, FieldError, Source, decode_decision
from accountant.records.outcomes import Outcome
from streams.auth.authorization import check_may_know, check_may_send
from streams.auth.visibility import visibility_of
from streams.gateway.confirm import confirmations_of
from streams.gateway.submit import DEFAULT_WAIT_S
from streams.http.context import HttpRequest, context_of
from streams.http.problems import HTTPProblem
from streams.pages.csrf import read_form
from streams.pages.dataset import form_data
from streams.pages.dataset.dataset_page import dataset_not_found, dataset_page, new_id
from streams.pages.dataset.form_data import FormData
from streams.pages.dataset.page_data import Viewer, viewer_of
from streams.pages.flash import Message
from streams.pages.paths import HOME
from streams.pages.paths import dataset_page as dataset_address
from streams.pages.render import render_page
from streams.service.ledger_service import LedgerService

Kind = Literal["member", "limit", "pause", "void", "answer"]

_BY_OWNERS: Final[frozenset[Kind]] = frozenset({"limit", "void", "answer"})
_REPLACES: Final = (
    "This scope has a limit already, and yours would replace it. Nothing was saved. The fields "
    "that you left empty now show the current limit: check the form and send it again."
)
_WORDS: Final = {
    Outcome.CONFLICT: "This form was sent before with other values. Nothing was saved. Check the "
    "current values; to save the form's values, send it again.",
    Outcome.EXPIRED: "This form was open for too long. Nothing was saved. Check the current "
    "values; to save the form's values, send it again.",
}


@post("/pages/datasets/{dataset:str}/members", include_in_schema=False, status_code=303)
async def post_member(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Set or remove a member by the page's form."""
    return await _post(request, dataset, "member")


@post("/pages/datasets/{dataset:str}/limits", include_in_schema=False, status_code=303)
async def post_limit(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Set or remove a limit by the page's form."""
    return await _post(request, dataset, "limit")


@post("/pages/datasets/{dataset:str}/pause", include_in_schema=False, status_code=303)
async def post_pause(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Pause or resume a dataset by the page's form."""
    return await _post(request, dataset, "pause")


@post("/pages/datasets/{dataset:str}/reservations", include_in_schema=False, status_code=303)
async def post_void(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Void a reservation by the page's form."""
    return await _post(request, dataset, "void")


@post("/pages/datasets/{dataset:str}/pending", include_in_schema=False, status_code=303)
async def post_answer(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Approve or deny a request that waits by the page's form."""
    return await _post(request, dataset, "answer")


async def _post(request: HttpRequest, dataset: str, kind: Kind) -> Response[Any]:
    fields = await read_form(request)
    visibility = visibility_of(request)
    found = await visibility.dataset(dataset)
    if found is None:
        return await dataset_not_found(request, dataset)
    view, access = found
    viewer = viewer_of(visibility.caller, view, access, visibility.roles(dataset))
    if not (viewer.sets_limits if kind in _BY_OWNERS else viewer.sets_members):
        return _refused(request, dataset, kind)
    removes = fields.get("action") == "remove"
    form = form_data.parse_form(kind, fields)
    by = viewer.name or form.values["by"]
    try:
        sent = form_data.SentForm(form, dataset, by, viewer.as_administrator)
        record = _record(kind, sent, fields.get("action", ""))
    except RequestInvalid as error:
        return await _page_with_form(request, dataset, kind, form_data.with_error(form, error))
    try:
        await check_may_send(request, record.checked.body)
    except HTTPProblem:
        return _refused(request, dataset, kind)
    if kind == "limit" and not removes and not form.changes:
        there = await _existing_limit(visibility.service, dataset, form, by)
        if there is not None:
            return await _page_with_form(request, dataset, kind, there, status=409, text=_REPLACES)
    asked = await confirmations_of(request, record.checked.body)
    if asked and not form_data.confirms(form, asked[0]):
        again, what = form_data.to_confirm(form, asked[0]), capital(asked[0].text)
        return await _page_with_form(request, dataset, kind, again, status=409, text=what)
    source: Source = "requests" if kind == "void" else "admin"
    answer = await visibility.service.submit(
        source, record.body, wait=DEFAULT_WAIT_S, checked=record.checked
    )
    if answer.decision is None:
        return _redirect_to_page(dataset, form, viewer, by)
    decision = decode_decision(answer.decision)
    if decision.outcome.is_not_considered:
        return await _not_accepted(request, dataset, kind, form, decision)
    try:
        tells = decision.totals is not None
        check_may_know(request, record.checked.body, decision.outcome, shows_totals=tells)
    except HTTPProblem:
        return _refused(request, dataset, kind)
    if visibility.at(dataset) is None:  # owners who removed themselves no longer see it
        return Redirect(HOME, status_code=303)
    return _redirect_to_page(dataset, form, viewer, by)


async def _existing_limit(
    service: LedgerService, dataset: str, form: FormData, by: str
) -> FormData | None:
    """Return a new limit's form with the values that it would replace, None without any."""
    scope = form.values["scope"], form.values["name"]
    for known in await service.levels(dataset):
        if (known.scope, known.name or "") == scope:
            # If the browser sent the form twice, its own record made this limit.
            is_own = await service.find(dataset, by, form.request_id) is not None
            return None if is_own else form_data.merge_current(form, known)
    return None


def _record(kind: Kind, sent: form_data.SentForm, action: str) -> form_data.FormRecord:
    if kind == "void":
        return form_data.void_record(sent)
    if kind == "limit":
        return form_data.limit_record(sent, removes=action == "remove")
    if kind == "answer":
        return form_data.answer_record(sent, denies=action == "deny")
    if kind == "pause":
        return form_data.pause_record(sent, resumes=action == "resume")
    return form_data.member_record(sent, removes=action == "remove")


def _redirect_to_page(dataset: str, form: FormData, viewer: Viewer, by: str) -> Redirect:
    """Redirect to the page, which shows the decision on the record."""
    query = (
        {"done": form.request_id}
        if viewer.is_authenticated
        else {"done": form.request_id, "by": by}
    )
    return Redirect(f"{dataset_address(dataset)}?{urlencode(query)}", status_code=303)


async def _page_with_form(
    request: HttpRequest,
    dataset: str,
    kind: Kind,
    form: FormData,
    *,
    status: int = 422,
    text: str = "Nothing was saved. Correct the marked fields.",
) -> Response[Any]:
    """Return the page with the form as sent, and its errors."""
    flash = Message("refused", "Not saved", text)
    if kind == "member":
        return await dataset_page(request, dataset, status=status, member=form, flash=flash)
    if kind == "pause":
        return await dataset_page(request, dataset, status=status, pause=form, flash=flash)
    if kind == "void":
        return await dataset_page(request, dataset, status=status, void=form, flash=flash)
    if kind == "answer":
        return await dataset_page(request, dataset, status=status, answer=form, flash=flash)
    return await dataset_page(request, dataset, status=status, limit=form, flash=flash)


async def _not_accepted(
    request: HttpRequest, dataset: str, kind: Kind, form: FormData, decision: Decision
) -> Response[Any]:
    """Return the page with the form under a new id, for a record that was not decided as sent."""
    again = form._replace(request_id=new_id(context_of(request).clock.now()))
    if decision.outcome is not Outcome.INVALID:
        text = _WORDS[decision.outcome]
        return await _page_with_form(request, dataset, kind, again, status=409, text=text)
    error = decision.error or FieldError("body", "could not be decided", "")
    if decision.reason is not None and decision.error is None:
        return await _page_with_form(
            request, dataset, kind, again, text=str(REASONS[decision.reason])
        )
    wrong = RequestInvalid(error.field, error.rule, error.value)
    return await _page_with_form(request, dataset, kind, form_data.with_error(again, wrong))


def _refused(request: HttpRequest, dataset: str, kind: Kind) -> Response[Any]:
    what = {
        "member": "set its members",
        "limit": "set its limits",
        "pause": "pause or resume it",
        "void": "void the reservations of others",
        "answer": "approve or deny its requests",
    }
    values: dict[str, Any] = {
        "dataset": dataset,
        "what": what[kind],
        "page_url": dataset_address(dataset),
    }
    return render_page(request, "dataset/not_permitted.html", status=403, **values)
