"""Lists and ends the questions that wait in the process that runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from accountant.records import DECODE_ERRORS
from streams.client.http.bearer import is_this_machine, tls_verification
from streams.client.http.problems import (
    check_certificate,
    is_problem,
    not_a_gateway,
    problem_of,
    to_exception,
)
from streams.client.http.token_auth import TokenAuth
from streams.client.requests.requests import error_text
from streams.errors import Refused, Unavailable

T = TypeVar("T")
_TIMEOUT_S: Final = 10.0
_NOTHING_THERE: Final = {"no_curator", "unknown_dataset"}
_LATER: Final = {429, 502, 503, 504}


class WaitingOfAnalyst(msgspec.Struct, frozen=True, kw_only=True):
    """What an analyst has waiting.

    Attributes:
        since: when the oldest of them was granted.
    """

    analyst: str
    questions: int
    since: str


class _Listed(msgspec.Struct, frozen=True):
    waiting: Sequence[WaitingOfAnalyst]


class _Ended(msgspec.Struct, frozen=True):
    ended: int


_decode_listed: Final = msgspec.json.Decoder(_Listed).decode
_decode_ended: Final = msgspec.json.Decoder(_Ended).decode


class QuestionQueueClient:
    """Asks one server.

    Args:
        url: `http://host:port`, without a path.

    Raises of both methods: Refused: it runs no questions, or its certificate is not accepted.
        Unavailable. NotPermitted, Unauthenticated, Unreadable.
    """

    def __init__(self, url: str, auth: TokenAuth | None) -> None:
        self._url = url
        self._auth = auth

    def waiting(self, dataset: str) -> Sequence[WaitingOfAnalyst]:
        """Return what waits on a dataset, by analyst."""
        body = self._send("GET", dataset, "questions")
        return self._decode(_decode_listed, body).waiting

    def end(self, dataset: str, analyst: str | None) -> int:
        """End what waits on a dataset, of one analyst or of all; return how many these are."""
        path = "questions/end" + ("" if analyst is None else f"?analyst={quote(analyst, safe='')}")
        return self._decode(_decode_ended, self._send("POST", dataset, path)).ended

    def _decode(self, decode: Callable[[bytes], T], body: bytes) -> T:
        try:
            return decode(body)
        except DECODE_ERRORS:
            raise not_a_gateway(self._url, "200 without a list of questions") from None

    def _send(self, method: str, dataset: str, path: str) -> bytes:
        url = f"{self._url}/datasets/{quote(dataset, safe='')}/{path}"
        with httpx.Client(
            auth=self._auth,
            verify=tls_verification(self._url),
            trust_env=not is_this_machine(self._url),
            timeout=_TIMEOUT_S,
            follow_redirects=False,
        ) as http:
            try:
                response = http.request(method, url, json={} if method == "POST" else None)
            except httpx.RequestError as error:
                check_certificate(error, self._url)
                why = error_text(error)
                raise Unavailable(f"{self._url} does not answer: {why}") from error
        if response.status_code == 200:
            return response.content
        problem = problem_of(response)
        if is_problem(response) and problem.error in _NOTHING_THERE:
            raise Refused(problem.message)
        if response.status_code in _LATER:
            raise Unavailable(f"{self._url} cannot answer now: {problem.message}")
        remedy = None if self._auth is None else self._auth.remedy
        raise to_exception(response.status_code, problem, self._url, remedy=remedy)
