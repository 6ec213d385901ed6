"""On a real broker with its authorizer on: each principal does its own job, and no other's.

What is denied is tried with another client than ours, since it is the broker that denies it.
"""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.client import Accountant
from streams.errors import Refused
from streams.kafka.operate.acls.bindings import add
from streams.kafka.operate.acls.roles import ROLES
from streams.testing.broker_security import SUPER_USER
from tests.kafka.installed_curator import InstalledCurator
from tests.kafka.secured_ledger import SecuredLedger
from tests.observability.programs import free_port, until
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import ROWS

TOPICS: Final = ("requests", "admin", "decisions", "state", "dead-letters", "alerts", "answers")
# Not taken from the rules: this is what they must come to.
MAY_WRITE: Final = {
    "analyst": set(),
    "auditor": set(),
    "owner": {"admin"},
    "engine": {"requests"},
    "gateway": {"requests", "admin"},
    "worker": {"decisions", "state", "dead-letters", "alerts"},
    "curator": {"requests", "answers"},
}
MAY_READ: Final = {
    "analyst": set(),
    "auditor": {"decisions", "state", "answers"},
    "owner": {"decisions", "state"},
    "engine": {"decisions", "state"},
    "gateway": {"decisions", "state", "answers"},
    "curator": {"decisions", "state", "answers"},
    "worker": {"requests", "admin", "decisions", "state", "alerts", "answers"},
}


def test_no_principal_writes_or_reads_the_topics_of_another(secured: SecuredLedger) -> None:
    names = {topic: f"{secured.deployment(SUPER_USER).topics.prefix}{topic}" for topic in TOPICS}
    written = {
        user: {topic for topic in TOPICS if writes(secured, user, names[topic])}
        for user in (SUPER_USER, *MAY_WRITE)
    }
    assert written == {SUPER_USER: {*TOPICS}, **MAY_WRITE}
    read = {
        user: {topic for topic in TOPICS if reads(secured, user, names[topic])}
        for user in (SUPER_USER, *MAY_READ)
    }
    assert read == {SUPER_USER: {*TOPICS}, **MAY_READ}


def test_only_a_worker_uses_its_transactional_ids_and_its_group(secured: SecuredLedger) -> None:
    application = secured.deployment(SUPER_USER).application
    ids = [f"{application}-0", f"{application}-1", f"{application}-99"]
    may = {user for user in MAY_WRITE if any(begins(secured, user, each) for each in ids)}
    assert may == {"worker"}
    assert not begins(secured, "worker", "another-0"), "of another application"
    for group in (application, f"{application}-webhook"):
        may = {user for user in MAY_READ if joins(secured, user, group)}
        assert may == {"worker"}, group


async def test_no_principal_deletes_a_topic_or_grants_rights(secured: SecuredLedger) -> None:
    names = secured.deployment(SUPER_USER).topics
    for user in (*MAY_WRITE, "operator"):
        admin = AdminClient(secured.foreign(user))
        deleted = admin.delete_topics([names.decisions], operation_timeout=10)
        with pytest.raises(KafkaException) as raised:
            deleted[names.decisions].result(PATIENCE_S)
        assert raised.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, user
        where = secured.deployment(user)
        with pytest.raises(Refused, match="denies this process's principal a cluster"):
            await add(where.cluster, list(ROLES["worker"].bindings(f"User:{user}", where)))


def test_each_principal_does_its_own_job(secured: SecuredLedger, tmp_path: Path) -> None:
    port, metrics = free_port(), free_port()
    logs = {user: tmp_path / f"{user}.log" for user in ("worker", "gateway", "curator")}
    installed = InstalledCurator(secured, tmp_path / "machine")
    every = {"ACCOUNTANT_LOG_LEVEL": "debug", "ACCOUNTANT_METRICS_PORT": str(metrics)}
    with (
        secured.running("worker", logs["worker"], "worker", **every),
        secured.running("gateway", logs["gateway"], "gateway", "--port", str(port), **every),
        secured.running("curator", logs["curator"], *installed.words, **installed.variables),
    ):
        opening = ("dataset", "open", "census", "--by", "olga", "--epsilon", "1", "--delta", "1e-6")
        opened = secured.run("owner", *opening, "--wait", str(PATIENCE_S))
        assert opened.returncode == 0, opened.stderr
        with Accountant(settings=secured.settings("engine"), wait=PATIENCE_S) as engine:
            assert engine.ask("census", "pure:0.1", analyst="ana", wait=PATIENCE_S).granted
        until("the gateway's readiness", lambda: ready(port), logs["gateway"])
        with Accountant(f"http://127.0.0.1:{port}") as server:
            for _ in range(5):
                assert server.ask("census", "pure:0.1", analyst="ben", wait=PATIENCE_S).granted
            check_answers(secured, installed, server, tmp_path)
        alerts = secured.deployment(SUPER_USER).topics.alerts
        assert reads(secured, "worker", alerts), "the alert at one half"
        audited = secured.run("auditor", "audit", "--json")
        assert audited.returncode == 0, audited.stderr
        # Its rules let it ask for the broker's time.
        assert "clock_not_compared" not in logs["worker"].read_text()
        checked = secured.run("worker", "topics", "check", "--json")
        assert checked.returncode == 0, checked.stderr
        assert json.loads(checked.stdout)["authorizer"] is None, "of which a worker sees nothing"
    for log in logs.values():
        said = log.read_text()
        assert not any(password in said for password in secured.broker.security.passwords.values())
        assert "biws" not in said, "nor what proves it"


def check_answers(
    secured: SecuredLedger, installed: InstalledCurator, server: Accountant, directory: Path
) -> None:
    """Have the curator answer a question, and run a session: for that it writes to `requests`."""
    opening = ("dataset", "open", installed.dataset, "--by", "olga", "--epsilon", "1000")
    opened = secured.run("owner", *opening, "--schema", str(installed.schema), "--filter", "basic")
    assert opened.returncode == 0, opened.stderr
    member = ("member", "set", installed.dataset, "curator", "--role", "curator", "--by", "olga")
    assert secured.run("owner", *member).returncode == 0
    asked: dict[str, Any] = {"analyst": "ana", "wait": PATIENCE_S, "store": directory / "store.db"}
    answer = server.answer(installed.dataset, "count", epsilon="100", **asked)
    assert abs(float(answer.value) - ROWS) < 10
    stopped = server.answer(
        installed.dataset, "count", epsilon="100", relative_error="0.5", **asked
    )
    assert abs(float(stopped.value) - ROWS) < ROWS


def test_a_check_names_rules_that_allow_more_than_a_role(secured: SecuredLedger) -> None:
    operator = secured.run("operator", "topics", "check", "--json")
    assert operator.returncode == 0, operator.stdout
    report = json.loads(operator.stdout)
    assert (report["authorizer"], report["problems"], report["warnings"]) == (True, [], [])
    assert {role: f"User:{role}" for role in report["roles"]} == {
        role: names[0] for role, names in report["roles"].items()
    }
    # The engine becomes a worker as well.
    more = secured.run(SUPER_USER, "topics", "acls", "--principal", "worker=engine", "--apply")
    assert more.returncode == 0, more.stderr
    found = secured.run("operator", "topics", "check", "--json")
    assert found.returncode == 4
    (problem,) = json.loads(found.stdout)["problems"]
    assert problem.startswith("User:engine may ")
    assert "Write" in problem
    assert "transactional ids: no role allows all of this" in problem
    named = secured.run(
        "operator", "topics", "check", "--principal", "engine=engine", "--principal", "owner=olga"
    )
    assert named.returncode == 4
    assert "which no engine may" in named.stderr
    assert "User:olga may not Read" in named.stderr


def writes(ledger: SecuredLedger, user: str, topic: str) -> bool:
    producer = Producer(ledger.foreign(user, **{"message.timeout.ms": int(PATIENCE_S * 1000)}))
    errors: list[KafkaError | None] = []
    heard = {"on_delivery": lambda error, _: errors.append(error)}
    producer.produce(topic, b"x", b"key", partition=0, **heard)  # a compacted one wants a key
    assert producer.flush(PATIENCE_S) == 0
    return allowed(errors[0], KafkaError.TOPIC_AUTHORIZATION_FAILED)


def reads(ledger: SecuredLedger, user: str, topic: str) -> bool:
    """Return whether a user can read a record of a topic; there is one, or there will be."""
    options = {"group.id": f"{user}-{time.time_ns()}", "enable.auto.commit": False}
    consumer = Consumer(ledger.foreign(user, **options))
    try:
        report = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].error
        if not allowed(report, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            return False
        consumer.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline, f"{topic} is silent to {user}"
            message = consumer.poll(1)
            error = None if message is None else message.error()
            # The group, which it does not join, is another matter.
            if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue
            if message is not None:
                return allowed(error, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    finally:
        consumer.close()


def begins(ledger: SecuredLedger, user: str, transactional_id: str) -> bool:
    producer = Producer(ledger.foreign(user, **{"transactional.id": transactional_id}))
    try:
        producer.init_transactions(PATIENCE_S)
    except KafkaException as error:
        return allowed(error.args[0], KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return True


def joins(ledger: SecuredLedger, user: str, group: str) -> bool:
    consumer = Consumer(ledger.foreign(user, **{"group.id": group}))
    joined: list[bool] = []
    names = ledger.deployment(user).topics
    consumer.subscribe([names.requests], on_assign=lambda *_: joined.append(True))
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not joined:
            assert time.monotonic() < deadline, f"{user} hears nothing of {group}"
            message = consumer.poll(0.2)
            error = None if message is None else message.error()
            if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return False
        return True
    finally:
        consumer.close()


def allowed(error: KafkaError | None, denied: int) -> bool:
    assert error is None or error.code() == denied, error
    return error is None


def ready(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        return bool(answer.status == 200)
