from __future__ import annotations

import pytest

from streams.address import AddressInvalid, ledger_url
from streams.errors import Refused
from streams.settings import load


@pytest.mark.parametrize(
    ("text", "kind", "target"),
    [
        ("sqlite:///accountant.db", "sqlite", "accountant.db"),
        ("sqlite:////var/lib/a.db", "sqlite", "/var/lib/a.db"),
        ("http://127.0.0.1:8000", "http", "http://127.0.0.1:8000"),
        ("https://ledger.example/", "http", "https://ledger.example"),
        ("kafka://localhost:9092", "kafka", "localhost:9092"),
        ("kafka://a:1,b:2", "kafka", "a:1,b:2"),
    ],
)
def test_an_address_names_where_the_ledger_is(text: str, kind: str, target: str) -> None:
    assert ledger_url(text) == (kind, target)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "accountant.db",
        "sqlite://accountant.db",
        "sqlite:///",
        "sqlite:///dir/",
        "http://127.0.0.1:8000/\x1b",
        "https://ledger.example/a b",
        "http://127.0.0.1\x7f:1",
        "sqlite:///no-utf8-\udcff.db",
        "sqlite:///zero-\0.db",
        "http://",
        "http://host/?a=b",
        "http://host:99999",
        "http://host:port",
        "http://[::1",
        "kafka://host:9092,host:99999",
        "kafka://localhost",
        "kafka://:9092",
        "postgres://host/db",
    ],
)
def test_an_address_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(AddressInvalid, match="url must"):
        ledger_url(text)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(AddressInvalid) as refused:
        ledger_url("http://me:secret@host:1")
    assert "secret" not in str(refused.value)


def test_settings_come_from_the_environment_and_arguments_go_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACCOUNTANT_PORT", "9000")
    monkeypatch.setenv("ACCOUNTANT_BATCH", "7")
    settings = load(port=9001, url=None)
    assert (settings.port, settings.batch, settings.url) == (9001, 7, "sqlite:///accountant.db")


@pytest.mark.parametrize(
    ("name", "value"),
    [("PORT", "70000"), ("URL", "nonsense"), ("WINDOW_MS", "1"), ("LOG_LEVEL", "loud")],
)
def test_a_setting_that_breaks_its_rule_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"ACCOUNTANT_{name}", value)
    with pytest.raises(Refused, match=f"ACCOUNTANT_{name}"):
        load()


def test_a_server_listens_on_the_loopback_by_default() -> None:
    assert load().unauthenticated_bind == "127.0.0.1"
