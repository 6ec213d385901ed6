"""The stages of a request without Kafka: CPU time a decision."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise

from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft, genesis_decision
from accountant.records import Genesis
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from benchmarks import requests
from benchmarks.measure import Row, Scale
from streams.kafka.wire.batches import ProducerId, batches

_DATASETS = 250
_BATCH = 500
_ROUNDS = 5
_STAGES = ("decide", "rows", "batches", "absorb")
_WINDOW_MS, _SKEW_MS = 3_600_000, 300_000
_MICROSECONDS = 1e6


def opened(at: int, datasets: int) -> Partition:
    """Return a partition with open datasets."""
    genesis = Genesis("bench", 0, 1, _WINDOW_MS, _SKEW_MS)
    state = Partition(genesis)
    first = genesis_decision(genesis, at)
    state.sequence, state.head, state.decided_at = 0, f"sha256:{first.digest.hex()}", at
    draft = Draft(state)
    for offset, name in enumerate(requests.names(datasets)):
        decide(draft, Input("admin", offset, name.encode(), requests.opening(name, at), at), at)
    draft.absorb()
    return state


def written(decided: list[EncodedDecision]) -> None:
    """Encode decisions as a producer sends them."""
    batches([(each.key, each.value, each.decided_at, ()) for each in decided], ProducerId(1, 0), 0)


def _round(state: Partition, inputs: list[Input], at: int) -> list[float]:
    """Return the seconds of CPU time of each stage, over this number of inputs."""
    took = [0.0] * len(_STAGES)
    for first in range(0, len(inputs), _BATCH):
        draft = Draft(state)
        marks = [time.process_time()]
        decided = [decide(draft, record, at) for record in inputs[first : first + _BATCH]]
        marks.append(time.process_time())
        draft.rows()
        marks.append(time.process_time())
        written(decided)
        marks.append(time.process_time())
        draft.absorb()
        marks.append(time.process_time())
        took = [sum_ + b - a for sum_, (a, b) in zip(took, pairwise(marks), strict=True)]
    return took


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the microseconds of each stage, of the least disturbed round."""
    count, at = scale.of(20_000), requests.now()
    state = opened(at, _DATASETS)
    best: list[float] = []
    for number in range(_ROUNDS):
        names = requests.any_of(requests.names(_DATASETS), number, count)
        first = state.next["requests"]
        inputs = [
            Input("requests", first + i, name.encode(), requests.request(name, at, i), at)
            for i, name in enumerate(names)
        ]
        took = _round(state, inputs, at)
        best = took if not best or sum(took) < sum(best) else best
    for stage, seconds in zip(_STAGES, best, strict=True):
        yield Row(
            name=f"a decision without Kafka, {stage}",
            value=seconds / count * _MICROSECONDS,
            unit="us",
        )
    yield Row(
        name="a decision without Kafka, all of it",
        value=sum(best) / count * _MICROSECONDS,
        unit="us",
        note=f"processor time; batches of {_BATCH}, {_DATASETS} datasets",
    )
