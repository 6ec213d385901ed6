"""The services of docker-compose.yml as local processes: the broker, its users, HTTP servers."""

from __future__ import annotations

import re
import shlex
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.compose import first_start
from streams.testing.broker_settings import free_ports
from tests.deploy.compose_stack import ROOT, SERVICES, ComposeStack, broker_properties
from tests.forks import commands

OPENS = ("docker-compose.yml", "deploy/**")
STARTS = ("streams.cli", "deploy.compose.load")

FILE_TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")


def admin(composed: ComposeStack, name: str, password: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{composed.clients}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": name,
            "sasl.password": password,
            "ssl.ca.location": str(composed.home / "worker" / "ca.pem"),
            "logger": None,
            "log_level": 0,
        }
    )


def password(composed: ComposeStack, role: str) -> str:
    return (composed.home / role / "kafka.password").read_text()


def test_the_broker_requires_a_password_on_every_external_listener():
    properties = broker_properties()
    secured = dict(
        each.split(":") for each in properties["listener.security.protocol.map"].split(",")
    )
    assert secured == {"CLIENTS": "SASL_SSL", "INTERNAL": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    for listener in properties["listeners"].split(","):
        name, _, address = listener.partition("://")
        assert address.startswith("127.0.0.1:") == (secured[name] == "PLAINTEXT")
    assert properties["super.users"] == "User:ANONYMOUS"
    assert "listener.name.clients.scram-sha-512.sasl.jaas.config" in properties
    # The image would want Java's own key stores of a listener that is called by its protocol.
    assert "SSL://" not in properties["advertised.listeners"]
    assert "ports" not in SERVICES["kafka"]


@pytest.mark.kafka
def test_a_user_with_a_password_can_connect_but_needs_acls(composed):
    for role, name in first_start.PRINCIPALS.items():
        client = admin(composed, name, password(composed, role))
        assert client.list_topics(timeout=30).topics == {}
        (outcome,) = client.create_topics([NewTopic("decisions", 1, 1)]).values()
        with pytest.raises(KafkaException) as denied:
            outcome.result(30)
        assert denied.value.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"
    for client in (
        admin(composed, "accountant-worker", password(composed, "gateway")),
        admin(composed, "nobody", password(composed, "worker")),
        AdminClient({"bootstrap.servers": f"127.0.0.1:{composed.clients}", "log_level": 0}),
    ):
        with pytest.raises(KafkaException):
            client.list_topics(timeout=3)


def run_once(composed, name):
    """Run a one-shot service unchanged; twice, since each start runs it."""
    service = SERVICES[name]
    for _ in range(2):
        done = commands.run(*service["command"], env=composed.environment(service), text=True)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"


@contextmanager
def running(composed, name, log, **ports: str) -> Iterator[str]:
    """Run a service that stays, at a port of its own, until its own health check passes."""
    service = SERVICES[name]
    (number,) = ports.values()
    with socket.create_server(("127.0.0.1", 0)) as free:
        probed = str(free.getsockname()[1])
    environment = composed.environment(
        service, ACCOUNTANT_BIND="127.0.0.1", ACCOUNTANT_PROBE_PORT=probed, **ports
    )
    environment.pop("ACCOUNTANT_INDEX", None)
    with log.open("wb") as output:
        process = commands.start(*service["command"], env=environment, stdout=output, stderr=output)
    try:
        _, program, *words = service["healthcheck"]["test"]
        assert program == "python"
        here = [re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{probed}", word) for word in words]
        deadline = time.monotonic() + 90
        while subprocess.run([sys.executable, *here], capture_output=True).returncode != 0:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        yield f"https://127.0.0.1:{number}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(300)  # a broker of its own and a dozen commands
def test_every_default_service_accepts_a_valid_token(composed, tmp_path):
    for name in "acls", "topics":
        run_once(composed, name)
    trusted = ssl.create_default_context(cafile=composed.home / "people" / "ca.pem")
    numbers = free_ports()
    with (
        running(
            composed,
            "worker",
            tmp_path / "worker.log",
            ACCOUNTANT_METRICS_PORT=str(numbers.clients),
        ) as worker,
        running(
            composed, "gateway", tmp_path / "gateway.log", ACCOUNTANT_PORT=str(numbers.proxied)
        ) as gateway,
        httpx.Client(verify=trusted, timeout=30) as http,
    ):

        def status(address, token=None):
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return http.get(address, headers=headers).status_code

        tokens = {
            name: (composed.home / "people" / f"{name}.token").read_text()
            for name in first_start.PEOPLE
        }
        scraper = (composed.home / "prometheus" / "metrics.token").read_text()
        for server in worker, gateway:
            assert status(f"{server}/healthz") == 200
            assert status(f"{server}/metrics") == status(f"{server}/datasets") == 401
            assert status(f"{server}/metrics", scraper) == 200
            assert status(f"{server}/datasets", scraper) == 401
            assert status(f"{server}/healthz/metrics") == 200
            assert status(f"{server}/metrics", tokens["ana"]) == 403
        me = http.get(f"{gateway}/me", headers={"Authorization": f"Bearer {tokens['olga']}"})
        assert me.json()["administrator"] is True
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{gateway}/healthz")  # the system does not know its authority
        # The commands at the head of the file, as they are shown.
        (shown,) = re.findall(r"^#   export (.*)$", FILE_TEXT, re.MULTILINE)
        variables = dict(each.split("=", 1) for each in shlex.split(shown))
        variables["ACCOUNTANT_URL"] = gateway
        variables["SSL_CERT_FILE"] = str(composed.home / "people" / variables["SSL_CERT_FILE"])
        variables["ACCOUNTANT_TOKEN_FILE"] = str(
            composed.home / "people" / variables["ACCOUNTANT_TOKEN_FILE"]
        )
        environment = composed.environment({"environment": {}}, **variables)
        listed = commands.run("dataset", "list", env=environment, text=True)
        assert listed.returncode == 0, listed.stderr
        load = subprocess.run(
            [sys.executable, str(ROOT / "deploy" / "compose" / "load.py")],
            env={
                **environment,
                "GATEWAY": gateway,
                "TOKENS": str(composed.home / "people"),
                "LOAD_REQUESTS": "40",
                "LOAD_MINUTES": "0",
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert load.returncode == 0, load.stdout + load.stderr
        assert "census: opened" in load.stdout
        assert "granted" in load.stdout
        assert "not_permitted" not in load.stdout
