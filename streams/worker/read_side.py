"""Faust's half of a worker: tables of budgets and usage.

This module decides nothing. A lost or repeated record repairs itself, since every decision carries
running totals and its dataset's sequence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import faust
from faust.types import StreamT, TableT
from mode import Service

from accountant.errors import MadeByOtherVersion
from accountant.ledger.snapshots import snapshot
from accountant.records import Snapshot
from accountant.records.encoded_decision import CountedDecision, by_dataset
from accountant.records.header import decode_header
from accountant.replay.follow import FollowedPartition
from accountant.replay.replay import StateMismatch
from accountant.views.datasets import DatasetView
from accountant.views.follow import Run, ViewFolder, counted_decisions, runs
from accountant.views.usage import Rows
from streams.kafka.deployment import Deployment
from streams.kafka.service.follower.state_rows import StateRowsReader
from streams.kafka.service.follower.tail import Tail
from streams.telemetry.logs import get_logger
from streams.worker.local_decisions import LocalDecisions

_log = get_logger(__name__)

RUNS_PER_TURN: Final = 20  # applied before admission, on the same loop, gets its turn
VALUES_PER_TURN: Final = 200
PAUSE_S: Final = 0.1  # between two polls: the lag of a view
MAX_PAUSE_S: Final = 1.0  # under a high load, update the views less often
PAUSE_FOR_EACH_S: Final = 1e-4
BATCHES_AHEAD: Final = 4  # the channel holds batches: Faust's default of 4096 is gigabytes
_RETRY_S: Final = 1.0


class DecisionBatch(NamedTuple):
    """One message from the tail to the agent."""

    partition: int
    rows: Sequence[Snapshot] = ()
    runs: Mapping[str, Run] = {}


class LocalTable(faust.Table[Any, Any]):
    """A table in memory: no changelog, no recovery, writable outside of agents.

    The two hooks replace those in which Faust publishes a changelog. The decision log is one
    already and every start reads it, so a second copy could only disagree with it.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        """Return a value, without the hook for sensors, since there are none."""
        return self.data.get(key, default)

    def on_key_set(self, key: Any, value: Any) -> None:
        self.app.sensors.on_table_set(self, key, value)

    def on_key_del(self, key: Any) -> None:
        self.app.sensors.on_table_del(self, key)


async def keep_on(service: Service, run: Callable[[], Awaitable[None]], event: str) -> None:
    """Run until the service stops, and restart after each error: admission matters more."""
    while not service.should_stop:
        try:
            await run()
        except Exception:
            _log.exception(event, again_in_seconds=_RETRY_S)
        await service.sleep(_RETRY_S)


class ReadSide:
    """The tables of one worker.

    Args:
        local: its own decisions, which it does not read back from the log.

    Attributes:
        budgets: DatasetView by dataset.
        usage: rows by analyst, by dataset, of the decisions since `history_ms` ago.
    """

    def __init__(self, app: faust.App, deployment: Deployment, *, local: LocalDecisions) -> None:
        self._app = app
        self._local = local
        self._order = asyncio.Lock()  # orders the messages to the feed
        self._feed = app.channel(maxsize=BATCHES_AHEAD)
        self.budgets: TableT[str, DatasetView] = app.Table("budgets")
        self.usage: TableT[str, Rows] = app.Table("usage")
        self._following = ViewFolder(self.budgets, self.usage)
        self._tail = Tail(
            deployment,
            rows=StateRowsReader(deployment, self._on_rows),
            on_decisions=self._on_decisions,
            read_on=local.read_on,
            history_ms=deployment.window_ms,
            pause=lambda: asyncio.sleep(PAUSE_S),
        )
        self._declare_agent()
        self._declare_service()

    def _declare_service(self) -> None:
        read_side = self

        @self._app.service
        class Reading(Service):
            """Feeds the agent from the tail."""

            async def on_start(self) -> None:
                # Faust opens channels after its own consumer's assignment. There is no such
                # consumer, so open them here.
                read_side._app.flow_control.resume()

            @Service.task
            async def _read(self) -> None:
                await keep_on(self, read_side._tail.run, "read_side_interrupted")

            @Service.task
            async def _take_local(self) -> None:
                taken = 0
                while not self.should_stop:
                    pause = max(PAUSE_S, min(taken * PAUSE_FOR_EACH_S, MAX_PAUSE_S))
                    await read_side._local.wait(pause)
                    try:
                        taken = await read_side._take_local()
                    except Exception:
                        _log.exception("left_out_of_tables")

    async def _on_rows(self, partition: int, rows: Mapping[bytes, bytes]) -> bool:
        """Hand on a partition's datasets, once its rows are all there."""
        try:
            # In a thread: admission shares this loop.
            found = await asyncio.to_thread(FollowedPartition.from_rows, partition, rows.items())
        except (StateMismatch, MadeByOtherVersion) as error:
            if rows:
                _log.warning("state_not_taken", partition=partition, why=str(error), then="retry")
            return False
        datasets = list(map(snapshot, found.state.ledgers.values()))
        for first in range(0, len(datasets), VALUES_PER_TURN):
            batch = DecisionBatch(partition, rows=datasets[first : first + VALUES_PER_TURN])
            await self._feed.send(value=batch, partition=partition)
        return True

    async def _on_decisions(self, partition: int, values: list[bytes]) -> bool:
        decided: list[CountedDecision] = []
        for i in range(0, len(values), VALUES_PER_TURN):
            some = values[i : i + VALUES_PER_TURN]
            for value in some:
                decided += counted_decisions(decode_header(value), value)
            await asyncio.sleep(0)
        async with self._order:
            await self._send(partition, decided)
            last = decided[-1].partition_sequence if decided else -1
            return self._local.reach(partition, last)

    async def _take_local(self) -> int:
        """Apply this process's own decisions; return their number."""
        async with self._order:
            taken = self._local.take()
            try:
                for partition, decided in taken.items():
                    await self._send(partition, by_dataset(decided))
                    await asyncio.sleep(0)
            except Exception:
                self._local.give_back(taken)
                raise
            return sum(map(len, taken.values()))

    async def _send(self, partition: int, decided: Sequence[CountedDecision]) -> None:
        # Send all in one batch: longer runs of a dataset need fewer full decodes.
        batch = DecisionBatch(partition, runs=runs(decided))
        await self._feed.send(value=batch, partition=partition)

    def _declare_agent(self) -> None:
        async def fold(stream: StreamT[DecisionBatch]) -> None:
            async for batch in stream:
                for row in batch.rows:
                    self._taken(batch.partition, row.dataset, self._following.take_row, row)
                for n, (name, run) in enumerate(batch.runs.items(), 1):
                    self._taken(batch.partition, name, self._following.take_run, name, run)
                    if n % RUNS_PER_TURN == 0:
                        await asyncio.sleep(0)

        agent: Callable[..., Callable[[Callable[..., Awaitable[None]]], Any]] = self._app.agent
        agent(self._feed, name="budgets")(fold)

    def _taken(
        self, partition: int, dataset: str, take: Callable[..., None], *what: object
    ) -> None:
        try:
            take(*what)
        except Exception:
            # Do not raise: an agent that raises twice in 5 s stops and loses the batch.
            _log.exception("left_out_of_tables", partition=partition, dataset=dataset)
