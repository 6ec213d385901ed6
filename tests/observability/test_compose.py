"""What of docker-compose.yml can be tried without Docker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.testing import LocalBroker
from streams.testing.kafka_install import java, kafka_jars, kafka_version
from tests.observability.programs import Programs, free_port, running, until
from tests.observability.world import ROOT, SERVICES, check

WEBHOOK = ROOT / "deploy" / "compose" / "webhook.py"
NOBODY = "127.0.0.1:9"


def compose(*arguments: str, file: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROOT / "scripts" / "compose.sh")]
    if file is not None:
        command += ["-f", str(file)]
    return subprocess.run(
        [*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def downloaded() -> None:
    """The script says that it downloads; what the program itself says is judged after that."""
    assert compose("version").returncode == 0


@pytest.mark.usefixtures("downloaded")
@pytest.mark.parametrize("profile", [(), ("--profile", "demo")], ids=["small", "demo"])
def test_docker_compose_accepts_the_file(profile: tuple[str, ...]) -> None:
    done = compose(*profile, "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    wanted = {name for name, one in SERVICES.items() if profile or "profiles" not in one}
    assert set(json.loads(done.stdout)["services"]) == wanted


def test_docker_compose_rejects_a_wrong_file(tmp_path: Path) -> None:
    """The check can fail, also on an error that a schema does not find."""
    text = (ROOT / "docker-compose.yml").read_text()
    for before, after in ("prometheus:/prometheus", "nowhere:/prometheus"), ("topics:", "them:"):
        wrong = tmp_path / "docker-compose.yml"
        wrong.write_text(text.replace(before, after, 1))
        assert compose("--profile", "demo", "config", "--quiet", file=wrong).returncode != 0


@pytest.mark.parametrize("service", ["worker", "worker-2", "gateway", "curator", "webhook"])
def test_a_health_check_fails_if_nothing_answers(service: str) -> None:
    assert check(service, NOBODY) != 0


@pytest.mark.parametrize("service", ["prometheus", "alertmanager"])
def test_a_programs_health_check_fails_if_nothing_answers(service: str, programs: Programs) -> None:
    assert check(service, NOBODY, programs) != 0


def test_the_health_check_of_a_running_broker_passes(
    own_broker: LocalBroker, tmp_path: Path
) -> None:
    """kafka-broker-api-versions.sh starts this class of the tools that the image has."""
    from jgo.maven import MavenContext

    assert "kafka-broker-api-versions.sh" in SERVICES["kafka"]["healthcheck"]["test"][1]
    context = MavenContext(repo_cache=tmp_path, local_repos=[], timeout=30)
    tools = f"org.apache.kafka:kafka-tools:{kafka_version()}"
    found, others = context.resolver.resolve([context.create_dependency(tools)])
    jars = [
        one.artifact.resolve()
        for one in (*found, *others)
        if one.scope in {None, "compile", "runtime"} and one.type == "jar"
    ]
    path = os.pathsep.join(map(str, [*jars, *kafka_jars(kafka_version())]))
    command = [
        java(), "-cp", path, "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "--bootstrap-server", own_broker.bootstrap,
    ]  # fmt: skip
    up = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert up.returncode == 0, up.stderr
    assert "Produce(0)" in up.stdout
    own_broker.kill()
    # It tries for a minute; the check in the compose file is ended after ten seconds.
    with pytest.raises((subprocess.TimeoutExpired, subprocess.CalledProcessError)):
        subprocess.run(command, capture_output=True, timeout=10, check=True)


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    address, log = f"127.0.0.1:{free_port()}", tmp_path / "webhook.log"
    environment = {**os.environ, "PORT": address.split(":")[1]}
    with running([sys.executable, WEBHOOK], log, env=environment):
        until("the webhook listens", lambda: check("webhook", address) == 0, log)
        yield address, log


def post(address: str, body: bytes) -> int:
    request = urllib.request.Request(f"http://{address}/owners", data=body)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_webhook_prints_a_line_for_each_alert(webhook: tuple[str, Path]) -> None:
    address, log = webhook
    alert = {
        "status": "firing",
        "labels": {"alertname": "PrivacyBudgetLow", "severity": "warning", "dataset": "census"},
        "annotations": {"summary": "Dataset census has used 81% of its privacy budget."},
    }
    body = json.dumps({"version": "4", "alerts": [alert, alert | {"status": "resolved"}]})
    assert post(address, body.encode()) == 200
    lines = until("two lines", lambda: log.read_text().splitlines()[1:])
    assert lines[0] == (
        "firing PrivacyBudgetLow severity=warning dataset=census | "
        "Dataset census has used 81% of its privacy budget."
    )
    assert lines[1].startswith("resolved PrivacyBudgetLow ")


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"alerts": [1]}', b"null"])
def test_the_webhook_survives_a_malformed_message(webhook: tuple[str, Path], body: bytes) -> None:
    address, _ = webhook
    assert post(address, body) == 400
    assert post(address, b'{"alerts": []}') == 200
