"""`accountant login` with a certified provider: by browser and by device, renewed and ended."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.provider.accountant_server import AccountantServer
from tests.provider.real_provider import COMMAND, RS256, RealProvider, claims, fill_in_pages
from tests.streams.cli.conftest import environment

STARTS = ("streams.cli",)

_PATIENCE_S = 60


class Person:
    """Somebody who runs the command against one server.

    Attributes:
        logins: the directory of the stored logins.
    """

    def __init__(self, home: Path, server: AccountantServer, provider: RealProvider) -> None:
        self.url = server.address
        self._provider = provider
        self.logins = home / "streaming-privacy-accountant" / "logins"
        self._environment = environment(
            XDG_STATE_HOME=str(home),
            ACCOUNTANT_URL=self.url,
            ACCOUNTANT_LOGIN_ISSUER=provider.issuer,
            ACCOUNTANT_LOGIN_CLIENT_ID=COMMAND,
            ACCOUNTANT_LOGIN_RESOURCE=RS256.indicator,
            ACCOUNTANT_LOGIN_SCOPES="openid offline_access",
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "streams.cli", *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=_PATIENCE_S)
        return process.returncode, out, err

    def sign_in(self, name: str, *options: str) -> str:
        """Sign in as a name in a browser; return the command's output."""
        process = self.start("login", *options)
        assert process.stderr is not None
        shown = ""
        for line in process.stderr:
            shown += line
            code = re.search(r"^open (\S+) in a browser, and type the code (\S+)$", line)
            address = code[1] if code else line.strip()
            if address.startswith("http"):
                break
        with httpx.Client(timeout=_PATIENCE_S, trust_env=False) as browser:
            user_code = code[2] if code else ""
            fill_in_pages(browser, browser.get(address), name, user_code=user_code)
        out, err = process.communicate(timeout=_PATIENCE_S)
        assert process.returncode == 0, shown + err
        return out

    def stored(self) -> Any:
        (file,) = self.logins.glob("*.json")
        return json.loads(file.read_text())

    def change(self, **fields: object) -> None:
        (file,) = self.logins.glob("*.json")
        file.write_text(json.dumps({**self.stored(), **fields}))


@pytest.fixture
def person(tmp_path: Path, provider: RealProvider) -> Iterator[Person]:
    with AccountantServer(tmp_path / "server", provider) as server:
        yield Person(tmp_path / "state", server, provider)


@pytest.mark.parametrize("option", ["--no-browser", "--device"])
def test_a_person_signs_in_and_out(person: Person, provider: RealProvider, option: str) -> None:
    assert person.sign_in("ana", option) == f"signed in to {person.url} as ana\n"
    code, out, err = person.run("me", "--json")
    assert code == 0, err
    assert json.loads(out)["name"] == "ana"
    first = person.stored()
    assert claims(first["access_token"])["sub"] == "ana"
    person.change(expires=1)
    code, out, err = person.run("me")
    assert code == 0, err
    assert "signed in as ana, with a token of the identity provider" in out
    renewed = person.stored()
    assert renewed["refresh_token"] != first["refresh_token"]  # the provider rotates it
    assert renewed["access_token"] != first["access_token"]
    code, out, err = person.run("logout")
    assert (code, out, err) == (0, f"signed out of {person.url}\n", "")
    assert not list(person.logins.glob("*.json"))
    # The provider has ended the sign-in, too: the token that was deleted renews nothing.
    form = {
        "grant_type": "refresh_token",
        "refresh_token": renewed["refresh_token"],
        "client_id": COMMAND,
    }
    answer = httpx.post(renewed["token_endpoint"], data=form, trust_env=False)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


def test_a_refresh_token_that_was_used_twice_ends_the_login(person: Person) -> None:
    person.sign_in("ana", "--no-browser")
    stolen = person.stored()["refresh_token"]
    person.change(expires=1)
    assert person.run("me")[0] == 0
    person.change(expires=1, refresh_token=stolen)
    code, _, err = person.run("me")
    assert code == 4
    assert "the provider refuses to renew it (invalid_grant)" in err
    assert f"Run `accountant login {person.url}`" in err
    assert not list(person.logins.glob("*.json"))
