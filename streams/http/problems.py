"""Problem responses (RFC 9457): what happened, to which field, and what to do next."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException

from accountant.errors import LedgerFault, PortableError, RequestInvalid
from accountant.foreign_text import escape_control_json
from accountant.records import encode
from accountant.records.http_bodies import Problem
from accountant.records.inputs import Undecodable
from accountant.records.outcomes import Reason
from accountant.suggest import closest
from streams.errors import Gone
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
JSON = "application/json"
NDJSON = "application/x-ndjson"
PROBLEM_JSON = "application/problem+json"


def problem(
    status: int,
    error: str,
    message: str,
    *,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Response[bytes]:
    """Return a problem response."""
    content = Problem(
        type=f"/problems/{error}",
        title=error.replace("_", " ").capitalize(),
        status=status,
        detail=message,
        error=error,
        message=message,
        **more,
    )
    # A problem quotes the caller's input, and terminals print it: escape control characters.
    body = escape_control_json(encode(content))
    return Response(body, status_code=status, media_type=PROBLEM_JSON, headers=headers)


def oversize(rule: str) -> Response[bytes]:
    """Return 413: the body breaks this rule about its size."""
    return problem(413, Reason.OVERSIZE, rule, field="body", rule=rule)


def response_to(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Return the response that a handler's exception gets."""
    for kind in type(error).__mro__:
        if kind in HANDLERS:
            response: Response[bytes] = HANDLERS[kind](request, error)
            return response
    raise error


def list_response(dataset: str, what: str, body: bytes) -> Response[bytes]:
    """Return a list of a dataset. Content-Location identifies it, even if the list is empty.

    Args:
        what: the end of the list's path, with its parameters.
    """
    location = f"/datasets/{dataset}/{what}"
    return Response(body, media_type=JSON, headers={"Content-Location": location})


class HTTPProblem(PortableError):
    """A problem response as an exception, for code that does not return the response itself."""

    def __init__(self, answer: Response[bytes]) -> None:
        super().__init__()
        self.answer = answer


def _raised(_request: Request[Any, Any, Any], error: HTTPProblem) -> Response[bytes]:
    return error.answer


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
    # The record may or may not be decided; the client learns it by sending the same bytes again.
    return problem(503, "unavailable", str(error), headers={"Retry-After": "1"})


def _gone(_request: Request[Any, Any, Any], error: Gone) -> Response[bytes]:
    if error.after is None:
        return problem(410, "gone", str(error))
    rule = f"must be at least {error.after}"
    return problem(410, "gone", str(error), field="after", rule=rule, after=error.after)


def _http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    if error.status_code == 413:
        maximum = request.app.state.context.settings.most_body
        return oversize(f"the body must be at most {maximum} bytes")
    headers = dict(error.headers or {})
    what = error.detail
    if error.status_code == 405:
        allowed = next((text for name, text in headers.items() if name.lower() == "allow"), "")
        methods = ", ".join(sorted(allowed.split(", "))) or "other methods"
        what = f"{request.method} is not possible here; this path takes {methods}"
    if error.status_code == 404:
        what = _no_such_path(request)
    if error.status_code != 400:
        return problem(error.status_code, "http_error", what, headers=headers)
    # Litestar names a parameter of the wrong type apart from the message.
    broken = error.extra[0] if isinstance(error.extra, list) and error.extra else {}
    field, rule = broken.get("key"), broken.get("message", "")
    message = f"{field}: {rule}" if field else error.detail
    return problem(400, "invalid_query", message, headers=headers, field=field, rule=rule)


def _no_such_path(request: Request[Any, Any, Any]) -> str:
    """Return that the server has no such path, and a similar one that it has."""
    first, slash, rest = request.url.path.removeprefix("/").partition("/")
    known = {route.path.split("/")[1] for route in request.app.routes}
    meant = closest(first, filter(None, known))
    hint = f"did you mean /{meant}{slash}{rest}?" if meant else "see /schema/openapi.json"
    return f"this server has no such path; {hint}"


def _unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    _log.error("request_failed", path=request.url.path, error=type(error).__name__, exc_info=error)
    return problem(
        500, "internal_error", "the server failed on this request; the server's log has the error"
    )


HANDLERS: dict[type[Exception] | int, Any] = {
    HTTPProblem: _raised,
    RequestInvalid: _invalid,
    Undecodable: _undecodable,
    Gone: _gone,
    LedgerFault: _unavailable,
    HTTPException: _http,
    Exception: _unexpected,
}
