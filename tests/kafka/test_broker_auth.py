"""A client that a broker rejects gets the reason: in words, with the setting, without a secret."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from streams.errors import Refused
from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.log import topics
from streams.kafka.operate.acls.check import check_acls
from streams.kafka.service.kafka_service import KafkaService
from streams.kafka.wire.errors import BrokerAuthFailed
from streams.kafka.wire.producer import TransactionalProducer
from streams.testing import LocalBroker
from streams.testing.broker_security import BrokerSecurity
from tests.kafka.secured_ledger import SecuredLedger

_WRONG = "not-the-password"
_NO_SASL = {"kafka_username": None, "kafka_password": None}
_NO_TLS = {"kafka_ca": None}


async def test_rejection_names_the_reason_and_its_setting(
    secured: SecuredLedger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = BrokerSecurity(tmp_path, []).ca
    plain = f"kafka://127.0.0.1:{secured.broker.ports.proxied}"  # the broker's own listener
    cases: list[tuple[dict[str, object], str]] = [
        (
            {"kafka_password": _WRONG},
            "rejects User:worker with SCRAM-SHA-512: check ACCOUNTANT_KAFKA_USERNAME, and ",
        ),
        ({"kafka_username": "nobody"}, "rejects User:nobody"),
        ({"kafka_sasl_mechanism": "SCRAM-SHA-256"}, "check ACCOUNTANT_KAFKA_SASL_MECHANISM"),
        ({"kafka_ca": stranger}, "is not trusted (certificate signature failure): check"),
        ({"kafka_ca": None}, "check ACCOUNTANT_KAFKA_CA"),
        (
            {"kafka_security_protocol": "PLAINTEXT", **_NO_SASL, **_NO_TLS},
            "uses TLS: ACCOUNTANT_KAFKA_SECURITY_PROTOCOL must be SASL_SSL or SSL, and is PLAIN",
        ),
        ({"kafka_security_protocol": "SASL_PLAINTEXT", **_NO_TLS}, "uses TLS"),
        ({"kafka_security_protocol": "SSL", **_NO_SASL}, "requires a name and a password: set"),
        ({"url": plain}, "does not use TLS"),
        (
            {"url": plain, "kafka_security_protocol": "SASL_PLAINTEXT", **_NO_TLS},
            "does not use passwords: check ACCOUNTANT_KAFKA_SECURITY_PROTOCOL",
        ),
    ]
    for changed, expected in cases:
        where = secured.deployment("worker", **changed)
        with pytest.raises(BrokerAuthFailed) as raised:
            await topics.check(where)
        assert expected in str(raised.value), (changed, str(raised.value))
        shown = "".join(traceback.format_exception(raised.value)) + repr(where) + caplog.text
        assert _WRONG not in shown
        assert secured.broker.security.passwords["worker"] not in shown


async def test_every_client_and_command_gives_the_same_reason(secured: SecuredLedger) -> None:
    where = secured.deployment("worker", kafka_password=_WRONG)
    with pytest.raises(BrokerAuthFailed, match="rejects User:worker"):
        await KafkaService.start(where, wait=20)
    with pytest.raises(BrokerAuthFailed, match="rejects User:worker"):
        await TransactionalProducer(where.cluster, "any").start()
    for arguments in (["worker", "--metrics-port", "0"], ["gateway", "--port", "0"], ["audit"]):
        ended = secured.run("worker", *arguments, ACCOUNTANT_KAFKA_PASSWORD=_WRONG)
        assert ended.returncode == 4, ended.stderr
        assert "rejects User:worker" in ended.stderr
        assert _WRONG not in ended.stdout + ended.stderr


async def test_a_denied_right_names_the_acls_command(secured: SecuredLedger) -> None:
    engine = secured.deployment("engine")
    with pytest.raises(Refused, match=r"a transactional id .*accountant topics acls"):
        await TransactionalProducer(engine.cluster, f"{engine.application}-0").start()
    with pytest.raises(Refused, match=r"missing topics: .* User:analyst may not see them"):
        await KafkaService.start(secured.deployment("analyst"), wait=20)


async def test_brokers_without_an_authorizer_are_a_warning(
    broker: LocalBroker, application: str
) -> None:
    where = Deployment(
        bootstrap=broker.bootstrap,
        application=application,
        topics=TopicNames(f"{application}."),
        partitions=1,
    )
    report = await check_acls(where, {})
    assert (report.authorizer, report.problems) == (False, [])
    assert "no authorizer: everyone who can reach them may write every topic" in report.warnings[0]
