"""Requests and admin requests: their canonical bytes are appended, and the decision returned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from litestar import Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter

from accountant.errors import RequestInvalid
from accountant.records import FieldError, encode
from accountant.records.header import decode_header
from accountant.records.inputs import CheckedInput, canonical, check
from accountant.records.kinds import KINDS, OPENING, REQUEST, RecordKind, kind_of
from accountant.records.openings import with_members_only
from accountant.records.outcomes import Outcome, Reason
from accountant.records.requests import Open
from accountant.views.visibility import redact_decision
from streams.auth.authorization import check_may_know, check_may_send
from streams.auth.principal import authenticates
from streams.auth.visibility import visibility_of
from streams.gateway.asks import passed_on, with_nonce
from streams.gateway.confirm import check_confirmed
from streams.gateway.contract.descriptions import description_of
from streams.gateway.contract.openapi import submission_of
from streams.gateway.replay import HEADERS as REPLAY_HEADERS
from streams.gateway.replay import asks_for_replay, replay_of
from streams.gateway.source_check import check_source, confirm_opened
from streams.gateway.waiting_check import check_waiting
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON, problem
from streams.service.ledger_service import Submission

_STATUS: Final = {Outcome.CONFLICT: 409, Outcome.INVALID: 422, Outcome.PENDING: 202}
_LOOK_AGAIN_S: Final = 60
"""Seconds between two looks at a request that waits for an owner."""


New = Annotated[
    bool,
    QueryParameter(description="what the server would ask back (409) is meant as it is"),
]
_decode_error = msgspec.json.Decoder(FieldError).decode


def _handler(kind: RecordKind) -> HTTPRouteHandler:
    """Return the handler of a kind of record that has an address below the dataset's."""

    async def submit(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
        return await _submit(request, kind, dataset)

    async def submit_or_ask_back(
        request: HttpRequest, dataset: FromPath[str], new: New = False
    ) -> Response[bytes]:
        return await _submit(request, kind, dataset, new=new)

    handler = _route(f"/datasets/{{dataset:str}}/{kind.path}", kind)
    return handler(submit_or_ask_back if kind.asks_back else submit)


def _route(path: str, kind: RecordKind) -> post:
    return post(
        path,
        operation_class=submission_of(kind.body.__name__),
        operation_id=kind.operation,
        description=description_of(kind),
        status_code=200,
        tags=[kind.group],
    )


@_route("/requests", REQUEST)
async def submit_request(request: HttpRequest) -> Response[bytes]:
    """Take a request; the plain ones come by `direct`."""
    replays = asks_for_replay(", ".join(request.headers.getall("prefer", [])))
    return await _submit(request, REQUEST, replays=replays)


@_route("/datasets", OPENING)
async def open_dataset(request: HttpRequest, new: New = False) -> Response[bytes]:
    """Take an opening, whose dataset has no address yet."""
    return await _submit(request, OPENING, new=new)


SUBMISSIONS: Final = (
    submit_request,
    open_dataset,
    *(_handler(kind) for kind in KINDS if kind.path is not None),
)
"""The handlers that take a record."""


async def _submit(
    request: HttpRequest,
    kind: RecordKind,
    dataset: str | None = None,
    *,
    replays: bool = False,
    new: bool = False,
) -> Response[bytes]:
    wrong = wrong_content_type(request)
    if wrong is not None:
        return wrong
    wait = wait_of(request.headers.get("prefer"))
    received = await request.body()
    return await submit_body(request, kind, received, dataset, wait=wait, replays=replays, new=new)


async def submit_body(
    request: HttpRequest,
    kind: RecordKind,
    received: bytes,
    dataset: str | None = None,
    *,
    wait: float,
    replays: bool = False,
    new: bool = False,
) -> Response[bytes]:
    """Check one body, authorize it, and return its decision as the caller may see it.

    Args:
        kind: the only kind of record allowed at this address.
        received: the body as the client sent it; of a batch, one line.
        dataset: the dataset in the address, if it has one.
        wait: seconds to wait for the decision.
        replays: answer a repeat with the first decision, where the caller may see it.
        new: what the caller would be asked back is meant.
    Raises: RequestInvalid, Undecodable, HTTPProblem: nothing was appended. Unavailable.
    """
    # Append exactly the checked bytes: the processor does not check a body again.
    body = canonical(received)
    checked = check(kind.source, body)
    check_kind(checked, kind, dataset)
    if isinstance(checked.body, Open) and authenticates(request):
        # As clients write it: left out, anyone could ask who has a token.
        body = canonical(with_members_only(body))
        checked = check(kind.source, body)
    await check_may_send(request, checked.body)
    await check_source(request, checked.body)
    await check_waiting(request, checked.body)
    if not new:
        await check_confirmed(request, checked.body)
    checked, body = with_nonce(request, checked, body)
    service = context_of(request).service
    answer = await service.submit(kind.source, body, wait=wait, checked=checked)
    if (hidden := passed_on(request, checked.body)) is not None:
        return hidden
    if isinstance(checked.body, Open):
        await confirm_opened(request, checked.body, answer)
    return await answer_response(request, answer, checked, replays=replays)


def wrong_content_type(
    request: HttpRequest, media_types: Sequence[str] = (JSON,)
) -> Response[bytes] | None:
    """Return 415 for a body that is not declared as plain JSON, None for one that is.

    This stops cross-site requests. A foreign page in the owner's browser can post forms and plain
    text to this machine; for JSON the browser first asks this server, which never allows it.
    Compressed bodies are rejected too: a small one could expand to fill the memory.

    Args:
        media_types: the allowed ones. None may be one that a form of a foreign page can send.
    """
    coding = request.headers.get("content-encoding", "identity")
    if coding != "identity":
        rule = "must be left out: send the body uncompressed"
        return problem(
            415,
            "unsupported_media_type",
            f"content-encoding {rule}",
            field="content-encoding",
            rule=rule,
            value=coding[:80],
        )
    declared = request.headers.get("content-type", "")
    if declared.split(";")[0].strip().lower() not in media_types:
        rule = f"must be {media_types[0]}"
        return problem(
            415,
            "unsupported_media_type",
            f"content-type {rule}",
            field="content-type",
            rule=rule,
            value=declared[:80],
        )
    return None


def check_kind(checked: CheckedInput, kind: RecordKind, dataset: str | None = None) -> None:
    """Check that a record may be sent to an address.

    Args:
        kind: the only kind of record allowed there.
        dataset: the dataset in the address, if it has one.
    Raises: RequestInvalid.
    """
    body = checked.body
    if type(body) is not kind.body:
        raise RequestInvalid("type", f"must be {kind.name} at this address", kind_of(body).name)
    if dataset is not None and body.dataset != dataset:
        raise RequestInvalid("dataset", f"must be {dataset}, as in the address", body.dataset)


_quoted: Final = lru_cache(4_096)(quote)  # analysts are few, and ask often


def _location(checked: CheckedInput) -> str:
    body = checked.body
    return f"/datasets/{body.dataset}/requests/{body.request_id}?analyst={_quoted(checked.caller)}"


async def answer_response(
    request: HttpRequest, answer: Submission, checked: CheckedInput, *, replays: bool = False
) -> Response[bytes]:
    """Return the response to a submitted record: its decision as the caller may see it, or 202.

    202, too, with the decision that a request waits for an owner's approval.

    Args:
        replays: answer a repeat with the first decision, where the caller may see it.
    Raises: HTTPProblem: the caller may not know the decision.
    """
    decision, where = answer.decision, _location(checked)
    if decision is None:
        pending = {"status": "pending", "location": where}
        headers = {"Location": where, "Retry-After": "1"}
        return Response(encode(pending), status_code=202, media_type=JSON, headers=headers)
    header = decode_header(decision)
    shows_totals = bool(bytes(header.totals)) or bool(header.parts)
    access = check_may_know(request, checked.body, header.outcome, shows_totals=shows_totals)
    replayed = await replay_of(request, checked, header, decision) if replays else None
    if replayed is not None:
        headers = _headers(replayed.outcome, where) | REPLAY_HEADERS
        status = _STATUS.get(replayed.outcome, 200)
        return Response(replayed.content, status_code=status, media_type=JSON, headers=headers)
    shown, value = visibility_of(request).of_decision(checked.body.dataset, decision, header)
    content = redact_decision(access, shown, value, answer.digest)
    if header.outcome is not Outcome.INVALID:
        status, headers = _STATUS.get(header.outcome, 200), _headers(header.outcome, where)
        return Response(content, status_code=status, media_type=JSON, headers=headers)
    error = _decode_error(header.error) if bytes(header.error) else None
    if error is None and header.reason is Reason.ISSUED_IN_FUTURE:
        rule = "must not be issued later than the ledger's clock allows: check your clock"
        error = FieldError("request_id", rule, checked.body.request_id)
    error = error or FieldError("body", "could not be decided", "")
    return problem(
        422,
        header.reason or Reason.INVALID_FIELD,
        f"{error.field} {error.rule}",
        field=error.field,
        rule=error.rule,
        value=error.value,
        decision=msgspec.Raw(content),
    )


def _headers(outcome: Outcome, where: str) -> dict[str, str]:
    """Return the headers of a decision; where a request waits, its answer comes to its address."""
    headers = {"Content-Location": where}
    if outcome.waits:
        headers |= {"Location": where, "Retry-After": str(_LOOK_AGAIN_S)}
    return headers


DEFAULT_WAIT_S: Final = 5
MOST_WAIT_S: Final = 30
_WAIT = re.compile(r'(?:^|[,;\s])wait\s*=\s*"?([0-9]{1,9})"?\s*(?=$|[,;])', re.IGNORECASE)


def wait_of(prefer: str | None) -> int:
    """Return the seconds to wait, at most 30; 5 if the header does not say."""
    match = _WAIT.search(prefer or "")
    return DEFAULT_WAIT_S if match is None else min(int(match[1]), MOST_WAIT_S)
