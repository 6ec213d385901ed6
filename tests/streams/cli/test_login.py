"""`accountant login` and `logout` as processes, with a provider and a server over real HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest

from tests.every_case import every_case
from tests.patience import PATIENCE_S
from tests.streams.auth.token_server import TokenServer
from tests.streams.cli.conftest import Command, Done, environment
from tests.streams.client.login.login_provider import LoginProvider
from tests.streams.oauth.sign_in_provider import CLIENT

STARTS = ("streams.cli",)


class People:
    """People who sign in to one server with the command.

    Attributes:
        logins: the directory of the stored logins.
    """

    def __init__(self, command: Command, server: TokenServer, provider: LoginProvider) -> None:
        self.command = command
        self.server = server
        self.provider = provider
        self.state = command.directory / "state"
        self.logins = self.state / "streaming-privacy-accountant" / "logins"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "XDG_STATE_HOME": str(self.state),
            "ACCOUNTANT_LOGIN_ISSUER": self.provider.issuer,
            "ACCOUNTANT_LOGIN_CLIENT_ID": CLIENT,
        }

    def run(self, *arguments: str, **more: str) -> Done:
        """Run a command to its end."""
        done = self.command(*arguments, **{**self.variables, **more})
        self.check_secrets(done.out + done.err)
        return done

    @contextlib.contextmanager
    def start(self, *arguments: str, **more: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command, and meet its requests meanwhile."""
        env = {**environment(), **self.variables, **more}
        process = self.command.start(*arguments, env=env)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def sign_in(self, *arguments: str, **more: str) -> Done:
        """Sign in with a browser that follows the printed address."""
        command = ("login", self.server.url, "--no-browser", *arguments)
        with self.start(*command, **more) as process:
            address, before = printed_address(process)
            with httpx.Client(follow_redirects=True, trust_env=False) as browser:
                page = browser.get(address)
            out, err = process.communicate(timeout=PATIENCE_S)
        assert page.status_code == 200, page.text
        assert "You may close this page" in page.text
        self.check_secrets(out + before + err + page.text)
        return Done(process.returncode or 0, out, before + err)

    def check_secrets(self, text: str) -> None:
        """No token, code or verifier is in a text."""
        forms = [*self.provider.forms, *self.provider.revoked]
        names = ("code", "code_verifier", "device_code", "refresh_token", "token")
        secrets = [form[name] for form in forms for name in names if name in form]
        secrets += self.provider._refresh_tokens
        for each in secrets:
            assert each not in text
        assert "eyJ" not in text  # how each JWT begins

    def stored(self) -> Any:
        (file,) = self.logins.glob("*.json")
        return json.loads(file.read_text())

    def change(self, **fields: object) -> None:
        """Change fields of the stored login."""
        (file,) = self.logins.glob("*.json")
        file.write_text(json.dumps({**self.stored(), **fields}))


def printed_address(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return the address that a command prints on stderr, and all that it printed so far."""
    assert process.stderr is not None
    before = ""
    for line in process.stderr:
        before += line
        if line.startswith("http://"):
            return line.strip(), before
    raise AssertionError(before)


@pytest.fixture
def provider() -> Iterator[LoginProvider]:
    with LoginProvider() as made:
        yield made


@pytest.fixture
def people(accountant: Command, tmp_path: Path, provider: LoginProvider) -> Iterator[People]:
    home = tmp_path / "server"
    home.mkdir()
    with TokenServer(home, provider=provider) as server:
        yield People(accountant, server, provider)


def test_a_person_signs_in_and_every_command_uses_the_token(people: People) -> None:
    done = people.sign_in()
    assert (done.code, done.out) == (0, f"signed in to {people.server.url} as ana\n")
    shown = people.run("me", "--url", people.server.url)
    assert shown.code == 0, shown.err
    issuer = people.provider.issuer
    assert f"with a token of the identity provider, from accountant login ({issuer})" in shown.out
    found = people.run("me", "--json", ACCOUNTANT_URL=people.server.url).json
    assert (found["name"], found["token_source"]) == ("ana", f"accountant login ({issuer})")
    dry = people.run("ask", "census", "pure:0.1", "--dry-run", "--url", people.server.url)
    assert dry.code == 6, dry.err
    program = "from streams import Accountant; import sys; print(Accountant(sys.argv[1]).me().name)"
    printed = subprocess.run(
        [sys.executable, "-c", program, people.server.url],
        env={**environment(), **people.variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout == "ana\n"


def test_the_code_flow_uses_pkce_state_and_the_loopback_address(people: People) -> None:
    asked = ("--scopes", "openid offline_access", "--audience", "api", "--resource", "urn:a")
    assert people.sign_in(*asked).code == 0
    (query,) = people.provider.requests
    assert query["response_type"] == "code"
    assert query["code_challenge_method"] == "S256"
    assert len(query["state"]) >= 43
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/callback", query["redirect_uri"])
    assert (query["scope"], query["prompt"]) == ("openid offline_access", "consent")
    assert (query["audience"], query["resource"]) == ("api", "urn:a")
    (form,) = people.provider.forms
    assert len(form["code_verifier"]) >= 43
    assert form["resource"] == "urn:a"
    assert "audience" not in form


def test_the_token_is_stored_for_its_user_alone(people: People) -> None:
    before = os.umask(0)
    try:
        assert people.sign_in().code == 0
    finally:
        os.umask(before)
    (file,) = people.logins.glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(people.logins.stat().st_mode) == 0o700
    stored = people.stored()
    assert stored["url"] == people.server.url
    assert stored["issuer"] == people.provider.issuer
    file.chmod(0o644)
    done = people.run("me", "--url", people.server.url)
    assert done.code == 4
    assert f"Run `chmod 600 {file}`" in done.err


def test_an_explicit_token_wins_and_the_sign_in_says_so(people: People) -> None:
    ben = people.server.make("local:ben")
    done = people.sign_in(ACCOUNTANT_TOKEN=ben)
    assert "ACCOUNTANT_TOKEN is set and overrides this sign-in" in done.err
    shown = people.run("me", "--url", people.server.url, ACCOUNTANT_TOKEN=ben)
    assert "signed in as local:ben, with a token of the server, from ACCOUNTANT_TOKEN" in shown.out
    assert "signed in as ana" in people.run("me", "--url", people.server.url).out


def test_json_is_for_scripts_and_has_no_token(people: People) -> None:
    done = people.sign_in("--json")
    found = done.json
    assert found.pop("expires").endswith("Z")
    assert found == {
        "url": people.server.url,
        "name": "ana",
        "issuer": people.provider.issuer,
        "renewable": True,
    }
    left = people.run("logout", people.server.url, "--json")
    assert left.json == {"url": people.server.url, "revoked": True}
    assert people.run("logout", "--all", "--json").out == ""


def test_a_browser_is_opened_if_there_is_one(people: People, tmp_path: Path) -> None:
    follow = tmp_path / "browser.py"
    follow.write_text(
        "import httpx, sys\nhttpx.Client(follow_redirects=True, trust_env=False).get(sys.argv[1])\n"
    )
    with people.start(
        "login", people.server.url, BROWSER=f"{sys.executable} {follow} %s"
    ) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, f"signed in to {people.server.url} as ana\n"), err


def without_browser() -> dict[str, str]:
    return {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""}


def test_a_machine_without_a_browser_uses_another_device(people: People) -> None:
    people.provider.device_errors = ["authorization_pending"]
    done = people.run("login", people.server.url, **without_browser())
    assert (done.code, done.out) == (0, f"signed in to {people.server.url} as ana\n"), done.err
    assert "there is no browser on this machine" in done.err
    code = "in a browser, and type the code WDJB-MJHT"
    assert f"open {people.provider.issuer}/code {code}" in done.err
    assert len(people.provider.polls) == 2
    (form,) = people.provider.devices
    assert (form["client_id"], form["scope"]) == (CLIENT, "openid")
    assert "signed in as ana" in people.run("me", "--url", people.server.url).out


def test_a_provider_without_devices_prints_the_address(people: People) -> None:
    people.provider.has_device = False
    with people.start("login", people.server.url, **without_browser()) as process:
        address, _ = printed_address(process)
        httpx.get(address, follow_redirects=True, trust_env=False)
        assert process.wait(PATIENCE_S) == 0
    done = people.run("login", people.server.url, "--device")
    assert done.code == 3
    assert "device_authorization_endpoint" in done.err


def test_a_device_polls_more_slowly_if_the_provider_says_so(people: People) -> None:
    people.provider.device_errors = ["slow_down"]
    done = people.run("login", people.server.url, "--device")
    assert done.code == 0, done.err
    first, second = people.provider.polls
    assert second - first >= 6


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("expired_token", "nobody signed in before the code expired. Run the command again"),
        ("access_denied", "the provider was not allowed to sign you in. Run the command again"),
        ("weird", "the provider refused the sign-in: weird"),
    ],
)
def test_a_refused_device_says_why_and_stores_nothing(
    people: People, error: str, words: str
) -> None:
    people.provider.device_errors = [error]
    done = people.run("login", people.server.url, "--device")
    assert done.code == 4
    assert words in done.err
    assert "\x07" not in done.err
    assert not list(people.state.rglob("*.json"))


def test_a_device_code_expires(people: People) -> None:
    people.provider.device_seconds = 3
    people.provider.device_errors = ["authorization_pending"] * 9
    done = people.run("login", people.server.url, "--device")
    assert done.code == 4
    assert "nobody signed in before the code expired" in done.err


def test_a_refused_sign_in_says_why_and_stores_nothing(people: People) -> None:
    people.provider.denied = "access_denied"
    done = people.sign_in()
    assert done.code == 4
    assert "the provider was not allowed to sign you in" in done.err
    people.provider.denied, people.provider.refused = None, "invalid_client"
    done = people.sign_in()
    assert done.code == 4
    assert "the provider does not know this client. Check --client-id" in done.err
    assert not list(people.state.rglob("*.json"))


def test_a_token_that_the_server_rejects_is_not_stored(people: People) -> None:
    people.provider.access = {"aud": "another"}
    done = people.sign_in()
    assert done.code == 4
    assert "rejects the provider's token, so nothing was stored" in done.err
    assert "--audience" in done.err
    assert not list(people.state.rglob("*.json"))


def answer_of(address: str, **more: str) -> httpx.Response:
    """Return how the listener answers the answer of the provider with other fields."""
    with httpx.Client(trust_env=False) as browser:
        sent_to = browser.get(address).headers["location"]
        fields = {name: values[0] for name, values in parse_qs(urlsplit(sent_to).query).items()}
        base = sent_to.partition("?")[0]
        fields = {name: value for name, value in {**fields, **more}.items() if value}
        return browser.get(base, params=fields)


def test_an_answer_with_another_state_does_not_end_the_sign_in(people: People) -> None:
    with people.start("login", people.server.url, "--no-browser") as process:
        address, _ = printed_address(process)
        for wrong in ("", "x" * 43, "\u00e9"):
            assert answer_of(address, state=wrong).status_code == 403
        assert process.poll() is None
        assert answer_of(address).status_code == 200
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("issuer", ["https://evil.example", ""])
def test_an_answer_of_another_provider_is_refused(people: People, issuer: str) -> None:
    with people.start("login", people.server.url, "--no-browser") as process:
        address, _ = printed_address(process)
        assert answer_of(address, iss=issuer).status_code == 200
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4
    assert "does not come from" in err
    assert people.provider.forms == []  # the code went nowhere
    assert not list(people.state.rglob("*.json"))


def test_the_provider_must_be_named_and_is_never_asked_of_the_server(people: People) -> None:
    done = people.run("login", people.server.url, ACCOUNTANT_LOGIN_ISSUER="")
    assert done.code == 2
    done = people.command("login", people.server.url)
    assert done.code == 2
    assert "add --issuer and --client-id" in done.err
    done = people.run("login", people.server.url, "--issuer", "http://login.example.org")
    assert done.code == 2
    assert "--issuer: must be https://HOST" in done.err


@every_case(
    ("url", "words"),
    [
        ("http://ledger.example.org", "a token is not sent unencrypted"),
        ("sqlite:///accountant.db", "url must be a server to sign in to"),
        ("kafka://127.0.0.1:9", "url must be a server to sign in to"),
        ("https://ana:x@ledger.example.org", "must not contain a user name or password"),
        ("ledger.example.org", "must begin with"),
        ("127.0.0.1:18431", "Try http://127.0.0.1:18431 for a server"),
        ("localhost:18431", "Try http://localhost:18431 for a server"),
        ("ledger.example.org:443", "Try https://ledger.example.org:443 for a server"),
    ],
)
def test_only_a_server_that_nobody_reads_along_can_be_signed_in_to(
    people: People, url: str, words: str
) -> None:
    for command in ("login", "logout"):
        done = people.run(command, url)
        assert done.code == 2, done.err
        assert words.removeprefix("url ") in done.err
    assert people.run("login", "--url", url).code == 2
    assert people.provider.asked == []


def test_a_server_without_authentication_or_none_at_all_is_not_signed_in_to(
    people: People, tmp_path: Path
) -> None:
    with LoginProvider() as another:
        another.broken = "garbage"
        done = people.run("login", another.issuer, "--no-browser")
    assert done.code == 4
    assert "Check that this is a gateway's address" in done.err
    process = people.command.start("serve", "--port", "0")
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        done = people.run("login", url, "--no-browser")
    finally:
        process.terminate()
        process.communicate()
    assert done.code == 4
    assert "has no authentication, so there is nothing to sign in to" in done.err
    assert people.run("login", url, "--no-browser").code == 3


def test_a_provider_that_is_away_is_named(people: People) -> None:
    people.provider.broken = "error"
    done = people.run("login", people.server.url, "--no-browser")
    assert done.code == 3
    assert f"the provider {people.provider.issuer} cannot be used" in done.err


def test_logout_deletes_the_login_and_revokes_it(people: People) -> None:
    people.sign_in()
    refresh_token = people.stored()["refresh_token"]
    done = people.run("logout", people.server.url)
    assert (done.code, done.out, done.err) == (0, f"signed out of {people.server.url}\n", "")
    assert not list(people.logins.glob("*.json"))
    form = {"token": refresh_token, "token_type_hint": "refresh_token", "client_id": CLIENT}
    assert people.provider.revoked == [form]
    done = people.run("me", "--url", people.server.url)
    assert done.code == 4
    assert f"with `accountant login {people.server.url}`" in done.err
    done = people.run("logout", people.server.url)
    assert (done.code, done.out) == (1, "")
    assert f"you are not signed in to {people.server.url}" in done.err


@pytest.mark.parametrize("fault", ["no endpoint", "503", "away"])
def test_logout_deletes_the_login_whatever_the_provider_does(people: People, fault: str) -> None:
    people.provider.has_revocation = fault != "no endpoint"
    people.sign_in()
    people.provider.revokes = False
    if fault == "away":
        people.provider.close()
    done = people.run("logout", "--all")
    assert (done.code, done.out) == (0, f"signed out of {people.server.url}\n")
    assert ("the provider did not revoke" in done.err) is (fault != "no endpoint")
    assert not list(people.logins.glob("*.json"))


def test_logout_deletes_a_damaged_or_unsafe_login(people: People) -> None:
    people.sign_in()
    (file,) = people.logins.glob("*.json")
    for spoil in (lambda: file.write_text("{}"), lambda: file.chmod(0o644)):
        spoil()
        assert people.run("me", "--url", people.server.url).code == 4
        assert people.run("logout", people.server.url).code == 0
        assert not file.exists()
        people.sign_in()
    (people.logins / "stranger.json").write_text("{}")
    assert people.run("logout", "--all").out == f"signed out of {people.server.url}\n"


def test_a_login_without_a_refresh_token_says_until_when_it_lasts(people: People) -> None:
    people.provider.refreshes = False
    done = people.sign_in()
    assert done.code == 0
    assert "the provider issued no refresh token: this sign-in lasts until 2" in done.err
    assert "offline_access" in done.err
    assert people.run("me", "--url", people.server.url).code == 0
    people.change(expires=1)
    done = people.run("me", "--url", people.server.url)
    assert done.code == 4
    url = people.server.url
    assert f"your sign-in at {url} has ended. Run `accountant login {url}`" in done.err


def test_a_login_that_cannot_be_renewed_does_not_hide_readiness(people: People) -> None:
    people.sign_in()
    people.change(expires=1)
    assert people.run("ready", "--url", people.server.url).code == 0
    assert people.stored()["expires"] > 1  # renewed
    people.change(expires=1)
    people.provider.away = True
    done = people.run("ready", "--url", people.server.url)
    assert (done.code, done.err) == (0, "")


def test_the_directory_of_another_url_is_named_in_full(people: People) -> None:
    people.sign_in()
    (file,) = people.logins.glob("*.json")
    assert file.name == f"{quote(people.server.url, safe='')}.json"
