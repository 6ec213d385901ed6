"""The check of a ledger on Kafka, read with another client library than the ledger's own."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.faults.oracle.disagreement import agree
from tests.faults.oracle.partition import INPUTS, InputAsSent, Partition
from tests.faults.oracle.rows import Letter, check_letters, check_state
from tests.faults.oracle.texts import millis

STALLED_S = 120.0

Place = tuple[str, int, int]
"""Input, partition, offset."""


class Record(NamedTuple):
    """One record of a topic."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 0
    headers: Mapping[str, str] = {}


def consumer(bootstrap: str, topic: str, partitions: int, *, committed: bool) -> Consumer:
    """Return a consumer of whole partitions, from their beginnings."""
    opened = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"judge-{topic}",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
    opened.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    return opened


def read(
    bootstrap: str, topic: str, partitions: int, *, committed: bool = True, headers: bool = False
) -> list[list[Record]]:
    """Return the present records of each partition of a topic.

    A commit is answered before its markers are in every partition. So a reader of committed
    records waits until the transactions that it finds have ended in this topic too.

    Args:
        headers: read them too, all of which are text; the client library crashes on some others.
    """
    ends = _ends(bootstrap, topic, partitions)
    opened = consumer(bootstrap, topic, partitions, committed=committed)
    found: list[list[Record]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    moved = time.monotonic()
    try:
        while len(ended) < partitions:
            for message in opened.consume(1_000, 0.1):
                moved = time.monotonic()
                if message.error() is None:
                    found[message.partition()].append(_record(message, headers))
                elif message.error().code() != KafkaError._PARTITION_EOF:
                    raise AssertionError(message.error())
                elif message.offset() >= ends[message.partition()]:
                    ended.add(message.partition())
            assert time.monotonic() - moved < STALLED_S, f"{topic} cannot be read to its end"
    finally:
        opened.close()
    return found


def _ends(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """Return the end of each partition, with the records of transactions that have not ended."""
    opened = consumer(bootstrap, topic, partitions, committed=False)
    deadline = time.monotonic() + STALLED_S
    try:
        while True:
            try:
                places = (TopicPartition(topic, number) for number in range(partitions))
                return [opened.get_watermark_offsets(each, STALLED_S)[1] for each in places]
            except KafkaException:  # a new topic, whose leader does not know it yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
    finally:
        opened.close()


def _record(message: Message, headers: bool) -> Record:
    found = {name: value.decode() for name, value in message.headers() or ()} if headers else {}
    value = message.value()
    return Record(message.offset(), message.key(), value, message.timestamp()[1], found)


class Follower:
    """Counts the records of a topic as they become visible, and stores their bytes."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, committed: bool) -> None:
        self._consumer = consumer(bootstrap, topic, partitions, committed=committed)
        self.counts = [0] * partitions
        self.values: list[bytes] = []

    def poll(self, seconds: float) -> None:
        """Read the present records, with a limited wait for the first."""
        for message in self._consumer.consume(2_000, seconds):
            if message.error() is None:
                self.counts[message.partition()] += 1
                self.values.append(message.value())

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


@dataclass
class Verdict:
    """The content of a sound log.

    Attributes:
        decisions: of all partitions, each in order, genesis left out.
        by_place: the same, by the input that each is about.
        inputs: how many records the inputs hold.
        granted: exact sum of the epsilons of granted pure claims, by dataset.
        edges: ids whose outcome depends on the moment at which they were decided.
    """

    decisions: list[dict[str, Any]] = field(default_factory=list)
    by_place: dict[Place, dict[str, Any]] = field(default_factory=dict)
    inputs: int = 0
    granted: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    edges: set[str] = field(default_factory=set)

    @property
    def plain(self) -> Counter[str]:
        """The number of decisions by outcome, without those on `edges`."""
        return Counter(
            decision["outcome"]
            for decision in self.decisions
            if decision.get("request", {}).get("request_id") not in self.edges
        )

    @property
    def outcomes(self) -> Counter[str]:
        """The number of decisions by outcome."""
        return Counter(decision["outcome"] for decision in self.decisions)

    @property
    def reasons(self) -> Counter[str]:
        """The number of decisions by reason."""
        return Counter(d["reason"] for d in self.decisions if d.get("reason"))

    def take(self, partition: Partition) -> None:
        """Add the content of a partition's log."""
        for decision in partition.decisions:
            self.decisions.append(decision)
            source = decision.get("source")
            if source is None:
                continue
            self.by_place[source["topic"], source["partition"], source["offset"]] = decision
            if decision["outcome"] == "granted":
                claim = decision["request"]["claim"]
                if claim["type"] == "pure":
                    self.granted[decision["dataset"]] += amount(claim["epsilon"])


def judge(
    bootstrap: str, prefix: str, partitions: int, *, internal_errors: Collection[Place] = ()
) -> Verdict:
    """Return the content of the log.

    Args:
        internal_errors: inputs whose decision a test has made fail.
    Raises: Disagreement: the log, its state or its dead letters are not as the documents
        predict for the inputs.
    """
    return judge_evidence(gathered(bootstrap, prefix, partitions), internal_errors=internal_errors)


class Evidence(NamedTuple):
    """All records in a ledger's topics, by partition."""

    inputs: dict[str, list[list[Record]]]
    decisions: list[list[Record]]
    state: list[list[Record]]
    dead: list[list[Record]]


def gathered(bootstrap: str, prefix: str, partitions: int) -> Evidence:
    """Read all topics of a ledger; the inputs like their readers do, uncommitted ones included."""
    return Evidence(
        {name: read(bootstrap, prefix + name, partitions, committed=False) for name in INPUTS},
        read(bootstrap, f"{prefix}decisions", partitions),
        read(bootstrap, f"{prefix}state", partitions),
        read(bootstrap, f"{prefix}dead-letters", partitions, headers=True),
    )


def judge_evidence(
    evidence: Evidence,
    *,
    internal_errors: Collection[Place] = (),
    appended: Mapping[Place, int] = MappingProxyType({}),
) -> Verdict:
    """Check the records; see `judge`.

    Args:
        appended: when an input was taken in, where a test had it taken in at another time than
            the broker has stamped it with.
    """
    verdict = Verdict()
    for number, records in enumerate(evidence.decisions):
        inputs = {
            source: [
                _given(record, appended.get((source, number, record.offset), record.timestamp))
                for record in evidence.inputs[source][number]
            ]
            for source in INPUTS
        }
        errors = frozenset((source, at) for source, where, at in internal_errors if where == number)
        partition = Partition(number, inputs, errors)
        for record in records:
            said = partition.take(record.value or b"")
            sent = partition.last
            agree("key", record.key, sent.key if sent else None, (number, record.offset))
            agree("timestamp", record.timestamp, millis(said["decided_at"]), record.offset)
        partition.finish()
        rows = {record.key: record.value for record in evidence.state[number]}
        check_state(partition, {key: value for key, value in rows.items() if key and value})
        letters = [Letter(each.key, each.value, each.headers) for each in evidence.dead[number]]
        check_letters(partition, letters, kafka=True)
        verdict.inputs += sum(map(len, inputs.values()))
        verdict.take(partition)
    return verdict


def _given(record: Record, at: int) -> InputAsSent:
    # The broker stamps an input as it appends it, and that is the time that counts.
    return InputAsSent(record.offset, record.key, record.value, (at, at))


@lru_cache(maxsize=4096)
def amount(text: str) -> Fraction:
    """Return the exact value of an amount on the wire."""
    return Fraction(text)
