"""An audit of a log in memory: in one process, and each of the halves of one in two processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from accountant.advice.offline import OfflineLedger
from accountant.replay.audit import Auditor, audit
from accountant.replay.decider import Decider
from benchmarks import requests
from benchmarks.measure import Row, Scale

_DATASETS = 250
_ROUNDS = 3
_START = 1_764_000_000_000


def _log(count: int) -> list[bytes]:
    """Return a log of so many requests on 250 datasets, all of them granted."""
    ledger, datasets = OfflineLedger(None, "bench"), requests.names(_DATASETS)
    lines = [requests.opening(name, _START) for name in datasets]
    for i, name in enumerate(requests.any_of(datasets, 1, count)):
        lines.append(requests.request(name, _START + 3 * i, i))
    return [encoded.value for line in lines for encoded in ledger.take(line)]


def _whole(log: list[bytes]) -> None:
    report = audit(log)
    assert report.ok, report.first_disagreement


def _without_deciding(log: list[bytes]) -> None:
    auditor = Auditor(decides=False)
    assert all(map(auditor.take, log))
    assert auditor.report().ok


def _deciding(log: list[bytes]) -> None:
    decider = Decider()
    assert all(map(decider.take, log))
    assert decider.end() is not None


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the processor time a decision, the least of three rounds taken in turns."""
    log = _log(scale.of(100_000))
    parts: dict[str, Callable[[list[bytes]], None]] = {
        "audit, one process": _whole,
        "audit, the process that decides again": _deciding,
        "audit, the process that checks the rest": _without_deciding,
    }
    least = dict.fromkeys(parts, float("inf"))
    for _ in range(_ROUNDS):
        for name, work in parts.items():
            begun = time.process_time()
            work(log)
            least[name] = min(least[name], time.process_time() - begun)
    note = f"processor time, {len(log):,} decisions of {_DATASETS} datasets; least of {_ROUNDS}"
    for name, seconds in least.items():
        yield Row(name=name, value=seconds / len(log) * 1e6, unit="us/decision", note=note)
