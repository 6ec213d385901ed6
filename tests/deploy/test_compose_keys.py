"""The secrets of docker-compose.yml's first start: they last, are renewed, and have few readers."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import stat
import subprocess
import sys

import pytest

from deploy.compose import first_start
from streams.auth.metrics_token import read_metrics_token
from tests.deploy.compose_stack import ROOT, SERVICES
from tests.every_case import every_case

OPENS = ("docker-compose.yml", "deploy/**")
STARTS = ("deploy.compose.first_start",)

pytestmark = pytest.mark.slow


def test_no_secret_is_readable_by_others_and_shared_ones_by_the_group(keys):
    shared = {"broker/broker.pem"}
    shared |= {f"broker/users/{name}.properties" for name in first_start.PRINCIPALS.values()}
    shared |= {"prometheus/metrics.token"}
    shared |= {f"{role}/ca.pem" for role in (*first_start.PRINCIPALS, "people", "prometheus")}
    for path in keys.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_file():
            name = str(path.relative_to(keys))
            assert mode == (0o640 if name in shared else 0o600), name
        else:
            assert not mode & 0o007


def test_valid_secrets_stay_and_expiring_ones_are_made_again(keys):
    now = dt.datetime.now(dt.UTC)
    before = {path: path.read_bytes() for path in keys.rglob("*") if path.is_file()}
    assert first_start.certificates_hold(now)
    first_start.make()
    assert before == {path: path.read_bytes() for path in keys.rglob("*") if path.is_file()}
    late = first_start.VALID - first_start.RENEWED
    assert first_start.certificates_hold(now + late - dt.timedelta(days=1))
    assert not first_start.certificates_hold(now + late + dt.timedelta(days=1))


@every_case("lost", ["worker/ca.pem", "gateway/server.key", "broker/broker.pem"])
def test_a_missing_certificate_or_one_of_another_authority_is_detected(lost, keys):
    path, now = keys / lost, dt.datetime.now(dt.UTC)
    content = path.read_bytes()
    try:
        path.unlink()
        assert not first_start.certificates_hold(now)
        if lost.endswith("ca.pem"):
            key = first_start.ec.generate_private_key(first_start.ec.SECP256R1())
            first_start.put(path, first_start.pem(first_start.certificate("", key, key, now)))
            assert not first_start.certificates_hold(now)
    finally:
        first_start.put(path, content, 0o640 if lost != "gateway/server.key" else 0o600)
    assert first_start.certificates_hold(now)


def test_each_service_with_tls_has_a_certificate_of_its_name():
    named = {name for name in first_start.NAMES if name != "localhost"}
    assert named == {
        name
        for name, service in SERVICES.items()
        if name == "kafka"
        or re.fullmatch(r"worker|gateway|curator", str(*service.get("command", [""])[:1]))
    }


def test_each_user_has_a_token_and_the_servers_store_only_its_hash(keys):
    known = {row["name"] for row in json.loads((keys / "tokens/tokens.json").read_text())["tokens"]}
    assert known == {*first_start.PEOPLE}
    files = {name: keys / "people" / f"{name}.token" for name in first_start.PEOPLE}
    texts = {file.read_text() for file in files.values()}
    assert len(texts) == len(known)
    assert all(first_start.TOKEN.fullmatch(text) for text in texts)
    assert not any(text in (keys / "tokens/tokens.json").read_text() for text in texts)


def test_prometheus_and_each_server_have_one_metrics_token(keys):
    files = [keys / role / "metrics.token" for role in ("prometheus", *first_start.SERVERS)]
    (token,) = {read_metrics_token(each) for each in files[1:]} | {files[0].read_bytes()}
    files[1].unlink()
    first_start.make()
    assert len({each.read_bytes() for each in files} | {token}) == 2  # a new one, for all


def show(keys, *words):
    script = ROOT / "deploy/compose/first_start.py"
    environment = {**os.environ, "HOME_OF_SECRETS": str(keys)}
    command = [sys.executable, str(script), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_a_token_and_the_certificate_of_the_authority_are_shown_and_nothing_else(keys):
    shown = show(keys, "show", "olga")
    assert shown.stdout == (keys / "people/olga.token").read_text() + "\n"
    assert show(keys, "show", "ca").stdout == (keys / "people/ca.pem").read_text()
    for words in ("show", "eve2"), ("show", "../tokens/tokens"), ("show",), ():
        refused = show(keys, *words)
        assert refused.returncode == 1
        assert refused.stdout == ""


def test_a_lost_token_file_is_replaced_and_its_token_revoked(keys):
    path = keys / "people" / "ana.token"
    before = path.read_text()
    path.unlink()
    first_start.make()
    assert path.read_text() != before
    rows = json.loads((keys / "tokens/tokens.json").read_text())["tokens"]
    assert ["revoked" in row for row in rows if row["name"] == "ana"] == [True, False]
