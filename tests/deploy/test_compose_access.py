"""Connections and authentication in docker-compose.yml: tokens, passwords, certificates."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import typer

from deploy.compose import first_start
from streams.cli.root import app
from streams.settings import PREFIX
from tests.deploy.compose_stack import (
    DOCKERFILE,
    FILE,
    OURS,
    SERVICES,
    document,
    inside,
    listeners,
    settings_of,
    volumes,
    workers,
)
from tests.every_case import every_case

STARTS = ()

SERVERS = {"gateway", "worker", "serve", "curator"}
KEYS = "/etc/accountant/"


def test_every_volume_is_declared_and_used():
    assert {name for service in SERVICES for name, _, _ in volumes(service)} == set(FILE["volumes"])


def test_keys_have_one_writer_and_only_their_readers():
    made = {name: where for name, where, how in volumes("keys") if not how}
    (directories,) = re.findall(r"for each in (.*); do", DOCKERFILE)
    assert {f"{KEYS}{each}" for each in directories.split()} == set(made.values())
    readers = {name: set() for name in made}
    for service in set(SERVICES) - {"keys"}:
        for name, where, how in volumes(service):
            if name in made:
                assert how == ["ro"], (service, name)
                # An image that had the directory would give the new volume to its own user.
                assert where == made[name], (service, name)
                readers[name].add(service)
    assert readers == {
        "keys-broker": {"kafka", "users"},
        "keys-worker": {"worker", "worker-2"},
        "keys-gateway": {"gateway"},
        "keys-curator": {"curator"},
        "keys-operator": {"topics"},
        "keys-people": {"load"},
        "keys-prometheus": {"prometheus"},
        "tokens": {"worker", "worker-2", "gateway", "curator"},
    }


def test_programs_of_other_users_read_keys_by_their_group():
    user, group = SERVICES["keys"]["user"].split(":")
    assert f"groupadd --gid {group} " in DOCKERFILE
    assert f"USER {user}\n" in DOCKERFILE
    for name, service in SERVICES.items():
        foreign = not service["image"].startswith(OURS)
        reads = any(each.startswith("keys-") for each, _, _ in volumes(name))
        assert service.get("group_add") == ([group] if foreign and reads else None), name


def test_every_http_server_requires_tokens_and_uses_tls():
    servers = {name for name, one in SERVICES.items() if set(one.get("command", ())) & SERVERS}
    assert servers == {"gateway", "curator", *workers()}
    for name in servers:
        settings = settings_of(name)
        assert settings.authenticates
        assert settings.tls_certificate
        assert settings.tls_key
        assert settings.administrators == first_start.ADMINISTRATOR
        assert set(settings.openers.split(",")) == {one.by for one in first_start.DATASETS}
        assert settings.metrics_readers == ""
        assert str(settings.metrics_token_file).endswith(f"/{first_start.METRICS_TOKEN}")
        assert str(settings.tokens) == SERVICES["keys"]["environment"]["ACCOUNTANT_TOKENS"]
    assert "UNAUTHENTICATED" not in str(FILE)


def test_every_program_connects_to_the_broker_with_tls_and_its_own_name():
    roles = {"gateway": "gateway", "curator": "curator", "topics": "operator"}
    roles |= dict.fromkeys(workers(), "worker")
    for name, role in roles.items():
        settings = settings_of(name)
        assert settings.kafka_security_protocol == "SASL_SSL"
        assert settings.kafka_username == first_start.PRINCIPALS[role]
        assert settings.url == f"kafka://{listeners()['CLIENTS']}"
    kafka = {name for name, one in SERVICES.items() if "ACCOUNTANT_URL" in str(one)}
    assert kafka == {*roles, "acls"}


def test_every_file_of_a_setting_is_made_by_the_first_start(tmp_path, monkeypatch):
    monkeypatch.setattr(first_start, "HOME", tmp_path)
    first_start.make_certificates(first_start.dt.datetime.now(first_start.dt.UTC))
    for role, principal in first_start.PRINCIPALS.items():
        first_start.make_password(role, principal)
    first_start.make_metrics_token()
    by_token = {"tokens/tokens.json", "people"}
    texts = {name: list(one.get("environment", {}).values()) for name, one in SERVICES.items()}
    scraped = str(document("deploy/prometheus/prometheus.yml"))
    texts["prometheus"] = re.findall(f"{KEYS}[a-z./]+", scraped)
    assert len(texts["prometheus"]) == 9
    mounted = {(name, path) for name in texts for path in texts[name] if str(path).startswith(KEYS)}
    assert len(mounted) > 20
    for name, path in mounted:
        file = path.removeprefix(KEYS)
        assert (tmp_path / file).exists() or file in by_token, f"{name}: {path}"
        mounted = [where for _, where, _ in volumes(name)]
        assert any(path == where or path.startswith(f"{where}/") for where in mounted), path


def test_the_brokers_acls_name_the_principals_that_connect():
    principals = [word.split("=", 1)[1] for word in SERVICES["acls"]["command"] if "=" in word]
    assert dict(each.split("=") for each in principals) == first_start.PRINCIPALS
    for name in "acls", "users":
        assert SERVICES[name]["network_mode"] == "service:kafka"
    here = settings_of("acls")
    assert here.url == f"kafka://{listeners()['INTERNAL']}"
    worker = settings_of("worker")
    assert (here.application, here.partitions) == (worker.application, worker.partitions)


COMMANDS = {
    name: service["command"]
    for name, service in SERVICES.items()
    if service["image"].startswith(OURS) and "entrypoint" not in service
}


@every_case("name", COMMANDS)
def test_every_command_is_one_of_the_program_with_its_options(name):
    words = COMMANDS[name]
    found = typer.main.get_command(app)
    for word in words:
        if not word.startswith("-"):
            found = found.commands[word]
    known = {option for parameter in found.params for option in parameter.opts}
    assert {f"{PREFIX}URL"} & set(SERVICES[name]["environment"])
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known


def test_setup_scripts_exist_and_parse():
    program, script = SERVICES["users"]["entrypoint"]
    file = inside("users", script)
    assert subprocess.run([Path(program).name, "-n", file]).returncode == 0
    assert f"--bootstrap-server {listeners()['INTERNAL']} " in file.read_text(encoding="utf-8")
    assert inside("keys", SERVICES["keys"]["entrypoint"][1]).is_file()
    assert SERVICES["keys"]["network_mode"] == "none"


def test_no_service_starts_before_its_secrets_exist():
    order = {name: set(one.get("depends_on", ())) for name, one in SERVICES.items()}
    chain = ["keys", "kafka", "users", "acls", "topics"]
    for first, second in itertools.pairwise(chain):
        assert order[second] == {first}
    for each in ("gateway", "curator", *workers()):
        assert order[each] == {"topics"}


def test_the_load_asks_with_each_persons_own_token():
    environment = SERVICES["load"]["environment"]
    assert environment["GATEWAY"] == "https://gateway:8000"
    assert environment["SSL_CERT_FILE"] == f"{environment['TOKENS']}/ca.pem"
    asking = {ask.analyst for ask in first_start.week(first_start.USUAL)}
    assert asking | {one.by for one in first_start.DATASETS} < set(first_start.PEOPLE)


def test_the_commands_in_the_files_comment_exist():
    text = (inside("keys", "/compose").parents[1] / "docker-compose.yml").read_text()
    shown = re.findall(r"^#.* compose run --rm --no-deps -T keys (\S+) (\S+) ", text, re.MULTILINE)
    assert shown == [("show", "ca"), ("show", first_start.ADMINISTRATOR)]
