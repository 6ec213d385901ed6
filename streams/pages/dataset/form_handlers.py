"""POST of owners' forms below /pages/datasets/{dataset}: members, limits, pause and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from litestar import Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response import Redirect

from accountant.display.reasons import REASONS
from accountant.display.texts import capital
from accountant.errors import RequestInvalid
from accountant.records import Body, Decision, FieldError
from accountant.records.inputs import check_body
from accountant.records.outcomes import Outcome, Reason
from streams.auth.authorization import check_may_know, check_may_send
from streams.auth.visibility import visibility_of
from streams.gateway.confirm import confirmations_of
from streams.http.context import Context, HttpRequest, context_of
from streams.http.problems import HTTPProblem
from streams.pages.csrf import read_form
from streams.pages.dataset import form_data, lasting_forms
from streams.pages.dataset.dataset_page import REFILLED, dataset_page
from streams.pages.dataset.form_data import FormData, SentForm
from streams.pages.dataset.forms import FORMS, PageForm
from streams.pages.dataset.lasting_forms import FormSubmission
from streams.pages.dataset.many_forms import NotAllSent
from streams.pages.dataset.page_data import Viewer, viewer_of
from streams.pages.dataset.send_record import send_record
from streams.pages.dataset.unseen import ask_unseen, dataset_not_found
from streams.pages.flash import Message
from streams.pages.ids import new_id
from streams.pages.paths import HOME
from streams.pages.paths import dataset_page as dataset_address
from streams.pages.render import render_page
from streams.service.ledger_service import LedgerService

_NOTHING: Final = "Nothing was saved. Correct the marked fields."
_PARTLY: Final = "Not all lines are saved: the form has those that are not."
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


def _handler(name: str, form: PageForm) -> HTTPRouteHandler:
    path = f"/pages/datasets/{{dataset:str}}/{form.path}"

    @post(path, include_in_schema=False, status_code=303, name=f"form {name}")
    async def send(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
        return await _post(request, dataset, name)

    return send


async def _post(request: HttpRequest, dataset: str, kind: str) -> Response[Any]:
    page_form = FORMS[kind]
    fields = await read_form(request)
    visibility = visibility_of(request)
    found = await visibility.dataset(dataset)
    if found is None:
        if page_form.for_everybody:
            return await ask_unseen(request, dataset, fields)
        return await dataset_not_found(request, dataset)
    view, access = found
    viewer = viewer_of(visibility, view, access)
    sets = viewer.sets_members if page_form.for_administrators else viewer.sets_limits
    may = sets or (page_form.for_leads and viewer.leads) or page_form.for_everybody
    if not may:
        return _refused(request, dataset, kind)
    form = form_data.parse_form(page_form.names, fields)
    by = viewer.name or form.values["by"]
    try:
        as_administrator = viewer.as_administrator and page_form.for_administrators
        sent = SentForm(form, dataset, by, as_administrator)
        records = page_form.records(sent, fields.get("action", ""))
    except RequestInvalid as error:
        return await _page_with_form(request, dataset, kind, form_data.with_error(form, error))
    body = records[0].checked.body
    try:
        await check_may_send(request, body)
    except HTTPProblem:
        return _refused(request, dataset, kind)
    asked_back = await _asked_back(request, dataset, kind, sent, body, fields)
    if asked_back is not None:
        return asked_back
    (whole,) = await visibility.with_joint([view])
    submission = FormSubmission(sent, records, whole, visibility)
    try:
        effect = await _unconfirmed_effect(page_form, submission)
        if effect:
            again = lasting_forms.to_confirm(form, effect)
            asks = Message("waits", "Not done yet: confirm it in the form", effect)
            return await dataset_page(request, dataset, status=409, sent={kind: again}, flash=asks)
        decision = await _send(context_of(request), page_form, submission)
    except RequestInvalid as error:
        text = _PARTLY if isinstance(error, NotAllSent) else _NOTHING
        form = _corrected(request, form, error)
        return await _page_with_form(request, dataset, kind, form, text=text)
    if decision is None:
        return _redirect_to_page(dataset, form, viewer, by)
    try:
        tells = decision.totals is not None
        check_may_know(request, body, decision.outcome, shows_totals=tells)
    except HTTPProblem:
        return _refused(request, dataset, kind)
    form = form._replace(request_id=_id_of_last(page_form, form, decision))
    shown_again = await _shown_again(request, dataset, kind, form, decision)
    if shown_again is not None:
        return shown_again
    if visibility.at(dataset) is None:  # owners who removed themselves no longer see it
        return Redirect(HOME, status_code=303)
    return _redirect_to_page(dataset, form, viewer, by)


def _id_of_last(page_form: PageForm, form: FormData, decision: Decision) -> str:
    """Return the id of the record that the page shows: the last of several."""
    if page_form.send is None:
        return form.request_id
    return check_body(page_form.source, bytes(decision.request)).body.request_id


def _corrected(request: HttpRequest, form: FormData, error: RequestInvalid) -> FormData:
    """Return a form with an error; of several lines those that are not saved yet."""
    if isinstance(error, NotAllSent):
        values = {**form.values, "lines": error.remaining, form_data.CONFIRMED: ""}
        form = form._replace(values=values, request_id=new_id(context_of(request).clock.now()))
    return form_data.with_error(form, error)


async def _asked_back(
    request: HttpRequest,
    dataset: str,
    kind: str,
    sent: SentForm,
    body: Body,
    fields: Mapping[str, str],
) -> Response[Any] | None:
    """Return the page that asks about what is probably a slip; None where nothing is asked."""
    form, service = sent.form, context_of(request).service
    if kind == "limit" and fields.get("action") != "remove" and not form.changes:
        there = await _existing_limit(service, dataset, form, sent.by)
        if there is not None:
            return await _page_with_form(request, dataset, kind, there, status=409, text=_REPLACES)
    asked = await confirmations_of(request, body) if FORMS[kind].effect is None else ()
    if asked and not form_data.confirms(form, asked[0]):
        again, what = form_data.to_confirm(form, asked[0]), capital(asked[0].text)
        return await _page_with_form(request, dataset, kind, again, status=409, text=what)
    return None


async def _shown_again(
    request: HttpRequest, dataset: str, kind: str, form: FormData, decision: Decision
) -> Response[Any] | None:
    """Return the page with a form that was not done and keeps its values; None where it was done.

    A form that the page fills again from its record is not among them.
    """
    if decision.outcome.is_not_considered:
        return await _not_accepted(request, dataset, kind, form, decision)
    is_refused = decision.outcome.is_refusal and decision.reason is not Reason.DENIED
    if is_refused and kind not in REFILLED:
        again = form._replace(request_id=new_id(context_of(request).clock.now()))
        sent = {kind: again}
        return await dataset_page(request, dataset, status=409, sent=sent, decided=decision)
    return None


async def _unconfirmed_effect(form: PageForm, submission: FormSubmission) -> str:
    """Return what a form would do and its sender has not confirmed, "" for nothing.

    Raises: RequestInvalid: it would be refused.
    """
    if form.effect is None:
        return ""
    service, sent = submission.visibility.service, submission.sent
    ids = [each.checked.body.request_id for each in submission.records]
    if all([await service.find(sent.dataset, sent.by, each) is not None for each in ids]):
        return ""  # sent before
    effect = await form.effect(submission)
    return "" if lasting_forms.is_confirmed(sent.form, effect) else effect


async def _send(context: Context, form: PageForm, submission: FormSubmission) -> Decision | None:
    """Return the decision on a form's record, None while it is not decided.

    Raises: RequestInvalid. Unavailable.
    """
    if form.send is not None:
        return await form.send(context, submission)
    return await send_record(context.service, submission.records[0], form.source)


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
    kind: str,
    form: FormData,
    *,
    status: int = 422,
    text: str = _NOTHING,
) -> Response[Any]:
    """Return the page with the form as sent, and its errors."""
    flash = Message("refused", "Not saved", text)
    return await dataset_page(request, dataset, status=status, sent={kind: form}, flash=flash)


async def _not_accepted(
    request: HttpRequest, dataset: str, kind: str, form: FormData, decision: Decision
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


_OF_LEADS: Final = frozenset({"member", "limit"})
"""Forms that leads have, too, about analysts of their team."""


def _refused(request: HttpRequest, dataset: str, kind: str) -> Response[Any]:
    values: dict[str, Any] = {
        "dataset": dataset,
        "what": FORMS[kind].what,
        "is_for_leads": kind in _OF_LEADS,
        "page_url": dataset_address(dataset),
    }
    return render_page(request, "dataset/not_permitted.html", status=403, **values)


POST_FORMS: Final[Sequence[HTTPRouteHandler]] = [
    _handler(name, form) for name, form in FORMS.items()
]
"""One handler for each form of the page."""
