"""Asks for more: their list, and the answer to somebody who does not see the dataset."""

from __future__ import annotations

import secrets
from typing import Final

import msgspec
from litestar import Response, get
from litestar.params import FromPath

from accountant.records import Body, encode
from accountant.records.http_bodies import PASSED_ON, PassedOn
from accountant.records.inputs import CheckedInput, check
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


def with_nonce(
    request: HttpRequest, checked: CheckedInput, body: bytes
) -> tuple[CheckedInput, bytes]:
    """Return a record with random text in it if it asks for a hidden or unknown dataset.

    Without it the person could compute the whole decision that there is no such dataset, and
    compare its hash with the log's newest.
    """
    if not isinstance(checked.body, AskMore) or _is_seen(request, checked.body):
        return checked, body
    fields = {**msgspec.json.decode(body), "nonce": secrets.token_hex(16)}
    body = msgspec.json.encode(fields)
    return check("admin", body), body


def _is_seen(request: HttpRequest, ask: AskMore) -> bool:
    return visibility_of(request).at(ask.dataset) is not None


def passed_on(request: HttpRequest, body: Body) -> Response[bytes] | None:
    """Return the same for a hidden dataset and for one that was never opened; None for others.

    Whatever was decided, it would tell them apart.
    """
    if not isinstance(body, AskMore) or _is_seen(request, body):
        return None
    content = PassedOn(PASSED_ON, passed_on_words(body.dataset))
    return Response(encode(content), status_code=202, media_type=JSON)


def passed_on_words(dataset: str) -> str:
    """Return the answer to an ask of a dataset that the person does not see, if there is one."""
    return _MESSAGE.format(dataset)
