"""Reads of a client that take several calls of a service, or depend on the kind of service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import UNSET

from accountant.answers import NoisyAnswer
from accountant.display.current_dataset import CurrentDataset
from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from accountant.questions import Schema
from accountant.questions.expected_error import check_guess
from accountant.records import Decision, decode_decision
from accountant.records.coerce import coerce_text
from accountant.records.http_bodies import Me
from accountant.records.previews import PreviewRequest, preview_request_of
from accountant.records.requests import Reserve
from accountant.records.reservation_rows import check_until
from accountant.suggest import did_you_mean
from accountant.views.generations import with_lifetimes
from accountant.views.limit_views import AnalystBudget
from accountant.views.reservations import ReservationView
from streams.client.connection.retry import GRACE_S, Deadline
from streams.client.connection.service_kind import is_over_http, token_source_of
from streams.client.requests.requests import ANALYST_VARIABLE, RequestDraft
from streams.embedded.service import EmbeddedService
from streams.errors import Gone, NoAnswers, NotPermitted, Refused, Unavailable
from streams.service.dataset_reads import last_pause
from streams.service.ledger_service import Service

if TYPE_CHECKING:
    from streams.client.http.service import HttpService

T = TypeVar("T")
_PAGE: Final = 500  # decisions, or reservations
_ANSWERS: Final = 100
UnitAndNeighbours = tuple[str, Neighbours]
"""The unit of a dataset's policy, and its neighbouring relation."""


class UnknownDataset(RequestInvalid):
    """No dataset has this name. The message suggests a similar name."""

    def __init__(self, name: str, hint: Callable[[], str] | None = None) -> None:
        super().__init__("dataset", "must be the name of a dataset", name, hint=hint)

    def _said(self) -> str:
        return f"no dataset that you may see is named {self.value}"

    def __str__(self) -> str:
        said = self._said()
        return f"{said}: {self.hint}" if self.hint else f"{said}. List the names with `datasets()`"


async def find_in_dataset(
    service: Service, name: str, read: Callable[[Service], Coroutine[Any, Any, T | None]]
) -> T:
    """Read something that every dataset has.

    Raises: UnknownDataset: the dataset does not exist.
    """
    found = await read(service)
    if found is None:
        raise await unknown_dataset(service, name)
    return found


async def list_of_dataset(
    service: Service, name: str, read: Callable[[Service], Coroutine[Any, Any, list[T]]]
) -> list[T]:
    """Read a list of a dataset; it may be empty only if the dataset exists.

    Raises: UnknownDataset: the dataset does not exist.
    """
    found = await read(service)
    if not found and await service.dataset(name) is None:
        raise await unknown_dataset(service, name)
    return found


def preview_question(
    body: bytes, analyst: str | None, reserve: str | None, guess: int | None
) -> PreviewRequest:
    """Return the question whether a request would be granted.

    Args:
        body: the request; its analyst stands for an unknown one.
        analyst: with a token and without one, the server fills in the name.
        reserve: how long a reservation may take; None for a plain request.
        guess: of the rows of each group of a question; None without one.
    Raises: RequestInvalid.
    """
    asked = preview_request_of(body)
    if reserve is not None:
        check_until(coerce_text("reserve", reserve))
    return msgspec.structs.replace(
        asked,
        analyst=analyst,
        via=asked.via if analyst else UNSET,
        reserve=asked.reserve if reserve is None else Reserve(reserve),
        guess=UNSET if guess is None else check_guess(guess),
    )


async def get_page(service: Service, dataset: str, after: int) -> list[Decision]:
    """Return the next decisions on a dataset after a number, none at the end."""
    name = coerce_text("dataset", dataset)
    found = await service.decisions(name, after=after, limit=_PAGE)
    return [decode_decision(value) for value in found]


async def current_dataset(service: Service, dataset: str) -> CurrentDataset | None:
    """Return what explains a refusal beside its decision, None for an unknown dataset."""
    view = await service.dataset(dataset)
    if view is None:
        return None
    if view.lifetime and view.lifetime.shared:
        (view,) = with_lifetimes([view], await service.datasets())
    members = await service.members(dataset)
    pause, needs_name = await last_pause(service, view), not token_source_of(service)
    return CurrentDataset(view, (), members, pause, needs_name)


async def all_reservations(service: Service, dataset: str) -> list[ReservationView]:
    """Return all open reservations of a dataset that the caller sees."""
    found, after = list[ReservationView](), 0
    while True:
        page = await service.reservations(dataset, after=after, limit=_PAGE)
        found += page.reservations
        if page.next <= after:
            return found
        after = page.next


async def unknown_dataset(service: Service, name: str) -> UnknownDataset:
    """Return the error for a dataset that does not exist, with the most similar name."""
    with contextlib.suppress(TimeoutError, Unavailable, Refused, Gone):
        async with asyncio.timeout(GRACE_S):
            names = [view.dataset for view in await service.datasets()]
            return UnknownDataset(name, did_you_mean(name, names))
    return UnknownDataset(name)


async def get_me(service: Service) -> Me:
    """Return the caller that the ledger authenticates; nobody for a file and on Kafka.

    Raises: Unauthenticated: the server does not know the token.
    """
    return await service.me() if is_over_http(service) else Me()


async def own_name(service: Service, field: str) -> str:
    """Return the caller's name, for requests that have none.

    Args:
        field: the field that needs it.
    Raises: RequestInvalid: authentication is off, so a token has no name.
    """
    name = await service.own_name() if is_over_http(service) else None
    if name is None:
        rule = "must be passed: authentication is off on this server, so a token names nobody"
        raise RequestInvalid(field, rule, None)
    return name


async def missing_fields(
    service: Service, draft: RequestDraft, known: UnitAndNeighbours | None
) -> tuple[str, UnitAndNeighbours | None]:
    """Return a request's analyst, and the unit and neighbours of its dataset's policy.

    Args:
        known: unit and neighbours, if known. None is returned for a dataset that does not exist.
    """
    analyst = await own_name(service, "analyst") if draft.analyst is None else draft.analyst
    if known is None and (view := await service.dataset(draft.dataset)) is not None:
        known = view.policy.unit, view.policy.neighbours
    return analyst, known


async def get_budget(service: Service, dataset: str, analyst: str | None) -> AnalystBudget:
    """Return the remaining budget of an analyst on a dataset.

    Raises: RequestInvalid: no analyst is known. UnknownDataset: the dataset does not exist.
    """
    if analyst is None:
        if not is_over_http(service):
            raise _analyst_missing()
        analyst = await own_name(service, "analyst")
    found = await service.budget_for(dataset, analyst)
    if found is None:
        raise await unknown_dataset(service, dataset)
    return found


async def get_budgets(service: Service, analyst: str | None) -> list[AnalystBudget]:
    """Return the remaining budgets of an analyst, without closed datasets.

    Raises: RequestInvalid: no analyst is known. NotPermitted: the token has full visibility of no
        dataset.
    """
    if is_over_http(service) and analyst in {None, await service.own_name()}:
        await own_name(service, "analyst")  # without authentication there is no name
        return await service.own_budgets()
    if analyst is None:
        raise _analyst_missing()
    found, refused = [], None
    for view in await service.datasets():
        try:
            if not view.closed:
                found.append(await service.budget_for(view.dataset, analyst))
        except NotPermitted as error:  # the server does not show other analysts' budgets here
            refused = error
    if refused is not None and not found:
        raise refused
    return [budget for budget in found if budget is not None]


async def get_ordered_before(service: Service) -> int | None:
    """Return `ordered_before` of the service."""
    return service.ordered_before()


async def schema_of(service: Service, dataset: str) -> Schema:
    """Return a dataset's schema.

    Raises: UnknownDataset. RequestInvalid: it has none, so that nobody can ask a question.
    """
    view = await find_in_dataset(service, dataset, lambda service: service.dataset(dataset))
    if view.schema is UNSET:
        rule = (
            "takes no questions: it was opened without a schema. Ask with a claim, such as "
            "pure:0.01, or ask for a dataset with a schema (`accountant dataset open --schema`)"
        )
        raise RequestInvalid("dataset", rule, dataset)
    return view.schema


async def answer_page(service: Service, dataset: str, after: int) -> tuple[list[NoisyAnswer], int]:
    """Return the next answers of a dataset after a number, and the number after them.

    A page is empty at the end alone.

    Raises: NoAnswers. UnknownDataset.
    """
    server = _answering_server(service)
    while True:
        page = await server.answers(dataset, after=after, limit=_ANSWERS)
        if page is None:
            raise await unknown_dataset(service, dataset)
        if page.answers or page.next <= after:
            return page.answers, page.next
        after = page.next


async def look_for_answer(
    service: Service, dataset: str, analyst: str, request_id: str, wait: float
) -> NoisyAnswer | None:
    """Return the answer to a request, None if it does not come within so many seconds.

    Raises: NoAnswers.
    """
    server, deadline = _answering_server(service), Deadline(wait)
    while True:
        pause: float | None
        try:
            found = await server.answer(dataset, analyst, request_id, wait=deadline.remaining)
            if isinstance(found, NoisyAnswer):
                return found
            pause = deadline.pause()
            if pause is None:
                return None
        except Unavailable as error:
            pause = deadline.pause(error.after)
            if pause is None:
                raise
        await asyncio.sleep(pause)


def _answering_server(service: Service) -> HttpService:
    """Return the server that answers questions.

    Raises: NoAnswers: the ledger is a file of this process, or on Kafka.
    """
    if is_over_http(service):
        return service
    raise NoAnswers(
        "questions are answered by a server that reads the data. Run `accountant serve` with "
        "ACCOUNTANT_DATA_SOURCES, or a gateway beside `accountant curator`, and connect to its "
        "address"
    )


async def get_ledger_id(service: Service) -> str:
    """Return the random id of a ledger in a file or behind a server, else "".

    Also "" if the server does not send it in time: stored results can be used without it.
    """
    if is_over_http(service):
        with contextlib.suppress(TimeoutError, Unavailable, Refused, Gone):
            async with asyncio.timeout(GRACE_S):
                heads = await service.heads()
                return heads[0].ledger if heads else ""
    elif isinstance(service, EmbeddedService):
        heads = await service.heads()
        return heads[0].ledger if heads else ""
    return ""


def _analyst_missing() -> RequestInvalid:
    rule = f"must be passed (`analyst=`, --analyst), or set as {ANALYST_VARIABLE}"
    return RequestInvalid("analyst", rule, None)
