"""A client takes its token from one place, and warns about a token file that others can read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.client import Accountant
from streams.client.http.bearer import Bearer
from streams.errors import Refused
from tests.streams.auth.token_server import TokenServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TokenServer]:
    with TokenServer(tmp_path) as made:
        yield made


@pytest.fixture
def file(tmp_path: Path, server: TokenServer) -> Path:
    made = tmp_path / "ana.token"
    made.touch(0o600)
    made.write_text(server.make("local:ana") + "\n")
    return made


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_token_file_readable_by_others_warns_once(
    file: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    token = file.read_text().strip()
    assert Bearer(None, file).header == f"Bearer {token}"
    assert caplog.text == ""
    file.chmod(mode)
    for _ in range(2):  # it is shown all the same
        assert Bearer(None, file).header == f"Bearer {token}"
    (warned,) = [each for each in caplog.records if "token_file_open" in each.getMessage()]
    assert f"chmod 600 {file}" in warned.getMessage()
    assert f"{mode:04o}" in warned.getMessage()
    assert token not in caplog.text


def test_a_token_file_of_another_user_does_not_warn(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.chmod(0o644)
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    assert Bearer(None, file).header
    assert caplog.text == ""


def test_two_tokens_are_refused_and_an_argument_overrides_both(
    file: Path, server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCOUNTANT_TOKEN", server.administrator)
    monkeypatch.setenv("ACCOUNTANT_TOKEN_FILE", str(file))
    with pytest.raises(Refused, match="ACCOUNTANT_TOKEN and ACCOUNTANT_TOKEN_FILE are both set"):
        Accountant(server.url)
    with Accountant(server.url, token=server.make("local:ben")) as ledger:
        assert ledger.me().name == "local:ben"
    monkeypatch.delenv("ACCOUNTANT_TOKEN")
    with Accountant(server.url) as ledger:
        assert ledger.me().name == "local:ana"
    with Accountant(server.url, token=server.administrator) as ledger:
        assert ledger.me().name == "local:olga"
