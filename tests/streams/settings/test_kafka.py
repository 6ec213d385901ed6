"""A combination of settings that proves nothing to a broker, or cannot, is a refused start."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import Refused
from streams.kafka.deployment import deployment_of
from streams.kafka.wire.security import security_of
from streams.settings import load
from streams.testing.broker_security import BrokerSecurity
from tests.every_case import every_case

_SECRET = "s3cret"
_SASL = {"kafka_security_protocol": "SASL_SSL", "kafka_username": "w", "kafka_password": _SECRET}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security_protocol": "SASL_SSL"}, "KAFKA_USERNAME: must be set with SASL_SSL"),
        (
            {"security_protocol": "SASL_PLAINTEXT", "username": "w"},
            "KAFKA_PASSWORD_FILE: must be set with SASL_PLAINTEXT, or ACCOUNTANT_KAFKA_PASSWORD",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "username": "w",
                "password": _SECRET,
                "password_file": "/run/p",
            },
            "KAFKA_PASSWORD: must not be set together with ACCOUNTANT_KAFKA_PASSWORD_FILE",
        ),
        ({"password": _SECRET}, "PROTOCOL: must be SASL_SSL if ACCOUNTANT_KAFKA_PASSWORD"),
        ({"username": "w"}, "PROTOCOL: must be SASL_SSL if ACCOUNTANT_KAFKA_USERNAME"),
        ({"ca": "/ca"}, "PROTOCOL: must be SASL_SSL or SSL if ACCOUNTANT_KAFKA_CA"),
        ({"security_protocol": "SSL", "username": "w"}, "SASL_SSL if ACCOUNTANT_KAFKA_USERNAME"),
        ({"security_protocol": "SSL", "key": "/k"}, "KAFKA_CERTIFICATE: must be set if"),
        ({"security_protocol": "SSL", "certificate": "/c"}, "KAFKA_KEY: must be set if"),
        ({"security_protocol": "TLS"}, "KAFKA_SECURITY_PROTOCOL: Input should be"),
        ({"sasl_mechanism": "PLAIN"}, "KAFKA_SASL_MECHANISM: Input should be"),
    ],
)
def test_settings_that_do_not_belong_together_name_the_one_to_change(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], said: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"ACCOUNTANT_KAFKA_{name.upper()}", value)
    with pytest.raises(Refused) as refused:
        load()
    assert f"setting ACCOUNTANT_{said}" in str(refused.value) or said in str(refused.value)
    assert _SECRET not in f"{refused.value!r} {refused.value.__cause__!r}"


def test_empty_kafka_settings_count_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USERNAME", "PASSWORD", "PASSWORD_FILE", "CA", "CERTIFICATE", "KEY"):
        monkeypatch.setenv(f"ACCOUNTANT_KAFKA_{name}", "")
    assert security_of(load()).is_off


def test_a_password_in_a_file_is_taken_without_the_line_end(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.touch(0o600)
    file.write_text(f" {_SECRET}\n")
    security = security_of(load(**_SASL | {"kafka_password": None, "kafka_password_file": file}))
    assert security.options()["sasl_plain_password"] == _SECRET
    assert security.principal == "User:w"


@every_case("content", [b"", b" \n", b"\xff\xfe", b"x" * 5_000, None])
def test_a_file_without_a_password_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "password"
    file.unlink(missing_ok=True)
    if content is not None:
        file.touch(0o600)
        file.write_bytes(content)
    with pytest.raises(Refused, match=r"setting ACCOUNTANT_KAFKA_PASSWORD_FILE: .*password "):
        security_of(load(**_SASL | {"kafka_password": None, "kafka_password_file": file}))


def test_files_of_tls_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    made = BrokerSecurity(tmp_path / "made", [])
    pem, text, none = tmp_path / "made/broker.pem", tmp_path / "text", tmp_path / "none"
    text.touch(0o600)
    text.write_text("no certificate")
    both = {"kafka_certificate": pem, "kafka_key": pem}
    assert security_of(load(**_SASL, kafka_ca=made.ca, **both)).tls is not None
    wrong: list[tuple[dict[str, Path], str]] = [
        ({"kafka_ca": none}, f"KAFKA_CA: {none} cannot be read"),
        ({"kafka_ca": text}, f"KAFKA_CA: {text} must hold certificates"),
        ({"kafka_certificate": none, "kafka_key": pem}, f"KAFKA_CERTIFICATE: {none} cannot be"),
        ({"kafka_certificate": pem, "kafka_key": none}, f"KAFKA_KEY: {none} cannot be read"),
        ({"kafka_certificate": pem, "kafka_key": text}, "KAFKA_CERTIFICATE: .* private key"),
    ]
    for given, said in wrong:
        with pytest.raises(Refused, match=f"setting ACCOUNTANT_{said}"):
            security_of(load(**_SASL, **given))


def test_a_password_is_in_no_text_of_its_settings() -> None:
    settings = load(url="kafka://127.0.0.1:9092", **_SASL)
    where = deployment_of(settings)
    for held in (settings, where, where.cluster, where.security):
        assert _SECRET not in f"{held!r} {held}"
