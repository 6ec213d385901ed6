"""Who may do what, said and asked by commands."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.every_case import every_case
from tests.patience import PATIENCE_S
from tests.streams.cli.authenticated_server import AuthenticatedServer, authenticated_server
from tests.streams.cli.conftest import Command
from tests.streams.cli.test_serve import serving

POLICY = ("--filter", "basic", "--epsilon", "1", "--most-per-request", "1")
OPEN = ("dataset", "open", "census", *POLICY)


@pytest.fixture
def server(accountant: Command) -> Iterator[AuthenticatedServer]:
    with authenticated_server(accountant) as served:
        yield served


@pytest.fixture
def owned(accountant: Command) -> Command:
    """A file that nobody serves, whose dataset `census` olga owns."""
    done = accountant(*OPEN, "--by", "olga", "--access", "members")
    assert done.code == 0, done.err
    return accountant


def rows(accountant: Command, **more: str) -> dict[str, dict[str, object]]:
    done = accountant("member", "list", "census", "--json", **more)
    assert done.code == 0, done.err
    return {row["member"]: row for row in done.rows}


def test_each_does_the_job_with_a_token_and_no_other(
    server: AuthenticatedServer, accountant: Command
) -> None:
    opened = server.done("root", *OPEN, "--owner", "olga", "--owner", "otto")
    assert "there is no analyst yet; olga or otto can add one with" in opened.out
    assert server.by("ana", "ask", "census", "pure:0.1").code == 1
    server.done("olga", "member", "set", "census", "ana", "--role", "analyst", "--team", "blue")
    server.done("otto", "member", "set", "census", "eng", "--role", "engine")
    server.done("root", "member", "set", "census", "aud", "--role", "auditor", "--as-administrator")
    server.done("ana", "ask", "census", "pure:0.1")
    server.done("eng", "ask", "census", "pure:0.1", "--analyst", "ana", "--via", "eng")
    denied = server.by("ben", "ask", "census", "pure:0.1")
    assert denied.code == 1
    assert "does not permit this" in denied.err
    assert "accountant me" in denied.err
    assert "Once it is permitted, run the same command with --id" in denied.err
    for name, command in (
        ("ana", ("member", "set", "census", "ben", "--role", "analyst")),
        ("eng", ("dataset", "close", "census", "--yes")),
        ("aud", ("ask", "census", "pure:0.1")),
        ("olga", ("member", "remove", "census", "ana", "--as-administrator")),
        ("ana", ("dataset", "open", "other", *POLICY)),
    ):
        assert server.by(name, *command).code == 1
    me = server.done("ana", "me", "--json").json
    assert me["name"] == "ana"
    assert me["datasets"] == [
        {"dataset": "census", "roles": ["analyst"], "team": "blue", "until": None}
    ]
    shown = server.done("ana", "me").out
    assert "signed in as ana, with a token of the server" in shown
    assert "root, administrator" in server.done("root", "me").out
    assert "you may ask datasets with access `anyone`" in server.done("ben", "me").out
    where = ("--url", server.url)
    assert set(server.done("aud", "member", "list", "census", *where).out.split()) >= {
        "olga",
        "eng",
    }
    assert "olga" not in server.done("ana", "member", "list", "census", *where).out
    assert "otto" in server.done("otto", "dataset", "show", "census", *where).out
    assert server.by("ben", "dataset", "show", "census", *where).code == 1
    usage = server.done("aud", "usage", "census", "--json", *where).rows
    assert [(row["analyst"], row["granted"]) for row in usage] == [("ana", 2)]
    assert "census" in server.done("ana", "watch", "--once", *where).out
    assert server.done("ana", "fits", "--claim", "pure:0.1", "--dataset", "census", *where).out
    removed = server.done("olga", "member", "remove", "census", "ana")
    assert "ana is no member any more" in removed.out
    assert server.by("ana", "ask", "census", "pure:0.1").code == 1
    assert rows(accountant).keys() == {"olga", "otto", "eng", "aud"}  # the file is the owner's key


def test_a_caller_without_a_token_learns_how_to_pass_one(
    server: AuthenticatedServer, accountant: Command
) -> None:
    for command in (("ask", "census", "pure:0.1", "--analyst", "ana"), ("me",)):
        done = accountant(*command)
        assert done.code == 4
        assert "Set ACCOUNTANT_TOKEN or ACCOUNTANT_TOKEN_FILE (--token-file)" in done.err
    done = accountant("me", ACCOUNTANT_TOKEN="acct_unknown")
    assert done.code == 4
    assert "does not know this token" in done.err
    assert "acct_unknown" not in done.err
    for command in (("usage", "census"), ("watch", "--once"), ("dataset", "list")):
        assert accountant(*command, "--url", server.url).code == 4


def test_a_typed_option_takes_precedence_over_the_environment(
    server: AuthenticatedServer, accountant: Command
) -> None:
    mine = accountant.directory / "mine"
    mine.touch(0o600)
    mine.write_text(server.tokens["ana"] + "\n")
    typed = ("me", "--json", "--token-file", "mine")
    assert server.by("ben", *typed).json["name"] == "ana"
    assert accountant("me", "--json", ACCOUNTANT_TOKEN_FILE="mine").json["name"] == "ana"
    both = server.by("ben", "me", "--json", ACCOUNTANT_TOKEN_FILE="mine")
    assert both.code == 4
    assert "are both set" in both.err
    assert accountant("me", "--token-file", "nowhere").code == 2
    mine.write_text("no token at all")
    done = accountant("me", "--token-file", "mine")
    assert done.code == 4
    assert "no token at all" not in done.err
    plain = accountant("me", "--url", "http://192.0.2.1:8000", "--token-file", "mine")
    assert "a token is not sent over http to another machine" in plain.err


def test_members_of_a_file_are_listed_without_a_server(owned: Command) -> None:
    done = owned("member", "set", "census", "ana", "--role", "analyst", "--until", "P1D", "--by",
                 "olga")  # fmt: skip
    assert done.code == 0, done.err
    assert "member_set: ana is analyst until " in done.out
    found = rows(owned)
    assert found["olga"] == {"member": "olga", "roles": ["owner"]}
    assert found["ana"]["roles"] == ["analyst"]
    shown = owned("dataset", "show", "census").out
    assert "olga" in shown
    assert "2 (owner 1, analyst 1)" in shown
    assert "members with the role analyst may ask" in shown
    assert "own: analysts see their own decisions" in shown
    amended = ("dataset", "amend", "census", "--access", "anyone", "--visibility", "members")
    assert owned(*amended, "--by", "olga").code == 0
    shown = owned("dataset", "show", "census").out
    assert "anyone: everyone may ask" in shown
    assert "members: analysts see the decisions of all members" in shown
    assert owned("member", "list", "nowhere").code == 1
    file = owned.directory / "accountant.db"
    file.chmod(0o444)
    assert rows(owned).keys() == {"ana", "olga"}


@every_case(
    ("command", "code", "said"),
    [
        (("set", "census", "ana", "--role", "analist"), 2, "did you mean analyst?"),
        (
            ("set", "census", "ana", "--role", "analyst", "--until", "soon"),
            2,
            "--until must be P90D",
        ),
        (
            ("set", "census", "ana", "--role", "analyst", "--until", "2020-01-01"),
            2,
            "is in the past",
        ),
        (("set", "census", "ana", "--role", "owner", "--until", "P1D"), 2, "does not expire"),
        (("set", "census", "a na", "--role", "analyst"), 2, "MEMBER must be 1 to 100 letters"),
        (("set", "nowhere", "ana", "--role", "analyst"), 1, "unknown_dataset"),
        (("remove", "census", "olga"), 1, "Make somebody else an owner first"),
        (("remove", "census", "ana"), 1, "`accountant member list census`"),
    ],
)
def test_an_error_says_what_to_do(
    owned: Command, command: tuple[str, ...], code: int, said: str
) -> None:
    done = owned("member", *command, "--by", "olga")
    assert done.code == code
    assert said in done.err + done.out


def test_a_refusal_names_who_may_do_it(owned: Command) -> None:
    done = owned("member", "set", "census", "ben", "--role", "owner", "--by", "ben")
    assert done.code == 1
    assert "refused (not_permitted)" in done.out
    asks = "accountant more ask census access --role owner --reason WHY --by ben"
    assert f"`{asks}`" in done.out
    for word in ("--access", "--visibility"):
        amended = owned("dataset", "amend", "census", word, "member", "--by", "olga")
        assert amended.code == 2
        assert "did you mean members?" in amended.err


MEMBERS = [
    {"member": "otto", "roles": ["owner", "auditor"]},
    {"member": "ana", "roles": ["analyst"], "team": "blue", "until": "2100-01-01"},
    {"member": "eng", "roles": ["engine"], "team": "", "until": None},
    {"member": "old", "roles": ["analyst"], "until": "2020-01-01"},
]
TABLE = """member,roles,team,until
otto,auditor; owner,,
ana,analyst,blue,2100-01-01T00:00:00Z
eng,engine,,
old,analyst,,2020-01-01
"""


@pytest.mark.parametrize("content", [json.dumps(MEMBERS), TABLE, "\ufeff" + TABLE])
def test_a_file_becomes_the_members_and_a_second_run_changes_nothing(
    owned: Command, content: str
) -> None:
    file = owned.directory / "members"
    file.write_text(content, encoding="utf-8")
    owned("member", "set", "census", "ben", "--role", "analyst", "--by", "olga")
    sync = ("member", "sync", "census", "members", "--by", "olga")
    before = rows(owned)
    dry = owned(*sync, "--dry-run")
    assert dry.code == 0
    assert "warning: this makes you (olga) no longer an owner of census" in dry.out
    assert "3 to add, 0 to change, 2 to remove; this was a dry run" in dry.out
    assert "1 expired members of the file are left out" in dry.out
    assert rows(owned) == before
    done = owned(*sync)
    assert done.code == 0, done.err
    assert "done: 5 of 5" in done.out
    found = rows(owned)
    assert found.keys() == {"otto", "ana", "eng"}
    assert found["otto"]["roles"] == ["owner", "auditor"]
    assert found["ana"] == {
        "member": "ana",
        "roles": ["analyst"],
        "team": "blue",
        "until": "2100-01-01T00:00:00.000Z",
    }
    again = owned("member", "sync", "census", "members", "--by", "otto")
    assert again.code == 0
    assert "no longer an owner" not in again.out
    assert "nothing to change" in again.out
    assert owned("audit").code == 0


@every_case(
    ("content", "said"),
    [
        ("member,roles\nana,analyst\n", "has no owner"),
        ("[]", "has no owner"),
        ("member,role\nana,analyst\n", "did you mean roles?"),
        ("member\nana\n", "must have the columns member,roles"),
        ("member,roles\nolga,owner\nolga,analyst\n", "line 3: olga occurs twice"),
        (
            "member,roles\nolga,ownr\n",
            "line 2: roles must be owner, analyst, engine, auditor, curator or lead",
        ),
        ("member,roles\nolga\n", "line 2 must have 2 columns"),
        ("member,roles\nolga,\n", "roles of olga must be a list of at least one role"),
        ("member,roles,until\nolga,owner,2100-01-01\n", "an owner does not expire"),
        ("member,roles,until\nana,analyst,P90D\n", "until must be a day"),
        ("member,roles\nol ga,owner\n", "member must be 1 to 100 letters"),
        ('[{"member": 5, "roles": ["owner"]}]', "member 1: member must be a name"),
        ('[{"member": "olga", "roles": "owner"}]', "roles of olga must be a list"),
        ('{"member": "olga"}', "must be an array of objects"),
        ("[", "is not valid JSON"),
        ("", "must have the columns"),
    ],
)
def test_a_file_that_is_wrong_changes_nothing(owned: Command, content: str, said: str) -> None:
    (owned.directory / "members").write_text(content)
    done = owned("member", "sync", "census", "members", "--by", "olga")
    assert done.code == 2, done.out + done.err
    assert said in done.err
    assert rows(owned).keys() == {"olga"}


def test_a_sync_over_http_sends_its_changes_side_by_side_up_to_a_bound(owned: Command) -> None:
    """The first eight changes are answered only once all eight have arrived."""
    names = [f"ana{number}" for number in range(100)]
    table = "".join(f"{name},analyst\n" for name in names)
    (owned.directory / "members").write_text(f"member,roles\nolga,owner\n{table}")
    first = threading.Barrier(8)
    lock, waiting, posts, counts = threading.Lock(), [0], [0], list[int]()

    with serving(owned) as (address, _):

        class Proxy(BaseHTTPRequestHandler):
            def _forward(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", 0)))
                with lock:
                    waiting[0] += 1
                    counts.append(waiting[0])
                    posts[0] += self.command == "POST"
                    is_first = self.command == "POST" and posts[0] <= 8
                if is_first:
                    with contextlib.suppress(threading.BrokenBarrierError):
                        first.wait(PATIENCE_S)
                headers = {**self.headers, "Host": "localhost"}
                url = address + self.path
                answer = httpx.request(
                    self.command, url, headers=headers, content=content, timeout=PATIENCE_S
                )
                with lock:
                    waiting[0] -= 1
                self.send_response(answer.status_code)
                for name in ("content-type", "content-location", "content-length"):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_POST = _forward  # noqa: N815 (the library's names)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        proxy = Server(("127.0.0.1", 0), Proxy)
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{proxy.server_port}"
        done = owned(
            "member", "sync", "census", "members", "--by", "olga", "--url", url, "--wait", "60"
        )
        proxy.shutdown()
        thread.join()
        proxy.server_close()
    assert done.code == 0, done.err
    assert f"done: {len(names)} of {len(names)}" in done.out
    assert not first.broken
    assert 8 <= max(counts) <= 64
    assert rows(owned).keys() == {"olga", *names}


def test_no_command_proposes_another_member_for_a_subject_that_is_no_name(owned: Command) -> None:
    # `lab_ana` may be the subject of somebody else.
    by = ("--by", "olga")
    (owned.directory / "members.csv").write_text("member,roles\nlab|ana,analyst\n")
    (owned.directory / "members.json").write_text('[{"member": "lab|ana", "roles": ["analyst"]}]')
    for command in (
        ("member", "set", "census", "lab|ana", "--role", "analyst", *by),
        ("member", "remove", "census", "lab|ana", *by),
        ("member", "sync", "census", "members.csv", *by),
        ("member", "sync", "census", "members.json", *by),
        (*OPEN, "--owner", "lab|ana", *by),
    ):
        done = owned(*command)
        assert done.code != 0, command
        assert "lab_ana" not in done.err, command
        assert "is named b32.nrqwe7dbnzqq here" in done.err, (command, done.err)
    assert set(rows(owned)) == {"olga"}


def test_a_sync_stops_at_the_first_refusal_and_says_how_far_it_came(owned: Command) -> None:
    (owned.directory / "members").write_text(TABLE)
    done = owned("member", "sync", "census", "members", "--by", "ben")
    assert done.code == 1
    assert "refused (not_permitted)" in done.out
    assert "after 0 of 4 changes" in done.err
    assert rows(owned).keys() == {"olga"}
    assert owned("member", "sync", "nowhere", "members").code == 1


def test_a_sync_through_a_server_ends_with_its_own_owner(
    server: AuthenticatedServer, accountant: Command
) -> None:
    server.done("root", *OPEN, "--owner", "olga")
    (accountant.directory / "members").write_text(TABLE)
    server.done("olga", "member", "sync", "census", "members")
    assert rows(accountant).keys() == {"otto", "ana", "eng"}
    (accountant.directory / "members").write_text(TABLE.replace("ana,", "ben,"))
    denied = server.by("ana", "member", "sync", "census", "members")
    assert denied.code == 1
    assert "stopped after 0 of " in denied.err
    assert "does not permit this" in denied.err
    (accountant.directory / "members").write_text(TABLE.replace("otto", "olga"))
    server.done("root", "member", "sync", "census", "members", "--as-administrator")
    assert rows(accountant).keys() == {"olga", "ana", "eng"}


def test_access_is_shown_even_if_the_policy_does_not_set_it(accountant: Command) -> None:
    assert accountant(*OPEN, "--by", "olga").code == 0
    shown = accountant("dataset", "show", "census").out
    assert "anyone: everyone may ask" in shown
    known = accountant("me")
    assert "you are not signed in: sqlite:///" in known.out


CITY = "The people of population city are in"
TOGETHER = "Together they guarantee ε = 2, δ = 0."


def test_datasets_of_one_population_are_added_up(owned: Command) -> None:
    for name in ("city-1", "city-2"):
        opened = owned("dataset", "open", name, *POLICY, "--population", "city")
        assert opened.code == 0, opened.err
    assert f"{CITY} city-1, city-2. {TOGETHER}" in owned("dataset", "list").out
    assert TOGETHER in " ".join(owned("dataset", "show", "city-2").out.split())
    listed = {row["dataset"]: row for row in owned("dataset", "list", "--json").rows}
    assert "joint_guarantee" not in listed["census"]
    assert listed["city-1"]["joint_guarantee"] == {
        "population": "city",
        "datasets": ["city-1", "city-2"],
        "epsilon": "2",
        "delta": "0",
    }
    assert owned("ask", "city-1", "pure:0.1", "--analyst", "ana").code == 0
    assert "ε = 2" in owned("dataset", "list").out
    assert owned("dataset", "open", "city-3", *POLICY, "--population", "city", "--new").code == 0
    why = "city-3 was opened after something was granted on city-1"
    assert f"Together they have no guarantee: {why}." in owned("dataset", "list").out
    assert owned("dataset", "show", "city-1", "--json").json["joint_guarantee"]["why"] == why


def test_a_policy_of_a_file_is_closed_by_a_token_too(
    server: AuthenticatedServer, accountant: Command
) -> None:
    policy = {"filter": "basic", "epsilon": "1"}
    (accountant.directory / "policy.json").write_text(json.dumps(policy))
    done = server.done("root", "dataset", "open", "census", "--policy", "policy.json")
    assert "access: only members may ask" in done.out
    assert Path(accountant.directory / "accountant.db").exists()
    opened = (
        "dataset",
        "open",
        "survey",
        *POLICY,
        "--access",
        "anyone",
        "--owner",
        "olga",
        "--json",
    )
    assert server.done("root", *opened).json["policy"]["access"] == "anyone"
    server.done("ben", "ask", "survey", "pure:0.1")


def test_a_server_shows_the_joint_guarantee_with_visible_names_only(
    server: AuthenticatedServer,
) -> None:
    for name in ("city-1", "city-2"):
        server.done("root", "dataset", "open", name, *POLICY, "--population", "city")
    server.done(*("root", "member", "set", "city-1", "ana", "--role", "analyst"))
    where = ("--url", server.url)
    mine = f"{CITY} city-1 and 1 other dataset. {TOGETHER}"
    assert mine in server.done("ana", "dataset", "list", *where).out
    assert mine in " ".join(server.done("ana", "dataset", "show", "city-1", *where).out.split())
    whole = server.done("root", "dataset", "list", *where).out
    assert f"{CITY} city-1, city-2. {TOGETHER}\n" in whole
