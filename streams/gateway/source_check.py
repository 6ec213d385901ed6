"""Refuses what reads another dataset's source, before anything is appended.

The process that reads data refuses it, too; here nobody has paid yet. A server without the file of
sources refuses nothing: it knows no source.
"""

from __future__ import annotations

from typing import Final

from litestar import Litestar
from msgspec import UNSET

from accountant.records import Body, MechanismRequest, Open
from accountant.views.confirmations import Confirmation
from streams.http.context import HttpRequest, context_of
from streams.http.refusal import forbidden
from streams.sources.source_access import SourceAccess, SourceReader

_KEY: Final = "source_access"


def knows_sources(request: HttpRequest) -> bool:
    """Tell whether this server has a file of sources."""
    return request.app.state.get(_KEY) is not None


def add_source_check(app: Litestar, access: SourceAccess | None) -> None:
    """Have `check_source` refuse by this rule; None refuses nothing."""
    app.state[_KEY] = access


async def check_source(request: HttpRequest, body: Body) -> bool:
    """Check that a dataset that is opened or asked may read the source of its schema.

    Call it after `check_may_send`, which hides datasets.

    Returns: True, or False of a request that may not read it and was decided before: a repeat is
        answered with what became of it, and charges nothing.
    Raises: HTTPProblem: it may not (403). Unavailable.
    """
    if isinstance(body, MechanismRequest) and body.question is UNSET:
        return True
    access = request.app.state.get(_KEY)
    reader = None if access is None else await _reader(request, body)
    if reader is None:
        return True
    assert isinstance(access, SourceAccess)
    service = context_of(request).service
    refused = await access.refusal(service, reader, new=True)
    if refused is None:
        return True
    if isinstance(body, MechanismRequest):
        if await service.find(body.dataset, body.analyst, body.request_id) is not None:
            return False
        raise forbidden(request, "request", refused.what, field="dataset", value=body.dataset)
    raise forbidden(request, "open", refused.what, field="schema.source.name", value=reader.source)


async def confirmations_of_source(request: HttpRequest, body: Open) -> list[Confirmation]:
    """Return the question whether a second dataset on one source is meant, if it is one.

    Call it after `check_source`.

    Raises: Unavailable.
    """
    access = request.app.state.get(_KEY)
    reader = None if access is None else await _reader(request, body)
    if reader is None:
        return []
    assert isinstance(access, SourceAccess)
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
