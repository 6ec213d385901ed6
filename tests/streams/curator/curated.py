"""A ledger in a file with one dataset, its data in a CSV file, and a curator."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from accountant.answers import NoisyAnswer, decode_answer
from accountant.partition import hash_of
from accountant.questions import Schema
from streams.answers import SqliteAnswers, StoredAnswer, answers_path
from streams.answers.granted import GrantedQuestion
from streams.clock import SystemClock
from streams.curator.answering import Answering, OpenQuestion
from streams.curator.curator import Curator, CuratorOptions
from streams.curator.data_answering import DataAnswering
from streams.curator.draw_guard import DrawGuard
from streams.embedded.answer_heads import accept_answers, heads_of, signing_heads
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from streams.sources import DataSources
from streams.sources.source_access import SourceAccess
from streams.sources.source_settings import CsvSource, SourceSettings
from streams.sources.source_states import SourceStates
from tests.faults.ledger import new_id, opening
from tests.patience import PATIENCE_S

ROWS: Final = 400
SCHEMA: Final = {
    "source": {"kind": "csv", "name": "census"},
    "columns": [
        {"type": "number", "name": "age", "lower": "0", "upper": "120"},
        {"type": "category", "name": "region", "categories": ["north", "south"]},
    ],
    "neighbours": "add_remove",
}
_KEY: Final = b"k" * 32
_NOTHING_SIGNED: Final = Settings(checkpoints="off")
_OPTIONS: Final = CuratorOptions(tick=0.05)


def write_data(path: Path, rows: int = ROWS) -> None:
    """Write a CSV file of so many people, half of them in the north."""
    lines = [f"{20 + i % 60},{'north' if i % 2 else 'south'}" for i in range(rows)]
    path.write_text("age,region\n" + "\n".join(lines) + "\n")


def opened(dataset: str, *, schema: object = SCHEMA, **policy: str) -> bytes:
    """Return the opening of a dataset with a schema."""
    body = json.loads(opening(dataset, **({"epsilon": "1000", "filter": "basic"} | policy)))
    return json.dumps(body | {"schema": schema}).encode()


def question(dataset: str = "census", *, epsilon: str = "1", **more: Any) -> bytes:
    """Return a request with a question, by default a count of all rows."""
    body = {
        "version": 1,
        "type": "request",
        "request_id": new_id(),
        "analyst": "ana",
        "dataset": dataset,
        "question": {"ask": "count"},
        "noise": {"epsilon": epsilon},
        **more,
    }
    return json.dumps(body).encode()


def session(dataset: str = "census", *, until: str = "PT1H") -> bytes:
    """Return a request for a session that stops at a relative error."""
    return question(
        dataset,
        noise={"epsilon": "1", "law": "laplace_reduction"},
        stop={"relative_error": "0.5", "confidence": "0.95"},
        reserve={"until": until},
    )


def member(name: str, *roles: str, dataset: str = "census") -> bytes:
    """Return the record that makes somebody a member, or ends that without a role."""
    body = {"version": 1, "type": "member", "request_id": new_id(), "dataset": dataset}
    return json.dumps(body | {"by": "owner", "member": name, "roles": roles}).encode()


def brake(kind: str, **more: str) -> bytes:
    """Return the record that pauses or resumes the dataset, or somebody of it."""
    body = {"version": 1, "type": kind, "request_id": new_id(), "dataset": "census"}
    return json.dumps(body | {"by": "owner", **more}).encode()


async def comes_true(
    condition: Callable[[], Awaitable[object]], *, seconds: float = PATIENCE_S
) -> bool:
    """Tell whether a condition holds within a time, for what a bug would delay for ever."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if await condition():
            return True
        await asyncio.sleep(0.05)
    return False


class Counting:
    """An `Answering` that counts the draws of each grant, and may break some.

    Args:
        breaks: called before each draw, in its thread.
    """

    def __init__(
        self, answering: Answering, breaks: Callable[[GrantedQuestion], None] = lambda _: None
    ) -> None:
        self._answering = answering
        self._breaks = breaks
        self.draws = list[str]()
        self.failed, self.is_failed = answering.failed, answering.is_failed
        self.shown = answering.shown

    def open(self, question: GrantedQuestion, schema: Schema, guard: DrawGuard) -> OpenQuestion:
        return _Counted(self, question, self._answering.open(question, schema, guard))

    def before_draw(self, question: GrantedQuestion) -> None:
        self.draws.append(question.grant)
        self._breaks(question)


class _Counted:
    """An `OpenQuestion` whose draw `Counting` counts."""

    def __init__(self, counting: Counting, question: GrantedQuestion, opened: OpenQuestion) -> None:
        self._counting = counting
        self._question = question
        self._opened = opened
        self.close = opened.close

    def draw(self) -> bytes:
        self._counting.before_draw(self._question)
        return self._opened.draw()


class CuratedLedger:
    """The files of a ledger, of its data and of its answers; `open` opens the ledger."""

    def __init__(
        self,
        directory: Path,
        service_class: type[EmbeddedService] = EmbeddedService,
        settings: Settings = _NOTHING_SIGNED,
    ) -> None:
        self.settings = settings
        self.directory = directory
        self._service_class = service_class
        self.data = directory / "census.csv"
        self.store_path = directory / "ledger.db.answers"
        write_data(self.data)
        self.states: SourceStates | None = None
        self.use({"census": CsvSource(path=str(self.data))})
        self.service: EmbeddedService
        self.store: SqliteAnswers

    def use(self, sources: Mapping[str, SourceSettings]) -> None:
        """Have the next curator read these sources."""
        self.sources = sources
        self._data = DataSources(sources)
        self.answering = Counting(DataAnswering(self._data, _KEY))
        self.access = SourceAccess(sources, "population")

    def use_now(self, sources: Mapping[str, SourceSettings]) -> None:
        """Have the curator that runs read these sources, as after a change of their file."""
        self._data.use(sources)
        self.access.use(sources)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Open ledger and store, and the dataset if it is not open."""
        self.service = self._service_class.open(self.directory / "ledger.db", self.settings)
        ledger = self.directory / "ledger.db"
        self.heads = signing_heads(ledger, self.settings, SystemClock(), None)
        beside = answers_path(ledger, None)
        self.store = SqliteAnswers.open(self.store_path, self.heads, beside=beside)
        try:
            yield
        finally:
            await self.store.close()
            await asyncio.to_thread(self.heads.close)
            await self.service.close()

    @property
    def mark(self) -> Path:
        """The mark that earlier versions wrote beside the ledger."""
        return self.directory / "ledger.db.answers.mark"

    def lose_answers(self) -> None:
        """Remove the closed store's files, and accept that, as an operator does."""
        for each in self.directory.glob("ledger.db.answers*"):
            each.unlink()
        self.accept_answers()

    def accept_answers(self) -> None:
        """Accept the answers of the closed ledger as all there are."""
        path = self.directory / "ledger.db"
        accept_answers(path, self.store_path, heads_of(path, self.settings))

    async def id(self) -> str:
        """Return the ledger's id."""
        (head,) = await self.service.heads()
        return head.ledger

    async def send(self, body: bytes, source: Any = "requests") -> dict[str, Any]:
        """Send a record, and return its decision with its hash as `hash`."""
        answer = await self.service.submit(source, body, wait=60)
        assert answer.decision is not None
        decision: dict[str, Any] = json.loads(answer.decision)
        return decision | {"hash": hash_of(answer.decision)}

    async def ask(self, body: bytes) -> str:
        """Send a request that is granted, and return the grant's hash."""
        decision = await self.send(body)
        assert decision["outcome"] in {"granted", "reserved"}, decision
        return str(decision["hash"])

    @contextlib.asynccontextmanager
    async def curated(
        self, answering: Answering | None = None, options: CuratorOptions = _OPTIONS
    ) -> AsyncIterator[Curator]:
        """Run a curator for the length of the block, and stop it as a server does."""
        answering = answering or self.answering
        curator = Curator(
            self.service, self.store, answering, options, access=self.access, states=self.states
        )
        await curator.open()
        task = asyncio.create_task(curator.run())
        try:
            yield curator
        finally:
            curator.stop()
            await asyncio.wait({task}, timeout=PATIENCE_S)
            task.cancel()
            await task

    async def stored(self, grant: str) -> StoredAnswer:
        """Wait for the answer of a grant."""
        coming = self.store.subscribe()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while (found := await self.store.get(grant)) is None:
                    await anext(coming)
        finally:
            coming.close()
        return found

    async def answer(self, grant: str) -> NoisyAnswer:
        """Wait for the answer of a grant, and decode it."""
        return decode_answer((await self.stored(grant)).value)
