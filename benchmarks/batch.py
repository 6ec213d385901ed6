"""The same requests through the Python client and HTTP: one by one, and in batches."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, Scale
from benchmarks.processes import command, free_port
from streams import Accountant


def _requests(ledger: Accountant, count: int) -> list[dict[str, Any]]:
    fields = {"dataset": "census", "claim": "pure:0.00001", "analyst": "ana"}
    return [{**fields, "request_id": ledger.new_request_id()} for _ in range(count)]


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the seconds of both ways, measured in turn in one run."""
    count = scale.of(10_000)
    port = free_port()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", ".")) as directory:
        settings = {
            "ACCOUNTANT_URL": f"sqlite:///{Path(directory).absolute() / 'ledger.db'}",
            "ACCOUNTANT_PORT": str(port),
        }
        with (
            command("serve", settings, port=port),
            Accountant(f"http://127.0.0.1:{port}") as ledger,
        ):
            ledger.open("census", {"filter": "basic", "epsilon": "1"}, by="owner")
            singles, many = _requests(ledger, count), _requests(ledger, count)
            started = time.perf_counter()
            alone = [ledger.ask(**request) for request in singles]
            one_by_one = time.perf_counter() - started
            started = time.perf_counter()
            together = ledger.ask_many(many)
            batched = time.perf_counter() - started
    refused = [each for each in (*alone, *together) if getattr(each, "granted", False) is not True]
    if refused:
        raise RuntimeError(f"{len(refused)} requests were not granted, the first: {refused[0]}")
    note = f"{count:,} requests of one Python client on one connection, server on the same cores"
    yield Row(name="HTTP, one by one", value=one_by_one, unit="s", note=note)
    yield Row(name="HTTP, in batches of 1,000", value=batched, unit="s", note="in the same run")
