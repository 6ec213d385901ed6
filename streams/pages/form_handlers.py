"""POST /pages/datasets/{dataset}/members and /limits: what owners say by the page's forms."""

from __future__ import annotations

from typing import Any, Final, Literal
from urllib.parse import urlencode

from litestar import Response, post
from litestar.params import FromPath
from litestar.response import Redirect

from accountant.display.reasons import REASONS
from accountant.errors import RequestInvalid
from accountant.records import Decision, FieldError, decode_decision
from accountant.records.outcomes import Outcome
from streams.auth.authorization import check_may_know, check_may_send
from streams.auth.visibility import visibility_of
from streams.gateway.submit import DEFAULT_WAIT_S
from streams.http.context import HttpRequest, context_of
from streams.http.problems import HTTPProblem
from streams.pages import form_data
from streams.pages.dataset_page import dataset_page, missing, new_id
from streams.pages.flash import Message
from streams.pages.form_data import Typed
from streams.pages.forms import checked_form
from streams.pages.page_data import Viewer, viewer_of
from streams.pages.paths import HOME
from streams.pages.paths import dataset_page as dataset_address
from streams.pages.render import rendered
from streams.service import LedgerService

Kind = Literal["member", "limit"]

_AGAIN: Final = frozenset({Outcome.CONFLICT, Outcome.EXPIRED, Outcome.INVALID})
_THERE: Final = (
    "There is such a limit already, and what is sent takes its place. What you left empty has been "
    "filled with what holds now: nothing was sent, look at the form and send it again."
)
_WORDS: Final = {
    Outcome.CONFLICT: "This form was sent before, with something else in it. Look at what holds "
    "now; to have what stands in the form, send it again.",
    Outcome.EXPIRED: "This form was open for too long. Look at what holds now; to have what "
    "stands in the form, send it again.",
}


@post("/pages/datasets/{dataset:str}/members", include_in_schema=False, status_code=303)
async def post_member(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Set or remove a member by the page's form."""
    return await _post(request, dataset, "member")


@post("/pages/datasets/{dataset:str}/limits", include_in_schema=False, status_code=303)
async def post_limit(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Set or lift a limit by the page's form."""
    return await _post(request, dataset, "limit")


async def _post(request: HttpRequest, dataset: str, kind: Kind) -> Response[Any]:
    given = await checked_form(request)
    visibility = visibility_of(request)
    found = await visibility.dataset(dataset)
    if found is None:
        return missing(request, dataset)
    view, access = found
    viewer = viewer_of(visibility.caller, view, access, visibility.roles(dataset))
    if not (viewer.sets_members if kind == "member" else viewer.sets_limits):
        return _refused(request, dataset, kind)
    removes = given.get("action") == "remove"
    form = form_data.typed(kind, given)
    by = viewer.name or form.values["by"]
    try:
        record = _record(form, dataset, by, kind, viewer, removes=removes)
    except RequestInvalid as error:
        return await _again(request, dataset, kind, form_data.wrong(form, error))
    try:
        await check_may_send(request, record.checked.body)
    except HTTPProblem:
        return _refused(request, dataset, kind)
    if kind == "limit" and not removes and not form.changes:
        there = await _there(visibility.service, dataset, form, by)
        if there is not None:
            return await _again(request, dataset, kind, there, status=409, text=_THERE)
    answer = await visibility.service.submit(
        "admin", record.body, wait=DEFAULT_WAIT_S, checked=record.checked
    )
    if answer.decision is None:
        return _see(dataset, form, viewer, by)
    decision = decode_decision(answer.decision)
    if decision.outcome in _AGAIN:
        return await _not_taken(request, dataset, kind, form, decision)
    try:
        tells = decision.totals is not None
        check_may_know(request, record.checked.body, decision.outcome, shows_totals=tells)
    except HTTPProblem:
        return _refused(request, dataset, kind)
    if visibility.at(dataset) is None:  # who has removed themselves sees it no more
        return Redirect(HOME, status_code=303)
    return _see(dataset, form, viewer, by)


async def _there(service: LedgerService, dataset: str, form: Typed, by: str) -> Typed | None:
    """Return a new limit's form with what its record would lift; None where that is nothing."""
    whom = form.values["scope"], form.values["name"]
    for known in await service.levels(dataset):
        if (known.scope, known.name or "") == whom:
            # The form itself may have made it, sent twice.
            is_own = await service.find(dataset, by, form.request_id) is not None
            return None if is_own else form_data.beside(form, known)
    return None


def _record(
    form: Typed, dataset: str, by: str, kind: Kind, viewer: Viewer, *, removes: bool
) -> form_data.FormRecord:
    if kind == "limit":
        return form_data.limit_record(form, dataset, by, removes=removes)
    helps = viewer.as_administrator
    return form_data.member_record(form, dataset, by, removes=removes, as_administrator=helps)


def _see(dataset: str, form: Typed, viewer: Viewer, by: str) -> Redirect:
    """Send the browser to the page, which tells what the record has come to."""
    query = {"done": form.request_id} if viewer.is_known else {"done": form.request_id, "by": by}
    return Redirect(f"{dataset_address(dataset)}?{urlencode(query)}", status_code=303)


async def _again(
    request: HttpRequest,
    dataset: str,
    kind: Kind,
    form: Typed,
    *,
    status: int = 422,
    text: str = "Nothing was sent: look at the form.",
) -> Response[Any]:
    """Return the page with the form as it was typed, and what is wrong with it."""
    flash = Message("refused", "Not taken", text)
    if kind == "member":
        return await dataset_page(request, dataset, status=status, member=form, flash=flash)
    return await dataset_page(request, dataset, status=status, limit=form, flash=flash)


async def _not_taken(
    request: HttpRequest, dataset: str, kind: Kind, form: Typed, decision: Decision
) -> Response[Any]:
    """Return the page with the form anew, for a record that the log did not take as such."""
    again = form._replace(request_id=new_id(context_of(request).clock.now()))
    if decision.outcome is not Outcome.INVALID:
        text = _WORDS[decision.outcome]
        return await _again(request, dataset, kind, again, status=409, text=text)
    error = decision.error or FieldError("body", "could not be decided", "")
    if decision.reason is not None and decision.error is None:
        return await _again(request, dataset, kind, again, text=str(REASONS[decision.reason]))
    wrong = RequestInvalid(error.field, error.rule, error.value)
    return await _again(request, dataset, kind, form_data.wrong(again, wrong))


def _refused(request: HttpRequest, dataset: str, kind: Kind) -> Response[Any]:
    what = "members" if kind == "member" else "limits"
    values: dict[str, Any] = {"dataset": dataset, "what": what, "here": dataset_address(dataset)}
    return rendered(request, "dataset/refused.html", status=403, **values)
