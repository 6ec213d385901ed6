"""`accountant usage` and `accountant gateway` as processes, on a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import socket
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import apsw
import httpx
import pyarrow.parquet as pq

from accountant.partition.key_hash import partition_of
from accountant.views.usage import BYS
from streams.index import UsageIndex
from streams.index.beginning import IndexPosition
from streams.index.usage_index import NOTHING
from tests.accountant.world import World
from tests.faults.ledger import Ledger, until, working
from tests.forks import commands
from tests.kafka.command import command
from tests.kafka.test_usage import NAMES, ask_some, check, ledger, logs, open_both, served, used
from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import environment
from tests.streams.index.logs import recounted

STARTS = ("streams.cli",)

__all__ = ["ledger"]


async def test_the_usage_and_why_commands_equal_the_http_responses(
    ledger: Ledger, tmp_path: Path
) -> None:
    index, file = tmp_path / "usage.index", tmp_path / "usage.parquet"
    async with working(ledger):
        await open_both(ledger)
        await ask_some(ledger)
        async with served(ledger.deployment, index) as http:
            for by in BYS:
                shown = (await http.get("/datasets/d1/usage", params={"by": by})).json()
                done = await asyncio.to_thread(command, ledger, "usage", "d1", "--by", by, "--json")
                assert [json.loads(line) for line in done.stdout.splitlines()] == shown, done.stderr
            shown = (await http.get("/datasets/d1/why")).json()
            done = await asyncio.to_thread(command, ledger, "why", "d1", "--json")
            assert untimed(json.loads(done.stdout)) == untimed(shown), done.stderr
            assert shown["by_analyst"]
            assert shown["largest"]
        reached = index_state(index)
        await ask_some(ledger, 3, analyst="late")
    # It starts with a copy of the index, continues from there, and does not change the file.
    options = {"ACCOUNTANT_INDEX": str(index)}
    done = await asyncio.to_thread(command, ledger, "usage", "d1", "--csv", **options)
    log = logs(ledger)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {
        r["analyst"]: (int(r["granted"]), int(r["refused"]), Fraction(r["spent"])) for r in rows
    } == (recounted(log, "d1", "analyst"))
    assert index_state(index) == reached
    done = await asyncio.to_thread(
        command, ledger, "usage", "d0", "--by", "purpose", "--parquet", str(file), **options
    )
    assert done.returncode == 0, done.stderr
    by_purpose = {row["purpose"]: Fraction(row["spent"]) for row in pq.read_table(file).to_pylist()}
    assert by_purpose == {key: row[2] for key, row in recounted(log, "d0", "purpose").items()}
    for asked in ("usage", "why"):
        done = await asyncio.to_thread(command, ledger, asked, "nowhere")
        assert (done.returncode, done.stdout) == (1, "")
        assert "dataset nowhere was never opened" in done.stderr


def untimed(why: dict[str, Any]) -> dict[str, Any]:
    """Return `why` without the fields that depend on the server's clock."""
    times = {"at", "per_day", "runs_out_at", "earliest", "latest"}
    forecasts = [
        {name: value for name, value in each.items() if name not in times}
        for each in why["forecasts"]
    ]
    return {name: why[name] for name in why if name not in times} | {"forecasts": forecasts}


def index_state(path: Path) -> dict[int, IndexPosition]:
    index = UsageIndex.open(path)
    try:
        return {number: index.reached(number) for number in index.partitions()}
    finally:
        index.close()


async def test_the_command_rejects_an_index_of_another_ledger(
    ledger: Ledger, tmp_path: Path
) -> None:
    """Of a dataset that this one never opened it says so, and others it counts from their log."""
    foreign = World(partitions=3, partition=2)
    unknown = next(n for n in map("d{}".format, range(2, 99)) if partition_of(n.encode(), 3) == 2)
    opened = foreign.open(unknown, epsilon="1", filter="basic")
    assert opened.outcome == "opened"
    foreign.commit()
    index = UsageIndex.open(tmp_path / "usage.index")
    index.take(2, NOTHING, foreign.log)
    index.close()
    async with working(ledger):
        await open_both(ledger)
        await ask_some(ledger, 2)
    options = {"ACCOUNTANT_INDEX": str(tmp_path / "usage.index")}
    done = await asyncio.to_thread(command, ledger, "usage", unknown, **options)
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    done = await asyncio.to_thread(command, ledger, "usage", "d0", "--json", **options)
    assert [json.loads(line)["granted"] for line in done.stdout.splitlines()] == [1, 1]


class GatewayProcess:
    """`accountant gateway`, to be killed."""

    def __init__(self, ledger: Ledger, index: Path, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        deployment = ledger.deployment
        env = environment(
            ACCOUNTANT_URL=f"kafka://{deployment.bootstrap}",
            ACCOUNTANT_TOPIC_PREFIX=deployment.topics.prefix,
            ACCOUNTANT_PARTITIONS=str(deployment.partitions),
            ACCOUNTANT_PORT=str(self.port),
            ACCOUNTANT_INDEX=str(index),
            ACCOUNTANT_METRICS_ANALYSTS="10",
        )
        with log.open("ab") as out:
            self.process = commands.start("gateway", env=env, stdout=out, stderr=out)

    def http(self) -> httpx.AsyncClient:
        url = f"http://127.0.0.1:{self.port}"
        return httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


async def listens(http: httpx.AsyncClient) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(httpx.TransportError):
            if (await http.get("/readyz")).status_code == 200:
                return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_a_server_that_is_killed_again_and_again_counts_each_decision_once(
    ledger: Ledger, tmp_path: Path
) -> None:
    index, line = tmp_path / "usage.index", 'privacy_analyst_requests_total{{analyst="{}"'
    counted = 0.0
    async with working(ledger):
        await ledger.open(*NAMES, filter="basic", epsilon="100")
        await ledger.settle()
        for number in range(6):
            server = GatewayProcess(ledger, index, tmp_path / "gateway.log")
            asking = asyncio.create_task(ask_some(ledger, 150, analyst=f"r{number}-"))
            try:
                async with server.http() as http:
                    await listens(http)
                    page = await http.get("/", headers={"accept": "text/html"})
                    assert page.headers["content-type"].startswith("text/html")
                    assert "d0" in page.text
                    # At another moment of its work each time, sometimes while nothing is whole.
                    await asyncio.sleep(0.15 * number)
                    if not number:  # it starts without a question
                        await until(index.exists, "there is an index")
                    if number % 2:
                        await used(http, "d0")
                        text = (await http.get("/metrics")).text
                        counts = [
                            float(each.rpartition(" ")[2])
                            for each in text.splitlines()
                            if each.startswith(line.format("r0-0"))
                        ]
                        if counts:
                            assert sum(counts) >= counted
                            counted = sum(counts)
            finally:
                server.kill()
            await asking
        assert counted > 0
        async with served(ledger.deployment, index) as http:
            await check(http, ledger)
    assert apsw.Connection(str(index)).pragma("integrity_check") == "ok"
