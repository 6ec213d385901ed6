"""A client takes its token from one place, and refuses a token file that others may read."""

from __future__ import annotations

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
def test_a_token_file_that_others_may_access_is_refused(file: Path, mode: int) -> None:
    token = file.read_text().strip()
    bearer = Bearer(None, file)
    assert bearer.header == f"Bearer {token}"
    file.chmod(mode)
    for of_file in (bearer, Bearer(None, file)):
        with pytest.raises(Refused, match=f"chmod 600 {file}") as refused:
            _ = of_file.header
        assert token not in str(refused.value)


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
