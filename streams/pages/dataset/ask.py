"""POST /pages/datasets/{dataset}/questions: asks a question of the dataset's page."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from litestar import Response, post
from litestar.params import FromPath
from litestar.response import Redirect

from accountant.errors import RequestInvalid
from accountant.partition import hash_of
from accountant.records import decode_decision
from accountant.records.http_bodies import Problem
from accountant.records.inputs import Undecodable
from streams.answers.store import AnswerReader
from streams.auth.authorization import check_may_know, check_may_send
from streams.auth.visibility import visibility_of
from streams.errors import Refused, Unavailable
from streams.gateway.source_check import check_source
from streams.gateway.submit import DEFAULT_WAIT_S
from streams.gateway.waiting_check import check_waiting
from streams.http.context import HttpRequest, context_of
from streams.http.problems import HTTPProblem
from streams.pages.csrf import read_form
from streams.pages.dataset.dataset_page import dataset_page
from streams.pages.dataset.question_form import question_record
from streams.pages.dataset.unseen import dataset_not_found
from streams.pages.flash import Message
from streams.pages.paths import dataset_page as dataset_address
from streams.pages.render import render_page

_NO_SOURCE: Final = (
    "Nothing was asked: this dataset may not read the data that its schema names. Whoever runs the "
    "server names the datasets of each source."
)
_NO_DATA: Final = (
    "Nothing was asked, and nothing is charged: this server reads no data, so nobody would run the "
    "question. Whoever runs the server sets ACCOUNTANT_DATA_SOURCES, and starts it again."
)
_TOO_MANY: Final = (
    "Nothing was asked, and nothing is charged: many questions of this name wait for their "
    "answers. Ask again once some are answered."
)
_TOO_LATE: Final = "This form was open for too long. Nothing was asked. Preview the question again."


@post("/pages/datasets/{dataset:str}/questions", include_in_schema=False, status_code=303)
async def post_question(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Ask the question that the page has previewed, and wait a moment for its answer."""
    fields = await read_form(request)
    visibility, context = visibility_of(request), context_of(request)
    found = await visibility.dataset(dataset)
    if found is None:
        return await dataset_not_found(request, dataset)
    analyst = visibility.caller.name if visibility.caller else fields.get("asker", "")
    try:
        record = question_record(fields, dataset, analyst)
    except (RequestInvalid, Undecodable) as error:
        return await _page(request, dataset, 422, f"Nothing was asked: {error}.")
    try:
        await check_may_send(request, record.checked.body)
    except HTTPProblem:
        return _refused(request, dataset)
    try:
        await check_source(request, record.checked.body)
    except HTTPProblem as error:
        return await _page(request, dataset, *_not_asked(error))
    try:
        await check_waiting(request, record.checked.body)
    except HTTPProblem:
        return await _page(request, dataset, 429, _TOO_MANY)
    answer = await context.service.submit(
        "requests", record.body, wait=DEFAULT_WAIT_S, checked=record.checked
    )
    if answer.decision is not None:
        decision = decode_decision(answer.decision)
        if decision.outcome.is_not_considered:
            return await _page(request, dataset, 409, _TOO_LATE)
        try:
            tells = decision.totals is not None
            check_may_know(request, record.checked.body, decision.outcome, shows_totals=tells)
        except HTTPProblem:
            return _refused(request, dataset)
        if decision.outcome.charges and context.answers is not None:
            await _wait(context.answers, hash_of(answer.decision))
    query = "" if visibility.caller else "?" + urlencode({"q_asker": analyst})
    return Redirect(f"{dataset_address(dataset)}{query}#requests", status_code=303)


def _not_asked(error: HTTPProblem) -> tuple[int, str]:
    """Return the status and words of a question that its source does not answer."""
    found = msgspec.json.decode(error.answer.content, type=Problem)
    if found.error == "not_permitted":
        return found.status, _NO_SOURCE
    if found.error == "no_answers":
        return found.status, _NO_DATA
    return found.status, f"Nothing was asked: {found.detail}."


async def _wait(reader: AnswerReader, grant: str) -> None:
    """Wait a few seconds for the answer of a grant, so that the page has it at once."""
    coming = reader.subscribe()  # before the look, so that nothing is missed in between
    try:
        with contextlib.suppress(TimeoutError, Unavailable):
            with contextlib.suppress(Refused):  # the page says why it is not shown
                if await reader.get(grant) is not None:
                    return
            async with asyncio.timeout(DEFAULT_WAIT_S):
                async for each in coming:
                    if each.grant == grant:
                        return
    finally:
        coming.close()


async def _page(request: HttpRequest, dataset: str, status: int, text: str) -> Response[Any]:
    flash = Message("refused", "Not asked", text)
    return await dataset_page(request, dataset, status=status, flash=flash)


def _refused(request: HttpRequest, dataset: str) -> Response[Any]:
    values: dict[str, Any] = {
        "dataset": dataset,
        "what": "ask questions about it",
        "is_for_leads": False,
        "page_url": dataset_address(dataset),
    }
    return render_page(request, "dataset/not_permitted.html", status=403, **values)
