"""The `why` report: its index, and the response over HTTP."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import msgspec

from benchmarks import requests
from benchmarks.measure import Row, Scale, best_of, percentile
from benchmarks.processes import command, free_port
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.index import UsageIndex
from streams.index.usage_index import NOTHING
from streams.settings import load

_DECISIONS: Final = 10_000
_POLICY: Final = {"filter": "basic", "epsilon": "100"}  # every request fits
_ANALYSTS: Final = (30, 3_000)
_SLICE: Final = 4_000
_ASKED: Final = 50


def _filled(path: Path, count: int, analysts: int) -> None:
    """Make a ledger with this number of decisions on one dataset."""
    service = EmbeddedService.open(path, load())
    try:
        service.submit_sync("admin", requests.opening("census", requests.now(), _POLICY), 10)
        for number in range(count - 1):
            body = msgspec.json.decode(requests.request("census", requests.now(), number))
            body |= {"analyst": f"a{number % analysts}", "purpose": f"p{number % 50}"}
            service.submit_sync("requests", msgspec.json.encode(body), 10)
    finally:
        asyncio.run(service.close())


def _take_in(log: list[bytes]) -> None:
    index, place = UsageIndex.temporary(), NOTHING
    for first in range(0, len(log), _SLICE):
        place = index.take(0, place, log[first : first + _SLICE])
    index.close()


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the index's cost of a decision, and the time of a response."""
    count = scale.of(_DECISIONS)
    for analysts in _ANALYSTS:
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", ".")) as directory:
            path = Path(directory).absolute() / "ledger.db"
            _filled(path, count, analysts)
            if analysts == _ANALYSTS[0]:
                log = list(read_decisions(path))
                took = best_of(5, lambda log=log: _take_in(log)) / len(log)
                note = f"{len(log):,} decisions of one dataset, taken in {_SLICE:,} at a time"
                yield Row(name="index of usage", value=took * 1e6, unit="us/decision", note=note)
            yield from _answered(path, count, analysts)


def _answered(path: Path, count: int, analysts: int) -> Iterator[Row]:
    port, seconds = free_port(), []
    settings = {"ACCOUNTANT_URL": f"sqlite:///{path}", "ACCOUNTANT_PORT": str(port)}
    with command("serve", settings, port=port), httpx.Client(trust_env=False) as http:
        where = f"http://127.0.0.1:{port}/datasets/census/why"
        http.get(where, timeout=60)  # builds the index
        for _ in range(_ASKED):
            started = time.perf_counter()
            answer = http.get(where)
            seconds.append(time.perf_counter() - started)
            answer.raise_for_status()
    name = f"why, {analysts:,} analysts"
    note = f"{count:,} decisions, {len(answer.content) / 1e3:.0f} kB; median of {_ASKED}"
    yield Row(name=name, value=percentile(seconds, 0.5) * 1e3, unit="ms", at_most=200, note=note)
