"""Prometheus, Alertmanager and their tools as processes, with the configuration we ship."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.patience import PATIENCE_S

OPENS = ("deploy/**",)
STARTS = ()

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
ACCOUNTANT = Path(sys.executable).with_name("accountant")
ALERTMANAGER = DEPLOY / "alertmanager" / "alertmanager.yml"


@dataclass(frozen=True)
class Programs:
    """The directory that holds them."""

    where: Path

    def path(self, *names: str) -> Path:
        for name in names:
            if (self.where / name).is_file():
                return self.where / name
        raise FileNotFoundError(f"none of {names} in {self.where}: make test-observability")

    def run(self, name: str, *arguments: object, stdin: str | None = None) -> str:
        """Return a tool's output; its exit code must be 0."""
        done = subprocess.run(
            [self.path(name), *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def until(
    what: str, holds: Callable[[], Any], log: Path | None = None, *, seconds: float = PATIENCE_S
) -> Any:
    """Return the result of `holds` once it is true."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if found := holds():
                return found
        shown = log.read_text()[-3000:] if log else ""
        assert time.monotonic() < deadline, f"{what} did not come about\n{shown}"
        time.sleep(0.05)


@contextlib.contextmanager
def running(command: Sequence[object], log: Path, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=out, **more)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Receiver:
    """The receiver of Alertmanager's webhooks; it records each message, its path and its time."""

    def __init__(self) -> None:
        self.messages: list[tuple[float, str, dict[str, Any]]] = []
        messages = self.messages

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                messages.append((time.time(), self.path, json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def of(self, alertname: str, status: str) -> list[tuple[float, str, dict[str, Any]]]:
        """Return (time, path, alert) of each delivery of one alert in one state."""
        return [
            (at, path, alert)
            for at, path, message in self.messages
            for alert in message["alerts"]
            if alert["labels"]["alertname"] == alertname and alert["status"] == status
        ]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def get(url: str, **query: str) -> Any:
    """Return the `data` of an answer of Prometheus, or the whole of Alertmanager's."""
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        body = json.load(answer)
    return body["data"] if isinstance(body, dict) and "data" in body else body


class Watch:
    """A Prometheus and an Alertmanager with our files; only addresses and times are others.

    Attributes:
        interval: seconds between two evaluations.
        prometheus, alertmanager: their addresses.
    """

    def __init__(
        self,
        programs: Programs,
        home: Path,
        jobs: dict[str, str | list[str]],
        *,
        interval: int,
        metrics_token: Path | None = None,
        ca: Path | None = None,
    ):
        self.interval = interval
        self._ca = ca
        self._metrics_token = metrics_token
        self.receiver = Receiver()
        self._home = home
        ports = free_port(), free_port()
        self.prometheus, self.alertmanager = (f"http://127.0.0.1:{port}" for port in ports)
        self._write(jobs, ports[1])
        self._stack = contextlib.ExitStack()
        self._stack.callback(self.receiver.close)
        try:
            self._start(programs, ports)
        except BaseException:
            self._stack.close()
            raise

    def _write(self, jobs: dict[str, str | list[str]], alertmanager: int) -> None:
        shutil.copytree(PROMETHEUS / "rules", self._home / "rules")
        config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": f"{self.interval}s"}
        config["alerting"]["alertmanagers"][0]["static_configs"] = [
            {"targets": [f"127.0.0.1:{alertmanager}"]}
        ]
        config["scrape_configs"] = [
            {
                "job_name": job,
                "static_configs": [{"targets": [to] if isinstance(to, str) else to}],
                **self._scrape(job),
            }
            for job, to in jobs.items()
        ]
        (self._home / "prometheus.yml").write_text(yaml.safe_dump(config))
        text = ALERTMANAGER.read_text().replace("http://webhook:9095", self.receiver.url)
        routes = yaml.safe_load(text)
        # How soon a group sends its changes, such as the end of an alert.
        routes["route"]["group_interval"] = "1s"
        (self._home / "alertmanager.yml").write_text(yaml.safe_dump(routes))

    def _scrape(self, job: str) -> dict[str, Any]:
        """Return the path, the token and the CA of a job, as in our prometheus.yml."""
        found: dict[str, Any] = {}
        if self._ca is not None:
            found |= {"scheme": "https", "tls_config": {"ca_file": str(self._ca)}}
        if job.endswith("-probe"):
            found["metrics_path"] = "/healthz/metrics"
        elif self._metrics_token is not None:
            found["authorization"] = {"credentials_file": str(self._metrics_token)}
        return found

    def _start(self, programs: Programs, ports: tuple[int, int]) -> None:
        alertmanager = [
            programs.path("prometheus-alertmanager", "alertmanager"),
            f"--config.file={self._home / 'alertmanager.yml'}",
            f"--storage.path={self._home / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{ports[1]}",
            "--cluster.listen-address=",
        ]
        prometheus = [
            programs.path("prometheus"),
            f"--config.file={self._home / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._home / 'data'}",
            f"--web.listen-address=127.0.0.1:{ports[0]}",
            "--enable-feature=exemplar-storage",
        ]
        for command, url in (alertmanager, self.alertmanager), (prometheus, self.prometheus):
            log = self._home / f"{Path(command[0]).name}.log"
            # From where scripts/observability.sh has unpacked usr/: templates are read there.
            started = running(command, log, cwd=programs.where.parents[1])
            self._stack.enter_context(started)
            until(f"{url} ready", lambda url=url: ready(f"{url}/-/ready"), log)

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return (labels, value) of each series that an expression gives now."""
        found = get(f"{self.prometheus}/api/v1/query", query=expression)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def value(self, expression: str) -> float | None:
        """Return the one value of an expression, None where it has none."""
        found = self.query(expression)
        return found[0][1] if found else None

    def rules(self) -> list[dict[str, Any]]:
        """Return every rule as Prometheus has it."""
        groups = get(f"{self.prometheus}/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def complaints(self) -> list[str]:
        """Return the warnings in the logs of both programs."""
        text = "".join(log.read_text() for log in self._home.glob("*.log"))
        return [
            line for line in text.splitlines() if re.search("level=(warn|err)", line, re.IGNORECASE)
        ]

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ready(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return bool(answer.status == 200)
