"""The broker of docker-compose.yml as a process here: its settings, its users, who is let in."""

from __future__ import annotations

import datetime as dt
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.compose import first_start
from streams.testing import LocalBroker
from streams.testing.broker_settings import free_ports
from streams.testing.kafka_install import java, kafka_jars, kafka_version

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
SERVICE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["kafka"]
NO_PROPERTIES = {"KAFKA_LOG_DIRS"}


def properties() -> dict[str, str]:
    """Return what the image makes of its environment."""
    found = {}
    for name, value in SERVICE["environment"].items():
        if name.startswith("KAFKA_") and name not in NO_PROPERTIES:
            key = name.removeprefix("KAFKA_").lower().replace("_", ".")
            found[key.replace("...", "-").replace("..", "_")] = value
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The volumes of the keys, as a first start leaves them."""
    made = tmp_path_factory.mktemp("keys")
    before, first_start.HOME = first_start.HOME, made
    first_start.make_certificates(dt.datetime.now(dt.UTC))
    for role, principal in first_start.PRINCIPALS.items():
        first_start.make_password(role, principal)
    yield made
    first_start.HOME = before


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    """The ports of INTERNAL and of CLIENTS."""
    chosen = free_ports()
    return chosen.clients, chosen.proxied


@pytest.fixture(scope="module")
def secured(home: Path, ports: tuple[int, int]) -> Iterator[LocalBroker]:
    """The broker with its users; only its ports, its address and the directory are others."""
    controller = free_ports().controller
    internal, clients = ports
    here = {":9092": f":{clients}", ":9093": f":{controller}", ":9094": f":{internal}"}
    settings = {}
    for key, value in properties().items():
        text = value.replace("CLIENTS://:", "CLIENTS://127.0.0.1:").replace(
            "//kafka:", "//127.0.0.1:"
        )
        for port, other in here.items():
            text = text.replace(port, other)
        settings[key] = text.replace("/etc/accountant", str(home))
    with LocalBroker(port=internal, settings=settings, short_lived=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def users(secured: LocalBroker, home: Path, ports: tuple[int, int], tmp_path_factory) -> None:
    """What deploy/compose/users.sh does; the tool is the class that the image's script starts."""
    tool = tmp_path_factory.mktemp("tool") / "kafka-configs.sh"
    jars = os.pathsep.join(map(str, kafka_jars(kafka_version())))
    tool.write_text(f'#!/bin/sh\nexec "{java()}" -cp "{jars}" kafka.admin.ConfigCommand "$@"\n')
    tool.chmod(0o755)
    script = (ROOT / "deploy/compose/users.sh").read_text()
    for there, here in (
        ("/opt/kafka/bin/kafka-configs.sh", str(tool)),
        ("/etc/accountant", str(home)),
        ("127.0.0.1:9094", f"127.0.0.1:{ports[0]}"),
    ):
        assert there in script
        script = script.replace(there, here)
    for _ in range(2):  # as often as one likes
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def admin(port: int, home: Path, name: str, password: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": name,
            "sasl.password": password,
            "ssl.ca.location": str(home / "worker" / "ca.pem"),
            "logger": None,
            "log_level": 0,
        }
    )


def password(home: Path, role: str) -> str:
    return (home / role / "kafka.password").read_text()


def test_the_settings_ask_everybody_but_the_broker_itself_for_a_password():
    given = properties()
    secured = dict(each.split(":") for each in given["listener.security.protocol.map"].split(","))
    assert secured == {"CLIENTS": "SASL_SSL", "INTERNAL": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    for listener in given["listeners"].split(","):
        name, _, address = listener.partition("://")
        assert address.startswith("127.0.0.1:") == (secured[name] == "PLAINTEXT")
    assert given["super.users"] == "User:ANONYMOUS"
    assert "listener.name.clients.scram-sha-512.sasl.jaas.config" in given
    # The image would want Java's own key stores of a listener that is called by its protocol.
    assert "SSL://" not in given["advertised.listeners"]
    assert "ports" not in SERVICE


@pytest.mark.parametrize("role", first_start.PRINCIPALS)
@pytest.mark.usefixtures("users")
def test_a_role_is_let_in_by_its_password_and_may_do_nothing_without_a_rule(role, home, ports):
    name = first_start.PRINCIPALS[role]
    client = admin(ports[1], home, name, password(home, role))
    assert client.list_topics(timeout=30).topics == {}
    (outcome,) = client.create_topics([NewTopic("decisions", 1, 1)]).values()
    with pytest.raises(KafkaException) as denied:
        outcome.result(30)
    assert denied.value.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.usefixtures("users")
def test_a_wrong_password_and_a_client_without_one_are_turned_away(home, ports):
    for client in (
        admin(ports[1], home, "accountant-worker", password(home, "gateway")),
        admin(ports[1], home, "nobody", password(home, "worker")),
        AdminClient({"bootstrap.servers": f"127.0.0.1:{ports[1]}", "log_level": 0}),
    ):
        with pytest.raises(KafkaException):
            client.list_topics(timeout=3)


def test_no_secret_is_readable_by_others_and_what_another_user_needs_by_the_group(home):
    shared = {"broker/broker.pem"}
    shared |= {f"broker/users/{name}.properties" for name in first_start.PRINCIPALS.values()}
    shared |= {f"{role}/ca.pem" for role in (*first_start.PRINCIPALS, "people", "prometheus")}
    for path in home.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_file():
            name = str(path.relative_to(home))
            assert mode == (0o640 if name in shared else 0o600), name
        else:
            assert not mode & 0o007


def test_what_holds_is_kept_and_what_ends_soon_is_made_anew(home):
    now = dt.datetime.now(dt.UTC)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert first_start.certificates_hold(now)
    for role, principal in first_start.PRINCIPALS.items():
        first_start.make_password(role, principal)
    assert before == {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    late = first_start.VALID - first_start.RENEWED
    assert first_start.certificates_hold(now + late - dt.timedelta(days=1))
    assert not first_start.certificates_hold(now + late + dt.timedelta(days=1))


@pytest.mark.parametrize("lost", ["worker/ca.pem", "gateway/door.key", "broker/broker.pem"])
def test_a_certificate_that_is_lost_or_of_another_authority_is_noticed(lost, home):
    path, now = home / lost, dt.datetime.now(dt.UTC)
    kept = path.read_bytes()
    try:
        path.unlink()
        assert not first_start.certificates_hold(now)
        if lost.endswith("ca.pem"):
            key = first_start.ec.generate_private_key(first_start.ec.SECP256R1())
            first_start.put(path, first_start.pem(first_start.certificate("", key, key, now)))
            assert not first_start.certificates_hold(now)
    finally:
        first_start.put(path, kept, 0o640 if lost != "gateway/door.key" else 0o600)
    assert first_start.certificates_hold(now)


def test_the_names_of_certificates_are_those_of_services():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    named = {name for name in first_start.NAMES if name != "localhost"}
    assert named == {
        name
        for name, service in services.items()
        if name == "kafka"
        or re.fullmatch(r"worker|gateway", str(*service.get("command", [""])[:1]))
    }
