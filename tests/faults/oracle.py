"""An independent judge of a ledger on Kafka.

It reads with another client library, adds fractions, and imports nothing of what it judges.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

INPUTS = ("requests", "admin")
DEAD = {"undecodable", "oversize", "wrong_partition", "internal_error"}
STALLED_S = 20.0

Place = tuple[str, int, int]
"""Input, partition, offset."""


class Record(NamedTuple):
    """One record of a topic."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 0


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
    bootstrap: str, topic: str, partitions: int, *, committed: bool = True
) -> list[list[Record]]:
    """Return what each partition of a topic holds now, to its (last stable) end."""
    opened = consumer(bootstrap, topic, partitions, committed=committed)
    found: list[list[Record]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    moved = time.monotonic()
    try:
        while len(ended) < partitions:
            for message in opened.consume(1_000, 0.1):
                moved = time.monotonic()
                if message.error() is None:
                    found[message.partition()].append(_record(message))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise AssertionError(message.error())
            assert time.monotonic() - moved < STALLED_S, f"{topic} cannot be read to its end"
    finally:
        opened.close()
    return found


def _record(message: Message) -> Record:
    return Record(message.offset(), message.key(), message.value(), message.timestamp()[1])


class Follower:
    """Counts the records of a topic as they become visible, and keeps their bytes."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, committed: bool) -> None:
        self._consumer = consumer(bootstrap, topic, partitions, committed=committed)
        self.counts = [0] * partitions
        self.values: list[bytes] = []

    def poll(self, seconds: float) -> None:
        """Take what is there, waiting at most so long for the first."""
        for message in self._consumer.consume(2_000, seconds):
            if message.error() is None:
                self.counts[message.partition()] += 1
                self.values.append(message.value())

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


@dataclass
class Verdict:
    """What a sound log holds.

    Attributes:
        decisions: of all partitions, each in order, genesis left out.
        by_place: the same, by the input that each is about.
        inputs: how many records the inputs hold.
        granted: exact sum of the epsilons of granted pure claims, by dataset.
    """

    decisions: list[dict[str, Any]] = field(default_factory=list)
    by_place: dict[Place, dict[str, Any]] = field(default_factory=dict)
    inputs: int = 0
    granted: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))

    @property
    def outcomes(self) -> Counter[str]:
        """How many decisions have each outcome."""
        return Counter(decision["outcome"] for decision in self.decisions)

    @property
    def reasons(self) -> Counter[str]:
        """How many decisions have each reason."""
        return Counter(d["reason"] for d in self.decisions if d.get("reason"))


def judge(bootstrap: str, prefix: str, partitions: int) -> Verdict:
    """Return what the log holds.

    Raises: AssertionError: it breaks one of the invariants, or disagrees with its inputs, its
        state or its dead letters.
    """
    return judge_evidence(gathered(bootstrap, prefix, partitions))


class Evidence(NamedTuple):
    """Everything that a ledger's topics hold, by partition."""

    inputs: dict[str, list[list[Record]]]
    decisions: list[list[Record]]
    state: list[list[Record]]
    dead: list[list[Record]]


def gathered(bootstrap: str, prefix: str, partitions: int) -> Evidence:
    """Read all topics of a ledger, the inputs as their readers see them: uncommitted too."""
    return Evidence(
        {name: read(bootstrap, prefix + name, partitions, committed=False) for name in INPUTS},
        read(bootstrap, f"{prefix}decisions", partitions),
        read(bootstrap, f"{prefix}state", partitions),
        read(bootstrap, f"{prefix}dead-letters", partitions),
    )


def judge_evidence(evidence: Evidence) -> Verdict:
    """Judge what was read; see `judge`."""
    verdict = Verdict()
    for partition, records in enumerate(evidence.decisions):
        chain = _Chain(partition, verdict)
        for record in records:
            chain.take(record)
        offsets = {
            (name, partition, record.offset)
            for name in INPUTS
            for record in evidence.inputs[name][partition]
        }
        verdict.inputs += len(offsets)
        assert chain.places == offsets, (
            f"partition {partition}: undecided {sorted(offsets - chain.places)[:5]}, "
            f"decided without input {sorted(chain.places - offsets)[:5]}"
        )
        chain.agrees_with(evidence.state[partition])
        assert len(evidence.dead[partition]) == chain.dead
    return verdict


class _Chain:
    """One partition's decisions, taken in order."""

    def __init__(self, partition: int, verdict: Verdict) -> None:
        self.partition = partition
        self.verdict = verdict
        self.places: set[Place] = set()
        self.dead = 0
        self._number = -1
        self._head = "sha256:" + "0" * 64
        self._last: dict[str, int] = dict.fromkeys(INPUTS, -1)
        self._datasets: dict[str, _Dataset] = {}
        self._charged: set[tuple[str, str, str]] = set()

    def take(self, record: Record) -> None:
        """Check one decision against all before it."""
        assert record.value is not None
        decision = json.loads(record.value)
        at = (self.partition, record.offset)
        self._number += 1
        assert decision["partition_sequence"] == self._number, at
        assert decision["previous"] == self._head, at
        self._head = f"sha256:{hashlib.sha256(record.value).hexdigest()}"
        if self._number == 0:
            assert decision["outcome"] == "genesis", at
            return
        assert decision["outcome"] != "genesis", at
        if decision["outcome"] in {"clock_reset", "sealed"}:  # by a command: no input, no charge
            assert not decision.keys() & {"source", "sequence", "dataset", "cost", "totals"}, at
            self.verdict.decisions.append(decision)
            return
        source = decision["source"]
        place = source["topic"], source["partition"], source["offset"]
        assert source["partition"] == self.partition, at
        assert source["offset"] > self._last[source["topic"]], (at, place)
        self._last[source["topic"]] = source["offset"]
        self.places.add(place)
        self.dead += decision.get("reason") in DEAD
        self.verdict.decisions.append(decision)
        self.verdict.by_place[place] = decision
        self._charge(decision, at)

    def _charge(self, decision: dict[str, Any], at: object) -> None:
        outcome, sequence = decision["outcome"], decision.get("sequence")
        assert ("cost" in decision) == (outcome == "granted"), at
        if sequence is None:
            assert outcome in {"repeated", "conflict", "expired", "invalid", "refused"}, at
            return
        if outcome == "opened":
            assert decision["dataset"] not in self._datasets, at
            self._datasets[decision["dataset"]] = _Dataset(decision)
        dataset = self._datasets[decision["dataset"]]
        dataset.take(decision, at)
        if outcome == "granted":
            body = decision["request"]
            identity = body["dataset"], body["analyst"], body["request_id"]
            assert identity not in self._charged, f"charged twice: {identity}"
            self._charged.add(identity)
            if body["claim"]["type"] == "pure":
                self.verdict.granted[body["dataset"]] += amount(body["claim"]["epsilon"])

    def agrees_with(self, rows: list[Record]) -> None:
        """Check the cache: its last rows are what the log comes down to."""
        last = {record.key: record.value for record in rows}
        row = last.pop(b'{"partition":%d}' % self.partition, None)
        if row is None:  # nothing was committed since the genesis
            assert self._number == 0
            assert not last
            return
        said = json.loads(row)
        assert (said["partition_sequence"], said["head"]) == (self._number, self._head)
        assert {name: offset - 1 for name, offset in said["next"].items()} == self._last
        kept = {key: json.loads(value) for key, value in last.items() if key and value is not None}
        assert {key.decode() for key in kept} == self._datasets.keys()
        for key, snapshot in kept.items():
            dataset = self._datasets[key.decode()]
            assert snapshot["sequence"] == dataset.sequence, key
            for name, total in snapshot["totals"].items():
                assert amount(str(total)) == dataset.totals[name], (key, name)


class _Dataset:
    """What one dataset has spent, added up from the costs alone."""

    def __init__(self, opening: dict[str, Any]) -> None:
        self.sequence = 0
        self.totals: dict[str, Fraction] = defaultdict(Fraction)
        self._basic = opening["policy"]["filter"] == "basic"
        self._budget = {name: amount(value) for name, value in opening["budget"].items()}

    def take(self, decision: dict[str, Any], at: object) -> None:
        self.sequence += 1
        assert decision["sequence"] == self.sequence, at
        if decision["outcome"] == "granted":
            for name, cost in decision["cost"].items():
                self.totals[name] += amount(cost)
            claim = decision["request"]["claim"]
            if claim["type"] == "pure":
                self.totals["mechanisms"] += 1
                if self._basic:
                    assert amount(decision["cost"]["epsilon"]) == amount(claim["epsilon"]), at
            else:
                self.totals["mechanisms"] = amount(str(decision["totals"]["mechanisms"]))
        for name, total in decision["totals"].items():
            assert amount(str(total)) == self.totals[name], (at, name)
        for name, most in self._budget.items():
            assert self.totals[name] <= most, (at, name)


@lru_cache(maxsize=4096)
def amount(text: str) -> Fraction:
    """Return the exact value of an amount on the wire."""
    return Fraction(text)
