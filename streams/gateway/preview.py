"""POST /datasets/{dataset}/preview: the decision on a request, without making it."""

from __future__ import annotations

import msgspec
from litestar import Response, post
from litestar.params import FromPath
from msgspec import UNSET

from accountant.records import encode
from accountant.records.previews import check_preview
from streams.auth.principal import principal_of
from streams.auth.unknown_dataset import unknown_dataset
from streams.auth.visibility import visibility_of
from streams.gateway.budgets import check_sees_budget
from streams.gateway.contract.openapi import submission_of
from streams.gateway.submit import wrong_content_type
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON


@post(
    "/datasets/{dataset:str}/preview",
    operation_class=submission_of("PreviewRequest"),
    status_code=200,
    tags=["requests"],
)
async def preview_request(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Tell whether a request would be granted, its cost, and what would be left.

    Nothing is written or charged. The next decision on the dataset may change the answer. The
    role and limits of `analyst` count, by default the caller's, and the role of the engine in
    `via`. Only callers who see all of the dataset, and engines, may preview for others.
    """
    wrong = wrong_content_type(request)
    if wrong is not None:
        return wrong
    asked = check_preview(await request.body())
    visibility = visibility_of(request)
    visible = await visibility.dataset(dataset)
    if visible is None:
        return await unknown_dataset(request, dataset)
    caller = principal_of(request)
    if caller is not None and asked.analyst is None:
        asked = msgspec.structs.replace(asked, analyst=caller.name)
    elif (
        caller is not None
        and asked.analyst is not None
        and "engine" not in visibility.roles(dataset)
    ):
        check_sees_budget(request, dataset, visible[1], asked.analyst)
    if caller is not None and asked.via is not UNSET:
        check_sees_budget(request, dataset, visible[1], asked.via)
    found = await context_of(request).service.preview(dataset, asked)
    if found is None:
        return await unknown_dataset(request, dataset)
    return Response(encode(found), media_type=JSON)
