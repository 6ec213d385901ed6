"""accountant token: make, list, revoke."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from streams.auth.static_tokens import wall_ms
from streams.auth.token_file import create
from streams.cli.printing.out_file import check_secret_output
from streams.cli.token import revoked_unless_written
from tests.every_case import every_case
from tests.patience import PATIENCE_S
from tests.streams.cli.authenticated_server import AuthenticatedServer, authenticated_server
from tests.streams.cli.conftest import Command, environment

FILE = "tokens.json"
ROOT = Path(__file__).resolve().parents[3]


def create_token(accountant: Command, *more: str, **variables: str) -> Any:
    done = accountant("token", "create", "--tokens", FILE, "--json", *more, **variables)
    assert done.code == 0, done.err
    return done.json


def test_a_token_is_printed_once_and_only_its_hash_is_stored(accountant: Command) -> None:
    done = accountant("token", "create", "--name", "ana", "--tokens", FILE)
    assert done.code == 0, done.err
    token = done.out.strip()
    assert re.fullmatch(r"acct_[A-Za-z0-9_-]{43}", token)  # 256 bits
    assert "ACCOUNTANT_TOKEN" in done.err
    assert "for `token revoke`, is t-" in done.err
    assert token not in done.err
    file = accountant.directory / FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (row,) = json.loads(file.read_text())["tokens"]
    assert row["sha256"] == hashlib.sha256(token.encode()).hexdigest()
    assert token not in file.read_text()
    listed = accountant("token", "list", "--tokens", FILE)
    for shown in (listed.out, accountant("token", "list", "--tokens", FILE, "--json").out):
        assert "ana" in shown
        assert "active" in shown
        assert token not in shown
        assert row["sha256"] not in shown


def test_the_file_may_come_from_the_environment(accountant: Command) -> None:
    done = accountant("token", "create", "--name", "ana", ACCOUNTANT_TOKENS=FILE)
    assert done.code == 0, done.err
    assert accountant("token", "list", "--json", ACCOUNTANT_TOKENS=FILE).json["name"] == "ana"
    missing = accountant("token", "list")
    assert missing.code == 2
    assert "ACCOUNTANT_TOKENS" in missing.err


def test_a_file_that_is_made_says_that_it_has_one_token_alone(accountant: Command) -> None:
    first = accountant("token", "create", "--name", "ana", "--tokens", FILE)
    assert f"{FILE} is new: it has this token alone. Keep a copy of it." in " ".join(
        first.err.split()
    )
    assert "is new" not in accountant("token", "create", "--name", "ben", "--tokens", FILE).err


def test_a_mistyped_file_is_not_there_afterwards(accountant: Command) -> None:
    done = accountant("token", "revoke", "ana", "--tokens", "tokns.json")
    assert done.code == 4
    assert "does not exist" in done.err
    assert "restore the file from its copy" in " ".join(done.err.split())
    assert not list(accountant.directory.glob("tokns.json*"))


def test_tokens_are_revoked_by_name_or_by_id(accountant: Command) -> None:
    first, second = (
        create_token(accountant, "--name", "ana"),
        create_token(accountant, "--name", "ana", "--another"),
    )
    ben = create_token(accountant, "--name", "ben")
    assert len({first["token"], second["token"], ben["token"]}) == 3
    one = accountant("token", "revoke", first["id"], "--tokens", FILE, "--json")
    assert [row["id"] for row in one.rows] == [first["id"]]
    rest = accountant("token", "revoke", "ana", "--tokens", FILE, "--json")
    assert [(row["id"], row["state"]) for row in rest.rows] == [(second["id"], "revoked")]
    again = accountant("token", "revoke", "ana", "--tokens", FILE)
    assert again.code == 1
    assert "no active token for ana" in again.err
    states = [row["state"] for row in accountant("token", "list", "--tokens", FILE, "--json").rows]
    assert states == ["revoked", "revoked", "active"]
    assert create_token(accountant, "--name", "ana")["state"] == "active"


@pytest.mark.parametrize(("text", "hours"), [("P90D", 24 * 90), ("PT8H", 8)])
def test_a_token_may_expire(accountant: Command, text: str, hours: int) -> None:
    from accountant.times import from_iso

    row = create_token(accountant, "--name", "ana", "--expires", text)
    assert from_iso(row["expires"]) - from_iso(row["created"]) == hours * 3_600_000


@every_case(
    ("arguments", "code", "said"),
    [
        (("--name", "a b"), 2, "name must be 1 to 100 letters, digits, '.', '_', '-', '@' or ':'"),
        (("--name", ""), 2, "name must be 1 to 100 letters, digits"),
        (("--name", "t-0123456789ab"), 4, "choose another name"),
        (("--name", "ana", "--expires", "90"), 2, "P90D"),
        (("--name", "ana", "--expires", "P0D"), 2, "P90D"),
        (("--name", "ana", "--tokens", "nowhere/tokens.json"), 4, "cannot be changed"),
    ],
)
def test_an_invalid_token_is_refused_with_a_message(
    accountant: Command, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = accountant("token", "create", "--tokens", FILE, *arguments)
    assert (done.code, said in done.err) == (code, True), done.err
    assert not (accountant.directory / FILE).exists()


def test_a_second_token_of_a_name_needs_an_option(accountant: Command) -> None:
    create_token(accountant, "--name", "ana")
    done = accountant("token", "create", "--name", "ana", "--tokens", FILE)
    assert done.code == 4
    assert "--another" in done.err
    assert len(accountant("token", "list", "--tokens", FILE, "--json").rows) == 1


def test_a_name_has_the_prefix_of_the_setting(accountant: Command) -> None:
    prefix = {"ACCOUNTANT_TOKEN_PREFIX": "local:"}
    done = accountant("token", "create", "--name", "ana", "--tokens", FILE, **prefix)
    assert done.code == 2
    assert "--name local:ana" in done.err
    assert create_token(accountant, "--name", "local:ana", **prefix)["name"] == "local:ana"


def test_a_file_that_others_may_use_is_refused(accountant: Command) -> None:
    create_token(accountant, "--name", "ana")
    (accountant.directory / FILE).chmod(0o644)
    for arguments in (("list",), ("create", "--name", "ben"), ("revoke", "ana")):
        done = accountant("token", *arguments, "--tokens", FILE)
        assert done.code == 4
        assert "chmod 600" in done.err


def test_a_server_accepts_its_tokens_and_prints_none(accountant: Command) -> None:
    token = create_token(accountant, "--name", "ana")["token"]
    env = environment(ACCOUNTANT_TOKENS=FILE, ACCOUNTANT_UNAUTHENTICATED_BIND="0.0.0.0")
    process = accountant.start("serve", "--port", "0", env=env)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening at http://127.0.0.1:"), line
        address = line.split()[-1]
        shown = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{address}/me", headers=shown, trust_env=False).json()["name"] == "ana"
        assert httpx.get(f"{address}/me", trust_env=False).status_code == 401
        assert accountant("token", "revoke", "ana", "--tokens", FILE).code == 0
        assert httpx.get(f"{address}/me", headers=shown, trust_env=False).status_code == 401
    finally:
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE_S)
    assert "authentication_is_on" in said
    assert "authentication_is_off" not in said
    assert "token_revoked" in said
    assert "authentication_refused" in said
    for secret in (token, hashlib.sha256(token.encode()).hexdigest()):
        assert secret not in said


def test_bind_sets_the_address_of_a_server_with_authentication(accountant: Command) -> None:
    create_token(accountant, "--name", "ana")
    open_to_all = ("serve", "--port", "0", "--bind", "0.0.0.0")
    done = accountant(*open_to_all, ACCOUNTANT_TOKENS=FILE)
    assert done.code == 4
    assert "ACCOUNTANT_TLS_CERTIFICATE" in done.err
    assert not Path(accountant.directory / "accountant.db").exists()


def test_commands_come_as_one_person_and_refuse_a_token_that_others_may_read(
    tmp_path: Path,
) -> None:
    accountant = Command(tmp_path)  # the log of a process of its own is on its stderr
    with authenticated_server(accountant) as served:
        file = accountant.directory / "ana.token"
        file.touch(0o644)
        file.write_text(served.tokens["ana"])
        file.chmod(0o644)
        both = served.by("olga", "me", ACCOUNTANT_TOKEN_FILE="ana.token")
        assert both.code == 4
        assert "ACCOUNTANT_TOKEN and ACCOUNTANT_TOKEN_FILE are both set" in both.err
        typed = served.by("olga", "me", "--token-file", "ana.token", "--json")
        assert typed.code == 4
        assert "Run `chmod 600 ana.token` and replace its token" in typed.err
        file.chmod(0o600)
        _replaced_as_the_how_to_says(accountant, served)


def _replaced_as_the_how_to_says(accountant: Command, served: AuthenticatedServer) -> None:
    """Replace ana's token by the commands of the how-to; her program goes on at each step."""
    page = (ROOT / "docs/how-to/authentication.md").read_text("utf-8")
    commands = page.split("## Replace a token")[1].split("```")[1].split("\n")[1:-1]
    rows = accountant("token", "list", "--tokens", FILE, "--json").rows
    (old,) = [row["id"] for row in rows if row["name"] == "ana"]
    for command in commands:
        words = command.split("#")[0].replace("OLD", old).split()
        assert words.pop(0) == "accountant"
        if words[0] == "me":
            words += ["--url", served.url]
        done = accountant(*words, ACCOUNTANT_TOKENS=FILE)
        assert done.code == 0, done.err
        mine = accountant("me", "--url", served.url, "--token-file", "ana.token", "--json")
        assert (mine.code, mine.json["name"], mine.err) == (0, "ana", "")
    assert [words[1] for words in map(str.split, commands)] == ["token", "token", "me", "token"]
    was = accountant("me", "--url", served.url, ACCOUNTANT_TOKEN=served.tokens["ana"])
    assert was.code != 0
    assert "401" in was.err or "rejected" in was.err or "token" in was.err


def test_a_token_that_nobody_gets_is_revoked_and_a_file_is_never_emptied(
    accountant: Command,
) -> None:
    out = accountant.directory / "ana.token"
    made = ("token", "create", "--tokens", FILE, "--name")
    done = accountant(*made, "ana", "--out", "ana.token")
    assert (done.code, done.out) == (0, "")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    before = out.read_text()
    assert re.fullmatch(r"acct_[A-Za-z0-9_-]{43}\n", before)
    taken = accountant(*made, "ben", "--out", "ana.token")
    assert (taken.code, out.read_text()) == (2, before)
    assert "name another file, or add --replace" in taken.err
    active = accountant(*made, "ana", "--out", "ana.token", "--replace")
    assert (active.code, out.read_text()) == (4, before), "ana has a token, so nothing is written"
    assert accountant(*made, "ben", "--out", "nowhere/ben.token").code == 4
    assert accountant(*made, "ben", "--replace").code == 2
    open_to_all = accountant.directory / "open"
    open_to_all.touch(0o644)
    with open_to_all.open("w") as shell, redirect_stdout(shell), pytest.raises(typer.Exit):
        check_secret_output(None)
    lost = accountant.directory / FILE
    with suppress(KeyboardInterrupt), revoked_unless_written(lost) as tokens:
        tokens.append(create(lost, "dan", now=wall_ms()))
        raise KeyboardInterrupt
    rows = accountant("token", "list", "--tokens", FILE, "--json").rows
    assert {row["name"]: row["state"] for row in rows} == {"ana": "active", "dan": "revoked"}
    assert {each.name for each in accountant.directory.iterdir()} == {
        *("ana.token", FILE, f"{FILE}.lock", "open")
    }
