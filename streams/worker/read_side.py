"""Faust's half of a worker: tables of ledgers and usage.

This module decides nothing. The state of a partition is its processor's where this worker has it,
and otherwise follows the rows and the decisions of another worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import faust
from faust.types import StreamT, TableT
from mode import Service

from accountant.dataset_ledger import DatasetLedger
from accountant.partition import Partition
from accountant.records.encoded_decision import CountedDecision, by_dataset
from accountant.views.counted_decisions import Run, counted_decisions, runs
from accountant.views.usage import Rows
from streams.kafka.deployment import Deployment
from streams.kafka.service.follower.followed_states import FollowedStates
from streams.kafka.service.follower.tail import Tail
from streams.service.live_views import LiveViews
from streams.telemetry.logs import get_logger
from streams.worker.local_decisions import LocalDecisions
from streams.worker.tables import WorkerTables

_log = get_logger(__name__)

RUNS_PER_TURN: Final = 20  # shown before admission, on the same loop, gets its turn
APPLIED_PER_TURN: Final = 50
LEDGERS_PER_TURN: Final = 200
READ_PER_TURN: Final = 200
PAUSE_S: Final = 0.1  # between two polls: the lag of a view
MAX_PAUSE_S: Final = 1.0  # under a high load, update the views less often
PAUSE_FOR_EACH_S: Final = 1e-4
BATCHES_AHEAD: Final = 4  # the channel holds batches: Faust's default of 4096 is gigabytes
_RETRY_S: Final = 1.0


class DecisionBatch(NamedTuple):
    """One message to the agent.

    Attributes:
        ledgers: of a partition's rows.
        own: of `runs`, see `WorkerTables.take_run`.
    """

    partition: int
    ledgers: Sequence[DatasetLedger] = ()
    runs: Mapping[str, Run] = {}
    own: int | None = None


class LocalTable(faust.Table[Any, Any]):
    """A table in memory: no changelog, no recovery, writable outside of agents.

    The two hooks replace those in which Faust publishes a changelog. The decision log is one
    already and every start reads it, so a second copy could only disagree with it.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        """Return a value, without the hook for sensors, since there are none."""
        return self.data.get(key, default)

    def copy(self) -> dict[Any, Any]:
        """Return all values by key. Any thread may call it."""
        return dict(self.data.items())

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
        usage: table of rows by analyst, by dataset, of the decisions since `history_ms` ago.
        views: of the table of ledgers.
    """

    def __init__(self, app: faust.App, deployment: Deployment, *, local: LocalDecisions) -> None:
        self._app = app
        self._local = local
        self._order = asyncio.Lock()  # orders the messages to the feed
        self._feed = app.channel(maxsize=BATCHES_AHEAD)
        self._states = FollowedStates(deployment, on_state=self._show_state)
        ledgers: TableT[str, DatasetLedger] = app.Table("ledgers")
        self.usage: TableT[str, Rows] = app.Table("usage")
        self._tables = WorkerTables(ledgers, self.usage, self._states.counts, self._state)
        self.views = LiveViews(lambda: [ledgers.copy()], ledgers.get, self._states.counts)
        self._tail = Tail(
            deployment,
            rows=self._states.rows,
            on_decisions=self._on_decisions,
            read_on=self._read_on,
            on_end=self._states.reach_end,
            on_lost=self._states.lose,
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

    def _state(self, partition: int) -> Partition | None:
        return self._local.state(partition) or self._states.last_known(partition)

    def _read_on(self) -> dict[int, int]:
        again = self._local.read_on()
        for number in again:
            if self._local.state(number) is None:
                self._states.rows.want(number)
        for number, since in self._states.read_on().items():
            again[number] = min(since, again.get(number, since))
        return again

    async def _show_state(self, state: Partition) -> None:
        ledgers, partition = list(state.ledgers.values()), state.genesis.partition
        for first in range(0, len(ledgers), LEDGERS_PER_TURN):
            batch = DecisionBatch(partition, ledgers=ledgers[first : first + LEDGERS_PER_TURN])
            await self._feed.send(value=batch, partition=partition)

    async def _on_decisions(self, partition: int, values: list[bytes]) -> bool:
        decided, own = list[CountedDecision](), self._local.begun(partition)
        turn = APPLIED_PER_TURN
        if own is not None:
            self._states.leave(partition)  # the processor's is the newer one
            turn = READ_PER_TURN
        for i in range(0, len(values), turn):
            for value in values[i : i + turn]:
                taken = self._states.take(partition, value)
                if taken is not None:
                    decided += counted_decisions(taken[0])
            await asyncio.sleep(0)
        async with self._order:
            await self._send(partition, decided, own=own)
            last = decided[-1].partition_sequence if decided else -1
            return self._local.reach(partition, last)

    async def _take_local(self) -> int:
        """Apply this process's own decisions; return their number."""
        async with self._order:
            taken = self._local.take()
            try:
                for partition, decided in taken.items():
                    await self._send(partition, by_dataset(decided), own=-1)
                    await asyncio.sleep(0)
            except Exception:
                self._local.give_back(taken)
                raise
            return sum(map(len, taken.values()))

    async def _send(
        self, partition: int, decided: Sequence[CountedDecision], *, own: int | None = None
    ) -> None:
        # Send all in one batch: of a run of a dataset only the last state is shown.
        batch = DecisionBatch(partition, runs=runs(decided), own=own)
        await self._feed.send(value=batch, partition=partition)

    def _declare_agent(self) -> None:
        async def follow(stream: StreamT[DecisionBatch]) -> None:
            async for batch in stream:
                number = batch.partition
                for ledger in batch.ledgers:
                    self._tables.take_ledger(number, ledger)
                for n, (name, run) in enumerate(batch.runs.items(), 1):
                    try:
                        self._tables.take_run(number, name, run, own=batch.own)
                    except Exception:
                        # Do not raise: an agent that raises twice in 5 s stops and loses the batch.
                        _log.exception("left_out_of_tables", partition=number, dataset=name)
                    if n % RUNS_PER_TURN == 0:
                        await asyncio.sleep(0)

        agent: Callable[..., Callable[[Callable[..., Awaitable[None]]], Any]] = self._app.agent
        agent(self._feed, name="tables")(follow)
