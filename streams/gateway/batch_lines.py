"""Lines of a batch: checked, authorized and decided many at a time, each as if sent alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from litestar import Response
from msgspec import UnsetType

from accountant.records import encode
from accountant.records.header import decode_header
from accountant.records.inputs import CheckedInput, canonical, check
from accountant.records.kinds import REQUEST
from accountant.records.outcomes import Outcome
from accountant.records.requests import MechanismRequest
from accountant.views.visibility import DatasetAccess, redact_decision
from streams.auth.authorization import check_may_send
from streams.auth.principal import principal_of
from streams.auth.visibility import visibility_of
from streams.gateway.source_check import check_source
from streams.gateway.submit import answer_response, check_kind
from streams.gateway.waiting_check import check_waiting
from streams.http.context import HttpRequest, context_of
from streams.http.problems import PROBLEM_JSON, response_to
from streams.http.request_quota import quota_of
from streams.service.ledger_service import Submission

Line = bytes | Response[bytes]
"""A line of the body, or the problem in place of one that cannot be read."""

_LINE_END: Final = b"\n"

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_Parties = tuple[str, str | UnsetType, tuple[str, ...]]
"""Analyst, engine and datasets of a request: on these depends whether the caller may send it."""


class LineGroup:
    """Some lines of a batch, in order, of which each has a response or a request to decide.

    Attributes:
        size: bytes of the lines.
    """

    def __init__(self, request: HttpRequest, wait: float) -> None:
        self._request = request
        self._wait = wait
        self._is_open = principal_of(request) is None
        self._permitted = set[_Parties]()
        self._readers = set[str]()
        self._responses: list[bytes | None] = []
        self._bodies: list[bytes] = []
        self._checked: list[CheckedInput] = []
        self.size = 0

    def __len__(self) -> int:
        return len(self._responses)

    async def add(self, line: Line, *, is_first: bool) -> None:
        """Count a line in the rate limit, check it, and authorize its sender.

        Args:
            is_first: of the batch: the request itself was counted for it.
        """
        try:
            response = line if isinstance(line, Response) else await self._take(line, is_first)
        except Exception as error:
            response = response_to(self._request, error)
        self._responses.append(None if response is None else _line_of(response))

    async def _take(self, line: bytes, is_first: bool) -> Response[bytes] | None:
        """Take a request in; return the response in its place if it exceeds the rate limit."""
        self.size += len(line)
        quota = quota_of(self._request)
        refused = None if quota is None or is_first else quota.charge()
        if refused is not None:
            return refused
        body = canonical(line)
        checked = check(REQUEST.source, body)
        check_kind(checked, REQUEST)
        if not self._is_open:
            await self._check_may_send(checked)
        await check_source(self._request, checked.body, self._readers)
        await check_waiting(self._request, checked.body)
        self._bodies.append(body)
        self._checked.append(checked)
        return None

    async def _check_may_send(self, checked: CheckedInput) -> None:
        """Authorize a request; once for all that the same names have sent to the same datasets."""
        asked = checked.body
        assert isinstance(asked, MechanismRequest)
        parties = asked.analyst, asked.via, asked.datasets
        if parties not in self._permitted:
            await check_may_send(self._request, asked)
            self._permitted.add(parties)

    async def decide(self) -> bytes:
        """Send the requests to the ledger together; return the responses, one a line."""
        decided = zip(self._checked, await self._answers(), strict=True)
        lines, accesses = list[bytes](), dict[str, DatasetAccess | None]()
        for ready in self._responses:
            line = await self._line_to(*next(decided), accesses) if ready is None else ready
            lines.append(line)
        return b"".join(lines)

    async def _answers(self) -> Sequence[Submission | Exception]:
        if not self._bodies:
            return []
        service = context_of(self._request).service
        try:
            return await service.submit_many(self._bodies, wait=self._wait, checked=self._checked)
        except Exception as error:
            return [error] * len(self._bodies)

    async def _line_to(
        self,
        checked: CheckedInput,
        answer: Submission | Exception,
        accesses: dict[str, DatasetAccess | None],
    ) -> bytes:
        """Return the line for a request's answer, as the caller may see it.

        Args:
            accesses: those looked up for earlier lines of the group.
        """
        if isinstance(answer, Exception):
            return _line_of(response_to(self._request, answer))
        try:
            shown = self._decision_line(checked, answer, accesses)
            if shown is not None:
                return shown
            return _line_of(await answer_response(self._request, answer, checked))
        except Exception as error:
            return _line_of(response_to(self._request, error))

    def _decision_line(
        self,
        checked: CheckedInput,
        answer: Submission,
        accesses: dict[str, DatasetAccess | None],
    ) -> bytes | None:
        """Return the line of a decision on one dataset that the caller sees; None for others.

        It is the body of `answer_response`, without the response around it.
        """
        decision, asked = answer.decision, checked.body
        if decision is None or not isinstance(asked, MechanismRequest) or asked.other_datasets:
            return None
        header = decode_header(decision)
        if header.outcome is Outcome.INVALID or header.parts:
            return None
        if asked.dataset not in accesses:
            accesses[asked.dataset] = visibility_of(self._request).at(asked.dataset)
        access = accesses[asked.dataset]
        if access is None:
            return None
        return redact_decision(access, header, decision, answer.digest) + _LINE_END


def _line_of(response: Response[bytes]) -> bytes:
    """Return a response as one line; a problem includes what its header Retry-After says."""
    after = response.headers.get("Retry-After")
    if after is None or response.media_type != PROBLEM_JSON:
        return response.content + _LINE_END
    members = _members(response.content)
    members["retry_after"] = msgspec.Raw(after.encode())
    return encode(members) + _LINE_END
