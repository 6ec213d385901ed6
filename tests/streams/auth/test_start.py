"""A server starts safely or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streams.auth import check_access, token_file
from streams.errors import Refused
from streams.serve import serve, serve_kafka
from streams.settings import Settings, load
from streams.worker.app import build
from tests.every_case import check_rows
from tests.streams.auth.certificates import certificate
from tests.streams.auth.token_server import wall

ISSUER = "https://provider.example.org"
PROVIDER = {"oidc_issuer": ISSUER, "oidc_audience": "x"}
CALLBACK = "https://accountant.example.org/sign-in/callback"


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
        ({"oidc_client_id": "x"}, "ACCOUNTANT_OIDC_CLIENT_ID needs ACCOUNTANT_OIDC_ISSUER"),
        *(
            ({**PROVIDER, **more}, named)
            for more, named in (
                ({"oidc_client_id": "x"}, "OIDC_CLIENT_ID needs ACCOUNTANT_OIDC_REDIRECT_URL"),
                ({"oidc_redirect_url": CALLBACK}, "REDIRECT_URL needs ACCOUNTANT_OIDC_CLIENT_ID"),
                ({"oidc_scopes": "openid"}, "OIDC_SCOPES needs ACCOUNTANT_OIDC_CLIENT_ID"),
                (
                    {"oidc_client_secret_file": tokens},
                    "OIDC_CLIENT_SECRET_FILE needs ACCOUNTANT_OIDC_CLIENT_ID",
                ),
                (
                    {"oidc_sign_in_parameters": "a=b"},
                    "OIDC_SIGN_IN_PARAMETERS needs ACCOUNTANT_OIDC_CLIENT_ID",
                ),
                (
                    {"oidc_client_id": "x", "oidc_redirect_url": "https://a.example/callback"},
                    "OIDC_REDIRECT_URL must be this server's address and /sign-in/callback",
                ),
                (
                    {
                        "oidc_client_id": "x",
                        "oidc_redirect_url": "http://127.0.0.1:8000/sign-in/callback",
                        "trusted_proxy": "10.0.0.7",
                    },
                    "OIDC_REDIRECT_URL must begin with https://",
                ),
                (
                    {
                        "oidc_client_id": "x",
                        "oidc_redirect_url": CALLBACK,
                        "oidc_client_secret_file": tmp_path / "none",
                    },
                    "none does not exist. Write the client's secret into it",
                ),
            )
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


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        ("", 0o600, "must contain the client's secret alone"),
        ("two words", 0o600, "must contain the client's secret alone"),
        ("x" * 1_025, 0o600, "must contain the client's secret alone"),
        ("a-secret", 0o640, "is accessible to other users"),
    ],
)
def test_an_unsafe_file_with_the_client_s_secret_refuses_the_start(
    tmp_path: Path, content: str, mode: int, words: str
) -> None:
    file = tmp_path / "secret"
    file.write_text(content)
    file.chmod(mode)
    more = {"oidc_client_id": "x", "oidc_redirect_url": CALLBACK, "oidc_client_secret_file": file}
    said = refusal(**PROVIDER, **more)
    assert words in said
    assert "a-secret" not in said


def test_a_wrong_setting_of_the_sign_in_is_named() -> None:
    def check_case(name: str, value: str) -> None:
        with pytest.raises(Refused, match=f"{name}: "):
            load(**{name: value})

    check_rows(
        check_case,
        [
            ("oidc_redirect_url", "http://accountant.example.org/sign-in/callback"),
            ("oidc_redirect_url", f"{CALLBACK}?a=b"),
            ("oidc_redirect_url", f"{CALLBACK}#a"),
            ("oidc_redirect_url", "https://user@accountant.example.org/sign-in/callback"),
            ("oidc_redirect_url", "/sign-in/callback"),
            ("oidc_redirect_url", "https://[::1/sign-in/callback"),
            ("oidc_scopes", "profile"),
            ("oidc_scopes", 'openid "'),
            ("oidc_sign_in_parameters", "audience"),
            ("oidc_sign_in_parameters", "state=x"),
            ("oidc_sign_in_parameters", "a=b&a=c"),
            ("oidc_client_id", ""),
            ("oidc_client_id", "a b"),
            ("oidc_client_secret_file", ""),
        ],
    )
