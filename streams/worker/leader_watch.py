"""Watch whether the brokers that lead a worker's logs answer, and whether the logs lost records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from aiokafka import TopicPartition

from streams.errors import JournalFault, Refused
from streams.kafka.deployment import Deployment
from streams.kafka.wire.probe import Probe
from streams.telemetry.logs import get_logger
from streams.worker.status import BROKER, Status, broker_away

_log = get_logger(__name__)


class LeaderWatch:
    """Asks the leaders of the logs of partitions for their ends, again and again.

    Args:
        status: receives the brokers that do not answer.
        topics_wrong: checks the topics now; returns whether they are wrong.
    """

    def __init__(
        self, deployment: Deployment, status: Status, topics_wrong: Callable[[], Awaitable[bool]]
    ) -> None:
        names = deployment.topics
        self._logs = (names.decisions, names.state, names.requests, names.admin)
        self._probe = Probe(deployment.cluster, self._logs)
        self._status = status
        self._topics_wrong = topics_wrong
        self._ends: dict[TopicPartition, int] = {}
        self._away: set[int] = set()  # served partitions for which a broker did not answer

    async def look(self, partitions: Iterable[int]) -> set[int]:
        """Return the partitions to replay."""
        status = self._status
        try:
            look = await self._probe.look(
                TopicPartition(topic, partition) for partition in partitions for topic in self._logs
            )
        except (JournalFault, Refused) as error:
            status.trouble(BROKER, broker_away("the broker", error))
            self._away |= status.serving
            return set()
        unreached = {
            tp.partition: broker_away(f"the broker that leads {tp.topic}", why)
            for tp, why in look.silent.items()
        }
        # A missing topic has no end, even if its broker answers.
        wrong = look.misses_topics and await self._topics_wrong()
        status.trouble(BROKER, None)
        status.unreached({} if wrong else unreached)
        if wrong:
            self._away.clear()  # the worker replays all partitions once the topics are right
            return set()
        # After a broker outage, replay the partitions that did not notice it themselves.
        away = (self._away | unreached.keys()) & status.serving
        self._away = away & unreached.keys()
        shrunk = {tp.partition for tp, end in look.ends.items() if end < self._ends.get(tp, 0)}
        self._ends.update(look.ends)
        for partition in shrunk:
            _log.warning("topic_recreated", partition=partition, then="replay")
        return shrunk | away - self._away | await self._cut(status.serving)

    async def _cut(self, serving: Iterable[int]) -> set[int]:
        """Return the partitions whose decisions do not begin at 0; their replay halts them."""
        begins = await self._probe.begins(
            TopicPartition(self._logs[0], number) for number in serving
        )
        cut = {tp.partition: begin for tp, begin in begins.items() if begin > 0}
        for partition, begin in cut.items():
            _log.error("decisions_deleted", partition=partition, begins=begin, then="replay")
        return {*cut}

    def forget(self, partition: int) -> None:
        """Forget the ends of a released partition."""
        self._ends = {tp: end for tp, end in self._ends.items() if tp.partition != partition}

    def close(self) -> None:
        """Disconnect."""
        self._probe.close()
