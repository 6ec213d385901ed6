"""A deployment as the runbooks' reader has it, and the values of the variables in their box."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from accountant.times import uuid7
from streams.auth import token_file
from streams.client import Accountant
from streams.clock import SystemClock
from tests.forks import commands
from tests.kafka.secured_ledger import SecuredLedger
from tests.observability.programs import free_port, running, until
from tests.patience import PATIENCE_S
from tests.runbooks.page import Block, box
from tests.streams.auth.certificates import certificate

STARTS = ("streams.cli", "streams.serve", "streams.worker.app", "streams.curator.start")

ACCOUNTANT: Final = Path(sys.executable).with_name("accountant")
NAMES: Final = ("root", "olga", "ana")
METRICS_TOKEN: Final = "m" * 40
_SESSION: Final = {
    "type": "ex_post",
    "epsilon": "0.1",
    "sensitivity": "1",
    "first": "100",
    "least": "10",
}
_POLICY: Final = {"filter": "basic", "epsilon": "1", "horizon": "P30D", "access": "members"}
_LIMITED: Final = {"PrivacyTeamShareAlmostUsed", "PrivacyPaceUsedUp"}
_RESERVED: Final[dict[str, tuple[dict[str, str], ...]]] = {
    "PrivacyDatasetSuspended": ({"type": "begin"}, {"type": "settle", "shown": "5"}),
    "PrivacyReservationExpiring": (),
    "PrivacyReservationLapsed": (),
    "PrivacyReservationNotSettled": ({"type": "begin"},),
    "PrivacyReservationsNearLimit": (),
}
"""The steps of the one reservation that the text of an alert is about."""


@dataclass(frozen=True)
class Stack:
    """One deployment.

    Attributes:
        home: the directory of its files.
        server, worker: addresses. Of `serve` they are one.
        values: of the variables in the box, without the token's.
        tokens: file of the token by name; none without authentication.
        log: of the process at `worker`.
    """

    home: Path
    server: str
    worker: str
    values: dict[str, str]
    log: Path
    tokens: Mapping[str, Path] = field(default_factory=dict)

    def environment(self, block: Block) -> dict[str, str]:
        """Return the environment before the box is loaded."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("ACCOUNTANT_")}
        as_owner = {} if self.tokens else {"ACCOUNTANT_OWNER": "olga"}
        path = commands.path_of_shell()
        return {**inherited, "PATH": path, "USER": "operator", "COLUMNS": "120", **as_owner}

    def on_call(self, block: Block) -> str:
        """Return the box with this deployment's values; it sets no other variable."""
        values = {**self.values, "DATASET": block.dataset}
        if self.tokens:
            values["ACCOUNTANT_TOKEN_FILE"] = str(self.tokens[block.reader])

        def value(match: re.Match[str]) -> str:
            name = match[1]
            return f" {name}='{values[name]}'" if name in values else ""

        lines = re.sub(r" ([A-Z_]+)=(\S*)", value, box()).splitlines(keepends=True)
        return "".join(line for line in lines if not re.fullmatch(r"export\s*(#.*)?\n", line))

    def run(self, block: Block, **more: str) -> subprocess.CompletedProcess[str]:
        """Load the box, then run a block as printed."""
        loaded = self.home / f"{block.name}.sh"
        loaded.write_text(self.on_call(block))
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", f". {loaded}\n{block.text}"],
            env={**self.environment(block), **more},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def is_ready(self, address: str) -> bool:
        """Tell whether a process is ready, as its operator asks."""
        trusted = {"SSL_CERT_FILE": self.values["SSL_CERT_FILE"]}
        done = commands.run("ready", "--url", address, env={**os.environ, **trusted})
        return done.returncode == 0

    def prepare(self, blocks: Sequence[Block]) -> None:
        """Open a dataset for each block, and bring it into the state that its text is about."""
        with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
            if "SSL_CERT_FILE" in self.values:
                patch.setenv("SSL_CERT_FILE", self.values["SSL_CERT_FILE"])

            def connect(name: str) -> Accountant:
                token = self.tokens[name].read_text() if self.tokens else None
                return stack.enter_context(Accountant(self.server, token=token, wait=PATIENCE_S))

            olga, ana, root = connect("olga"), connect("ana"), connect("root")
            for block in blocks:
                self._prepare(block, olga, ana)
            for block in blocks:
                if block.entry == "PrivacyAdministratorRecord":
                    administrator = root.as_administrator("root")
                    administrator.set_member(block.dataset, "aud", roles=["auditor"])

    def _prepare(self, block: Block, olga: Accountant, ana: Accountant) -> None:
        name, owner = block.dataset, olga.as_owner("olga")
        assert owner.open(name, _POLICY, as_given=True).outcome == "opened"
        owner.set_member(name, "ana", roles=["analyst"], team="methods")
        if block.entry in _LIMITED:
            owner.set_limit(name, "team", "methods", part="0.5", pace=("0.4", "P1D"))
        assert ana.ask(name, "pure:0.01", analyst="ana", purpose="dashboard").granted
        assert not ana.ask(name, "pure:5", analyst="ana").granted
        if block.entry in _RESERVED:
            self._reserve(name, _RESERVED[block.entry])
        if block.entry == "PrivacyGuaranteeVoid":
            owner.record(name, "pure:5", released_at="2026-01-01", evidence="a table")
        if "dataset resume" in block.text or block.entry == "PrivacyDatasetPaused":
            olga.as_owner("olga", reason="a loop spends the budget").pause(name)

    def _reserve(self, dataset: str, steps: Sequence[Mapping[str, str]]) -> None:
        """Reserve as ana, and take some steps of the reservation."""
        token = self.tokens["ana"].read_text().strip() if self.tokens else ""
        body: dict[str, Any] = {"version": 1, "analyst": "ana", "dataset": dataset}
        asked = {
            "type": "request",
            "claim": _SESSION,
            "unit": "person",
            "neighbours": "add_remove",
            "purpose": "join",
            "reserve": {"until": "PT2H"},
        }
        with httpx.Client(
            base_url=self.server,
            headers={"authorization": f"Bearer {token}"} if token else None,
            trust_env=False,
            verify=ssl.create_default_context(cafile=self.values.get("SSL_CERT_FILE")),
        ) as client:

            def send(path: str, record: Mapping[str, Any]) -> dict[str, Any]:
                made = {**body, **record, "request_id": uuid7(SystemClock().now(), os.urandom(10))}
                found: dict[str, Any] = client.post(path, json=made).json()
                return found

            reserved = send("/requests", asked)
            assert reserved["outcome"] == "reserved", reserved
            for step in steps:
                path = f"/datasets/{dataset}/reservations/{step['type']}"
                said = send(path, {**step, "grant": reserved["hash"]})
                assert said.get("reason", "") in {"", "beyond_maximum"}, said


def _token_files(home: Path) -> tuple[dict[str, str], dict[str, Path]]:
    """Return the settings of a server with tokens and TLS, and the file of each token."""
    known, now, files = home / "tokens.json", SystemClock().now(), {}
    for name in NAMES:
        files[name] = home / f"{name}.token"
        files[name].touch(0o600)
        files[name].touch(0o600)
        files[name].write_text(token_file.create(known, name, now=now).token)
    scraper = home / "metrics.token"
    scraper.touch(0o600)
    scraper.write_text(METRICS_TOKEN)
    tls = certificate(home)
    settings = {
        "ACCOUNTANT_TOKENS": str(known),
        "ACCOUNTANT_ADMINISTRATORS": "root",
        "ACCOUNTANT_OPENERS": "olga",
        "ACCOUNTANT_METRICS_TOKEN_FILE": str(scraper),
        "ACCOUNTANT_TLS_CERTIFICATE": str(tls.certificate),
        "ACCOUNTANT_TLS_KEY": str(tls.key),
    }
    return settings, files


def _exported(home: Path) -> dict[str, str]:
    """Return the settings of the metrics that some alerts need."""
    return {
        "ACCOUNTANT_METRICS_LEVELS": "100",
        "ACCOUNTANT_CHECKPOINTS": str(home / "checkpoints"),
    }


def _sources(home: Path) -> dict[str, str]:
    """Return the settings of a process that runs questions; nobody asks any."""
    path = home / "sources.json"
    path.write_text("{}")
    return {"ACCOUNTANT_DATA_SOURCES": str(path)}


@contextlib.contextmanager
def on_a_file(home: Path, blocks: Sequence[Block], *, authenticates: bool) -> Iterator[Stack]:
    """Run `accountant serve`, with tokens and TLS or without both."""
    settings, tokens = _token_files(home) if authenticates else ({}, {})
    url = f"sqlite:///{home / 'ledger.db'}"
    environment = {**os.environ, **_exported(home), **_sources(home), "ACCOUNTANT_URL": url}
    log = home / "serve.log"
    command = [ACCOUNTANT, "serve", "--port", "0"]
    with running(command, log, env={**environment, **settings}, cwd=home):

        def address() -> str | None:
            found = re.search(r"listening at (https?://\S+)", log.read_text())
            return found and found[1]

        server = str(until("the ledger listens", address, log))
        values = {"ACCOUNTANT_URL": server, "WORKER": server, "CURATOR": server, "LOG": url}
        if authenticates:
            values["SSL_CERT_FILE"] = settings["ACCOUNTANT_TLS_CERTIFICATE"]
        stack = Stack(home, server, server, values, log, tokens)
        stack.prepare(blocks)
        yield stack


@contextlib.contextmanager
def on_kafka(home: Path, ledger: SecuredLedger, blocks: Sequence[Block]) -> Iterator[Stack]:
    """Run worker, gateway and curator with tokens and TLS, on a broker with SASL, TLS and ACLs."""
    settings, tokens = _token_files(home)
    port, own, of_curator = free_port(), free_port(), free_port()
    logs = {name: home / f"{name}.log" for name in ("worker", "gateway", "curator")}
    every = {**settings, **_exported(home), "ACCOUNTANT_METRICS_PORT": str(own)}
    for name in ("auditor", "operator"):
        secret = home / f"{name}.password"
        secret.touch(0o600)
        secret.write_text(ledger.broker.security.passwords[name])
    server, worker = f"https://127.0.0.1:{port}", f"https://127.0.0.1:{own}"
    curator = f"https://127.0.0.1:{of_curator}"
    runs_questions = {**every, **_sources(home), "ACCOUNTANT_METRICS_PORT": str(of_curator)}
    with (
        ledger.running("worker", logs["worker"], "worker", **every),
        ledger.running("gateway", logs["gateway"], "gateway", "--port", str(port), **every),
        ledger.running("curator", logs["curator"], "curator", **runs_questions),
    ):
        of_ledger = ledger.variables("auditor")
        values = {
            **{
                name: of_ledger[name]
                for name in (
                    "ACCOUNTANT_PARTITIONS",
                    "ACCOUNTANT_TOPIC_PREFIX",
                    "ACCOUNTANT_APPLICATION",
                    "ACCOUNTANT_KAFKA_SECURITY_PROTOCOL",
                    "ACCOUNTANT_KAFKA_CA",
                    "ACCOUNTANT_KAFKA_USERNAME",
                )
            },
            "ACCOUNTANT_KAFKA_PASSWORD_FILE": str(home / "auditor.password"),
            "OPERATOR": "operator",
            "OPERATOR_PASSWORD_FILE": str(home / "operator.password"),
            "SSL_CERT_FILE": settings["ACCOUNTANT_TLS_CERTIFICATE"],
            "ACCOUNTANT_URL": server,
            "WORKER": worker,
            "CURATOR": curator,
            "LOG": ledger.url,
        }
        stack = Stack(home, server, worker, values, logs["worker"], tokens)
        for address in (server, worker, curator):
            until(f"{address} ready", lambda address=address: stack.is_ready(address), stack.log)
        stack.prepare(blocks)
        yield stack
