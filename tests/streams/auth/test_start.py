"""A server starts safely or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streams.auth import check_access, token_file
from streams.errors import Refused
from streams.server.serve import serve, serve_kafka
from streams.settings import Settings, load
from streams.worker.app import build
from tests.streams.auth.certificates import certificate
from tests.streams.auth.token_server import wall

ISSUER = "https://provider.example.org"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens.json"
    token_file.create(file, "ana", now=wall())
    return file


def refusal(**more: Any) -> str:
    """Return why nothing starts, the same for each of the three servers; nothing is made."""
    with pytest.raises(Refused) as checked:
        check_access(Settings(**more))
    for start, url in (
        (serve, "sqlite:///never.db"),
        (serve_kafka, "kafka://127.0.0.1:9"),
        (build, "kafka://127.0.0.1:9"),
    ):
        with pytest.raises(Refused) as refused:
            start(Settings(url=url, port=0, **more))
        assert str(refused.value) == str(checked.value)
    assert not Path("never.db").exists()
    return str(checked.value)


def test_an_incomplete_set_of_settings_refuses_the_start(tokens: Path, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    for more, named in (
        ({"oidc_issuer": ISSUER}, "ACCOUNTANT_OIDC_ISSUER needs ACCOUNTANT_OIDC_AUDIENCE"),
        ({"oidc_audience": "x"}, "ACCOUNTANT_OIDC_AUDIENCE needs ACCOUNTANT_OIDC_ISSUER"),
        (
            {"oidc_subject_field": "email"},
            "ACCOUNTANT_OIDC_SUBJECT_FIELD needs ACCOUNTANT_OIDC_ISSUER",
        ),
        ({"oidc_algorithms": "RS256"}, "ACCOUNTANT_OIDC_ALGORITHMS needs ACCOUNTANT_OIDC_ISSUER"),
        (
            {"oidc_issuer": ISSUER, "oidc_audience": "x", "tokens": tokens},
            "ACCOUNTANT_TOKEN_PREFIX",
        ),
        ({"tls_certificate": files.certificate}, "ACCOUNTANT_TLS_KEY"),
        ({"tls_key": files.key}, "ACCOUNTANT_TLS_CERTIFICATE"),
        ({"administrators": "olga"}, "ACCOUNTANT_ADMINISTRATORS is set"),
        ({"openers": "*"}, "ACCOUNTANT_OPENERS is set"),
        ({"metrics_readers": "prometheus"}, "ACCOUNTANT_METRICS_READERS is set"),
        ({"metrics_readers": "*"}, "ACCOUNTANT_METRICS_READERS is set"),
        ({"token_prefix": "local:"}, "ACCOUNTANT_TOKEN_PREFIX is set"),
        ({"bind": "0.0.0.0"}, "ACCOUNTANT_BIND is set, but authentication is off"),
        ({"bind": "127.0.0.1"}, "ACCOUNTANT_BIND is set, but authentication is off"),
        ({"tokens": tokens, "bind": "0.0.0.0"}, "ACCOUNTANT_TLS_CERTIFICATE"),
        (
            {"oidc_issuer": ISSUER, "oidc_audience": "x", "bind": "10.0.0.7"},
            "ACCOUNTANT_TRUSTED_PROXY",
        ),
    ):
        assert named in refusal(**more), more


def test_a_missing_token_file_names_the_command_that_creates_one(tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    said = refusal(tokens=file)
    assert f"accountant token create --name NAME --tokens {file}" in said
    assert not file.exists()


def test_an_unusable_token_file_refuses_the_start(tokens: Path) -> None:
    tokens.chmod(0o640)
    assert "chmod 600" in refusal(tokens=tokens)
    tokens.chmod(0o600)
    tokens.write_text("{}")
    assert "is not a file of tokens" in refusal(tokens=tokens)


def test_unusable_tls_files_refuse_the_start(tmp_path: Path) -> None:
    files = certificate(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    another_pair = certificate(other)
    pair = {"tls_certificate": files.certificate, "tls_key": another_pair.key}
    assert "TLS cannot be set up" in refusal(**pair)
    assert "TLS cannot be set up" in refusal(
        tls_certificate=files.certificate, tls_key=tmp_path / "none"
    )
    encrypted = certificate(other, password=b"x")
    pair = {"tls_certificate": encrypted.certificate, "tls_key": encrypted.key}
    assert "is encrypted" in refusal(**pair)


def test_complete_settings_are_accepted(tokens: Path, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    oidc = {"oidc_issuer": ISSUER, "oidc_audience": "x"}
    tls = {"tls_certificate": files.certificate, "tls_key": files.key}
    for more in (
        {},
        {"tokens": tokens},
        oidc,
        {"tokens": tokens, "token_prefix": "local:", **oidc},
        {"tokens": tokens, "bind": "0.0.0.0", **tls},
        {"tokens": tokens, "bind": "0.0.0.0", "trusted_proxy": "10.0.0.7"},
        {"tokens": tokens, "bind": "::1"},
    ):
        check_access(Settings(**more))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["ACCOUNTANT_TOKENS", "ACCOUNTANT_OIDC_ISSUER"])
def test_an_empty_variable_does_not_turn_authentication_off(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "")
    with pytest.raises(Refused, match=name):
        load()


@pytest.mark.parametrize("blank", [",", " ", " , ", "\t"])
def test_a_blank_trusted_proxy_is_refused(
    tokens: Path, monkeypatch: pytest.MonkeyPatch, blank: str
) -> None:
    with pytest.raises(ValueError, match="at least one address"):
        Settings(tokens=tokens, bind="0.0.0.0", trusted_proxy=blank)
    monkeypatch.setenv("ACCOUNTANT_TRUSTED_PROXY", blank)
    with pytest.raises(Refused, match="ACCOUNTANT_TRUSTED_PROXY"):
        load()
