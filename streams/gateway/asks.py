"""Asks for more: their list, and the answer to somebody who does not see the dataset."""

from __future__ import annotations

from typing import Final

from litestar import Response, get
from litestar.params import FromPath

from accountant.records import Body, encode
from accountant.records.http_bodies import PASSED_ON, PassedOn
from accountant.records.requests import AskMore
from accountant.views.asks import visible_asks
from streams.auth.unknown_dataset import unknown_dataset
from streams.auth.visibility import visibility_of
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON, list_response

_MESSAGE: Final = (
    "If there is a dataset {}, its owners can read your ask. You will see the dataset once one of "
    "them gives you a role; until then nothing tells whether it exists"
)


@get("/datasets/{dataset:str}/more", tags=["access"])
async def list_asks(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return a dataset's asks for more and their answers, the oldest first.

    Owners, auditors and administrators see all; everybody else their own.
    """
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    asks = await context_of(request).service.asks(dataset)
    return list_response(dataset, "more", encode(visible_asks(asks, found[1])))


def passed_on(request: HttpRequest, body: Body) -> Response[bytes] | None:
    """Return the same for a hidden dataset and for one that was never opened; None for others.

    Whatever was decided, it would tell them apart.
    """
    if not isinstance(body, AskMore) or visibility_of(request).at(body.dataset) is not None:
        return None
    content = PassedOn(PASSED_ON, passed_on_words(body.dataset))
    return Response(encode(content), status_code=202, media_type=JSON)


def passed_on_words(dataset: str) -> str:
    """Return the answer to an ask of a dataset that the person does not see, if there is one."""
    return _MESSAGE.format(dataset)
