"""A reservation with its settlement against a plain grant: CPU time, and in a ledger's file."""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.partition.partition import hash_of
from accountant.records import encode
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.records.outcomes import Outcome
from accountant.times import uuid7
from benchmarks import requests
from benchmarks.decide import opened, written
from benchmarks.measure import Row, Scale
from streams.client import Accountant

_BATCH = 500
_ROUNDS = 15
_DATASETS = 50
_MICROSECONDS = 1e6
_PURE = {"type": "pure", "epsilon": "0.000001"}
_GAUSSIAN = {"type": "brownian", "variance": "1000000", "sensitivity": "0.01"}
_SESSION = {**_GAUSSIAN, "first": "16000000"}
_RESERVE = {"until": "P1D"}
_STEPS = ("reserve", "begin", "settle")


def _request(dataset: str, at: int, **fields: Any) -> bytes:
    body = {"version": 1, "request_id": uuid7(at, os.urandom(10)), "analyst": "ana"}
    return msgspec.json.encode(body | {"dataset": dataset} | fields)


def _ask(dataset: str, at: int, **fields: Any) -> bytes:
    scope = {"unit": "person", "neighbours": "add_remove"}
    return _request(dataset, at, type="request", **scope, **fields)


def _decided(
    state: Partition, names: list[str], bodies: list[bytes], at: int, outcome: Outcome
) -> tuple[float, list[EncodedDecision]]:
    """Decide, write and take in; return the seconds of CPU time, and the decisions."""
    first = state.next["requests"]
    inputs = [
        Input("requests", first + i, name.encode(), body, at)
        for i, (name, body) in enumerate(zip(names, bodies, strict=True))
    ]
    gc.collect()
    started = time.process_time()
    draft = Draft(state)
    decided = [decide(draft, record, at) for record in inputs]
    draft.rows()
    written(decided)
    draft.absorb()
    took = time.process_time() - started
    if {each.outcome for each in decided} != {outcome}:
        raise RuntimeError(f"not every record was decided {outcome}")
    return took, decided


def _grants(state: Partition, names: list[str], at: int, claim: object) -> float:
    bodies = [_ask(name, at, claim=claim) for name in names]
    return _decided(state, names, bodies, at, Outcome.GRANTED)[0]


def _reservations(
    state: Partition, names: list[str], at: int, claim: object, **settled: str
) -> list[float]:
    """Return the seconds of each step."""
    bodies = [_ask(name, at, claim=claim, reserve=_RESERVE) for name in names]
    reserving, decided = _decided(state, names, bodies, at, Outcome.RESERVED)
    grants = [f"sha256:{each.digest.hex()}" for each in decided]
    named = list(zip(names, grants, strict=True))
    begins = [_request(name, at, type="begin", grant=grant) for name, grant in named]
    beginning, _ = _decided(state, names, begins, at, Outcome.BEGUN)
    settles = [_request(name, at, type="settle", grant=grant, **settled) for name, grant in named]
    settling, _ = _decided(state, names, settles, at, Outcome.SETTLED)
    return [reserving, beginning, settling]


def _embedded(directory: str, count: int, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of a grant, and of a reservation with its steps, of each round."""
    granted, taken = [], []
    with Accountant(f"sqlite:///{directory}/ledger.db") as client:
        name = requests.names(1)[0]
        client.submit(requests.opening(name, requests.now()))
        for _ in range(rounds):
            started = time.perf_counter()
            for _ in range(count):
                client.submit(_ask(name, requests.now(), claim=_PURE))
            marked = time.perf_counter()
            for _ in range(count):
                ask = _ask(name, requests.now(), claim=_PURE, reserve=_RESERVE)
                grant = hash_of(encode(client.submit(ask)))
                client.submit(_request(name, requests.now(), type="begin", grant=grant))
                client.submit(_request(name, requests.now(), type="settle", grant=grant))
            granted.append((marked - started) / count)
            taken.append((time.perf_counter() - marked) / count)
    return granted, taken


def _embedded_rows(scale: Scale) -> Iterator[Row]:
    rounds, count = 5, scale.of(200)
    # On a real disk, as a ledger: /tmp may be memory.
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", ".")) as directory:
        granted, taken = _embedded(str(Path(directory).resolve()), count, rounds)
    yield Row(name="embedded: a plain grant", value=statistics.median(granted) * 1e3, unit="ms")
    yield Row(
        name="embedded: reserve, begin and settle / a plain grant",
        value=statistics.median(b / a for a, b in zip(granted, taken, strict=True)),
        unit="",
        at_most=2.5,
        note=f"three records, each synced to disk; {rounds} rounds of {count} of each, in turns",
    )


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the time of a grant and of each step, and the ratio, for two kinds of claims."""
    yield from _embedded_rows(scale)
    kinds = {
        "pure": (_PURE, _PURE, {}),
        "a Brownian session": (_GAUSSIAN, _SESSION, {"shown": "4000000"}),
    }
    rounds = max(3, scale.of(_ROUNDS))
    for kind, (plain, reserved, settled) in kinds.items():
        at = requests.now()
        state = opened(at, _DATASETS)
        granted, taken = [], []
        for number in range(rounds):
            names = requests.any_of(requests.names(_DATASETS), number, _BATCH)
            granted.append(_grants(state, names, at, plain))
            taken.append(_reservations(state, names, at, reserved, **settled))
        note = f"processor time; {rounds} rounds of {_BATCH} of each, in turns"
        yield Row(
            name=f"{kind}: a plain grant",
            value=statistics.median(granted) / _BATCH * _MICROSECONDS,
            unit="us",
        )
        for step, seconds in zip(_STEPS, zip(*taken, strict=True), strict=True):
            yield Row(
                name=f"{kind}: {step}",
                value=statistics.median(seconds) / _BATCH * _MICROSECONDS,
                unit="us",
            )
        ratios = [sum(steps) / one for steps, one in zip(taken, granted, strict=True)]
        yield Row(
            name=f"{kind}: reserve, begin and settle / a plain grant",
            value=statistics.median(ratios),
            unit="",
            at_most=2.5,
            note=note,
        )
