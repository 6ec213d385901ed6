"""Limits at scale: many analysts under per-analyst defaults, each with their own use."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import count, islice

import msgspec

from accountant.partition.decide import decide
from accountant.partition.draft import Draft, genesis_decision
from accountant.records import Genesis, Source
from accountant.records.inputs import Input
from accountant.replay.replay import Replay, state_rows
from accountant.times import uuid7
from benchmarks import requests
from benchmarks.measure import Row, Scale
from streams.settings import load

_TEAM = "everybody"
_BATCH = 1_000
_TOGETHER = 5_000  # a dataset has at most 10,000 members
_ENCODE = msgspec.json.encode


class _LimitLog:
    """A log in which each analyst of one team asks once.

    Args:
        limited: the team has a default limit with a pace.
    """

    def __init__(self, analysts: int, genesis: Genesis, *, limited: bool) -> None:
        self._at = requests.now()
        self._ids = count(1)
        first = genesis_decision(genesis, self._at)
        refold = Replay(genesis)
        refold.take_decision(first.value)
        self.partition = refold.finish()
        self.log = [first.value]
        names = [(f"census-{i // _TOGETHER}", f"analyst-{i}") for i in range(analysts)]
        policy = {"filter": "basic", "epsilon": "900", "delta": "1e-6"}
        for dataset in dict.fromkeys(dataset for dataset, _ in names):
            self._decide("admin", [self._owner("open", dataset, policy=policy)])
            if limited:
                pace = {"part": "0.01", "period": "P1D"}
                fields = {"scope": "each", "name": _TEAM, "part": "0.001", "pace": pace}
                self._decide("admin", [self._owner("limit", dataset, **fields)])
        self._decide("admin", (self._member(*name) for name in names))
        started = time.perf_counter()
        self._decide("requests", (self._request(*name) for name in names))
        self.seconds = time.perf_counter() - started

    def _decide(self, source: Source, bodies: Iterable[bytes]) -> None:
        rest = iter(bodies)
        while page := list(islice(rest, _BATCH)):
            draft = Draft(self.partition)
            for body in page:
                record = Input(source, draft.next[source], None, body, self._at)
                self.log.append(decide(draft, record, self._at).value)
            draft.rows()
            draft.absorb()

    def _id(self) -> str:
        return uuid7(self._at, b"\0" + next(self._ids).to_bytes(8) + b"\0")

    def _owner(self, kind: str, dataset: str, **fields: object) -> bytes:
        head = {"version": 1, "type": kind, "request_id": self._id()}
        return _ENCODE({**head, "dataset": dataset, "by": "owner", **fields})

    def _member(self, dataset: str, name: str) -> bytes:
        return self._owner("member", dataset, member=name, roles=["analyst"], team=_TEAM)

    def _request(self, dataset: str, name: str) -> bytes:
        fields = {"version": 1, "type": "request", "request_id": self._id(), "analyst": name}
        claim = {"type": "pure", "epsilon": "0.001"}
        more = {"claim": claim, "unit": "person", "neighbours": "add_remove"}
        return _ENCODE({**fields, "dataset": dataset, **more})


def _restarted(genesis: Genesis, rows: list[tuple[bytes, bytes]], last: bytes) -> tuple[float, int]:
    """Return the seconds and the bytes of reading rows back."""
    tracemalloc.start()
    refold = Replay(genesis)
    for key, value in rows:
        refold.take_row(key, value)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del refold
    gc.collect()
    started = time.perf_counter()
    refold = Replay(genesis)
    for key, value in rows:
        refold.take_row(key, value)
    refold.take_decision(last)
    refold.finish()
    return time.perf_counter() - started, size


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the cost of an analyst's use under a default; these figures have no targets."""
    analysts = scale.of(100_000)
    genesis = load().genesis(0, 1)
    without = _LimitLog(analysts, genesis, limited=False)
    limited = _LimitLog(analysts, genesis, limited=True)
    found = {False: state_rows(without.partition), True: state_rows(limited.partition)}
    levels = [(key, value) for key, value in found[True] if b'"scope":"each","team"' in key]
    assert len(levels) == analysts
    what = f"{analysts:,} analysts ask once each under a default"
    each = sum(len(key) + len(value) for key, value in levels) / analysts
    yield Row(name=f"row of an analyst's use, {what}", value=each, unit="bytes")
    decision = len(limited.log[-1]) - len(without.log[-1])
    yield Row(name="more of a decision on a level", value=decision, unit="bytes")
    seconds, size = _restarted(genesis, found[True], limited.log[-1])
    before, plain = _restarted(genesis, found[False], without.log[-1])
    yield Row(name="memory of an analyst's use", value=(size - plain) / analysts, unit="bytes",
              note="as tracemalloc counts")  # fmt: skip
    yield Row(name="restart from rows", value=seconds, unit="s", note=f"{before:.3g} s without")
    whole = _refolded(genesis, limited.log)
    yield Row(name="refold without rows", value=whole, unit="s",
              note=f"{_refolded(genesis, without.log):.3g} s without")  # fmt: skip
    each_us = limited.seconds / analysts * 1e6
    yield Row(name="a request under a default, with its row", value=each_us, unit="us",
              note=f"{without.seconds / analysts * 1e6:.3g} us without")  # fmt: skip


def _refolded(genesis: Genesis, log: list[bytes]) -> float:
    started = time.perf_counter()
    refold = Replay(genesis)
    for value in log:
        refold.take_decision(value)
    refold.finish()
    return time.perf_counter() - started
