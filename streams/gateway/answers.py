"""Answers to questions: one by its request, and a dataset's, a page at a time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Final, NamedTuple
from urllib.parse import quote

import msgspec
from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from accountant.errors import RequestInvalid
from accountant.partition import hash_of
from accountant.records import encode
from accountant.records.header import decode_header
from accountant.views.visibility import DatasetAccess, sees_answer, sees_answer_of
from streams.answers.store import AnswerReader, Answers
from streams.auth.decision_pages import log_reading
from streams.auth.principal import principal_of
from streams.auth.unknown_dataset import unknown_dataset
from streams.auth.visibility import visibility_of
from streams.errors import Refused
from streams.gateway.paging import FEW, after_parameter, limit_parameter, read_page
from streams.gateway.submit import wait_of
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON, HTTPProblem, list_response, problem
from streams.log.decision_log import MAX_PAGE_BYTES
from streams.service.ledger_service import MAX_READ

_BATCH: Final = 20  # answers read at a time: one may have thousands of values
_LOOK_S: Final = 1.0  # the longest wait before the caller's rights are looked at again


class _Asked(NamedTuple):
    dataset: str
    analyst: str
    request_id: str

    @property
    def address(self) -> str:
        query = f"dataset={quote(self.dataset)}&analyst={quote(self.analyst)}"
        return f"/answers/{quote(self.request_id)}?{query}"


class _Found(NamedTuple):
    """An answer, or that one will come; neither for everything else."""

    value: bytes | None = None
    will_come: bool = False


@get("/answers/{request_id:str}", tags=["answers"])
async def show_answer(
    request: HttpRequest,
    request_id: FromPath[str],
    dataset: Annotated[str, QueryParameter(description="the request's dataset")],
    analyst: Annotated[
        str | None,
        QueryParameter(description="the request's analyst; without it, the caller"),
    ] = None,
) -> Response[bytes]:
    """Return the answer to a question: the stored bytes, the same ones for ever.

    The server waits for it: `Prefer: wait=N` seconds, by default 5, at most 30. 202 while a granted
    question has none yet. 404 for everything else, an answer that the caller may not see included.
    """
    reader = reader_of(request)
    asked = _Asked(dataset, analyst or _own_name(request), request_id)
    found = await _wait_for(request, reader, asked)
    if found.value is not None:
        access = visibility_of(request).at(dataset)
        if access is not None and access.name != asked.analyst:
            log_reading(request, dataset, reads_others=access.sees_all)
        return Response(found.value, media_type=JSON)
    if found.will_come:
        pending = {"status": "pending", "location": asked.address}
        headers = {"Location": asked.address, "Retry-After": "1"}
        return Response(encode(pending), status_code=202, media_type=JSON, headers=headers)
    if await visibility_of(request).dataset(dataset) is None:
        return await unknown_dataset(request, dataset)
    return problem(
        404,
        "not_found",
        f"there is no answer to this request of {asked.analyst[:100]}: it was refused, is not "
        "decided yet, or asked no question; or it was granted long ago, and nobody has answered it "
        "since. Its decision says which. The answer to another analyst's request is found with "
        "?analyst=NAME",
        field="request_id",
        rule="must be of a question that was granted",
        value=request_id[:100],
    )


def reader_of(request: HttpRequest) -> AnswerReader:
    """Return the answers that this server has.

    Raises: HTTPProblem: it has none.
    """
    reader = context_of(request).answers
    if reader is None:
        why = (
            "this server has no answers, since nobody runs questions on data here. Set "
            "ACCOUNTANT_DATA_SOURCES for `accountant serve`"
        )
        raise HTTPProblem(problem(404, "no_answers", why))
    return reader


def _own_name(request: HttpRequest) -> str:
    """Return the caller's name. Raises: RequestInvalid: nobody is authenticated."""
    caller = principal_of(request)
    if caller is None:
        raise RequestInvalid("analyst", "must name the analyst who asked: ?analyst=NAME", None)
    return caller.name


async def _wait_for(request: HttpRequest, reader: AnswerReader, asked: _Asked) -> _Found:
    """Return an answer that is there, or comes within the time that the caller waits."""
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_of(request.headers.get("prefer"))
    coming = reader.subscribe()  # before the first look, so that nothing is missed in between
    try:
        while True:
            found = await _find(request, reader, asked)
            left = until - loop.time()
            if not found.will_come or left <= 0 or context_of(request).stopping.is_set():
                return found
            await _until_it_comes(coming, asked, min(left, _LOOK_S))
    finally:
        coming.close()


async def _until_it_comes(coming: Answers, asked: _Asked, within: float) -> None:
    """Wait until an answer to the request comes, at most so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within):
            async for answer in coming:
                if answer.request_id == asked.request_id:
                    return
            await asyncio.sleep(within)  # the store has ended; the server is about to


async def _find(request: HttpRequest, reader: AnswerReader, asked: _Asked) -> _Found:
    """Return an answer as far as the caller may see it now.

    Whoever sees an analyst's answers reads it for ever; an engine that asked for the analyst, as
    long as the decision is remembered.

    Raises: Refused: the stored answer is not shown to anybody.
    """
    access = visibility_of(request).at(asked.dataset)
    stored, not_shown = None, None
    try:
        stored = await reader.find(*asked)
    except Refused as error:
        not_shown = error  # only whoever may see the answer learns it
    if access is not None and sees_answer(access, asked.analyst):
        if not_shown is not None:
            raise not_shown
        if stored is not None:
            return _Found(stored.value)
    decision = await context_of(request).service.find(*asked)
    if access is None or decision is None:
        return _Found()
    line = decode_header(decision)
    if line.derived is None or not line.outcome.charges or not sees_answer_of(access, line):
        return _Found()
    if not_shown is not None:
        raise not_shown
    if stored is None:
        return _Found(will_come=True)
    return _Found(stored.value if stored.grant == hash_of(decision) else None)


@get("/datasets/{dataset:str}/answers", tags=["answers"])
async def list_answers(
    request: HttpRequest,
    dataset: FromPath[str],
    after: Annotated[str, after_parameter("only answers after this number")] = "0",
    limit: Annotated[str, limit_parameter("the maximum number of answers")] = str(FEW),
) -> Response[bytes]:
    """Return the answers to a dataset's questions in the order of their storage, a page at a time.

    `next` is the next page's `after`. If it equals the `after` that was sent, there are no more
    answers yet. A page may be shorter than `limit`. For a caller who may not see others' answers,
    it may be empty before the end, when the next 5,000 answers are others'.
    """
    first, maximum = read_page(after, limit)
    reader = reader_of(request)
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    _, access = found
    log_reading(request, dataset, reads_others=access.sees_all)
    page = await answer_page(reader, dataset, access, after=first, maximum=maximum)
    return list_response(dataset, f"answers?after={first}&limit={maximum}", page)


async def answer_page(
    reader: AnswerReader, dataset: str, access: DatasetAccess, *, after: int, maximum: int
) -> bytes:
    """Return a page of a dataset's answers as JSON, with the number after which the next begins."""
    page, size, read, last = list[msgspec.Raw](), 0, 0, after
    while len(page) < maximum and size < MAX_PAGE_BYTES and read < MAX_READ:
        answers = await reader.page(dataset, after=last, limit=_BATCH)
        if not answers:
            break
        for answer in answers:
            last, read = answer.number, read + 1
            if not sees_answer(access, answer.analyst):
                continue
            page.append(msgspec.Raw(answer.value))
            size += len(answer.value)
            if len(page) == maximum or size >= MAX_PAGE_BYTES:
                break
    return encode({"answers": page, "next": last})
