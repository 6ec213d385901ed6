"""Requests and admin requests: their canonical bytes are appended, and the decision returned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from litestar import Response, post
from litestar.params import FromPath, QueryParameter

from accountant.errors import RequestInvalid
from accountant.records import (
    Amend,
    Begin,
    Body,
    Close,
    FieldError,
    MechanismRequest,
    Open,
    Pause,
    Resolve,
    Resume,
    SetLimit,
    SetMember,
    Settle,
    Source,
    Void,
    encode,
)
from accountant.records.header import decode_header
from accountant.records.inputs import CheckedInput, canonical, check
from accountant.records.outcomes import Outcome, Reason
from accountant.views.visibility import redact_decision
from streams.auth.authorization import check_may_know, check_may_send
from streams.auth.visibility import visibility_of
from streams.gateway.confirm import check_confirmed
from streams.gateway.contract.openapi import (
    AmendOperation,
    BeginOperation,
    CloseOperation,
    LimitOperation,
    MemberOperation,
    OpenOperation,
    PauseOperation,
    RequestOperation,
    ResolveOperation,
    ResumeOperation,
    SettleOperation,
    VoidOperation,
)
from streams.gateway.replay import HEADERS as REPLAY_HEADERS
from streams.gateway.replay import asks_for_replay, replay_of
from streams.gateway.source_check import check_source, confirm_opened
from streams.gateway.waiting_check import check_waiting
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON, problem
from streams.service.ledger_service import Submission

_STATUS: Final = {Outcome.CONFLICT: 409, Outcome.INVALID: 422}


New = Annotated[
    bool,
    QueryParameter(description="what the server would ask back (409) is meant as it is"),
]
_decode_error = msgspec.json.Decoder(FieldError).decode


@post("/requests", operation_class=RequestOperation, status_code=200, tags=["requests"])
async def submit_request(request: HttpRequest) -> Response[bytes]:
    """Ask to run one mechanism.

    200 with the decision: granted, refused, repeated or expired. 202 with a `Location` if it is
    not decided in time: `Prefer: wait=N` seconds, by default 5, at most 30. A repeat has `granted`
    false; `first.outcome` beside it says what was decided at first. With `Prefer:
    replay=original` the caller's own repeat is answered with that first decision, marked by
    `Preference-Applied` and `Privacy-Replayed: true`. Run no mechanism on a response so marked:
    the original may have been received, too.
    """
    replays = asks_for_replay(", ".join(request.headers.getall("prefer", [])))
    return await _submit(request, "requests", MechanismRequest, replays=replays)


@post("/datasets", operation_class=OpenOperation, status_code=200, tags=["datasets"])
async def open_dataset(
    request: HttpRequest,
    new: New = False,
) -> Response[bytes]:
    """Open a dataset under a policy; its budget is fixed from the first grant on.

    409 where that is probably a slip, and `?new=true` says that it is meant: `similar_name` where
    its name, population or source is nearly one that the caller sees, `second_dataset` where
    another dataset reads the same source already, and the server's file of sources names no
    dataset for it, `ends_joint_guarantee` where its population would have none any more, and
    `source_differs` where its source lacks a column or the unit of its schema, as far as this
    server reads the source.
    """
    return await _submit(request, "admin", Open, new=new)


@post(
    "/datasets/{dataset:str}/amend",
    operation_class=AmendOperation,
    status_code=200,
    tags=["datasets"],
)
async def amend_dataset(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Change a dataset's thresholds, horizon or cap; or lower its budget before any grant."""
    return await _submit(request, "admin", Amend, dataset)


@post(
    "/datasets/{dataset:str}/close",
    operation_class=CloseOperation,
    status_code=200,
    tags=["datasets"],
)
async def close_dataset(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Close a dataset: nothing more is granted."""
    return await _submit(request, "admin", Close, dataset)


@post(
    "/datasets/{dataset:str}/pause",
    operation_class=PauseOperation,
    status_code=200,
    tags=["datasets"],
)
async def pause_dataset(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Pause a dataset: nothing is granted until it is resumed.

    Only owners may; with `as: administrator`, only administrators.
    """
    return await _submit(request, "admin", Pause, dataset)


@post(
    "/datasets/{dataset:str}/resume",
    operation_class=ResumeOperation,
    status_code=200,
    tags=["datasets"],
)
async def resume_dataset(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Resume a paused dataset: requests are decided again. For those who may pause it."""
    return await _submit(request, "admin", Resume, dataset)


@post(
    "/datasets/{dataset:str}/resolve",
    operation_class=ResolveOperation,
    status_code=200,
    tags=["datasets"],
)
async def resolve_reservation(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Say what a broken reservation released beyond its maximum. Only owners may.

    With `claim` that is charged; with `mistaken` nothing was. The suspension ends.
    """
    return await _submit(request, "admin", Resolve, dataset)


@post(
    "/datasets/{dataset:str}/reservations/begin",
    operation_class=BeginOperation,
    status_code=200,
    tags=["requests"],
)
async def begin_reservation(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Begin: the mechanism may read the data once this is answered with outcome `begun`.

    Its repeat is never answered with that first decision, also with `Prefer: replay=original`.
    """
    return await _submit(request, "requests", Begin, dataset)


@post(
    "/datasets/{dataset:str}/reservations/settle",
    operation_class=SettleOperation,
    status_code=200,
    tags=["requests"],
)
async def settle_reservation(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Settle what has begun: a session at the last level it showed, everything else in full."""
    return await _submit(request, "requests", Settle, dataset)


@post(
    "/datasets/{dataset:str}/reservations/void",
    operation_class=VoidOperation,
    status_code=200,
    tags=["requests"],
)
async def void_reservation(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Void a reservation that never began: exactly what it was charged comes back."""
    return await _submit(request, "requests", Void, dataset)


@post(
    "/datasets/{dataset:str}/members",
    operation_class=MemberOperation,
    status_code=200,
    tags=["access"],
)
async def set_member(
    request: HttpRequest, dataset: FromPath[str], new: New = False
) -> Response[bytes]:
    """Set a member's roles on a dataset, replacing their earlier ones; no roles removes them.

    Only owners may; with `as: administrator`, only administrators. 409 `similar_name` for a team
    that is nearly another one of the dataset: `?new=true` says that it is meant.
    """
    return await _submit(request, "admin", SetMember, dataset, new=new)


@post(
    "/datasets/{dataset:str}/limits",
    operation_class=LimitOperation,
    status_code=200,
    tags=["datasets"],
)
async def set_limit(
    request: HttpRequest, dataset: FromPath[str], new: New = False
) -> Response[bytes]:
    """Set a limit for a scope, replacing its earlier one; a record without limits removes it.

    409 `similar_name` for a team that is nearly another one of the dataset: `?new=true` says that
    it is meant.
    """
    return await _submit(request, "admin", SetLimit, dataset, new=new)


async def _submit(
    request: HttpRequest,
    source: Source,
    kind: type[Body],
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
    return await submit_body(
        request, source, received, kind, dataset, wait=wait, replays=replays, new=new
    )


async def submit_body(
    request: HttpRequest,
    source: Source,
    received: bytes,
    kind: type[Body],
    dataset: str | None = None,
    *,
    wait: float,
    replays: bool = False,
    new: bool = False,
) -> Response[bytes]:
    """Check one body, authorize it, and return its decision as the caller may see it.

    Args:
        received: the body as the client sent it; of a batch, one line.
        kind: the only kind of record allowed at this address.
        dataset: the dataset in the address, if it has one.
        wait: seconds to wait for the decision.
        replays: answer a repeat with the first decision, where the caller may see it.
        new: what the caller would be asked back is meant.
    Raises: RequestInvalid, Undecodable, HTTPProblem: nothing was appended. Unavailable.
    """
    # Append exactly the checked bytes: the processor does not check a body again.
    body = canonical(received)
    checked = check(source, body)
    check_kind(checked, kind, dataset)
    await check_may_send(request, checked.body)
    await check_source(request, checked.body)
    await check_waiting(request, checked.body)
    if not new:
        await check_confirmed(request, checked.body)
    service = context_of(request).service
    answer = await service.submit(source, body, wait=wait, checked=checked)
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


def check_kind(checked: CheckedInput, kind: type[Body], dataset: str | None = None) -> None:
    """Check that a record may be sent to an address.

    Args:
        kind: the only kind of record allowed there.
        dataset: the dataset in the address, if it has one.
    Raises: RequestInvalid.
    """
    body = checked.body
    if not isinstance(body, kind):
        rule = f"must be {kind.__struct_config__.tag} at this address"
        raise RequestInvalid("type", rule, str(body.__struct_config__.tag))
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
        headers = {"Content-Location": where} | REPLAY_HEADERS
        return Response(replayed, status_code=200, media_type=JSON, headers=headers)
    shown, value = visibility_of(request).of_decision(checked.body.dataset, decision, header)
    content = redact_decision(access, shown, value, answer.digest)
    if header.outcome is not Outcome.INVALID:
        status = _STATUS.get(header.outcome, 200)
        return Response(
            content, status_code=status, media_type=JSON, headers={"Content-Location": where}
        )
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


DEFAULT_WAIT_S: Final = 5
MOST_WAIT_S: Final = 30
_WAIT = re.compile(r'(?:^|[,;\s])wait\s*=\s*"?([0-9]{1,9})"?\s*(?=$|[,;])', re.IGNORECASE)


def wait_of(prefer: str | None) -> int:
    """Return the seconds to wait, at most 30; 5 if the header does not say."""
    match = _WAIT.search(prefer or "")
    return DEFAULT_WAIT_S if match is None else min(int(match[1]), MOST_WAIT_S)
