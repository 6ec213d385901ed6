"""Refuses what reads another dataset's source, or what a source lacks, before it is appended.

The process that reads data refuses both, too; here nobody has paid yet. A server without the file
of sources refuses nothing: it knows no source.
"""

from __future__ import annotations

import asyncio
from typing import Final

from litestar import Litestar, Response
from msgspec import UNSET

from accountant.records import Body
from accountant.records.header import decode_header
from accountant.records.requests import MechanismRequest, Open
from accountant.views.confirmations import Confirmation, source_differs
from accountant.views.datasets import DatasetView
from streams.http.context import HttpRequest, context_of
from streams.http.problems import HTTPProblem, problem
from streams.http.refusal import forbidden
from streams.service.ledger_service import Submission
from streams.sources.no_sources import NoSources
from streams.sources.published_states import PublishedStates
from streams.sources.source_access import SourceAccess, SourceReader, SourceRefusal
from streams.sources.source_file import SourceFile
from streams.sources.source_states import QuestionRefusal, SourceStates, finding_words

_KEY: Final = "sources"
_STATES: Final = "source_states"


def knows_sources(request: HttpRequest) -> bool:
    """Tell whether this server has a file of sources."""
    return _access(request) is not None


def add_source_check(
    app: Litestar,
    sources: SourceFile | NoSources | None,
    states: SourceStates | PublishedStates | None,
) -> None:
    """Have `check_source` refuse by the rule of a file, as it is then, and by these states.

    None refuses nothing.
    """
    app.state[_KEY], app.state[_STATES] = sources, states


def _access(request: HttpRequest) -> SourceAccess | None:
    """Return the rule of the file that this server has."""
    sources = request.app.state.get(_KEY)
    return sources.access if isinstance(sources, SourceFile) else None


def _states_of(request: HttpRequest) -> SourceStates | None:
    """Return what this server knows of sources that it reads, None if it reads none."""
    states = request.app.state.get(_STATES)
    return states if isinstance(states, SourceStates) else None


def reads_data(request: HttpRequest) -> bool:
    """Tell whether this server reads data, and so knows names and types of sources."""
    return _states_of(request) is not None


async def sources_for_opening(request: HttpRequest, dataset: str, population: str) -> list[str]:
    """Return the sources that a dataset may read once it is opened, by name.

    None of a name that is open already: an opener may not see that dataset.

    Raises: Unavailable.
    """
    sources, service = request.app.state.get(_KEY), context_of(request).service
    if not isinstance(sources, SourceFile) or not reads_data(request):
        return []
    if await service.dataset(dataset) is not None:
        return []
    found = []
    for name in sorted(sources.sources):
        reader = SourceReader(dataset=dataset, source=name, population=population)
        if await sources.access.refusal(service, reader, new=True) is None:
            found.append(name)
    return found


async def skeleton_of(request: HttpRequest, source: str) -> tuple[str, list[str]]:
    """Return the text of a schema on one of `sources_for_opening`, to be filled in, and notes.

    Raises: SourceProblem: the source cannot be read now.
    """
    states = _states_of(request)
    assert states is not None, "the caller has one of its sources"
    return await asyncio.to_thread(states.skeleton, source)


async def check_source(request: HttpRequest, body: Body, readers: set[str] | None = None) -> None:
    """Check that a dataset that is opened or asked may read the source of its schema.

    A question must also be one that the source can answer. A request that was decided before
    passes: it is answered with what became of it, and charges nothing. Call it after
    `check_may_send`, which hides datasets.

    Args:
        readers: datasets that are known to read their source; those found out now are added.
    Raises: HTTPProblem: it may not (403), the source lacks something (422), or nobody runs
        questions (409). Unavailable.
    """
    if isinstance(body, MechanismRequest) and body.question is UNSET:
        return
    sources = request.app.state.get(_KEY)
    if isinstance(sources, NoSources) and isinstance(body, MechanismRequest):
        if not await _is_decided(request, body):
            raise HTTPProblem(problem(409, "no_answers", sources.refuse()))
        return
    if readers is None or body.dataset not in readers:
        found = await _access_refusal(request, body)
        if found is not None and not await _is_decided(request, body):
            raise _forbidden(request, body, *found)
        if found is not None:
            return
        if readers is not None:
            readers.add(body.dataset)
    if isinstance(body, MechanismRequest):
        lacking = await _question_refusal(request, body)
        if lacking is not None and not await _is_decided(request, body):
            raise HTTPProblem(lacking)


async def _is_decided(request: HttpRequest, body: Body) -> bool:
    """Tell whether a request was decided before. Raises: Unavailable."""
    if not isinstance(body, MechanismRequest):
        return False
    service = context_of(request).service
    return await service.find(body.dataset, body.analyst, body.request_id) is not None


async def _access_refusal(
    request: HttpRequest, body: Body
) -> tuple[SourceReader, SourceRefusal] | None:
    """Return which dataset may not read its source, and why. Raises: Unavailable."""
    access = _access(request)
    reader = None if access is None else await _reader(request, body)
    if access is None or reader is None:
        return None
    refused = await access.refusal(context_of(request).service, reader, new=True)
    return None if refused is None else (reader, refused)


def _forbidden(
    request: HttpRequest, body: Body, reader: SourceReader, refused: SourceRefusal
) -> HTTPProblem:
    if isinstance(body, MechanismRequest):
        return forbidden(request, "request", refused.what, field="dataset", value=body.dataset)
    return forbidden(request, "open", refused.what, field="schema.source.name", value=reader.source)


async def _question_refusal(request: HttpRequest, body: MechanismRequest) -> Response[bytes] | None:
    """Return the response to a question that its source cannot answer. Raises: Unavailable."""
    states = request.app.state.get(_STATES)
    assert body.question is not UNSET
    if states is None:
        return None
    view = await context_of(request).service.dataset(body.dataset)
    if view is None or view.schema is UNSET or view.closed:
        return None  # the ledger refuses it
    if isinstance(states, PublishedStates):
        refused = states.refusal(body.dataset, body.question, view.schema)
    else:
        assert isinstance(states, SourceStates)
        refused = await asyncio.to_thread(states.refusal, body.question, view.schema)
    return None if refused is None else _response(refused)


def _response(refused: QuestionRefusal) -> Response[bytes]:
    if refused.kind in {"absent", "lacks"}:
        what = f"question {refused.what}, got {refused.value}; nothing was decided or charged"
        return problem(
            422, "not_in_source", what, field="question", rule=refused.what, value=refused.value
        )
    return problem(403, "source_closed", refused.what, field="question", value=refused.value)


async def confirmations_of_source(request: HttpRequest, body: Open) -> list[Confirmation]:
    """Return whether a second dataset on one source, or a schema that differs from it, is meant.

    Call it after `check_source`.

    Raises: Unavailable.
    """
    return [*await _second_dataset(request, body), *await _schema_differs(request, body)]


async def confirm_opened(request: HttpRequest, body: Open, answer: Submission) -> None:
    """Confirm the names and types of a source, if a dataset was opened on it that it matches."""
    states = _states_of(request)
    if states is None or body.schema is UNSET or answer.decision is None:
        return
    if decode_header(answer.decision).outcome.opens:
        await asyncio.to_thread(states.state, body.schema)


async def words_of_source(request: HttpRequest, view: DatasetView) -> str:
    """Return what an owner should know of a dataset's source, "" if it is as declared.

    Raises: Unavailable.
    """
    access, states = _access(request), _states_of(request)
    if states is None or view.schema is UNSET or view.closed:
        return ""
    reader = SourceReader.of(view, view.schema)
    # Names and types of a source are for owners of the datasets that read it.
    if access is None or await access.refusal(context_of(request).service, reader) is not None:
        return ""
    return await asyncio.to_thread(states.owner_words, view.schema)


async def _schema_differs(request: HttpRequest, body: Open) -> list[Confirmation]:
    states = _states_of(request)
    if states is None or body.schema is UNSET:
        return []
    findings, why = await asyncio.to_thread(states.findings, body.schema)
    source = body.schema.source.name
    if why:
        not_compared = f"The source {source} was not compared: {why}"
        return [source_differs(body, "schema.source.name", source, not_compared)]
    if not findings:
        return []
    words = f"Of the source {source}, {finding_words(findings)}"
    return [source_differs(body, "schema", findings[0].column, words)]


async def _second_dataset(request: HttpRequest, body: Open) -> list[Confirmation]:
    access = _access(request)
    reader = None if access is None else await _reader(request, body)
    if access is None or reader is None:
        return []
    refused = await access.refusal(context_of(request).service, reader)
    if refused is None or refused.kind != "second":
        return []
    return [Confirmation("second_dataset", "dataset", body.dataset, "", refused.what)]


async def _reader(request: HttpRequest, body: Body) -> SourceReader | None:
    """Return the dataset that a record opens with a schema, or asks a question.

    Raises: Unavailable: it is not known now whether that dataset is open.
    """
    service = context_of(request).service
    if isinstance(body, MechanismRequest):
        view = await service.dataset(body.dataset)
        if view is None:
            service.check_is_known(body.dataset)
        if view is None or view.schema is UNSET:
            return None  # the ledger refuses it
        return SourceReader.of(view, view.schema)
    if not isinstance(body, Open) or body.schema is UNSET:
        return None
    if await service.dataset(body.dataset) is not None:
        return None  # a repeat, or refused
    return SourceReader(
        dataset=body.dataset,
        source=body.schema.source.name,
        population=body.policy.population or "",
    )
