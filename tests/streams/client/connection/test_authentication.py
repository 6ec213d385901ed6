"""A client with a token, and a real server that authenticates it."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import ssl
import traceback
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from accountant.records import encode
from accountant.records.members import Member
from streams.auth import token_file
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.explanations import explain
from streams.client import (
    Accountant,
    AsyncAccountant,
    NotPermitted,
    OutOfOrder,
    RequestInvalid,
    Unauthenticated,
)
from streams.client.http.bearer import Bearer, bearer_for
from streams.errors import Refused
from streams.service.ledger_service import MAX_READ
from streams.settings import Settings
from tests.streams.auth.certificates import certificate
from tests.streams.auth.roles_server import RolesServer
from tests.streams.auth.token_server import TokenServer, wall
from tests.streams.clock import NOON, TestClock
from tests.streams.gateway.records import request

CLAIM = "pure:0.1"
TINY = {"type": "pure", "epsilon": "0.0001"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RolesServer]:
    with RolesServer(tmp_path) as made:
        made.furnish()
        yield made


def client(server: RolesServer, name: str, **more: str) -> Accountant:
    return Accountant(server.url, token=server.tokens[name], clock=TestClock(NOON), **more)


def test_a_token_names_the_analyst_and_the_owner(server: RolesServer) -> None:
    with client(server, "ana") as ledger:
        reply = ledger.ask("closed-own", CLAIM)
        assert reply.granted
        assert b'"analyst":"ana"' in bytes(reply.decision.request)
        with ledger.grant("closed-own", CLAIM) as granted:
            assert granted.granted
        with pytest.raises(NotPermitted, match=r"analyst must be ana, the name of your token"):
            ledger.ask("closed-own", CLAIM, analyst="ben")
        with pytest.raises(NotPermitted):
            ledger.as_owner().close("closed-own")
    with client(server, "olga") as ledger:
        assert ledger.as_owner().amend("closed-own", alert_at=["0.5"]).outcome == "amended"
        assert ledger.as_owner().close("closed-own").outcome == "closed"


def test_a_request_that_is_not_permitted_is_not_appended_and_not_retried(
    server: RolesServer,
) -> None:
    before = server.stored_rows()
    with client(server, "zoe") as ledger, pytest.raises(NotPermitted, match="closed-own"):
        ledger.ask("closed-own", CLAIM, unit="person", neighbours="add_remove", wait=60)
    assert server.stored_rows() == before


def test_an_engine_asks_on_behalf_of_an_analyst(server: RolesServer) -> None:
    with client(server, "eng", via="eng") as ledger:
        reply = ledger.ask("closed-own", CLAIM, analyst="ana")
        assert reply.granted
        assert b'"via":"eng"' in bytes(reply.decision.request)
        with pytest.raises(RequestInvalid, match="analyst must be passed where an engine asks"):
            ledger.ask("closed-own", CLAIM)
        with pytest.raises(NotPermitted):
            ledger.ask("closed-own", CLAIM, analyst="zoe")
    with client(server, "eng") as ledger:
        assert ledger.ask("closed-own", CLAIM, analyst="ben", via="eng").granted
        with pytest.raises(NotPermitted, match="must be eng, the name of your token"):
            ledger.ask("closed-own", CLAIM, analyst="ben")


def test_sessions_take_their_steps_with_a_token(
    server: RolesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "answers.db"))
    with client(server, "ana") as ledger, client(server, "eng", via="eng") as engine:
        with ledger.reserve("closed-own", CLAIM, until="P1D") as session:
            assert session.run(lambda: 7) == 7
        with engine.reserve("closed-own", CLAIM, until="P1D", analyst="ana") as session:
            assert session.run(lambda: 8) == 8
        with ledger.reserve("closed-own", CLAIM, until="P1D"):
            pass
        found = [str(each.outcome) for each in ledger.requests("closed-own")]
        assert found[-8:] == [*["reserved", "begun", "settled"] * 2, "reserved", "voided"]


def test_the_session_of_a_removed_member_settles_in_full(
    server: RolesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "answers.db"))
    with client(server, "ana") as ledger, client(server, "olga") as owner:
        before = owner.dataset("closed-own").totals["epsilon"]
        with ledger.reserve("closed-own", CLAIM, until="P1D") as session:
            session.run(lambda: 7)
            owner.as_owner().remove_member("closed-own", "ana")
        assert owner.reservations("closed-own") == []
        spent = Decimal(str(owner.dataset("closed-own").totals["epsilon"])) - Decimal(str(before))
        assert spent == Decimal("0.1")
        with pytest.raises(OutOfOrder):
            session.run(lambda: 8)


def test_owners_set_roles(server: RolesServer) -> None:
    with client(server, "olga") as ledger:
        until = dt.date(2027, 1, 1)
        done = ledger.as_owner().set_member(
            "closed-own", "zoe", roles=["auditor", "analyst"], team="blue", until=until
        )
        assert done.outcome == "member_set"
        zoe = Member("zoe", ("analyst", "auditor"), "blue", "2027-01-01T00:00:00.000Z")
        assert done.member == zoe
        assert zoe in ledger.members("closed-own")
        assert ledger.as_owner().remove_member("closed-own", "ben").outcome == "member_removed"
        assert ledger.as_owner().remove_member("closed-own", "olga").reason == "last_owner"
        assert ledger.as_owner().remove_member("closed-own", "nobody").reason == "unknown_member"
    with client(server, "zoe") as ledger:
        assert ledger.ask("closed-own", CLAIM).granted
        me = ledger.me()
        assert (me.name, me.kind, me.administrator) == ("zoe", "token", False)
        (own,) = me.datasets
        assert (own.dataset, own.roles, own.team) == ("closed-own", ("analyst", "auditor"), "blue")
    with client(server, "ben") as ledger, pytest.raises(NotPermitted):
        ledger.ask("closed-own", CLAIM)


def test_an_administrator_opens_for_owners_and_acts_as_one(server: RolesServer) -> None:
    policy = {"epsilon": "1", "access": "members", "visibility": "own", "population": "city"}
    with client(server, "root") as ledger:
        opened = ledger.as_owner().open(
            "new", {"filter": "basic", **policy}, owners=["olga", "otto"], as_given=True
        )
        assert opened.owners == ("olga", "otto")
        with pytest.raises(NotPermitted):
            ledger.as_owner().set_member("new", "ana", roles=["analyst"])
        done = ledger.as_administrator().set_member("new", "ana", roles=["analyst"])
        assert done.administrator
    with client(server, "olga") as ledger:
        with pytest.raises(NotPermitted):
            ledger.as_administrator().set_member("new", "ben", roles=["analyst"])
        amended = ledger.as_owner().amend("new", access="anyone", visibility="members")
        assert amended.policy is not None
        assert (amended.policy.access, amended.policy.visibility) == ("anyone", "members")


def test_the_async_client_behaves_the_same_with_a_token(server: RolesServer) -> None:
    async def run() -> None:
        clock = TestClock(NOON)
        async with AsyncAccountant(server.url, token=server.tokens["olga"], clock=clock) as ledger:
            assert (await ledger.me()).name == "olga"
            done = await ledger.as_owner().set_member("closed-own", "zoe", roles=["analyst"])
            assert done.outcome == "member_set"
            assert "zoe" in [each.member for each in await ledger.members("closed-own")]
            assert (
                await ledger.as_owner().remove_member("closed-own", "zoe")
            ).outcome == "member_removed"
        async with AsyncAccountant(server.url, token=server.tokens["ana"], clock=clock) as ledger:
            assert (await ledger.ask("closed-own", CLAIM)).granted
            async with ledger.grant("closed-own", CLAIM) as granted:
                assert granted.granted

    asyncio.run(run())


def test_a_missing_token_says_how_to_set_one(server: RolesServer) -> None:
    for ledger in (Accountant(server.url), Accountant(f"sqlite:///{server.path}")):
        with ledger:  # the file's own, too, is reached through the server that has it
            with pytest.raises(Unauthenticated, match=r"ACCOUNTANT_TOKEN or ACCOUNTANT_TOKEN_FILE"):
                ledger.datasets()
            with pytest.raises(RequestInvalid, match="analyst must be passed"):
                ledger.ask("closed-own", CLAIM)
            with pytest.raises(RequestInvalid, match="by must be passed"):
                ledger.as_owner().close("closed-own")


def test_a_revoked_token_and_a_missing_one_have_different_errors(server: RolesServer) -> None:
    with client(server, "ana") as ledger:
        assert ledger.ask("closed-own", CLAIM).granted
        token_file.revoke(server.tokens_file, "ana", now=wall())
        with pytest.raises(Unauthenticated, match="does not know this token: it may be expired"):
            ledger.ask("closed-own", CLAIM, wait=30)


def test_a_changed_token_file_is_read_again(server: RolesServer, tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.touch(0o600)
    file.write_text(server.tokens["ana"] + "\n")
    settings = Settings(url=server.url, token_file=file)
    with Accountant(settings=settings, clock=TestClock(NOON)) as ledger:
        assert ledger.me().name == "ana"
        file.write_text(server.tokens["ben"])
        assert ledger.me().name == "ben"
        file.write_text("two tokens")
        with pytest.raises(Refused, match="must be a single token"):
            ledger.me()
        file.write_text("x" * 8_193)
        with pytest.raises(Refused, match="at most 8192 characters"):
            ledger.me()
        file.unlink()
        with pytest.raises(Refused, match="cannot be read"):
            ledger.me()
    with pytest.raises(Refused, match="cannot be read"):
        Accountant(settings=settings)


def test_a_token_goes_to_no_other_machine_over_http() -> None:
    for url in ("http://server.example", "http://10.1.2.3:8000", "http://127.0.0.1.example"):
        with pytest.raises(Refused, match="a token is not sent over http to another machine"):
            Accountant(url, token="acct_x")
        assert bearer_for(url, Settings(token="acct_x", token_unencrypted=True)) is not None
    for url in (
        "https://server.example",
        "http://127.0.0.1:1",
        "http://[::1]:1",
        "http://localhost",
    ):
        assert bearer_for(url, Settings(token="acct_x")) is not None
    assert bearer_for("http://server.example", Settings()) is None


def test_a_token_appears_in_no_text(
    server: RolesServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = server.tokens["zoe"]
    caplog.set_level(logging.DEBUG)
    texts = [repr(Bearer(secret)), str(vars(Settings(token=secret)))]
    with client(server, "zoe") as ledger:
        texts += [repr(ledger), repr(vars(ledger)), repr(ledger.settings)]
        try:
            ledger.ask("closed-own", CLAIM)
        except NotPermitted as error:
            texts += traceback.format_exception(error)
    with pytest.raises(Refused) as wrong:
        Accountant(server.url, token=secret + " \x00")
    texts += traceback.format_exception(wrong.value)
    out, err = capfd.readouterr()
    assert secret not in "\n".join([*texts, caplog.text, out, err])


def test_a_token_is_not_sent_to_a_redirect(tmp_path: Path) -> None:
    heard: list[str | None] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        heard.append(next((x for x in head.split("\r\n") if x.startswith("authorization")), None))
        port = writer.get_extra_info("sockname")[1]
        writer.write(
            b"HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\n"
            b"Location: http://localhost:%d/x\r\nConnection: close\r\n\r\n" % port
        )
        await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with AsyncAccountant(f"http://127.0.0.1:{port}", token="acct_x") as ledger:
            with pytest.raises(Refused, match="answered 307"):
                await ledger.datasets()
        server.close()

    asyncio.run(run())
    assert heard == ["authorization: bearer acct_x"]


def test_a_servers_private_certificate_authority_is_accepted_by_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = certificate(tmp_path)

    class Secure(TokenServer):
        verify = ssl.create_default_context(cafile=str(files.certificate))

    with Secure(tmp_path, tls_certificate=files.certificate, tls_key=files.key) as server:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with (
            Accountant(server.url, token=server.administrator) as ledger,
            pytest.raises(Refused, match="set SSL_CERT_FILE to its certificate"),
        ):
            ledger.me()
        monkeypatch.setenv("SSL_CERT_FILE", str(files.certificate))
        with Accountant(server.url, token=server.administrator) as ledger:
            assert ledger.me().name == "local:olga"
            assert ledger.dataset("census") is not None
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
        with pytest.raises(Refused, match="SSL_CERT_FILE or SSL_CERT_DIR cannot be used"):
            Accountant(server.url, token=server.administrator)


def test_a_server_that_cannot_authenticate_is_retried(server: RolesServer) -> None:
    server.tokens_file.chmod(0o644)
    with client(server, "ana") as ledger:
        with pytest.raises(Exception, match="cannot check tokens now") as refused:
            ledger.ask("closed-own", CLAIM, wait=0.2)
        said = explain(refused.value)
        assert said is not None
        assert said.code == Exit.UNAVAILABLE
        # The server's address is right: the message ends with the next step.
        assert said.message.endswith("The server's log has the reason")
        assert said.hint is None
        server.tokens_file.chmod(0o600)
        assert ledger.ask("closed-own", CLAIM).granted


def test_without_authentication_a_token_has_no_name(tmp_path: Path) -> None:
    from tests.streams.gateway.local_server import LocalServer

    with LocalServer(tmp_path / "ledger.db", TestClock()) as server:
        server.open("census")
        with Accountant(server.url, token="acct_x", clock=TestClock(NOON)) as ledger:
            assert ledger.me().name is None
            assert ledger.ask("census", CLAIM, analyst="ana").granted
            with pytest.raises(RequestInvalid, match="authentication is off on this server"):
                ledger.ask("census", CLAIM)
            with pytest.raises(RequestInvalid, match="by must be passed: authentication is off"):
                ledger.as_owner().close("census")


def test_a_ledger_file_ignores_a_token(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path}/own.db", token="acct_x") as ledger:
        opened = ledger.as_owner("olga").open(
            "census", {"epsilon": "1", "filter": "basic"}, as_given=True
        )
        assert opened.owners == ("olga",)
        assert ledger.as_owner("olga").set_member("census", "ana", roles={"analyst"}).member
        with pytest.raises(RequestInvalid, match="roles must be a list, such as"):
            ledger.as_owner("olga").set_member("census", "ana", roles="analyst")
        with pytest.raises(RequestInvalid, match=r"roles.* did you mean analyst\?"):
            ledger.as_owner("olga").set_member("census", "ana", roles=["analist"])
        for wrong in ("soon", dt.datetime(2027, 1, 1), 5, "2027-13-01"):  # noqa: DTZ001
            with pytest.raises(RequestInvalid, match="until must be a day such as 2027-01-01"):
                ledger.as_owner("olga").set_member("census", "ana", roles=["analyst"], until=wrong)  # type: ignore[arg-type]
        assert [each.member for each in ledger.members("census")] == ["ana", "olga"]
        assert ledger.me().name is None
        # Another client of the same file need not have the same token.
        with Accountant(f"sqlite:///{tmp_path}/own.db", token="acct_y") as second:
            assert len(second.members("census")) == 2


def test_own_decisions_are_found_after_many_of_others(server: RolesServer) -> None:
    server.granted("closed-own", "ana")
    for _ in range(MAX_READ + 1):
        body = encode(request(server.clock, dataset="closed-own", analyst="ben", claim=TINY))
        server.service.decide_sync("requests", body, 10.0)
    server.granted("closed-own", "ana")
    with client(server, "ana") as ledger:
        mine = [each for each in ledger.requests("closed-own") if each.outcome == "granted"]
    assert len(mine) == 2
    assert all(b'"analyst":"ana"' in bytes(each.request) for each in mine)


def test_an_engines_conflict_hides_the_first_decision_of_another_analyst(
    server: RolesServer,
) -> None:
    mine = server.granted("closed-own", "ana")
    with client(server, "eng", via="eng") as ledger:
        reply = ledger.ask("closed-own", CLAIM, analyst="ana", request_id=mine["request_id"])
    assert reply.outcome == "conflict"
    assert reply.first is None
    assert not reply.granted


def test_an_owner_who_removes_herself_gets_the_decision(server: RolesServer) -> None:
    with client(server, "olga") as ledger:
        assert (
            ledger.as_owner().set_member("closed-own", "otto", roles=["owner"]).outcome
            == "member_set"
        )
        assert ledger.as_owner().remove_member("closed-own", "olga").outcome == "member_removed"
        with pytest.raises(NotPermitted):
            ledger.as_owner().remove_member("closed-own", "otto")
