"""What a caller is told when something is wrong: always field, rule and value, or what to do."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException

from accountant.errors import LedgerFault, PortableError, RequestInvalid
from accountant.foreign_text import escaped_json
from accountant.records import encode
from accountant.records.http_bodies import Problem
from accountant.records.inputs import Undecodable
from accountant.records.outcomes import Reason
from streams.errors import Gone
from streams.logs import get_logger

_log = get_logger(__name__)
JSON = "application/json"
PROBLEM_JSON = "application/problem+json"


def problem(
    status: int,
    error: str,
    message: str,
    *,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Response[bytes]:
    """Return the answer that tells of a problem."""
    told = Problem(
        type=f"/problems/{error}",
        title=error.replace("_", " ").capitalize(),
        status=status,
        detail=message,
        error=error,
        message=message,
        **more,
    )
    # It repeats what was asked, and is shown as it comes.
    body = escaped_json(encode(told))
    return Response(body, status_code=status, media_type=PROBLEM_JSON, headers=headers)


def never_opened(dataset: str) -> Response[bytes]:
    """Return the answer about a dataset that is not there, or not for the one who asks."""
    return problem(
        404,
        "unknown_dataset",
        f"dataset {dataset[:100]} was never opened",
        field="dataset",
        rule="must have been opened",
        value=dataset[:100],
    )


def list_of(dataset: str, what: str, body: bytes) -> Response[bytes]:
    """Return a list of a dataset, which says what it lists: an empty one names nothing itself.

    Args:
        what: the end of its address, with its parameters.
    """
    place = f"/datasets/{dataset}/{what}"
    return Response(body, media_type=JSON, headers={"Content-Location": place})


class HTTPProblem(PortableError):
    """A problem that a handler raises whose own answer is of another kind."""

    def __init__(self, answer: Response[bytes]) -> None:
        super().__init__()
        self.answer = answer


def _told(_request: Request[Any, Any, Any], told: HTTPProblem) -> Response[bytes]:
    return told.answer


def _invalid(_request: Request[Any, Any, Any], error: RequestInvalid) -> Response[bytes]:
    return problem(
        422,
        Reason.INVALID_FIELD,
        str(error),
        field=error.field,
        rule=error.rule,
        value=error.value,
    )


def _undecodable(_request: Request[Any, Any, Any], error: Undecodable) -> Response[bytes]:
    status = 413 if error.reason is Reason.OVERSIZE else 400
    return problem(status, error.reason, str(error), field="body", rule=str(error))


def _unavailable(_request: Request[Any, Any, Any], error: LedgerFault) -> Response[bytes]:
    # Whatever the fault, the bytes may or may not be decided: the same ones tell.
    return problem(503, "unavailable", str(error), headers={"Retry-After": "1"})


def _gone(_request: Request[Any, Any, Any], error: Gone) -> Response[bytes]:
    if error.after is None:
        return problem(410, "gone", str(error))
    rule = f"must be at least {error.after}"
    return problem(410, "gone", str(error), field="after", rule=rule, after=error.after)


def _http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    if error.status_code == 413:
        most = request.app.state.context.settings.most_body
        rule = f"the body must be at most {most} bytes"
        return problem(413, Reason.OVERSIZE, rule, field="body", rule=rule)
    headers = dict(error.headers or {})
    if error.status_code != 400:
        return problem(error.status_code, "http_error", error.detail, headers=headers)
    # Where a parameter is of another type, its name stands apart from the message.
    broken = error.extra[0] if isinstance(error.extra, list) and error.extra else {}
    field, rule = broken.get("key"), broken.get("message", "")
    message = f"{field}: {rule}" if field else error.detail
    return problem(400, "invalid_query", message, headers=headers, field=field, rule=rule)


def _unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    _log.error("door_failed", path=request.url.path, error=type(error).__name__, exc_info=error)
    return problem(500, "internal_error", "the door failed; its log says how")


HANDLERS: dict[type[Exception] | int, Any] = {
    HTTPProblem: _told,
    RequestInvalid: _invalid,
    Undecodable: _undecodable,
    Gone: _gone,
    LedgerFault: _unavailable,
    HTTPException: _http,
    Exception: _unexpected,
}
