"""Faust's half of a worker: tables of budgets and usage, and the alerts that they give rise to.

Nothing here decides anything. A record that is lost or comes twice heals by itself, since
every decision carries running totals and its dataset's sequence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import faust
from faust.types import StreamT, TableT
from mode import Service

from accountant.following import Following, Run, runs
from accountant.records import Snapshot, encode
from accountant.usage import Usage
from accountant.views import Alert, DatasetView
from streams.kafka.tail import Tail
from streams.loggers import get_logger
from streams.topics import Deployment

_log = get_logger(__name__)

RUNS_PER_TURN: Final = 20  # folded before admission, on the same loop, gets its turn
VALUES_PER_TURN: Final = 500
PAUSE_S: Final = 0.1  # between two looks: a view may be so much behind
BATCHES_AHEAD: Final = 8  # the channel holds batches: Faust's default of 4096 is gigabytes
ALERTS_AHEAD: Final = 1_000
_AGAIN_S: Final = 1.0


class Batch(NamedTuple):
    """What the tail hands to the agent at a time."""

    partition: int
    rows: Sequence[Snapshot] = ()
    runs: Mapping[str, Run] = {}


class LocalTable(faust.Table[Any, Any]):
    """A table in memory: no changelog, no recovery, writable wherever a record is at hand.

    The two hooks are where Faust publishes the changelog. The decision log is one already, and
    every start reads it, so a second copy could only disagree with it.
    """

    def on_key_set(self, key: Any, value: Any) -> None:
        self.app.sensors.on_table_set(self, key, value)

    def on_key_del(self, key: Any) -> None:
        self.app.sensors.on_table_del(self, key)


class ReadSide:
    """The tables of one worker.

    Attributes:
        budgets: DatasetView by dataset.
        usage: Usage by (dataset, analyst), of the decisions since `history_ms` ago.
    """

    def __init__(self, app: faust.App, deployment: Deployment) -> None:
        self._app = app
        self._feed = app.channel(maxsize=BATCHES_AHEAD)
        self._crossings = app.channel(maxsize=ALERTS_AHEAD)
        self.budgets: TableT[str, DatasetView] = app.Table("budgets")
        self.usage: TableT[tuple[str, str], Usage] = app.Table("usage")
        self._following = Following(self.budgets, self.usage)
        self._tail = Tail(
            deployment,
            on_snapshot=self._on_snapshot,
            on_decisions=self._on_decisions,
            history_ms=deployment.window_ms,
            pause=PAUSE_S,
        )
        self._declare_agents(deployment)
        self._declare_service()

    def _declare_service(self) -> None:
        read_side = self

        @self._app.service
        class Reading(Service):
            """Feeds the agents from the tail."""

            async def on_start(self) -> None:
                # Channels stay shut until then; Faust opens them after its own consumer's
                # assignment, and there is no such consumer.
                read_side._app.flow_control.resume()

            @Service.task
            async def _read(self) -> None:
                while not self.should_stop:
                    try:
                        await read_side._tail.run()
                    except Exception:
                        # Views are worth less than admission: the worker goes on.
                        _log.exception("read_side_interrupted", again_in_seconds=_AGAIN_S)
                    await self.sleep(_AGAIN_S)

    async def _on_snapshot(self, partition: int, row: Snapshot) -> None:
        await self._feed.send(value=Batch(partition, rows=[row]), partition=partition)

    async def _on_decisions(self, partition: int, values: list[bytes]) -> None:
        for i in range(0, len(values), VALUES_PER_TURN):
            batch = Batch(partition, runs=runs(values[i : i + VALUES_PER_TURN]))
            await self._feed.send(value=batch, partition=partition)
            await asyncio.sleep(0)

    def _declare_agents(self, deployment: Deployment) -> None:
        topic = self._app.topic(
            deployment.topics.alerts, key_serializer="raw", value_serializer="raw"
        )

        async def fold(stream: StreamT[Batch]) -> None:
            async for batch in stream:
                for row in batch.rows:
                    await self._taken(batch.partition, row.dataset, self._following.take_row, row)
                for n, (name, run) in enumerate(batch.runs.items(), 1):
                    take = self._following.take_run
                    await self._taken(batch.partition, name, take, name, run)
                    if n % RUNS_PER_TURN == 0:
                        await asyncio.sleep(0)

        async def publish(stream: StreamT[Alert]) -> None:
            async for event in stream.events():
                # Bounded by the channel, which then holds the tail back; ended by cancelling.
                while True:
                    if await self._delivered(topic, event.value, event.message.partition):
                        break
                    await asyncio.sleep(_AGAIN_S)

        agent: Callable[..., Callable[[Callable[..., Awaitable[None]]], Any]] = self._app.agent
        agent(self._feed, name="budgets")(fold)
        agent(self._crossings, name="alerts")(publish)

    async def _taken(
        self, partition: int, dataset: str, take: Callable[..., Iterable[Alert]], *what: object
    ) -> None:
        try:
            crossed = take(*what)
        except Exception:
            # An agent that raises twice in 5 s stands still and loses the batch.
            _log.exception("left_out_of_tables", partition=partition, dataset=dataset)
            return
        for alert in crossed:
            await self._crossings.send(value=alert, partition=partition)

    async def _delivered(self, topic: Any, alert: Alert, partition: int) -> bool:
        app: Any = self._app
        try:
            if not app.producer.started:
                await app.add_runtime_dependency(app.producer)
            key, value = alert.dataset.encode(), encode(alert)
            await (await topic.send(key=key, value=value, partition=partition))
        except Exception as error:
            _log.warning("alert_not_delivered", alert=alert.alert_id, why=repr(error))
            # A producer whose start failed counts as started for ever: replace it.
            await app.remove_dependency(app.producer)
            app.producer = app.transport.create_producer(loop=app.loop, beacon=app.beacon)
            return False
        return True
