"""What can be read: datasets, who used them, and recent decisions."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from accountant.records import encode
from streams.gateway.context import HttpRequest, context_of
from streams.gateway.problems import JSON, problem


def _json(value: object) -> Response[bytes]:
    return Response(encode(value), media_type=JSON)


def _never_opened(dataset: str) -> Response[bytes]:
    return problem(
        404,
        "unknown_dataset",
        f"dataset {dataset[:100]} was never opened",
        field="dataset",
        rule="must have been opened",
        value=dataset[:100],
    )


@get("/datasets", tags=["datasets"])
async def list_datasets(request: HttpRequest) -> Response[bytes]:
    """Return every dataset as it stands, by name."""
    return _json(await context_of(request).service.datasets())


@get("/datasets/{dataset:str}", tags=["datasets"])
async def show_dataset(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return one dataset as it stands."""
    view = await context_of(request).service.dataset(dataset)
    return _never_opened(dataset) if view is None else _json(view)


@get("/datasets/{dataset:str}/usage", tags=["datasets"])
async def show_usage(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return who used a dataset since this process began to look."""
    service = context_of(request).service
    if await service.dataset(dataset) is None:
        return _never_opened(dataset)
    return _json(await service.usage(dataset))


@get("/datasets/{dataset:str}/requests/{request_id:str}", tags=["requests"])
async def show_decision(
    request: HttpRequest,
    dataset: FromPath[str],
    request_id: FromPath[str],
    analyst: Annotated[
        str, QueryParameter(description="who asked; of an admin record, who it is by")
    ],
) -> Response[bytes]:
    """Return the first decision on a recent request: the index keeps the window of ids."""
    found = await context_of(request).service.find(dataset, analyst, request_id)
    if found is not None:
        return Response(found, media_type=JSON)
    return problem(
        404,
        "not_found",
        "not among the recent decisions; for older ones: "
        f"accountant log export --id {request_id[:100]}",
        field="request_id",
        rule="must be of a request decided within the window",
        value=request_id[:100],
    )
