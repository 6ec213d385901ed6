"""GET and POST /pages/open: what a dataset would promise, and its opening."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from litestar import Response, get, post
from litestar.response import Redirect

from accountant.advice.fit import Fit
from accountant.display.numbers import spent_amount, symbol
from accountant.display.one_way_choices import OneWayChoice, one_way_choices
from accountant.display.opening_previews import (
    lifetime_words_of,
    opening_beside,
    preview_rows,
    takes_no_delta,
    typical_fits,
)
from accountant.display.texts import capital
from accountant.errors import RequestInvalid
from accountant.records import Decision, decode_decision
from accountant.records.http_bodies import Problem, logged_decision
from accountant.records.inputs import check_body
from accountant.records.kinds import OPENING as OPENING_KIND
from accountant.records.names import is_name
from accountant.records.requests import Open
from accountant.views.confirmations import confirmation_words
from streams.auth.authorization import may_open
from streams.auth.principal import authenticates, optional_principal
from streams.auth.visibility import visibility_of
from streams.gateway.confirm import confirmations_of
from streams.gateway.source_check import (
    check_source,
    reads_data,
    skeleton_of,
    sources_for_opening,
)
from streams.gateway.submit import DEFAULT_WAIT_S, submit_body
from streams.http.context import HttpRequest, context_of
from streams.http.problems import HTTPProblem
from streams.pages.csrf import read_form
from streams.pages.dataset.form_data import FormData, parse_form
from streams.pages.flash import Message, message
from streams.pages.ids import new_id
from streams.pages.opening.opening_form import (
    DEFAULTS,
    FILTER_NAMES,
    KINDS,
    NAMES,
    DraftOpening,
    draft_of,
    opening_body,
    with_opening_error,
)
from streams.pages.paths import HOME, OPENING
from streams.pages.paths import dataset_page as dataset_address
from streams.pages.render import render_page
from streams.sources.schema_skeleton import FILL_IT_IN
from streams.sources.source_tables import SourceProblem

_decode_problem: Final = msgspec.json.Decoder(Problem).decode


class _Fit(NamedTuple):
    """How many requests of a claim fit an unspent budget; `number` is "" where none is taken."""

    claim: str
    cost: str
    number: str


class OpeningPreview(NamedTuple):
    """What an opening would promise and admit.

    Attributes:
        rows: its promise and rules. `choices`: what it fixes for ever.
        fits, cost_of: typical requests, and the sum that their costs are in.
        proposal: why the filter was chosen. `notes`: what else to know.
        refused: why it would be refused, "" where it would not.
        asked: what would be asked back.
    """

    rows: list[tuple[str, str]]
    choices: tuple[OneWayChoice, ...]
    fits: list[_Fit]
    cost_of: str
    proposal: str
    notes: list[str]
    refused: str
    asked: str


@get(OPENING, include_in_schema=False)
async def opening_page(request: HttpRequest) -> Response[Any]:
    """Return the form that opens a dataset; with a name in the query also what it would promise.

    With a `source` in the query it has the skeleton of a schema instead.
    """
    query = {name: str(text) for name, text in request.query_params.items()}
    form = parse_form(NAMES, query)._replace(request_id=_new_id(request))
    if "dataset" not in query:
        return await _page(request, form._replace(values={**form.values, **DEFAULTS}))
    return await _page(request, form, previews="source" not in query)


@post(OPENING, include_in_schema=False, status_code=303)
async def open_by_form(request: HttpRequest) -> Response[Any]:
    """Open a dataset by the form that was shown with its preview."""
    fields = await read_form(request)
    form = parse_form(NAMES, fields)
    if not _may_open(request):
        return await _page(request, form)
    if fields.get("preview"):
        return await _page(request, form, previews=True)
    try:
        draft = await asyncio.to_thread(draft_of, form)
        body = _body(request, form, draft)
        answer = await submit_body(
            request, OPENING_KIND, body, wait=DEFAULT_WAIT_S, new=form.values["new"] == "yes"
        )
    except RequestInvalid as error:
        return await _page(request, with_opening_error(form, error), status=422)
    except HTTPProblem as error:
        return await _not_opened(request, form, error)
    if answer.status_code == 202:
        return _to_dataset(request, form)
    if answer.status_code != 200:
        return await _not_opened(request, form, HTTPProblem(answer))
    decision = decode_decision(logged_decision(answer.content)[0])
    if _is_open(decision):
        return _to_dataset(request, form)
    again = form._replace(request_id=_new_id(request))
    return await _page(request, again, status=409, previews=True, flash=message(decision))


def _is_open(decision: Decision) -> bool:
    first = decision.first
    return (decision if first is None else first).outcome.opens


def _to_dataset(request: HttpRequest, form: FormData) -> Redirect:
    dataset, query = form.values["dataset"], {"done": form.request_id}
    query |= {} if authenticates(request) else {"by": form.values["by"]}
    return Redirect(f"{dataset_address(dataset)}?{urlencode(query)}", status_code=303)


async def _not_opened(request: HttpRequest, form: FormData, error: HTTPProblem) -> Response[Any]:
    """Return the form with what the API's own route says, under a new id."""
    found = _decode_problem(error.answer.content)
    again = form._replace(request_id=_new_id(request))
    text = capital(found.question or found.detail)
    title = "Not opened: is it meant?" if found.question else "Not opened"
    flash = Message("refused", title, text)
    return await _page(request, again, status=found.status, previews=True, flash=flash)


def _new_id(request: HttpRequest) -> str:
    return new_id(context_of(request).clock.now())


def _may_open(request: HttpRequest) -> bool:
    return may_open(context_of(request).settings, optional_principal(request))


def _body(request: HttpRequest, form: FormData, draft: DraftOpening) -> bytes:
    caller = optional_principal(request)
    by = form.values["by"] if caller is None else caller.name
    return opening_body(form, draft, by, context_of(request).clock)


async def _page(
    request: HttpRequest,
    form: FormData,
    *,
    status: int = 200,
    previews: bool = False,
    flash: Message | None = None,
) -> Response[Any]:
    if not _may_open(request):
        return render_page(request, "opening_not_permitted.html", status=403)
    preview = None
    if previews and not form.errors:
        try:
            preview = await _preview(request, form)
        except RequestInvalid as error:
            form = with_opening_error(form, error)
        except HTTPProblem as error:  # the dataset may not read the source of its schema
            why = capital(_decode_problem(error.answer.content).detail)
            form = form._replace(errors={"schema": f"{why}."})
    sources, notes = await _sources(request, form), list[str]()
    if (source := str(request.query_params.get("source", ""))) in sources:
        form, notes = await _with_skeleton(request, form, source)
    values: Mapping[str, Any] = {
        "page_url": OPENING,
        "home": HOME,
        "f": form,
        "kinds": [(each.name, each.words) for each in KINDS],
        "filters": [("", "the one that fits best"), *((name, name) for name in FILTER_NAMES)],
        "preview": preview,
        "reads_data": reads_data(request),
        "sources": _source_links(form, sources),
        "notes": notes,
        "flash": flash,
    }
    return render_page(request, "opening.html", status=status, **values)


async def _sources(request: HttpRequest, form: FormData) -> list[str]:
    """Return the sources that the drafted dataset may read, none without a valid name."""
    name = form.values["dataset"]
    if not is_name(name):
        return []
    return await sources_for_opening(request, name, form.values["population"])


def _source_links(form: FormData, sources: list[str]) -> list[tuple[str, str]]:
    """Return each source with the address of the form with its skeleton."""
    kept = {name: text for name, text in form.values.items() if text and name != "schema"}
    return [(name, f"{OPENING}?{urlencode({**kept, 'source': name})}#draft") for name in sources]


async def _with_skeleton(
    request: HttpRequest, form: FormData, source: str
) -> tuple[FormData, list[str]]:
    """Return the form with the schema of a source to be filled in, and notes on it."""
    try:
        text, notes = await skeleton_of(request, source)
    except SourceProblem as problem:
        return form, [f"The source {source} cannot be read now: {problem}."]
    filled = form._replace(values={**form.values, "schema": text})
    return filled, [FILL_IT_IN, *notes]


async def _preview(request: HttpRequest, form: FormData) -> OpeningPreview:
    """Return what an opening would promise; nothing is written.

    Raises: RequestInvalid: a field breaks a rule. Unavailable.
    """
    draft = await asyncio.to_thread(draft_of, form)
    record = check_body("admin", _body(request, form, draft)).body
    assert isinstance(record, Open)
    # What of a schema differs from a source is for datasets that may read it.
    await check_source(request, record)
    service = context_of(request).service
    known, ordered = await service.datasets(), service.ordered_before()
    asked = await confirmations_of(request, record)
    visibility = visibility_of(request)
    visible = await visibility.with_joint(await asyncio.to_thread(visibility.among, known))
    beside = opening_beside(record, visible, ordered)
    notes = [text for text in (takes_no_delta(draft.plan),) if text]
    if note := lifetime_words_of(beside, draft.plan.policy, asked):
        notes.append(f"{capital(note)}.")
    return OpeningPreview(
        rows=preview_rows(form.values["dataset"], draft.plan),
        choices=one_way_choices(draft.plan, not_added=beside.not_added),
        fits=await asyncio.to_thread(_fits, draft),
        cost_of=symbol(draft.plan.kind.sums[0]),
        proposal=draft.proposal,
        notes=notes,
        refused=capital(beside.not_added) if beside.refused else "",
        asked=capital(confirmation_words(asked)) if asked else "",
    )


def _fits(draft: DraftOpening) -> list[_Fit]:
    return [_fit(text, found) for text, found in typical_fits(draft.plan).items()]


def _fit(text: str, found: Fit) -> _Fit:
    if not found.accepted:
        return _Fit(text, "", "")
    number = "unlimited" if found.count is None else f"{found.count:,}"
    return _Fit(text, spent_amount(found.cost), number)
