"""Whoever a broker does not let in is told why: in words, with the setting, without a secret."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from streams.errors import Refused
from streams.kafka import topics
from streams.kafka.acls.look import look
from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.service import KafkaService
from streams.kafka.wire.errors import NotLetIn
from streams.kafka.wire.producer import TransactionalProducer
from streams.testing import LocalBroker
from streams.testing.broker_security import BrokerSecurity
from tests.kafka.secured import Secured

_WRONG = "not-the-password"
_NO_SASL = {"kafka_username": None, "kafka_password": None}
_NO_TLS = {"kafka_ca": None}


async def test_what_keeps_a_client_out_is_named_with_its_setting(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = BrokerSecurity(tmp_path, []).ca
    plain = f"kafka://127.0.0.1:{secured.broker.ports.proxied}"  # the broker's own listener
    cases: list[tuple[dict[str, object], str]] = [
        (
            {"kafka_password": _WRONG},
            "does not let User:worker in by SCRAM-SHA-512: check ACCOUNTANT_KAFKA_USERNAME, and ",
        ),
        ({"kafka_username": "nobody"}, "does not let User:nobody in"),
        ({"kafka_sasl_mechanism": "SCRAM-SHA-256"}, "check ACCOUNTANT_KAFKA_SASL_MECHANISM"),
        ({"kafka_ca": stranger}, "is not believed (certificate signature failure): check"),
        ({"kafka_ca": None}, "check ACCOUNTANT_KAFKA_CA"),
        (
            {"kafka_security_protocol": "PLAINTEXT", **_NO_SASL, **_NO_TLS},
            "speaks TLS: ACCOUNTANT_KAFKA_SECURITY_PROTOCOL must be SASL_SSL or SSL, and is PLAIN",
        ),
        ({"kafka_security_protocol": "SASL_PLAINTEXT", **_NO_TLS}, "speaks TLS"),
        ({"kafka_security_protocol": "SSL", **_NO_SASL}, "asks for a name and a password: set"),
        ({"url": plain}, "does not speak TLS"),
        (
            {"url": plain, "kafka_security_protocol": "SASL_PLAINTEXT", **_NO_TLS},
            "asks for no password: check ACCOUNTANT_KAFKA_SECURITY_PROTOCOL",
        ),
    ]
    for changed, said in cases:
        where = secured.deployment("worker", **changed)
        with pytest.raises(NotLetIn) as raised:
            await topics.check(where)
        assert said in str(raised.value), (changed, str(raised.value))
        shown = "".join(traceback.format_exception(raised.value)) + repr(where) + caplog.text
        assert _WRONG not in shown
        assert secured.broker.security.passwords["worker"] not in shown


async def test_every_way_in_ends_with_the_same_words(secured: Secured) -> None:
    where = secured.deployment("worker", kafka_password=_WRONG)
    with pytest.raises(NotLetIn, match="does not let User:worker in"):
        await KafkaService.start(where, wait=20)
    with pytest.raises(NotLetIn, match="does not let User:worker in"):
        await TransactionalProducer(where.cluster, "any").start()
    for words in (["worker", "--metrics-port", "0"], ["gateway", "--port", "0"], ["audit"]):
        ended = secured.run("worker", *words, ACCOUNTANT_KAFKA_PASSWORD=_WRONG)
        assert ended.returncode == 4, ended.stderr
        assert "does not let User:worker in" in ended.stderr
        assert _WRONG not in ended.stdout + ended.stderr


async def test_what_a_role_may_not_do_names_its_rules(secured: Secured) -> None:
    engine = secured.deployment("engine")
    with pytest.raises(Refused, match=r"a transactional id .*accountant topics acls"):
        await TransactionalProducer(engine.cluster, f"{engine.application}-0").start()
    with pytest.raises(Refused, match=r"missing topics: .* User:analyst may not see them"):
        await KafkaService.start(secured.deployment("analyst"), wait=20)


async def test_brokers_without_an_authorizer_are_warned_of(
    broker: LocalBroker, application: str
) -> None:
    where = Deployment(
        bootstrap=broker.bootstrap,
        application=application,
        topics=TopicNames(f"{application}."),
        partitions=1,
    )
    seen = await look(where, {})
    assert (seen.authorizer, seen.problems) == (False, [])
    assert "no authorizer: whoever reaches them may write every topic" in seen.warnings[0]
