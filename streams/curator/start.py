"""Makes the curator that the settings describe, and runs it beside a server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from accountant.errors import BudgetError
from streams.answers import AnswerReader, AnswerStore, SqliteAnswers, answers_path
from streams.answers.heads import AnswerHeads
from streams.answers.published_states import StatePublisher
from streams.answers.store import refusing_damage
from streams.answers.untrusted import UntrustedAnswers
from streams.answers.waiting import QuestionQueue
from streams.clock import SystemClock
from streams.curator.checked_answers import CheckedAnswers
from streams.curator.counts import CuratorCounts
from streams.curator.curator import Curator, CuratorOptions
from streams.errors import Refused, Unavailable, name_missing_extra
from streams.files.temporary_directories import SPILL, remove_abandoned_directories
from streams.service.ledger_service import LedgerService
from streams.settings import PREFIX, Settings
from streams.sources.source_file import SourceFile
from streams.telemetry.logs import get_logger

if TYPE_CHECKING:
    from streams.metrics.registry import MetricsCollector
    from streams.sources.source_states import SourceStates

_log = get_logger(__name__)


def make_curator(
    service: LedgerService,
    store: AnswerStore,
    settings: Settings,
    publisher: StatePublisher | None = None,
    file: SourceFile | None = None,
) -> Curator:
    """Return the curator that the settings describe.

    Args:
        publisher: where servers without data read which questions to refuse.
        file: of the sources, where this process has read it.

    Raises: Refused: there are no data sources, they or the key cannot be read, or the extra
        `answers` is not installed.
    """
    if settings.data_sources is None:
        raise Refused(f"set {PREFIX}DATA_SOURCES to the file that says where the data are")
    file = file or SourceFile(settings.data_sources, settings, reads=True)
    with name_missing_extra():
        from streams.curator.data_answering import DataAnswering
        from streams.sources import default_key_path, load_contribution_key, make_data_sources
        from streams.sources.confirmed_facts import ConfirmedFacts, confirmed_path
        from streams.sources.source_states import SourceStates

        remove_abandoned_directories(SPILL)
        path = settings.data_sources_confirmed or confirmed_path(settings.data_sources)
        sources = make_data_sources(path, file.sources)
    file.on_change(sources.use)
    key = settings.data_sources_key or default_key_path(settings.data_sources)
    answering = DataAnswering(sources, load_contribution_key(key))
    options = CuratorOptions(
        name=settings.curator_name,
        tick=settings.curator_tick_seconds,
        turn_seconds=settings.curator_turn_seconds,
        at_once=settings.curator_parallel,
    )
    states = SourceStates(sources, ConfirmedFacts(path), sources.is_unreadable)
    return Curator(
        service,
        store,
        answering,
        options,
        access=file.access,
        file=file,
        read_ahead=sources,
        states=states,
        publisher=publisher,
    )


class LedgerInFile(LedgerService, Protocol):
    """A service that names the head of its answers in its own file."""

    def answer_heads(self, settings: Settings) -> AnswerHeads:
        """Return where the heads of the answers stand; the caller closes it."""
        ...


@dataclass(frozen=True, slots=True)
class Answered:
    """What a server of a ledger in a file has of its answers.

    Attributes:
        reader: None where the ledger has no answers.
        collectors: of the curator's metrics.
        queue: the questions that wait; None where nobody runs any.
        states: what the sources of questions are known to lack; None where nobody runs any.
    """

    reader: AnswerReader | None = None
    collectors: tuple[MetricsCollector, ...] = ()
    queue: QuestionQueue | None = None
    states: SourceStates | None = None


@contextlib.asynccontextmanager
async def answers_of_file(
    service: LedgerInFile, ledger: Path, settings: Settings, file: SourceFile | None = None
) -> AsyncIterator[Answered]:
    """Read the answers of a ledger's file, and run its questions if there are data sources.

    Args:
        file: of the sources, where this process has read it.

    Without a store that can be trusted the ledger decides on: no question runs, no answer is shown,
    and `trouble` of the reader says what to do.

    Raises: Refused: as `make_curator`.
    """
    path = answers_path(ledger, settings.curator_store)
    if settings.data_sources is None and not path.exists():
        yield Answered()
        return
    # Beside the ledger, so that a second store of one ledger is noticed, too.
    beside = answers_path(ledger, None)
    heads = service.answer_heads(settings)
    untrusted: Answered | None = None
    try:
        try:
            store = SqliteAnswers.open(path, heads, beside=beside)
        except Refused as error:
            untrusted = _without(error)
        if untrusted is not None:
            yield untrusted
            return
        async with _answered(store, service, settings, file) as answered:
            yield answered
    finally:
        await asyncio.to_thread(heads.close)


@contextlib.asynccontextmanager
async def _answered(
    store: SqliteAnswers, service: LedgerInFile, settings: Settings, file: SourceFile | None
) -> AsyncIterator[Answered]:
    untrusted: Answered | None = None
    try:
        has_data = settings.data_sources is not None
        curator = make_curator(service, store, settings, file=file) if has_data else None
        try:
            if curator is None:
                await _check(store, service)
            else:
                await curator.open()  # before the server takes the first question
        except Unavailable as error:
            untrusted = _without(Refused(f"{error}. Free the disk, or make it writable"))
        except BudgetError as error:
            untrusted = _without(error)
        if untrusted is not None:
            yield untrusted
            return
        if curator is None:
            yield Answered(CheckedAnswers(store, service, store.is_linked))
            return
        from streams.curator.metrics import CuratorMetrics

        async with _running(curator, store):
            metrics = CuratorMetrics(curator.counts, SystemClock())
            reader = CheckedAnswers(store, service, store.is_linked)
            yield Answered(reader, (metrics,), curator.queue(), curator.states)
    finally:
        await store.close()


async def _check(store: SqliteAnswers, service: LedgerService) -> None:
    """Compare answers that this server only shows with their heads.

    Raises: Refused: they differ. Unavailable.
    """
    (head,) = await service.heads()
    with refusing_damage():
        await store.check(0, head.ledger)


def _without(error: BudgetError) -> Answered:
    """Return what a server has whose answers cannot be trusted."""
    from streams.curator.metrics import CuratorMetrics

    reader = UntrustedAnswers(str(error))
    _log.error("answers_not_trusted", why=str(error), then="requests are decided, none is answered")
    return Answered(reader, (CuratorMetrics(CuratorCounts(is_running=False), SystemClock()),))


@contextlib.asynccontextmanager
async def _running(curator: Curator, store: AnswerStore) -> AsyncIterator[None]:
    task = asyncio.create_task(run_curator(curator, store), name="curator")
    try:
        yield
    finally:
        curator.stop()
        await asyncio.wait({task})


async def run_curator(curator: Curator, store: AnswerStore) -> None:
    """Run a curator that is open until it stops.

    The ledger decides on if this ends early: its questions wait for the next start, and `trouble`
    of the store says so, and what to do before.
    """
    try:
        await curator.run()
    except* BudgetError as group:
        _end(store, str(first_error(group)))
    except* Exception as group:
        # A defect. Only the type, since a message may hold data.
        _end(store, f"report this defect, {type(first_error(group)).__name__}")


def _end(store: AnswerStore, why: str) -> None:
    _log.error("curator_ended", why=why, then="questions wait; requests are decided")
    store.trouble = f"questions get no answers: {why}. Once that is done, start the server again"


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error in a group, whose groups may be nested."""
    first = group.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first
