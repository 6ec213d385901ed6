"""A pause of a person by command, client, server and page: who may, and who reads what of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from accountant.errors import RequestInvalid
from accountant.records.outcomes import Reason
from streams.client import Accountant
from streams.client._sync.sender import RequestSender
from tests.streams.auth.roles_server import Body
from tests.streams.cli.here import run_here
from tests.streams.pages.dataset.pages_server import PagesServer
from tests.streams.pages.dataset.test_page import words

WHY = "a loop <asks>"


def test_a_command_pauses_and_resumes_a_person_and_a_team(tmp_path: Path) -> None:
    def run(*arguments: str, code: int = 0) -> Any:
        done = run_here(tmp_path, *arguments)
        assert done.code == code, done.err
        return done

    run("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6", "--access", "anyone")
    said = run("member", "pause", "census", "ana", "--reason", WHY)
    assert said.out.startswith("member_paused: ana is paused")
    refused = run("ask", "census", "pure:0.01", "--analyst", "ana", code=1)
    assert WHY in " ".join(refused.out.split())
    dry = run("ask", "census", "pure:0.01", "--analyst", "ana", "--dry-run", code=1)
    assert WHY in " ".join(dry.out.split())
    assert "paused: ana, by owner at" in run("member", "list", "census").out
    assert WHY in run("dataset", "show", "census").out
    team = run("member", "pause", "census", "--team", "blue", "--reason", WHY)
    assert "team blue has no members yet" in " ".join(team.err.split())
    run("member", "resume", "census", "--team", "blue")
    run("member", "resume", "census", "bo", code=1)
    assert "ana is not paused any more" in run("member", "resume", "census", "ana").out
    run("ask", "census", "pure:0.01", "--analyst", "ana")
    for arguments in (("bo",), ("--reason", "x"), ("bo", "--team", "blue", "--reason", "x")):
        run("member", "pause", "census", *arguments, code=2)
    run("audit")


def test_a_client_pauses_and_resumes(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'l.db'}", analyst="ana") as ledger:
        owner = ledger.as_owner("olga", reason=WHY)
        policy = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "access": "anyone"}
        owner.open("census", policy, as_given=True)
        paused = owner.pause_member("census", "ana")
        assert (paused.pause,) == ledger.dataset("census").person_pauses
        refused = ledger.ask("census", "pure:0.1").decision
        assert (refused.reason, refused.pause and refused.pause.by) == (
            Reason.PERSON_PAUSED,
            "olga",
        )
        assert ledger.budget("census").pause == refused.pause
        assert ledger.cost("census", "pure:0.1").reason is Reason.PERSON_PAUSED
        assert owner.resume_member("census", "ana").outcome == "member_resumed"
        assert ledger.ask("census", "pure:0.1").granted
        for target in ({}, {"member": "ana", "team": "red"}):
            with pytest.raises(RequestInvalid, match="member"):
                owner.pause_member("census", **target)
        with pytest.raises(RequestInvalid, match="reason"):
            ledger.as_owner("olga").pause_member("census", "ana")


def test_the_next_generation_has_the_pauses_before_anybody_may_ask(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'l.db'}", analyst="ana") as ledger:
        owner = ledger.as_owner("olga", reason=WHY)
        policy = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "access": "anyone"}
        owner.open("census", policy, lifetime={"epsilon": "3", "delta": "1e-5"}, as_given=True)
        owner.set_member("census", "bo", roles=["analyst"], team="red")
        for target in ({"member": "ana"}, {"team": "red"}):
            owner.pause_member("census", **target)
        sent, submit = list[str](), RequestSender.send_record

        def noting(self: Any, record: Any, call: Any) -> Any:
            sent.append(record.kind)
            return submit(self, record, call)

        later = ledger.as_owner("olga", reason="a new year")
        with mock.patch.object(RequestSender, "send_record", noting):
            later.renew("census", "census::2")
        assert sent == ["renew", "pause_member", "pause_member", "member", "amend"]
        found = ledger.dataset("census::2").person_pauses
        assert [(each.member, each.team, each.reason) for each in found] == [
            ("ana", None, WHY),
            (None, "red", WHY),
        ]
        for name in ("ana", "bo"):
            asked = ledger.ask("census::2", "pure:0.1", analyst=name)
            assert asked.reason is Reason.PERSON_PAUSED
        later.resume_member("census::2", "ana")
        later.renew("census", "census::2")
        assert ledger.ask("census::2", "pure:0.1").granted


def paused(server: PagesServer, **target: str) -> Body:
    body = {"version": 1, "type": "pause_member", "by": "olga", "dataset": "survey", "reason": WHY}
    return server.done(
        "olga", "/datasets/survey/members/pause", {**body, **target}, "member_paused"
    )


def test_a_server_shows_a_pause_to_those_concerned_alone(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as server:
        server.open_for_olga("survey", access="members", visibility="own")
        for name, team in (("ana", "red"), ("ben", "blue"), ("otto", "red")):
            server.enrol("survey", name, "analyst", team=team)
        server.enrol("survey", "aud", "auditor")
        of_ana, of_red = paused(server, member="ana"), paused(server, team="red")
        sees = {"olga": 2, "aud": 2, "root": 2, "ana": 2, "ben": 0}
        for name, count in sees.items():
            view = server.see(name, "/datasets/survey").json()
            (listed,) = [
                each for each in server.see(name, "/datasets").json() if each["dataset"] == "survey"
            ]
            overview = server.see(name, "/datasets/survey/overview").json()["dataset"]
            for shown in (view, listed, overview):
                assert len(shown["person_pauses"]) == count, name
            log = server.see(name, "/datasets/survey/requests").text
            assert (of_ana["hash"] in log, of_red["hash"] in log) == (count > 0, count > 0), name
            page = words(server.page(name).text)
            assert (WHY in page) is (count > 0), name
        assert "You cannot ask now. Paused: ana, by olga" in words(server.page("ana").text)
        assert "You cannot ask now" not in server.page("ben").text
        assert words(server.page("olga").text).count("(paused)") == 2
        assert "pause" in server.see("ana", "/datasets/survey/budgets/ana").json()
        with Accountant(server.url, token=server.tokens["ana"], clock=server.clock) as ana:
            refused = ana.ask("survey", "pure:0.001")
            assert refused.reason is Reason.PERSON_PAUSED
            assert WHY in str(refused.why)
