"""What a request would be told, without asking it."""

from __future__ import annotations

from litestar import Response, post
from litestar.params import FromPath

from accountant.records import encode
from accountant.records.previews import check_preview
from streams.gateway.access.sight import sight_of
from streams.gateway.context import HttpRequest, context_of
from streams.gateway.contract.openapi import PreviewOperation
from streams.gateway.problems import JSON, never_opened
from streams.gateway.submit import _wrong_content


@post(
    "/datasets/{dataset:str}/preview",
    operation_class=PreviewOperation,
    status_code=200,
    tags=["requests"],
)
async def preview_request(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Tell whether a request would be granted, its cost and what would be left.

    Nothing is written or charged. The next decision on the dataset may change the answer.
    """
    wrong = _wrong_content(request)
    if wrong is not None:
        return wrong
    asked = check_preview(await request.body())
    if await sight_of(request).dataset(dataset) is None:
        return never_opened(dataset)
    found = await context_of(request).service.preview(dataset, asked)
    if found is None:
        return never_opened(dataset)
    return Response(encode(found), media_type=JSON)
