"""Variables that are no settings: a server names those that are misspelt, and does not start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.client import Accountant
from streams.client.releases.store import default_path
from streams.errors import Refused
from streams.settings import PREFIX, Settings, load, load_client, load_command, load_server
from streams.settings.environment import (
    check_alike,
    check_spellings,
    is_service_link,
    unknown_names,
)
from streams.variables import in_upper_case
from tests.every_case import every_case
from tests.nightly import NIGHTLY
from tests.streams.cli.here import run_here

FIELDS = Settings.model_fields
NAMES = [field.upper() for field in FIELDS]
SECRET = "dont-tell-anybody"


def misspelt(name: str) -> Iterator[str]:
    """Return a name with a letter too few, too many, another one, and two that are swapped."""
    for at in range(0, len(name), 3 if NIGHTLY else 10):
        yield name[:at] + name[at + 1 :]
        yield name[:at] + name[at] + name[at:]
        yield name[:at] + "X" + name[at + 1 :]
        yield name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :]


@every_case("name", NAMES)
def test_each_misspelling_of_each_setting_is_refused_and_names_the_one_meant(name: str) -> None:
    for wrong in set(misspelt(name)) - set(NAMES):
        variable = f"{PREFIX}{wrong}"
        with pytest.raises(Refused) as refused:
            unknown_names({variable: SECRET}, FIELDS).check()
        said = str(refused.value)
        assert said.startswith(f"{variable} is no setting: did you mean {PREFIX}")
        meant = said.partition("did you mean ")[2].partition("?")[0].split(" or ")
        assert f"{PREFIX}{name}" in meant
        assert len(meant) <= 2
        assert SECRET not in said
    with pytest.raises(Refused, match="is no setting"):
        unknown_names({f"{PREFIX}{name}X".lower(): SECRET}, FIELDS).check()


def test_every_setting_is_known_in_any_letters() -> None:
    every = {f"{PREFIX}{name}": "x" for name in (*NAMES, "ANALYST", "OWNER", "ANSWERS")}
    for environ in (every, {name.lower(): value for name, value in every.items()}):
        assert unknown_names(environ, FIELDS) == ([], {}, {})


@every_case(
    ("name", "meant"),
    [
        ("ACOUNTANT_TOKENS", "ACCOUNTANT_TOKENS"),
        ("ACCOUNTNAT_PORT", "ACCOUNTANT_PORT"),
        ("ACCOUNTANTS_TOKNES", "ACCOUNTANT_TOKENS"),
        ("ACCOUNTANTTOKENS", "ACCOUNTANT_TOKENS"),
        ("ACCOUNTANT-TOKENS", "ACCOUNTANT_TOKENS"),
        ("_ACCOUNTANT_TOKENS", "ACCOUNTANT_TOKENS"),
        ("ACCOUNTING_SYSTEM_OF_RECORD", ""),
        ("ACCOUNT_TOKENS", None),
        ("COUNTANT_TOKENS", "ACCOUNTANT_TOKENS"),
        ("ACCOUNTANT", None),
        ("PATH", None),
        ("TOKENS", None),
    ],
)
def test_another_prefix_within_two_letters_is_a_warning(name: str, meant: str | None) -> None:
    unknown = unknown_names({name: "x"}, FIELDS)
    assert unknown == ([], {} if meant is None else {name: meant}, {})


@every_case(
    ("name", "meant"),
    [
        ("ACCOUNTANT_ULR", "ACCOUNTANT_URL"),
        ("ACOUNTANT_URL", "ACCOUNTANT_URL"),
        ("ACCOUNTANT-URL", "ACCOUNTANT_URL"),
        ("accountant_tokenfile", "ACCOUNTANT_TOKEN_FILE"),
        ("ACCOUNTANT_ANALYS", "ACCOUNTANT_ANALYST"),
        ("ACCOUNTANT_TOKNES", None),  # of servers alone
        ("ACCOUNTANT_URL", None),
        ("accountant_url", None),
        ("ACCOUNTANT_DEPARTMENT_OF_COLOUR", None),
        ("ACCOUNT_URL", None),
        ("PATH", None),
    ],
)
def test_what_is_nearly_a_setting_is_refused_by_commands(name: str, meant: str | None) -> None:
    used = ("url", "token_file")
    if meant is None:
        check_alike({name: SECRET}, FIELDS, used)
        return
    with pytest.raises(Refused, match=f"{name} is no setting: did you mean {meant}") as refused:
        check_alike({name: SECRET}, FIELDS, used)
    assert SECRET not in str(refused.value)
    check_alike({name: SECRET, "ACCOUNTANT_ALLOW_UNKNOWN_SETTINGS": name}, FIELDS, used)


def test_a_client_refuses_what_is_nearly_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNTANT_ULR", SECRET)
    with pytest.raises(Refused, match="did you mean ACCOUNTANT_URL"):
        Accountant()


def test_a_variable_is_read_in_any_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCOUNTANT_ANSWERS", raising=False)
    monkeypatch.setenv("Accountant_Answers", "/somewhere/answers.db")
    assert default_path() == Path("/somewhere/answers.db")
    both = {"ACCOUNTANT_OWNER": "olga", "accountant_owner": "zoe", "accountant_url": "x"}
    assert in_upper_case(both) == {"ACCOUNTANT_URL": "x"}


def test_an_unknown_variable_unlike_every_setting_gets_no_suggestion() -> None:
    with pytest.raises(Refused, match=r"^ACCOUNTANT_DEPARTMENT_OF_COLOUR is no setting\. Rename"):
        unknown_names({"ACCOUNTANT_DEPARTMENT_OF_COLOUR": "x"}, FIELDS).check()


@every_case("allowed", ["ACCOUNTANT_TOKNES", "accountant_x, accountant_toknes", "*"])
def test_a_setting_allows_named_unknown_variables(allowed: str) -> None:
    environ = {"ACCOUNTANT_TOKNES": "x", "ACCOUNTANT_ALLOW_UNKNOWN_SETTINGS": allowed}
    unknown = unknown_names(environ, FIELDS)
    unknown.check()
    assert unknown.ignored == {"ACCOUNTANT_TOKNES": "ACCOUNTANT_TOKENS"}


def test_other_unknown_variables_stay_refused() -> None:
    allows = {"ACCOUNTANT_ALLOW_UNKNOWN_SETTINGS": "ACCOUNTANT_TOKNES"}
    unknown = unknown_names({**allows, "ACCOUNTANT_PROT": "x", "ACCOUNTANT_TOKNES": "x"}, FIELDS)
    assert unknown.refused == {"ACCOUNTANT_PROT": "ACCOUNTANT_PORT"}


LINKS = {
    "ACCOUNTANT_SERVICE_HOST": "10.0.0.1",
    "ACCOUNTANT_SERVICE_PORT": "8000",
    "ACCOUNTANT_SERVICE_PORT_HTTP": "8000",
    "ACCOUNTANT_PORT": "tcp://10.0.0.1:8000",
    "ACCOUNTANT_PORT_8000_TCP": "tcp://10.0.0.1:8000",
    "ACCOUNTANT_PORT_8000_TCP_PROTO": "tcp",
    "ACCOUNTANT_PORT_8000_TCP_PORT": "8000",
    "ACCOUNTANT_PORT_8000_TCP_ADDR": "10.0.0.1",
    "ACCOUNTANT_METRICS_PORT": "tcp://10.0.0.1:8001",
    "ACCOUNTANT_PROBE_PORT": "tcp://10.0.0.1:8002",
    "ACCOUNTANT_WORKER_SERVICE_HOST": "fd00::1",
    "ACCOUNTANT_WORKER_SERVICE_PORT_METRICS_TLS": "8001",
    "ACCOUNTANT_WORKER_PORT": "tcp://[fd00::1]:8001",
    "ACCOUNTANT_WORKER_PORT_53_UDP": "udp://10.0.0.2:53",
    "ACCOUNTANT_WORKER_PORT_53_UDP_PROTO": "udp",
}


@every_case("name", LINKS)
def test_links_of_kubernetes_are_ignored_and_other_values_are_not(name: str) -> None:
    assert is_service_link(name, LINKS[name])
    assert unknown_names({name: LINKS[name]}, FIELDS) == ([name], {}, {})
    assert not is_service_link(name, SECRET)
    assert not is_service_link(name, "")
    assert not is_service_link("OTHER_" + name, LINKS[name])


def test_a_port_setting_takes_a_number_and_refuses_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in LINKS.items():
        monkeypatch.setenv(name, value)
    settings = load_server()
    assert (settings.port, settings.metrics_port) == (8000, 8001)
    monkeypatch.setenv("ACCOUNTANT_PORT", "9000")
    assert load_server().port == 9000
    for wrong in ("tcp://elsewhere:8000", "http://10.0.0.1:8000", "10.0.0.1:8000"):
        monkeypatch.setenv("ACCOUNTANT_PORT", wrong)
        with pytest.raises(Refused, match="ACCOUNTANT_PORT") as refused:
            load_server()
        assert wrong not in str(refused.value)


WRONG = {
    "ACCOUNTANT_PORT": "never",
    "ACCOUNTANT_METRICS_PORT": "never",
    "ACCOUNTANT_TRUSTED_PROXY": "never",
    "ACCOUNTANT_LIMIT_PER_SECOND": "never",
    "ACCOUNTANT_LIMIT_PER_NAME": "never",
    "ACCOUNTANT_OIDC_SKEW_SECONDS": "never",
    "ACCOUNTANT_ADMINISTRATORS": "no name",
    "ACCOUNTANT_TOKNES": "never",
}
"""What servers alone use, and what nobody does."""


def test_clients_ignore_invalid_values_of_server_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in WRONG.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Refused):
        load()
    assert load_command().port == 8000
    with Accountant(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"}, as_given=True)
    # Of a ledger behind a gateway, nothing but the address and the token.
    monkeypatch.setenv("ACCOUNTANT_WINDOW_MS", "never")
    monkeypatch.setenv("ACCOUNTANT_KAFKA_CA", "/never")
    monkeypatch.setenv("ACCOUNTANT_TOKEN", "acct_x")
    settings = load_client(url="https://ledger.example")
    assert settings.token is not None
    monkeypatch.setenv("ACCOUNTANT_URL", "https://ledger.example")
    assert load_client() == settings
    with pytest.raises(Refused, match="ACCOUNTANT_WINDOW_MS"):
        load_client(url="sqlite:///ledger.db")
    monkeypatch.setenv("ACCOUNTANT_TOKEN", "two tokens")
    with pytest.raises(Refused, match="ACCOUNTANT_TOKEN"):
        load_client()


@pytest.mark.parametrize("setting", ["ADMINISTRATORS", "OPENERS", "METRICS_READERS"])
def test_a_subject_that_is_no_name_gets_its_escaped_name(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(f"{PREFIX}{setting}", "root,auth0|5f7c8")
    with pytest.raises(Refused) as refused:
        load_server()
    said = str(refused.value)
    assert "'auth0|5f7c8' is no name" in said
    assert "it is named b32.mf2xi2bqpq2wmn3dha here (docs/how-to/oidc-sign-in.md" in said


@every_case("name", NAMES)
@every_case("value", ["", "another"])
def test_two_spellings_of_a_setting_with_two_values_are_refused_and_both_are_named(
    name: str, value: str
) -> None:
    one, other = f"{PREFIX}{name}", f"{PREFIX}{name}".lower()
    for environ in ({one: SECRET, other: value}, {other: SECRET, one: value}):
        with pytest.raises(Refused) as refused:
            check_spellings(environ, FIELDS)
        assert f"{one} and {other} have different values" in str(refused.value)
        assert SECRET not in str(refused.value)
    check_spellings({one: SECRET, other: SECRET}, FIELDS)


def test_every_loader_refuses_a_setting_in_two_spellings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACCOUNTANT_PORT", "8000")
    monkeypatch.setenv("accountant_port", "tcp://10.0.0.1:8000")
    assert load_server().port == 8000  # the other is a link of Kubernetes
    monkeypatch.setenv("accountant_port", "9000")
    for load_it in (load, load_server):
        with pytest.raises(Refused, match="ACCOUNTANT_PORT and accountant_port"):
            load_it()
    assert load_command().port == 8000  # which does not read it
    monkeypatch.setenv("ACCOUNTANT_URL", "https://one.example")
    monkeypatch.setenv("Accountant_Url", "https://two.example")
    for load_it in (load_command, load_client):
        with pytest.raises(Refused, match="ACCOUNTANT_URL and Accountant_Url"):
            load_it()


@pytest.mark.parametrize("command", ["serve", "gateway", "worker"])
def test_every_server_refuses_to_start_with_a_misspelt_setting(
    command: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db" if command == "serve" else "kafka://127.0.0.1:9"
    wrong = {"ACCOUNTANT_TOKNES": SECRET, "COLUMNS": "200"}
    done = run_here(tmp_path, command, "--url", url, **wrong)
    assert done.code == 4, done.err
    assert "ACCOUNTANT_TOKNES is no setting: did you mean ACCOUNTANT_TOKENS?" in done.err
    assert SECRET not in done.err + done.out
    assert list(tmp_path.iterdir()) == []
