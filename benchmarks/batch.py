"""The same requests through the Python client and HTTP: one by one, and in batches."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.kafka_load import deploy
from benchmarks.measure import Row, Scale
from benchmarks.processes import command, free_port, processor_seconds, worker_settings
from streams import Accountant
from streams.testing import LocalBroker

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


def _compare(ledger: Accountant, server: int, count: int) -> tuple[_Cost, _Cost]:
    """Return the cost of requests one by one, and in batches: that of the cheapest round."""
    ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"})
    singles = _requests(ledger, count)
    alone = _measure(server, lambda: [ledger.ask(**request) for request in singles])
    batched = list[_Cost]()
    for _ in range(_ROUNDS):
        many = _requests(ledger, count)
        batched.append(_measure(server, lambda many=many: ledger.ask_many(many)))  # type: ignore[misc]
    return alone, min(batched, key=lambda cost: cost.processors)


def rows(scale: Scale) -> Iterator[Row]:
    """Yield time and processor time of both ways, measured in turn in one run."""
    yield from _of_file(scale.of(10_000))
    yield from _of_gateway(scale.of(2_000))


def _of_file(count: int) -> Iterator[Row]:
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
            alone, batched = _compare(ledger, server, count)
    note = f"{count:,} requests of one Python client on one connection, server on the same cores"
    yield Row(name="HTTP, one by one", value=alone.elapsed, unit="s", note=note)
    yield Row(name="HTTP, in batches of 1,000", value=batched.elapsed, unit="s")
    for name, cost in (("one by one", alone), ("in batches", batched)):
        parts = f"client {cost.client / count * 1e6:.0f}, server {cost.server / count * 1e6:.0f}"
        each = cost.processors / count * 1e6
        yield Row(name=f"{name}, processor time a request", value=each, unit="us", note=parts)
    ratio = batched.processors / alone.processors
    yield Row(name="in batches / one by one, processor time", value=ratio, unit="", at_most=0.1)


def _of_gateway(count: int) -> Iterator[Row]:
    with LocalBroker() as broker:
        deployment = asyncio.run(deploy(broker, "batch.", 4))
        worker, port = free_port(), free_port()
        with (
            command("worker", worker_settings(deployment, worker, read_side=False), port=worker),
            command(
                "gateway", worker_settings(deployment, port, read_side=False), port=port
            ) as gateway,
            Accountant(f"http://127.0.0.1:{port}") as ledger,
        ):
            alone, batched = _compare(ledger, gateway, count)
    for name, cost in (("one by one", alone), ("in batches", batched)):
        each = cost.server / count * 1e6
        note = f"{count:,} requests, without the client's"
        yield Row(name=f"gateway, {name}, processor time", value=each, unit="us", note=note)
