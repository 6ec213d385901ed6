"""The HTTP application: its routes, middleware and error handlers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CollectorRegistry

from streams.answers.store import AnswerReader
from streams.answers.waiting import QuestionQueue
from streams.auth import Authenticator, add_authentication, make_authenticator, proxies_of
from streams.auth.middleware import BrowserAuth
from streams.clock import Clock, SystemClock
from streams.gateway.answers import list_answers, show_answer
from streams.gateway.asks import list_asks
from streams.gateway.batch import submit_batch
from streams.gateway.budgets import list_limits, show_budget, show_own_budgets
from streams.gateway.contract.openapi import openapi_config
from streams.gateway.datasets import (
    list_datasets,
    list_members,
    list_pending,
    list_requests,
    list_reservations,
    show_dataset,
    show_decision,
    show_head,
    show_usage,
)
from streams.gateway.direct import answer_directly
from streams.gateway.events import stream_events
from streams.gateway.events.answer_stream import stream_answers
from streams.gateway.me import show_me
from streams.gateway.overview import show_overview
from streams.gateway.preview import preview_request
from streams.gateway.question_queue import question_queue_routes
from streams.gateway.report import show_report
from streams.gateway.source_check import add_source_check
from streams.gateway.submit import SUBMISSIONS
from streams.gateway.waiting_check import WaitingLimit, add_waiting_limit
from streams.gateway.why import show_why
from streams.http.context import Context
from streams.http.head_method import answer_head
from streams.http.host_header import host_check
from streams.http.no_store import forbid_caching
from streams.http.problems import HANDLERS
from streams.http.query_check import host_and_query_check
from streams.http.refusal import count_refusals
from streams.metrics.registry import make_registry, version
from streams.server.monitoring import monitoring, with_answers
from streams.server.rate_limit import add_name_limit, add_rate_limit
from streams.service.ledger_service import LedgerService
from streams.settings import Settings
from streams.sources.no_sources import NoSources
from streams.sources.published_states import PublishedStates
from streams.sources.source_file import SourceFile, open_source_file
from streams.sources.source_states import SourceStates

ROUTES: Final = [
    *SUBMISSIONS,
    submit_batch,
    preview_request,
    list_datasets,
    show_dataset,
    show_overview,
    show_usage,
    show_why,
    show_report,
    list_members,
    list_asks,
    list_limits,
    show_budget,
    show_own_budgets,
    list_requests,
    list_pending,
    list_reservations,
    show_decision,
    show_answer,
    list_answers,
    show_head,
    show_me,
    stream_events,
    stream_answers,
]


class Pages(Protocol):
    """The pages for people: what they add to the application."""

    @property
    def routes(self) -> Sequence[HTTPRouteHandler]:
        """The handlers of the pages' routes."""
        ...

    def prepare(
        self, app: Litestar, settings: Settings, clock: Clock, authenticator: Authenticator | None
    ) -> BrowserAuth | None:
        """Prepare an application for `routes`; return its session authentication, if it has any."""
        ...

    def error_handlers(self, handlers: Mapping[type[Exception] | int, Any]) -> dict[Any, Any]:
        """Return error handlers that answer browsers with a page instead of JSON."""
        ...


def create_app(
    service: LedgerService,
    settings: Settings,
    *,
    registry: CollectorRegistry | None = None,
    clock: Clock | None = None,
    answers: AnswerReader | None = None,
    pages: Pages | None = None,
    queue: QuestionQueue | None = None,
    states: SourceStates | PublishedStates | None = None,
    sources: SourceFile | NoSources | None = None,
) -> Litestar:
    """Return the HTTP application of a ledger; the caller closes the service.

    Args:
        registry: the metrics of /metrics; without it, only the process's own.
        clock: decides when memberships expire; by default the machine's.
        answers: to questions, where the ledger has any; the caller closes them.
        pages: for people; without them, the application serves the API only.
        queue: of the questions that wait, where this process knows them.
        states: what the sources of questions lack, where this process reads them.
        sources: of the data, where this process has read their file; None reads the one that the
            settings name, once.
    Raises: Refused: the settings ask for authentication that cannot work.
    """
    sources = sources or open_source_file(settings)
    context = Context(service, settings, clock or SystemClock(), answers=answers)
    shown = registry or make_registry(None)
    authenticator = make_authenticator(settings, shown)
    app = Litestar(
        route_handlers=[
            Router(
                "/",
                route_handlers=[*ROUTES, *question_queue_routes(service, queue, context.clock)],
                before_request=host_and_query_check(settings),
            ),
            *(() if pages is None else pages.routes),
            *monitoring(shown, with_answers(service.readiness, answers, queue, sources, states)),
        ],
        state=State({"context": context}),
        before_request=host_check(settings),
        exception_handlers=HANDLERS if pages is None else pages.error_handlers(HANDLERS),
        openapi_config=openapi_config(version(), authenticates=settings.authenticates),
        request_max_body_size=settings.most_body,
        logging_config=None,
    )
    if authenticator is not None:
        count_refusals(app, shown)
    add_source_check(app, sources, states)
    limit = None if queue is None else WaitingLimit(queue.waiting, settings.questions_waiting)
    add_waiting_limit(app, limit)
    browsers = None
    if pages is not None:
        browsers = pages.prepare(app, settings, context.clock, authenticator)
    add_name_limit(app, settings, shown)
    add_authentication(app, authenticator, proxies_of(settings), browsers)
    # From the outside in: HEAD, caching, rate limit by address, proxy check, authentication, rate
    # limit by name, routes. The limit by address comes before authentication, so that a flood of
    # wrong tokens stays cheap.
    answer_head(forbid_caching(add_rate_limit(app, settings, shown)))
    # Usual requests to decide pass the same guards, and no router.
    only_loopback = host_check(settings) is not None
    return answer_directly(app, most_body=settings.most_body, only_loopback=only_loopback)
