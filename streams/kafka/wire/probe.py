"""Check whether the brokers that lead a worker's logs answer, and read where those logs end."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.protocol.offset import OffsetRequest

from streams.errors import JournalFault
from streams.kafka.wire.brokers import NOBODY, Brokers
from streams.kafka.wire.errors import translate_error, translate_errors
from streams.kafka.wire.security import Cluster

_POLL_S: Final = 4.0
# The timeout also closes the connection; otherwise we would keep asking over a dead one.
_REQUEST_TIMEOUT_MS: Final = 1_500
_RETRY_S: Final = 0.1
_NO_REPLICA: Final = -1
_READ_UNCOMMITTED: Final = 0
_END: Final = -1
_BEGIN: Final = -2
_LATE: Final = "no answer in time"
_UNKNOWN: Final = kafka.UnknownTopicOrPartitionError.__name__
_NO_LEADER: Final = {None: _UNKNOWN, NOBODY: "it has no leader"}


class LogEnds:
    """The result of one probe of some logs.

    Attributes:
        ends: the high watermark of each log whose leader answered.
        silent: for each other log, why its leader's answer is missing.
        reached: whether any broker answered anything.
    """

    def __init__(self, tps: Iterable[TopicPartition]) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.silent = dict.fromkeys(tps, _LATE)
        self.reached = False

    def is_done(self) -> bool:
        """Return whether there is nothing left to ask."""
        return self.reached and not self.silent

    @property
    def misses_topics(self) -> bool:
        """Whether a broker has answered that a log it was asked for does not exist."""
        return _UNKNOWN in self.silent.values()

    def record(self, tp: TopicPartition, code: int, end: int) -> None:
        """Record a leader's answer."""
        self.reached = True
        if code:
            self.silent[tp] = kafka.for_code(code).__name__
        else:
            self.ends[tp] = end
            self.silent.pop(tp, None)


class Probe:
    """Asks each leader separately, so that a broker that hangs delays no answer of the others.

    The probe stays connected, because finding brokers is slow while one hangs. It reconnects when
    no broker answers, because their addresses may have changed.

    Args:
        cluster: the brokers.
        topics: the topics of all logs that a probe may ask for.
    """

    def __init__(self, cluster: Cluster, topics: Iterable[str]) -> None:
        self._cluster = cluster
        self._topics = frozenset(topics)
        self._brokers: Brokers | None = None

    async def look(self, tps: Iterable[TopicPartition]) -> LogEnds:
        """Ask for the ends of logs, for four seconds at most.

        Raises: JournalFault, Refused: no broker answers.
        """
        look = LogEnds(tps)
        try:
            with translate_errors():
                async with asyncio.timeout(_POLL_S):
                    await self._ask_until_answered(look)
        except JournalFault:
            if not look.reached:
                raise
        finally:
            if not look.reached:
                self.close()
        return look

    async def begins(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where logs begin, as far as their leaders answer now; call `look` before."""
        brokers = self._brokers
        if brokers is None:
            return {}
        by_leader = defaultdict[int, list[TopicPartition]](list)
        for tp in tps:
            if (leader := brokers.leads(tp)) not in {None, NOBODY}:
                by_leader[leader].append(tp)
        look = LogEnds(())
        asking = [_ask(brokers, leader, some, look, _BEGIN) for leader, some in by_leader.items()]
        await asyncio.gather(*asking)
        return look.ends

    def close(self) -> None:
        """Disconnect; the next probe connects again."""
        brokers, self._brokers = self._brokers, None
        if brokers is not None:
            brokers.close()

    async def _ask_until_answered(self, look: LogEnds) -> None:
        if self._brokers is None:
            self._brokers = Brokers(self._cluster, "probe", _REQUEST_TIMEOUT_MS)
            await self._brokers.connect()
            look.reached = True
            self._brokers.learn(self._topics)
        brokers = self._brokers
        while not look.is_done():
            by_leader = defaultdict[int, list[TopicPartition]](list)
            unled = []
            for tp in look.silent:
                leader = brokers.leads(tp)
                if leader is None or leader == NOBODY:
                    unled.append(tp)
                else:
                    by_leader[leader].append(tp)
            asking = [_ask(brokers, leader, tps, look) for leader, tps in by_leader.items()]
            await asyncio.gather(*asking)
            if look.is_done():
                return
            await asyncio.sleep(_RETRY_S)
            if await brokers.refresh():
                look.reached = True
                look.silent.update({tp: _NO_LEADER.get(brokers.leads(tp), _LATE) for tp in unled})


async def _ask(
    brokers: Brokers, leader: int, tps: list[TopicPartition], look: LogEnds, what: int = _END
) -> None:
    """Ask one broker for the ends of logs that it leads, or for `what` else of them."""
    by_topic = defaultdict[str, list[tuple[int, int]]](list)
    for tp in tps:
        by_topic[tp.topic].append((tp.partition, what))
    request = OffsetRequest(_NO_REPLICA, _READ_UNCOMMITTED, list(by_topic.items()))
    try:
        answer = await brokers.ask(leader, request)
    except (kafka.KafkaError, TimeoutError, OSError) as error:
        look.silent.update(dict.fromkeys(tps, str(translate_error(error))))
        return
    for topic, partitions in answer.topics:
        for number, code, _, end in partitions:
            look.record(TopicPartition(topic, number), code, end)
