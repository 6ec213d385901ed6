"""What a request would be told, without asking it."""

from __future__ import annotations

import msgspec
from litestar import Response, post
from litestar.params import FromPath
from msgspec import UNSET

from accountant.records import encode
from accountant.records.previews import check_preview
from streams.auth.principal import principal_of
from streams.auth.visibility import sight_of
from streams.gateway.budgets import check_sees_budget
from streams.gateway.contract.openapi import PreviewOperation
from streams.gateway.submit import _wrong_content
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON, never_opened


@post(
    "/datasets/{dataset:str}/preview",
    operation_class=PreviewOperation,
    status_code=200,
    tags=["requests"],
)
async def preview_request(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Tell whether a request would be granted, its cost and what would be left.

    Nothing is written or charged. The next decision on the dataset may change the answer. The
    role and the limits of `analyst` count, by default of the one who asks, and the role of the
    engine in `via`. Who sees all of the dataset may ask of others, and an engine for those that it
    asks for.
    """
    wrong = _wrong_content(request)
    if wrong is not None:
        return wrong
    asked = check_preview(await request.body())
    sight = sight_of(request)
    seen = await sight.dataset(dataset)
    if seen is None:
        return never_opened(dataset)
    who = principal_of(request)
    if who is not None and asked.analyst is None:
        asked = msgspec.structs.replace(asked, analyst=who.name)
    elif who is not None and asked.analyst is not None and "engine" not in sight.roles(dataset):
        check_sees_budget(request, dataset, seen[1], asked.analyst)
    if who is not None and asked.via is not UNSET:
        check_sees_budget(request, dataset, seen[1], asked.via)
    found = await context_of(request).service.preview(dataset, asked)
    if found is None:
        return never_opened(dataset)
    return Response(encode(found), media_type=JSON)
