"""The same requests through the Python client and HTTP: one by one, and in batches."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import Row, Scale
from benchmarks.processes import command, free_port, processor_seconds
from streams import Accountant

_ROUNDS = 3  # of the batches, which are short


class _Cost(NamedTuple):
    """What some requests took: seconds, and the processor time of both processes in seconds."""

    elapsed: float
    client: float
    server: float

    @property
    def processors(self) -> float:
        return self.client + self.server


def _requests(ledger: Accountant, count: int) -> list[dict[str, Any]]:
    fields = {"dataset": "census", "claim": "pure:0.00001", "analyst": "ana"}
    return [{**fields, "request_id": ledger.new_request_id()} for _ in range(count)]


def _measure(server: int, ask: Callable[[], list[Any]]) -> _Cost:
    busy, own, started = processor_seconds(server), time.process_time(), time.perf_counter()
    replies = ask()
    elapsed, own = time.perf_counter() - started, time.process_time() - own
    cost = _Cost(elapsed, own, processor_seconds(server) - busy)
    refused = [each for each in replies if getattr(each, "granted", False) is not True]
    if refused:
        raise RuntimeError(f"{len(refused)} requests were not granted, the first: {refused[0]}")
    return cost


def rows(scale: Scale) -> Iterator[Row]:
    """Yield time and processor time of both ways, measured in turn in one run."""
    count = scale.of(10_000)
    port = free_port()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", ".")) as directory:
        settings = {
            "ACCOUNTANT_URL": f"sqlite:///{Path(directory).absolute() / 'ledger.db'}",
            "ACCOUNTANT_PORT": str(port),
        }
        with (
            command("serve", settings, port=port) as server,
            Accountant(f"http://127.0.0.1:{port}") as ledger,
        ):
            ledger.open("census", {"filter": "basic", "epsilon": "1"}, by="owner")
            singles = _requests(ledger, count)
            alone = _measure(server, lambda: [ledger.ask(**request) for request in singles])
            rounds = [_requests(ledger, count) for _ in range(_ROUNDS)]
            batched = [_measure(server, lambda many=many: ledger.ask_many(many)) for many in rounds]  # type: ignore[misc]
    best = min(batched, key=lambda cost: cost.processors)
    note = f"{count:,} requests of one Python client on one connection, server on the same cores"
    yield Row(name="HTTP, one by one", value=alone.elapsed, unit="s", note=note)
    shortest = min(cost.elapsed for cost in batched)
    note = f"shortest of {_ROUNDS} rounds in the same run"
    yield Row(name="HTTP, in batches of 1,000", value=shortest, unit="s", note=note)
    for name, cost in (("one by one", alone), ("in batches", best)):
        parts = f"client {cost.client / count * 1e6:.0f}, server {cost.server / count * 1e6:.0f}"
        each = cost.processors / count * 1e6
        yield Row(name=f"{name}, processor time a request", value=each, unit="us", note=parts)
    ratio = best.processors / alone.processors
    yield Row(name="in batches / one by one, processor time", value=ratio, unit="", at_most=0.1)
