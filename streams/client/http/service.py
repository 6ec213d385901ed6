"""`HttpService`: a gateway as a `Service`."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from accountant.advice.preview import Preview, decode_preview
from accountant.answers import NoisyAnswer, decode_answer
from accountant.errors import BudgetError, MadeByNewerVersion, MadeByOtherVersion
from accountant.records import DECODE_ERRORS, Decision, Source, decode_decision, encode
from accountant.records.http_bodies import PASSED_ON, Me, PassedOn, Problem, logged_decision
from accountant.records.inputs import CheckedInput
from accountant.records.kinds import KINDS
from accountant.records.members import Member
from accountant.records.previews import PreviewRequest
from accountant.views.asks import AskView
from accountant.views.datasets import Alert, DatasetView, decode_alert, decode_dataset_view
from accountant.views.heads import Head
from accountant.views.limit_views import (
    AnalystBudget,
    ScopeView,
    decode_analyst_budget,
    decode_analyst_budgets,
    decode_scope_views,
)
from accountant.views.overview import Overview, decode_overview
from accountant.views.pending import PendingView, decode_pending_views
from accountant.views.period import Period
from accountant.views.period_report import PeriodReport, decode_period_report
from accountant.views.reservations import ReservationPage, decode_reservation_page
from accountant.views.usage import By, UsageRow, UsageView
from accountant.views.visibility import WHOLE, Caller, DatasetAccess
from accountant.views.why import Why, decode_why
from streams.client.http.bearer import is_this_machine, tls_verification
from streams.client.http.over_http import OverHttp
from streams.client.http.problems import (
    REJECTED,
    check_certificate,
    is_problem,
    is_rejected,
    not_a_gateway,
    problem_of,
    to_exception,
)
from streams.client.http.reconnecting_events import reconnecting_events
from streams.client.http.response_check import check_location, check_names, is_not_found
from streams.client.http.token_auth import TokenAuth
from streams.client.http.trace_header import add_trace
from streams.client.requests.requests import error_text
from streams.errors import Gone, NoAnswers, PassedOnToOwners, Refused, Unavailable, Unreadable
from streams.ndjson import LineSplitter
from streams.service.ledger_service import Readiness, Submission
from streams.telemetry.logs import get_logger

_MARGIN_S: Final = 5.0
_MOST_WAIT_S: Final = 30
_TOO_MANY_REQUESTS: Final = 429
_RETRY_STATUS: Final = frozenset({_TOO_MANY_REQUESTS, 502, 503, 504})

# A decision has its request in it, which has at most 64 KiB.
_REPLAYED: Final = "privacy-replayed"
_NDJSON: Final = "application/x-ndjson"
_MAX_LINE: Final = 1 << 20
# A whole batch is sent before its response is read, so both must fit in the server's buffers.
_MAX_BATCH: Final = 1 << 20

_PATHS: Final = {kind.name: kind.path for kind in KINDS if kind.path is not None}
_ASKED_BACK: Final = frozenset(kind.name for kind in KINDS if kind.asks_back)
"""The records that a server may ask back."""

T = TypeVar("T")
_log = get_logger(__name__)

_decode_datasets = msgspec.json.Decoder(list[DatasetView]).decode
_decode_me = msgspec.json.Decoder(Me).decode
_decode_heads = msgspec.json.Decoder(list[Head]).decode
_decode_passed_on = msgspec.json.Decoder(PassedOn).decode
_decode_asks = msgspec.json.Decoder(list[AskView]).decode
_decode_members = msgspec.json.Decoder(list[Member]).decode
_decode_rows = msgspec.json.Decoder(list[dict[str, Any]]).decode


class _Target(msgspec.Struct):
    type: str
    dataset: str


class _Line(msgspec.Struct):
    """The members that tell a decision, a problem and a pending request apart."""

    outcome: str = ""
    status: int | str = 0


class PendingAnswer(msgspec.Struct):
    """A question is granted, and has no answer yet."""

    status: Literal["pending"]


class AnswerPage(msgspec.Struct):
    """Answers of a dataset, and the number after which the next page begins."""

    answers: list[NoisyAnswer]
    next: int


class _RawAnswers(msgspec.Struct):
    answers: list[msgspec.Raw]
    next: int


class _Page(msgspec.Struct):
    decisions: list[msgspec.Raw]
    next: int | None = None


_decode_pending = msgspec.json.Decoder(PendingAnswer).decode
_decode_raw_answers = msgspec.json.Decoder(_RawAnswers).decode
_decode_page = msgspec.json.Decoder(_Page).decode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_problem = msgspec.json.Decoder(Problem).decode
_decode_target = msgspec.json.Decoder(_Target).decode


class HttpService(OverHttp):
    """Calls one gateway; belongs to the event loop that first uses it.

    Args:
        url: `http://host:port`, without a path.
        bearer: the token to send to this gateway; None for none.
    """

    def __init__(self, url: str, bearer: TokenAuth | None = None) -> None:
        self._url = url
        self._bearer = bearer
        self._trouble: str | None = None
        self._name: str | None = None
        self._http = httpx.AsyncClient(
            base_url=url,
            auth=bearer,
            verify=tls_verification(url),
            # A proxy in the environment is never meant for this machine.
            trust_env=not is_this_machine(url),
            timeout=_MARGIN_S,
            follow_redirects=False,
            event_hooks={"request": [add_trace]},
        )

    @property
    def token_source(self) -> str | None:
        """Where the token that it sends comes from, None if it sends none."""
        return None if self._bearer is None else self._bearer.source

    async def me(self) -> Me:
        """Return the caller that the gateway authenticates this client as."""
        found = await self._get("/me")
        if found is None:
            raise self._not_a_gateway("404 for the caller's own name")
        return self._decode(found, _decode_me)

    async def own_name(self) -> str | None:
        """Return the caller's name; it is read once."""
        if self._name is None:
            self._name = (await self.me()).name
        return self._name

    async def submit(
        self,
        source: Source,
        body: bytes,
        *,
        wait: float,
        checked: CheckedInput | None = None,
        new: bool = False,
    ) -> Submission:
        location = _decode_target(body)
        path = "/requests" if source == "requests" else "/datasets"
        if location.type in _PATHS:
            path = f"{_path(location.dataset)}/{_PATHS[location.type]}"
        if new and location.type in _ASKED_BACK:
            path += "?new=true"
        seconds = max(0, math.ceil(wait))
        response = await self._send(
            "POST",
            path,
            content=body,
            headers={"Content-Type": "application/json", "Prefer": f"wait={seconds}"},
            timeout=httpx.Timeout(_MARGIN_S, read=seconds + _MARGIN_S),
        )
        if response.status_code in {200, 409} and not is_problem(response):
            return self._answer(response.content)
        if response.status_code == 202:
            # Not decided yet, or decided to wait for an owner's approval.
            if self._decode(response.content, _decode_line).outcome:
                return self._answer(response.content)
            self._check_decided(response)
            return Submission(decision=None, partition=0)
        problem = problem_of(response)
        if problem.decision:
            return self._answer(problem.decision)
        if not is_rejected(response, problem):
            raise self._not_a_gateway(f"{response.status_code} ({problem.message})")
        raise self._to_exception(response.status_code, problem)

    def _check_decided(self, response: httpx.Response) -> None:
        """Raise PassedOnToOwners where no decision will ever be shown to the caller."""
        with suppress(*DECODE_ERRORS):
            found = _decode_passed_on(response.content)
            if found.status == PASSED_ON:
                raise PassedOnToOwners(found.message)

    async def submit_many(
        self,
        bodies: Sequence[bytes],
        *,
        wait: float,
        checked: Sequence[CheckedInput | None] | None = None,
    ) -> list[Submission | BudgetError]:
        """Implement `Service.submit_many`: send requests in batches.

        Args:
            bodies: at most `BATCH_LINES`, without line ends.
        """
        found = list[Submission | BudgetError]()
        for batch in _in_batches(bodies):
            answers = await self._submit_batch(batch, wait)
            found += answers
            if answers and isinstance(answers[-1], Unavailable):
                return [*found, *[answers[-1]] * (len(bodies) - len(found))]
        return found

    async def _submit_batch(
        self, bodies: Sequence[bytes], wait: float
    ) -> list[Submission | BudgetError]:
        found = list[Submission | BudgetError]()
        try:
            async for line in self._batch(bodies, wait):
                found.append(self._line_result(line))
        except BudgetError as error:
            trouble = error
        else:
            trouble = Unavailable(f"{self._url} answered only {len(found)} of {len(bodies)} lines")
        return [*found, *[trouble] * (len(bodies) - len(found))][: len(bodies)]

    async def _batch(self, bodies: Sequence[bytes], wait: float) -> AsyncIterator[bytes]:
        """Send a batch, and yield the lines of its response as they arrive."""
        seconds = max(0, math.ceil(wait))
        splitter = LineSplitter(_MAX_LINE)
        try:
            async with self._http.stream(
                "POST",
                "/requests/batch",
                content=b"\n".join(bodies),
                headers={"Content-Type": _NDJSON, "Prefer": f"wait={seconds}"},
                # The server reads on only when it has decided earlier lines.
                timeout=httpx.Timeout(
                    _MARGIN_S, read=seconds + _MARGIN_S, write=seconds + _MARGIN_S
                ),
            ) as response:
                self._check_not_replayed(response)
                if response.status_code != 200:
                    await response.aread()
                    raise self._rejected(response)
                if not response.headers.get("content-type", "").startswith(_NDJSON):
                    raise self._not_a_gateway("something that is not the response to a batch")
                async for piece in response.aiter_bytes():
                    for line in splitter.feed(piece):
                        yield line or b""
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        self._trouble = None

    def _rejected(self, response: httpx.Response) -> Exception:
        problem = problem_of(response)
        if response.status_code in _RETRY_STATUS:
            self._trouble = problem.message or f"{self._url} is not ready yet"
            return Unavailable(self._trouble, after=_retry_after(response))
        # Only a line of a response has a decision: a proxy may have taken this one from another.
        if problem.decision or not is_rejected(response, problem):
            return self._not_a_gateway(f"{response.status_code} ({problem.message})")
        return self._to_exception(response.status_code, problem)

    def _line_result(self, line: bytes) -> Submission | BudgetError:
        """Return the decision in a line of a batch's response, or the error."""
        try:
            kind = self._decode(line, _decode_line)
            if kind.outcome:
                return self._answer(line)
            if kind.status == "pending":
                return Submission(decision=None, partition=0)
            problem = self._decode(line, _decode_problem)
            if problem.decision:
                return self._answer(problem.decision)
        except Unreadable as error:
            return error
        if problem.status in _RETRY_STATUS:
            is_limited = problem.status == _TOO_MANY_REQUESTS
            return Unavailable(
                problem.message, after=float(problem.retry_after or 0) if is_limited else 0.0
            )
        if problem.status not in REJECTED:
            return self._not_a_gateway(f"{problem.status} ({problem.message}) in a line")
        return self._to_exception(problem.status, problem)

    async def find(self, dataset: str, caller: str, request_id: str) -> bytes | None:
        path = f"{_path(dataset)}/requests/{quote(request_id, safe='')}"
        found = self._body_or_none(
            await self._send("GET", path, params={"analyst": caller}), dataset, request_id
        )
        return None if found is None else self._decode_logged(found)[0]

    async def datasets(self) -> list[DatasetView]:
        found = await self._get("/datasets")
        if found is None:
            raise self._not_a_gateway("404 for all datasets")
        return self._decode(found, _decode_datasets)

    async def dataset(self, name: str) -> DatasetView | None:
        found = self._body_or_none(await self._send("GET", _path(name)), name)
        return (
            None if found is None else self._decode_named(found, decode_dataset_view, dataset=name)
        )

    async def preview(self, dataset: str, asked: PreviewRequest) -> Preview | None:
        response = await self._send(
            "POST",
            f"{_path(dataset)}/preview",
            content=encode(asked),
            headers={"Content-Type": "application/json"},
        )
        found = self._body_or_none(response, dataset)
        return None if found is None else self._decode_named(found, decode_preview, dataset=dataset)

    async def levels(self, dataset: str) -> list[ScopeView]:
        return await self._list(dataset, "limits", decode_scope_views) or []

    async def reservations(
        self, dataset: str, *, after: int, limit: int, access: DatasetAccess = WHOLE
    ) -> ReservationPage:
        assert access is WHOLE, "the server uses the token"
        what = f"reservations?after={after}&limit={limit}"
        page = await self._list(dataset, what, decode_reservation_page)
        if page is None:
            return ReservationPage((), after)
        check_names(self._url, page.reservations, dataset=dataset)
        return page

    async def pending(self, dataset: str, *, access: DatasetAccess = WHOLE) -> list[PendingView]:
        assert access is WHOLE, "the server uses the token"
        found = await self._list(dataset, "pending", decode_pending_views)
        check_names(self._url, found or (), dataset=dataset)
        return list(found or ())

    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None:
        path = f"{_path(dataset)}/budgets/{quote(analyst, safe='')}"
        found = self._body_or_none(await self._send("GET", path), dataset)
        if found is None:
            return None
        return self._decode_named(found, decode_analyst_budget, dataset=dataset, analyst=analyst)

    async def own_budgets(self) -> list[AnalystBudget]:
        """Return the remaining budgets of the client's token, by dataset."""
        found = await self._get("/me/budgets")
        if found is None:
            raise self._not_a_gateway("404 for the caller's own name")
        budgets = self._decode(found, decode_analyst_budgets)
        if budgets:
            check_names(self._url, budgets, analyst=await self.own_name())
        return budgets

    async def overview(self, dataset: str, caller: Caller | None = None) -> Overview | None:
        assert caller is None, "the server uses the token"
        found = self._body_or_none(await self._send("GET", f"{_path(dataset)}/overview"), dataset)
        return None if found is None else self._decode(found, decode_overview)

    async def usage(self, dataset: str) -> list[UsageView]:
        return [row.view() for row in await self.usage_by(dataset, "analyst")]

    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        def decode(content: bytes) -> list[UsageRow]:
            return [UsageRow.from_named_row(row, by) for row in _decode_rows(content)]

        rows = await self._list(dataset, f"usage?by={by}", decode) or []
        check_names(self._url, rows, dataset=dataset)
        return rows

    async def why(self, dataset: str, *, analyst: str | None = None) -> Why | None:
        query = {} if analyst is None else {"analyst": analyst}
        response = await self._send("GET", f"{_path(dataset)}/why", params=query)
        found = self._body_or_none(response, dataset)
        return None if found is None else self._decode_named(found, decode_why, dataset=dataset)

    async def report(
        self, dataset: str, period: Period, *, access: DatasetAccess = WHOLE
    ) -> PeriodReport | None:
        response = await self._send("GET", f"{_path(dataset)}/report", params=period.query)
        found = self._body_or_none(response, dataset)
        if found is None:
            return None
        return self._decode_named(found, decode_period_report, dataset=dataset)

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        # A page before the end may be empty: all its decisions may be hidden from this caller.
        while True:
            page = await self._page(dataset, after, limit)
            if page.decisions or page.next is None or page.next <= after:
                found = [self._decode_logged(each) for each in page.decisions]
                check_names(self._url, (decision for _, decision in found), dataset=dataset)
                return [value for value, _ in found]
            after = page.next

    async def _page(self, dataset: str, after: int, limit: int) -> _Page:
        what = f"requests?after={after}&limit={limit}"
        return await self._list(dataset, what, _decode_page) or _Page([])

    async def answer(
        self, dataset: str, analyst: str, request_id: str, *, wait: float
    ) -> NoisyAnswer | PendingAnswer | None:
        """Return the answer to a question; None to any other request that is not granted.

        Args:
            wait: seconds for which the server waits for an answer that will come, at most 30.
        Raises: NoAnswers: the server has none.
        """
        seconds = min(int(wait), _MOST_WAIT_S)
        response = await self._send(
            "GET",
            f"/answers/{quote(request_id, safe='')}",
            params={"dataset": dataset, "analyst": analyst},
            headers={"Prefer": f"wait={seconds}"},
            timeout=httpx.Timeout(_MARGIN_S, read=seconds + _MARGIN_S),
        )
        if response.status_code == 202:
            return self._decode(response.content, _decode_pending)
        found = self._answers_or_none(response, dataset, request_id)
        if found is None:
            return None
        asked = {"dataset": dataset, "analyst": analyst, "request_id": request_id}
        return self._decode_named(found, _decode_answer, **asked)

    async def answers(self, dataset: str, *, after: int, limit: int) -> AnswerPage | None:
        """Return a page of the answers that the caller may see, None of an unknown dataset.

        Raises: NoAnswers: the server has none.
        """
        what = f"answers?after={after}&limit={limit}"
        response = await self._send("GET", f"{_path(dataset)}/{what}")
        found = self._answers_or_none(response, dataset)
        if found is None:
            return None
        page = self._decode(found, _decode_answers)
        check_location(self._url, response, f"/datasets/{dataset}/{what}")
        check_names(self._url, page.answers, dataset=dataset)
        return page

    def _answers_or_none(self, response: httpx.Response, *names: str) -> bytes | None:
        if response.status_code == 404 and (found := problem_of(response)).error == "no_answers":
            raise NoAnswers(found.message)
        return self._body_or_none(response, *names)

    async def members(self, dataset: str) -> list[Member]:
        return await self._list(dataset, "members", _decode_members) or []

    async def asks(self, dataset: str) -> list[AskView]:
        return await self._list(dataset, "more", _decode_asks) or []

    async def heads(self) -> list[Head]:
        found = await self._get("/head")
        if found is None:
            raise self._not_a_gateway("404 for the end of the log")
        heads = self._decode(found, _decode_heads)
        check_names(self._url, heads, ledger=heads[0].ledger if heads else None)
        return heads

    def ordered_before(self) -> int:
        """Return 0: a server sends joint guarantees, not the data to compute them."""
        return 0

    async def events(self) -> AsyncIterator[Decision]:
        async for data in reconnecting_events(self._http, self._check_stream, "decision"):
            for decision in self._decode_event(data, decode_decision):
                yield decision

    async def alerts(self) -> AsyncIterator[Alert]:
        async for data in reconnecting_events(self._http, self._check_stream, "alert"):
            for alert in self._decode_event(data, decode_alert):
                yield alert

    def _decode_event(self, data: bytes, decode: Callable[[bytes], T]) -> list[T]:
        """Decode an event; skip one that cannot be read, since the next ones can."""
        try:
            return [self._decode(data, decode)]
        except Unreadable as error:
            _log.warning("event_not_readable", url=self._url, why=str(error), bytes=len(data))
            return []

    def readiness(self) -> Readiness:
        """Return whether the last call was answered; `/readyz` has the gateway's own readiness."""
        reasons = [] if self._trouble is None else [self._trouble]
        return Readiness(ready=not reasons, reasons=reasons)

    async def close(self) -> None:
        await self._http.aclose()

    async def _get(self, path: str) -> bytes | None:
        return self._body_or_none(await self._send("GET", path))

    async def _list(self, dataset: str, what: str, decode: Callable[[bytes], T]) -> T | None:
        """Read a list of a dataset; None if the dataset does not exist.

        Args:
            what: path and parameters of the list, as the gateway repeats them.
        """
        response = await self._send("GET", f"{_path(dataset)}/{what}")
        if response.status_code == 410:
            problem = problem_of(response)
            raise Gone(problem.message, after=problem.after)
        found = self._body_or_none(response, dataset)
        if found is None:
            return None
        decoded = self._decode(found, decode)
        check_location(self._url, response, f"/datasets/{dataset}/{what}")
        return decoded

    def _body_or_none(self, response: httpx.Response, *names: str) -> bytes | None:
        """Return the body of a response, None if the dataset or id does not exist."""
        if response.status_code == 200:
            return response.content
        problem = problem_of(response)
        if response.status_code == 404 and names and is_not_found(self._url, problem, *names):
            return None
        raise self._to_exception(response.status_code, problem)

    def _decode_named(self, content: bytes, decode: Callable[[bytes], T], **asked: str) -> T:
        """Decode a response and check that it has the requested names."""
        found = self._decode(content, decode)
        check_names(self._url, [found], **asked)
        return found

    def _decode(self, content: bytes | msgspec.Raw, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(bytes(content))
        except MadeByNewerVersion as error:
            raise Unreadable(f"{self._url} answered as a newer version does: {error}") from None
        except (*DECODE_ERRORS, MadeByOtherVersion):  # no gateway answers in an older form
            raise self._not_a_gateway("something that is not a gateway's response") from None

    def _decode_logged(self, content: bytes | msgspec.Raw) -> tuple[bytes, Decision]:
        """Return a decision's record as it is in the log, and the decoded decision."""
        logged, is_whole = self._decode(content, logged_decision)
        decision = self._decode(logged, decode_decision)
        if not is_whole:
            raise self._not_a_gateway("a decision that does not match its own hash")
        return logged, decision

    def _answer(self, content: bytes | msgspec.Raw) -> Submission:
        logged, decision = self._decode_logged(content)
        return Submission(decision=logged, partition=0, decoded=decision)

    def _to_exception(self, status: int, problem: Problem) -> BudgetError:
        remedy = None if self._bearer is None else self._bearer.remedy
        return to_exception(status, problem, self._url, remedy=remedy)

    def _not_a_gateway(self, what: str) -> Unreadable:
        return not_a_gateway(self._url, what)

    async def _check_stream(self, response: httpx.Response) -> None:
        if response.status_code != 200:
            await response.aread()
            problem = problem_of(response)
            if response.status_code in _RETRY_STATUS:
                raise Unavailable(problem.message or f"{self._url} is not ready yet")
            if response.status_code == 410:
                raise Gone(problem.message)
            if problem.error == "unknown_event_id":
                raise Refused(problem.message)
            raise self._to_exception(response.status_code, problem)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise self._not_a_gateway("something that is not an event stream")

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = await self._http.request(method, path, **options)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        self._trouble = None
        self._check_not_replayed(response)
        if response.status_code in _RETRY_STATUS:
            self._trouble = problem_of(response).message or f"{self._url} is not ready yet"
            raise Unavailable(self._trouble, after=_retry_after(response))
        return response

    def _check_not_replayed(self, response: httpx.Response) -> None:
        """Reject a decision that was made for an earlier response: a mechanism may have run on it.

        This client never asks for one (`Prefer: replay=original`); a proxy may have.
        """
        if _REPLAYED in response.headers:
            raise self._not_a_gateway("a replayed decision, which this client does not ask for")

    def _unreachable(self, error: httpx.RequestError) -> Unavailable:
        check_certificate(error, self._url)
        self._trouble = (
            f"{self._url} does not answer: {error_text(error)}. Check that the server runs"
        )
        return Unavailable(self._trouble)


def _decode_answer(content: bytes) -> NoisyAnswer:
    try:
        return decode_answer(content)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from None


def _decode_answers(content: bytes) -> AnswerPage:
    page = _decode_raw_answers(content)
    return AnswerPage([_decode_answer(bytes(each)) for each in page.answers], page.next)


def _in_batches(bodies: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Split bodies into batches of `_MAX_BATCH` bytes."""
    batch, size = list[bytes](), 0
    for body in bodies:
        if batch and size + len(body) > _MAX_BATCH:
            yield batch
            batch, size = [], 0
        batch.append(body)
        size += len(body) + 1
    if batch:
        yield batch


def _path(dataset: str) -> str:
    return f"/datasets/{quote(dataset, safe='')}"


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds that a rate limit asks to wait; 0 for any other response.

    A server that is overloaded or not ready always says one second; the client's own pauses are
    shorter.
    """
    seconds = response.headers.get("retry-after", "")
    if response.status_code != _TOO_MANY_REQUESTS or not (seconds.isascii() and seconds.isdigit()):
        return 0.0
    return float(seconds[:9])
