"""All that docker-compose.yml starts but Grafana, as processes on a local broker, under load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from confluent_kafka import Producer

from accountant.odometers.basic import Basic
from accountant.policy import Policy
from accountant.times import uuid7
from streams.client import Accountant
from streams.clock import SystemClock
from streams.testing import LocalBroker
from tests.observability.programs import (
    ACCOUNTANT,
    Programs,
    Watch,
    free_port,
    ready,
    running,
    until,
)
from tests.rendering.asking import Prometheus, Window

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]

PARTITIONS = 4
INTERVAL_S = 2
SLOW = "survey"
SCRAPE_S = 1  # as `Watch` scrapes
# The week in so many minutes: slow enough for Prometheus to see budgets rise, not jump.
LOAD_MINUTES = 0.5


def check(service: str, address: str, programs: Programs | None = None) -> int:
    """Run a service's health check as in docker-compose.yml; return its exit code.

    Only its address is another one here, and the programs are those of this machine. Processes
    started here do not use TLS: the servers of the compose file are tested in tests/deploy.
    """
    _, program, *arguments = SERVICES[service]["healthcheck"]["test"]
    if program == "python":
        program = sys.executable
    elif programs is not None:
        program = str(programs.path(program))
    there = re.compile(r"127\.0\.0\.1:\d+")
    assert any(there.search(argument) for argument in arguments)
    here = [there.sub(address, each).replace("https://", "http://") for each in arguments]
    return subprocess.run([program, *here], capture_output=True, timeout=30).returncode


@dataclass(frozen=True)
class World:
    """The running programs, and their addresses.

    Attributes:
        watch: Prometheus, Alertmanager and a webhook.
        workers, gateway: host and port of each process.
        started: since when it runs, in seconds since 1970.
    """

    home: Path
    bootstrap: str
    application: str
    watch: Watch
    workers: tuple[str, ...]
    gateway: str
    started: float

    @property
    def prometheus(self) -> Prometheus:
        return Prometheus(self.watch.prometheus)

    def window(self) -> Window:
        """Return the time since the start."""
        return Window(start=self.started, end=time.time(), scrape=SCRAPE_S)

    def load(self, minutes: float = LOAD_MINUTES) -> str:
        """Run the load of the demo to its end; return its output."""
        environment = {
            **os.environ,
            "GATEWAY": f"http://{self.gateway}",
            "LOAD_MINUTES": str(minutes),
        }
        command = [sys.executable, str(ROOT / "deploy" / "compose" / "load.py")]
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600 + 60 * minutes,
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def use_slowly(self, *, times: int, pause: float, horizon: str | None = "P30D") -> None:
        """Open a dataset that outlives the load, and send a small request now and then."""
        policy = Policy(
            filter="basic", epsilon="1", delta="1e-6", horizon=horizon, odometers=(Basic(),)
        )
        with Accountant(f"http://{self.gateway}") as ledger:
            owner = ledger.as_owner("registrar")
            owner.open(SLOW, policy, as_given=True)
            owner.set_member(SLOW, "ana", roles=["analyst"], team="methods")
            more = {"part": "0.5", "pace": ("0.2", "P1D"), "reserved": "0.2"}
            owner.set_limit(SLOW, "team", "methods", **more)
            # One reservation begins, and neither ends.
            self.begin(self.reserve({"type": "pure", "epsilon": "0.01"}))
            self.reserve({"type": "pure", "epsilon": "0.015"})
            for _ in range(times):
                ledger.ask(SLOW, "pure:0.004", analyst="ana")
                time.sleep(pause)
            # Another relation of neighbours than the policy's is refused.
            ledger.ask(SLOW, "pure:0.004", analyst="eve", unit="household")

    def reserve(self, claim: dict[str, str], *, dataset: str = SLOW) -> str:
        """Reserve on a dataset; return the reservation's name."""
        more = {"unit": "person", "neighbours": "add_remove", "reserve": {"until": "PT2H"}}
        reserved = self._send("/requests", dataset, type="request", claim=claim, **more)
        assert reserved["outcome"] == "reserved", reserved
        return str(reserved["hash"])

    def begin(self, grant: str, *, dataset: str = SLOW) -> None:
        """Begin a reservation on a dataset."""
        said = self._send(
            f"/datasets/{dataset}/reservations/begin", dataset, type="begin", grant=grant
        )
        assert said["outcome"] == "begun", said

    def _send(self, path: str, dataset: str, **fields: Any) -> dict[str, Any]:
        body = {"version": 1, "request_id": uuid7(SystemClock().now(), os.urandom(10)), **fields}
        body |= {"analyst": "ana", "dataset": dataset}
        headers = {"prefer": "wait=30"}
        url = f"http://{self.gateway}{path}"
        found: dict[str, Any] = httpx.post(url, json=body, headers=headers, timeout=60).json()
        return found

    def send_garbage(self) -> None:
        """Put records that are no requests into the log, one in each partition."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for partition in range(PARTITIONS):
            producer.produce(f"{self.application}.requests", b"{", partition=partition)
        assert producer.flush(30) == 0

    def fence(self, partition: int) -> None:
        """Take a partition's transactions over, as a second owner would."""
        intruder = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": f"{self.application}-{partition}",
            }
        )
        intruder.init_transactions(30)


@contextmanager
def world(broker: LocalBroker, application: str, programs: Programs, home: Path) -> Iterator[World]:
    """Start two workers, a gateway, a curator, Prometheus and Alertmanager, and end them."""
    started = time.time()
    environment = {
        **os.environ,
        "ACCOUNTANT_URL": f"kafka://{broker.bootstrap}",
        "ACCOUNTANT_APPLICATION": application,
        "ACCOUNTANT_TOPIC_PREFIX": f"{application}.",
        "ACCOUNTANT_PARTITIONS": str(PARTITIONS),
        "ACCOUNTANT_LOG_FORMAT": "json",
        "ACCOUNTANT_METRICS_ANALYSTS": "100",
        "ACCOUNTANT_METRICS_LEVELS": "100",
        "ACCOUNTANT_DATA_SOURCES": str(home / "sources.json"),
    }
    (home / "sources.json").write_text('{"census": {"kind": "csv", "path": "census.csv"}}')
    subprocess.run(
        [ACCOUNTANT, "topics", "create"], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    with ExitStack() as stack:

        def start(command: str, name: str, port: str) -> str:
            number = free_port()
            own = {**environment, port: str(number), "ACCOUNTANT_INSTANCE_ID": name}
            stack.enter_context(running([ACCOUNTANT, command], home / f"{name}.log", env=own))
            return f"127.0.0.1:{number}"

        workers = tuple(
            start("worker", name, "ACCOUNTANT_METRICS_PORT") for name in ("worker-1", "worker-2")
        )
        gateway = start("gateway", "gateway", "ACCOUNTANT_PORT")
        curator = start("curator", "curator", "ACCOUNTANT_METRICS_PORT")
        for address in (*workers, gateway, curator):
            until(f"{address} ready", lambda url=f"http://{address}/readyz": ready(url))
        (home / "watch").mkdir()
        jobs = {
            "accountant-worker": list(workers),
            "accountant-gateway": [gateway],
            "accountant-curator": [curator],
        }
        watch = stack.enter_context(Watch(programs, home / "watch", jobs, interval=INTERVAL_S))
        yield World(
            home=home,
            bootstrap=broker.bootstrap,
            application=application,
            watch=watch,
            workers=workers,
            gateway=gateway,
            started=started,
        )
