"""Runs the HTTP server with its pages: of an embedded ledger, and of a ledger on Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Final

from streams.answers import answers_path
from streams.answers.store import AnswerReader
from streams.answers.unanswered import UnansweredQuestions
from streams.answers.untrusted import UntrustedAnswers
from streams.answers.waiting import QuestionQueue
from streams.auth import check_access
from streams.clock import SystemClock
from streams.curator.checked_answers import CheckedAnswers
from streams.curator.metrics import UnansweredMetrics
from streams.curator.start import answers_of_file
from streams.embedded.service import EmbeddedService
from streams.embedded.writer import error_text
from streams.errors import Refused, Unavailable, name_missing_extra
from streams.kafka.log.topic_sink import topic_sink
from streams.kafka.service.connect import connect_kafka
from streams.metrics.analysts import UsageCollector
from streams.metrics.followed import FollowedCollector
from streams.metrics.registry import MetricsCollector, make_registry
from streams.pages import PAGES
from streams.processing.garbage import collect_less
from streams.server.gateway_server import GatewayServer, Listening, ignore_address, run_gateway
from streams.service.ledger_service import LedgerService
from streams.settings import PREFIX, Settings
from streams.sources.no_sources import no_sources
from streams.sources.published_states import PublishedStates
from streams.sources.source_file import open_source_file
from streams.telemetry.logs import get_logger
from streams.telemetry.tracing import check_tracing

_log = get_logger(__name__)
_SWITCH_S: Final = 0.0005


def serve(
    settings: Settings, *, listening: Listening = ignore_address, replace_ledger: bool = False
) -> None:
    """Run an embedded ledger with its HTTP server until SIGINT or SIGTERM.

    Args:
        replace_ledger: as of `EmbeddedService.open`.

    Raises:
        Refused: it cannot start, or the disk failed: an operator must act.
        LogDamaged: the log contradicts itself.
    """
    kind, target = settings.ledger
    if kind != "sqlite":
        raise Refused(
            f"serve needs a ledger in a file, and {PREFIX}URL is {settings.url}: set it to "
            "sqlite:///FILE, or run `accountant gateway`"
        )
    check_access(settings)  # before the ledger is opened, or made
    check_tracing(settings)
    service = EmbeddedService.open(
        Path(target), settings, topic_sink=topic_sink, replace_ledger=replace_ledger
    )
    # The writer's thread releases the GIL at each step of SQLite, and waits this long to get it
    # back while the server is busy; the default is 5 ms.
    sys.setswitchinterval(_SWITCH_S)
    try:
        why = asyncio.run(_serve(service, settings, listening))
    finally:
        service.close_sync()
    if why is not None:
        raise Refused(f"the ledger stopped: {error_text(why)}") from why


async def _serve(
    service: EmbeddedService, settings: Settings, listening: Listening
) -> BaseException | None:
    loop, ended = asyncio.get_running_loop(), list[BaseException]()

    def made(server: GatewayServer) -> None:
        def on_end(why: BaseException) -> None:
            ended.append(why)
            with contextlib.suppress(RuntimeError):  # the loop may already be closed
                loop.call_soon_threadsafe(server.stop)

        service.on_end(on_end)

    def publish(address: str) -> None:
        collect_less()
        service.publish_address(address)
        listening(address)

    path = Path(settings.ledger.target)
    file = open_source_file(settings)
    has_answers = answers_path(path, settings.curator_store).exists()
    sources = file or await no_sources(service, has_answers=has_answers)
    async with answers_of_file(service, path, settings, file) as answered:
        registry = make_registry(
            service.live_ledgers,
            service.alert_counts,
            *service.checkpoint_collectors,
            *answered.collectors,
        )
        await run_gateway(
            service,
            settings,
            registry=registry,
            listening=publish,
            made=made,
            answers=answered.reader,
            queue=answered.queue,
            states=answered.states,
            pages=PAGES,
            sources=sources,
        )
    return ended[0] if ended else None


def serve_kafka(settings: Settings, *, listening: Listening = ignore_address) -> None:
    """Run the HTTP server of a ledger on Kafka until SIGINT or SIGTERM.

    Raises: Refused, Unavailable: the broker cannot be used.
    """
    if settings.ledger.kind != "kafka":
        raise Refused(
            f"gateway needs a ledger on Kafka, and {PREFIX}URL is {settings.url}: set it to "
            "kafka://HOST:PORT, or run `accountant serve`"
        )
    check_access(settings)
    check_tracing(settings)
    with name_missing_extra():  # importing the Kafka client takes a third of a second
        from streams.kafka.deployment import deployment_of
        from streams.kafka.service.answers import AnswerTopic, open_answers

    def ready(address: str) -> None:
        collect_less()
        listening(address)

    async def run() -> None:
        service = await connect_kafka(settings)
        answers: AnswerTopic | None = None
        reader: AnswerReader | None = None
        queue: QuestionQueue | None = None
        states: PublishedStates | None = None
        following: asyncio.Task[None] | None = None
        try:
            try:
                answers = await open_answers(deployment_of(settings))
                if answers is not None:
                    await _check_shown(service, settings)
                    reader = CheckedAnswers(answers, service)
            except Refused as error:
                # It takes requests all the same.
                if answers is not None:
                    await answers.close()
                answers, reader = None, UntrustedAnswers(str(error))
                _log.error("answers_not_trusted", why=str(error))
            collectors = list[MetricsCollector]()
            if answers is not None:
                states = PublishedStates(answers.states)
                unanswered = UnansweredQuestions(service, answers, SystemClock())
                following = asyncio.create_task(unanswered.run(), name="unanswered questions")
                queue = QuestionQueue(unanswered.waiting, note=unanswered.note)
                collectors.append(UnansweredMetrics(unanswered.waiting, SystemClock()))
            service.usage_index.start()
            usage = UsageCollector(service.usage_index, settings.metrics_analysts)
            collectors += [usage, FollowedCollector(service.states.known)]
            registry = make_registry(None, *collectors)
            await run_gateway(
                service,
                settings,
                registry=registry,
                listening=ready,
                answers=reader,
                pages=PAGES,
                queue=queue,
                states=states,
            )
        finally:
            if following is not None:
                following.cancel()
            if answers is not None:
                await answers.close()
            await service.close()

    asyncio.run(run())


async def _check_shown(service: LedgerService, settings: Settings) -> None:
    """Compare the answers of a gateway with their signed heads, as far as it can read them.

    Raises: Refused: the topic is an older copy, or another one.
    """
    from streams.worker.answers_heads import check_shown_answers

    try:
        await check_shown_answers(service, settings)
    except Unavailable as error:
        _log.warning("answers_heads_not_compared", why=str(error))
