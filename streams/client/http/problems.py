"""Turns the error responses of a server into exceptions that name the next step."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec

from accountant.errors import BudgetError, RequestInvalid
from accountant.records import DECODE_ERRORS, encode
from accountant.records.http_bodies import Problem
from accountant.records.inputs import Undecodable
from accountant.records.outcomes import Reason
from streams.client.unconfirmed import CODES, unconfirmed
from streams.errors import NoAnswers, NotPermitted, Refused, Unauthenticated, Unreadable
from streams.settings import PREFIX

_PROBLEM_JSON: Final = "application/problem+json"
REJECTED: Final = frozenset({400, 401, 403, 409, 413, 422})
"""Statuses of a server's problem that rejects a body before it records it."""

# Defaults for members that another kind of server leaves out.
_BLANK: Final = {
    **dict.fromkeys(("type", "title", "detail", "message"), msgspec.Raw(b'""')),
    "status": msgspec.Raw(b"0"),
    "error": msgspec.Raw(b'"unknown"'),
}
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_problem = msgspec.json.Decoder(Problem).decode


def problem_of(response: httpx.Response) -> Problem:
    """Decode the problem in an error response."""
    try:
        return _decode_problem(encode(_BLANK | _decode_members(response.content)))
    except DECODE_ERRORS:
        phrase = response.reason_phrase
        return Problem("", "", 0, phrase, "unknown", phrase)


def is_rejected(response: httpx.Response, problem: Problem) -> bool:
    """Whether the server itself rejected a body before it recorded anything.

    A proxy may return the same status after the server has recorded the body.
    """
    return (
        response.status_code in REJECTED
        and response.status_code == problem.status
        and is_problem(response)
        and problem.error != "unknown"
    )


def is_problem(response: httpx.Response) -> bool:
    """Whether a response declares a problem, and no decision."""
    declared: str = response.headers.get("content-type", "")
    return declared.partition(";")[0] == _PROBLEM_JSON


def to_exception(status: int, problem: Problem, url: str, *, remedy: str | None) -> BudgetError:
    """Return the exception for a response that a retry does not change.

    Args:
        remedy: what to do about a rejected token, None if the request had none.
    """
    if status == 422 and problem.field is not None:
        return RequestInvalid(problem.field, problem.rule, problem.value)
    if status in {400, 413} and problem.error in {Reason.UNDECODABLE, Reason.OVERSIZE}:
        return Undecodable(Reason(problem.error), problem.message)
    if status == 401:
        if problem.field is not None:
            return Unauthenticated(f"{url} refuses this token: {problem.message}")
        return unauthenticated(url, remedy)
    if status == 409 and problem.error in CODES:
        field, question = problem.field or "", problem.question or problem.message
        return unconfirmed(problem.error, field, problem.value, problem.similar, question)
    if problem.error in {"no_answers", "source_closed"}:
        return NoAnswers(problem.message)
    if status == 403:
        return NotPermitted(f"{url} does not permit this: {problem.message or 'no reason given'}")
    return not_a_gateway(url, f"{status} ({problem.message})")


def not_a_gateway(url: str, what: str) -> Unreadable:
    """Return the exception for a response that does not come from a gateway."""
    path = urlsplit(url).path
    extra = f"Remove {path} from the address if no proxy adds it. " if path else ""
    return Unreadable(
        f"{url} answered {what}. {extra}Check that this is a gateway's address, and that no proxy "
        "answers in its place"
    )


def unauthenticated(url: str, remedy: str | None) -> Unauthenticated:
    """Return the exception for a missing or unknown token.

    Args:
        remedy: what to do about a rejected token, None if the request had none.
    """
    if remedy is not None:
        return Unauthenticated(
            f"{url} does not know this token: it may be expired, revoked or for another server. "
            f"{remedy}"
        )
    return Unauthenticated(
        f"{url} requires a token. Set {PREFIX}TOKEN or {PREFIX}TOKEN_FILE (--token-file). "
        "An administrator creates one with `accountant token create`, or you sign in at your "
        f"identity provider with `accountant login {url}`"
    )


def check_certificate(error: BaseException, url: str) -> None:
    """Raise if a connection failed because of the server's certificate, or because it has none.

    Raises: Refused: a retry does not help.
    """
    if "WRONG_VERSION_NUMBER" in str(error):
        plain = url.replace("https://", "http://", 1)
        raise Refused(f"{url} speaks no TLS: use {plain}, or turn TLS on at the server") from error
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        why = str(error).partition("certificate verify failed:")[2].strip() or "not trusted"
        raise Refused(
            f"the certificate of {url} is not accepted: {why}. For a private certificate "
            "authority, set SSL_CERT_FILE to its certificate. The server's "
            "certificate must contain the name in the address"
        ) from error
