"""What a gateway answers where it does not do what was asked, as the error that says what to do."""

from __future__ import annotations

from typing import Final

import httpx
import msgspec

from accountant.errors import RequestInvalid
from accountant.records import DECODE_ERRORS, encode
from accountant.records.http_bodies import Problem
from accountant.records.inputs import Undecodable
from accountant.records.outcomes import Reason
from streams.errors import NotPermitted, Refused, Unauthenticated, Unreadable
from streams.settings import PREFIX

_PROBLEM_JSON: Final = "application/problem+json"
# What a gateway answers before it hands a body on.
_REJECTED: Final = frozenset({400, 401, 403, 413, 422})

# For what another server's problem leaves out.
_BLANK: Final = {
    **dict.fromkeys(("type", "title", "detail", "message"), msgspec.Raw(b'""')),
    "status": msgspec.Raw(b"0"),
    "error": msgspec.Raw(b'"unknown"'),
}
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_problem = msgspec.json.Decoder(Problem).decode


def problem_of(response: httpx.Response) -> Problem:
    """Return what an answer says is wrong."""
    try:
        return _decode_problem(encode(_BLANK | _decode_members(response.content)))
    except DECODE_ERRORS:
        phrase = response.reason_phrase
        return Problem("", "", 0, phrase, "unknown", phrase)


def is_rejected(response: httpx.Response, problem: Problem) -> bool:
    """Tell whether an answer is a gateway's own word that it has not handed a body on.

    What stands between may say the same status, after the gateway took the body.
    """
    return (
        response.status_code in _REJECTED
        and response.status_code == problem.status
        and response.headers.get("content-type", "").partition(";")[0] == _PROBLEM_JSON
        and problem.error != "unknown"
    )


def to_exception(status: int, problem: Problem, url: str, *, has_token: bool) -> Exception:
    """Return the error for an answer that another try will not change.

    Args:
        has_token: a token was shown.
    """
    if status == 422 and problem.field is not None:
        return RequestInvalid(problem.field, problem.rule, problem.value)
    if status in {400, 413} and problem.error in {Reason.UNDECODABLE, Reason.OVERSIZE}:
        return Undecodable(Reason(problem.error), problem.message)
    if status == 401:
        if problem.field is not None:
            return Unauthenticated(f"{url} refuses this token: {problem.message}")
        return unauthenticated(url, has_token=has_token)
    if status == 403:
        return NotPermitted(f"{url} does not permit this: {problem.message or 'it says no more'}")
    return not_a_gateway(url, f"{status} ({problem.message})")


def not_a_gateway(url: str, what: str) -> Unreadable:
    """Return the error of an answer that is no gateway's."""
    return Unreadable(f"{url} answered {what}: is this a gateway's address?")


def unauthenticated(url: str, *, has_token: bool) -> Unauthenticated:
    """Return the error of who is not known at a door."""
    if has_token:
        return Unauthenticated(
            f"{url} does not know this token: it may be expired, revoked or another door's; "
            "ask an administrator, or the provider, for a new one"
        )
    return Unauthenticated(
        f"{url} wants to know who asks: set {PREFIX}TOKEN, or {PREFIX}TOKEN_FILE (--token-file); "
        "an administrator makes a token by `accountant token create`, or the provider gives it"
    )


def check_certificate(error: BaseException, url: str) -> None:
    """Raise where a door was not spoken to because its certificate is not believed.

    Raises: Refused: another try changes nothing.
    """
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        why = str(error).partition("certificate verify failed:")[2].strip() or "not trusted"
        raise Refused(
            f"the certificate of {url} is not accepted: {why}. For an authority of your own "
            "set SSL_CERT_FILE to its certificate; the address must have a name that is in the "
            "door's own"
        ) from error
