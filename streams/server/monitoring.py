"""Health probes and metrics, for gateways and workers alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CollectorRegistry

from accountant.records import encode
from streams.answers.store import AnswerReader
from streams.answers.waiting import QuestionQueue
from streams.auth.principal import KEY, optional_principal
from streams.http.problems import JSON
from streams.http.refusal import forbidden
from streams.metrics.probe import probe_families
from streams.metrics.registry import MetricList, exposition
from streams.service.ledger_service import Readiness
from streams.sources.published_states import PublishedStates
from streams.sources.source_states import SourceStates

_UNAVAILABLE: Final = {
    "tokens": "every token of the file of tokens is rejected, because the file is unusable. Search "
    "the server's log for tokens_unreadable: it says why, and what to do",
    "provider": "no token of the OpenID provider can be checked, because the provider does not "
    "answer. Tell its operators; the server tries again by itself",
}
"""Public: `/healthz/metrics` says the same in numbers, and each rejected request by its status."""


class SourceNotes(Protocol):
    """What knows of the data sources: `streams.sources.source_file.SourceFile`, or of none."""

    def notes(self) -> list[str]:
        """Return what an operator should know."""
        ...


@get("/healthz", tags=["monitoring"])
async def healthz() -> Response[bytes]:
    """Answer 200 whenever this process is alive."""
    return Response(encode({"alive": True}), media_type=JSON)


def with_answers(
    readiness: Callable[[], Readiness],
    answers: AnswerReader | None,
    queue: QuestionQueue | None = None,
    sources: SourceNotes | None = None,
    states: SourceStates | PublishedStates | None = None,
) -> Callable[[], Readiness]:
    """Return a readiness that also notes why answers are missing: requests are still decided."""

    def noted() -> Readiness:
        state = readiness()
        trouble = None if answers is None else answers.trouble
        late = None if queue is None else queue.note()
        closed = None if states is None else states.note()
        notes = [each for each in (trouble, late, closed) if each is not None]
        if sources is not None:
            notes += sources.notes()
        return replace(state, notes=[*state.notes, *notes]) if notes else state

    return noted


def health(
    readiness: Callable[[], Readiness], *, needs_tokens: bool = True
) -> list[HTTPRouteHandler]:
    """Return the handlers of /healthz, /healthz/metrics and /readyz.

    Args:
        readiness: the answer of /readyz.
        needs_tokens: without usable tokens this server serves nobody; a worker still decides.
    """

    @get("/readyz", tags=["monitoring"])
    async def readyz(request: Request[Any, Any, Any]) -> Response[bytes]:
        """Tell whether requests are being decided, and if not (503), why.

        On Kafka: whether this gateway follows the decisions, whichever worker makes them. With
        authentication, reasons and notes are for administrators and for the names in
        ACCOUNTANT_METRICS_READERS. Others get `ready`, and which tokens cannot be checked.
        """
        state, authenticator = readiness(), request.app.state.get("authenticator")
        if authenticator is None:
            return _readiness(state.ready, state.reasons, state.notes)
        is_closed = needs_tokens and await authenticator.rejects_everybody()
        unavailable = await authenticator.unavailable_callers()
        away = [_UNAVAILABLE[method] for method, is_away in unavailable.items() if is_away]
        if is_closed:  # then nobody can be known: these reasons are all that anybody gets
            return _readiness(False, away, ())
        if authenticator.may_read_reasons(optional_principal(request)):
            return _readiness(state.ready, state.reasons, [*state.notes, *away])
        return _readiness(state.ready, None, away)

    @get("/healthz/metrics", tags=["monitoring"])
    async def healthz_metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
        """Return, for Prometheus and without a token, whether this process is ready.

        With authentication, also whether it can check tokens. A lost file of tokens hides
        `GET /metrics` from a scraper; this route then says that the process still runs.
        """
        authenticator = request.app.state.get("authenticator")
        is_closed = authenticator is not None and await authenticator.rejects_everybody()
        unavailable = {} if authenticator is None else await authenticator.unavailable_methods()
        is_ready = readiness().ready and not (is_closed and needs_tokens)
        families = probe_families(ready=is_ready, unavailable=unavailable)
        return _exposed(MetricList([*families]), request)

    return [healthz, healthz_metrics, readyz]


def _readiness(ready: bool, reasons: Sequence[str] | None, notes: Sequence[str]) -> Response[bytes]:
    """Return the response of /readyz; without reasons where the caller may not read them."""
    body: dict[str, object] = {"ready": ready}
    if reasons is not None:
        body["reasons"] = list(reasons)
    if notes:
        body["notes"] = list(notes)
    return Response(encode(body), media_type=JSON, status_code=200 if ready else 503)


def _exposed(
    registry: CollectorRegistry | MetricList, request: Request[Any, Any, Any]
) -> Response[bytes]:
    text, content_type = exposition(registry, request.headers.get("accept", ""))
    # As a header: Litestar would append a second charset to the media type.
    return Response(text, headers={"Content-Type": content_type})


def monitoring(
    registry: CollectorRegistry, readiness: Callable[[], Readiness], *, needs_tokens: bool = True
) -> list[HTTPRouteHandler]:
    """Return the handlers of health and of /metrics.

    Args:
        registry: the metrics.
        readiness, needs_tokens: as for `health`.
    """

    @get("/metrics", tags=["monitoring"], sync_to_thread=True)
    def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
        """Return every metric for Prometheus."""
        authenticator = request.app.state.get("authenticator")
        caller = request.scope.get(KEY)
        if authenticator is not None and not authenticator.may_read_metrics(caller):
            what = (
                "only administrators and the names in ACCOUNTANT_METRICS_READERS may read metrics"
            )
            raise forbidden(request, "metrics", what)
        return _exposed(registry, request)

    return [*health(readiness, needs_tokens=needs_tokens), metrics]
