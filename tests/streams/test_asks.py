"""Asks for more: owners answer them, nothing else changes, and a hidden dataset stays hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from accountant.records import encode
from accountant.records.asks import MAX_ASKS_OF_PERSON
from accountant.views.visibility import DatasetAccess, sees_alert
from streams.alerts.alert_scan import AlertScan
from tests.accountant.judged_life import START, Body, Ids, Life, Sent
from tests.accountant.world import opened
from tests.streams.auth.roles_server import RolesServer, misspelt
from tests.streams.auth.survey_server import HOSTILE
from tests.streams.cli.here import run_here
from tests.streams.pages.dataset.pages_server import PagesServer

WHY = "for the annual report"
IDS = Ids()
WITH_LAST = frozenset({"sequence", "changed_at"})
"""What each decision on a dataset moves in its row."""
POLICY = {"filter": "basic", "epsilon": "1", "access": "members"}


def record(kind: str, by: str = "olga", **more: Any) -> Body:
    head = {"version": 1, "type": kind, "request_id": IDS.new(START), "dataset": "census"}
    return {**head, "by": by, **more}


def access(by: str, role: str = "analyst") -> Body:
    return record("more", by, wants="access", role=role, reason=WHY)


def member(name: str, number: int, *roles: str, by: str = "olga") -> Body:
    return record("member", by, member=name, roles=list(roles or ("analyst",)), answers=number)


def limit(name: str, number: int) -> Body:
    return record("limit", scope="analyst", name=name, part="0.2", answers=number)


def decline(number: int, asker: str, by: str = "olga") -> Body:
    return record("decline", by, ask=number, asker=asker, reason="not this year")


FIRST = access("ana")
STEPS = [
    (record("open", policy=POLICY, budget={"epsilon": "0.5"}), "opened"),
    (FIRST, "more_asked"),  # 2
    (FIRST, "repeated"),
    (record("more", "ana", wants="limit", part="0.2", reason=WHY), "not_permitted"),
    (decline(2, "ana", by="ana"), "not_permitted"),
    (member("ana", 2, by="ana"), "not_permitted"),
    (decline(2, "bo"), "other_ask"),
    (member("bo", 2), "other_ask"),
    (member("ana", 2, "auditor"), "other_ask"),
    (limit("ana", 2), "other_ask"),
    (member("ana", 2), "member_set"),  # 10
    (member("ana", 2), "unknown_ask"),
    (decline(2, "ana"), "unknown_ask"),
    (access("ana"), "has_role"),
    (record("more", "ana", wants="limit", part="0.2", reason=WHY), "more_asked"),  # 14
    (record("more", "ana", wants="budget", budget={"epsilon": "2"}, reason=WHY), "above_ceiling"),
    (record("more", "ana", wants="budget", budget={"epsilon": "0.8"}, reason=WHY), "more_asked"),
    (limit("bo", 14), "other_ask"),
    (limit("ana", 16), "other_ask"),
    (record("budget", budget={"epsilon": "0.8"}, answers=14), "other_ask"),
    (limit("ana", 14), "limit_set"),
    (record("budget", budget={"epsilon": "0.7"}, answers=16), "budget_set"),  # less than asked
    *[(access("bo", "auditor"), "more_asked") for _ in range(MAX_ASKS_OF_PERSON)],  # 22 to 31
    (access("bo", "auditor"), "too_many_asks"),
    (access("cy", "auditor"), "more_asked"),  # 33
    (decline(22, "bo"), "more_declined"),
    (access("bo", "auditor"), "more_asked"),
    (decline(22, "bo"), "unknown_ask"),
    (record("close"), "closed"),
    (access("dan"), "closed"),
    (decline(33, "cy"), "more_declined"),
]


@pytest.mark.parametrize("batch", [1, 100])
def test_asks_and_answers_are_decided_and_replayed(batch: int) -> None:
    """The oracle judges each decision and row, and a replay of the log or the rows agrees."""
    life, at = Life(seed=1), START
    before: dict[str, Any] = {}
    for number, (body, expected) in enumerate(STEPS, 1):
        at += 1
        said = life.decide(Sent.made(body, at))
        assert said.get("reason", said["outcome"]) == expected, body
        if number % batch == 0:
            life.commit()
            row = json.loads(life.rows[b"census"])
            if body["type"] in {"more", "decline"}:
                moved = {name for name in row if row[name] != before.get(name)}
                assert moved <= WITH_LAST, body
            before = row
            life.kill()
    life.finish()


def test_a_paused_person_asks_for_nothing_until_a_resume() -> None:
    life = Life(seed=3)
    ana, team = {"member": "ana"}, {"team": "blue"}
    steps = [
        (record("open", policy=POLICY), "opened"),
        (record("member", member="bo", roles=["analyst"], team="blue"), "member_set"),
        (record("pause_member", **ana, reason="a loop"), "member_paused"),
        (record("pause_member", **team, reason="a loop"), "member_paused"),
        (access("ana"), "person_paused"),
        (access("bo", "auditor"), "person_paused"),
        (access("cy"), "more_asked"),
        (record("pause"), "paused"),
        (access("ana"), "paused"),
        (access("cy", "auditor"), "more_asked"),
        (record("resume_member", **ana), "member_resumed"),
        (access("ana"), "more_asked"),
    ]
    for at, (body, expected) in enumerate(steps, START + 1):
        said = life.decide(Sent.made(body, at))
        assert said.get("reason", said["outcome"]) == expected, body
    life.finish()


def test_members_of_a_team_ask_for_its_limit_and_that_alone_answers() -> None:
    life = Life(seed=3)
    of_team = {"wants": "limit", "part": "0.3", "reason": WHY}
    lead = {"member": "leo", "roles": ["lead"], "team": "red"}
    steps = [
        (record("open", policy=POLICY), "opened"),
        (record("member", **lead), "member_set"),  # 2
        (record("more", "leo", **of_team, team="blue"), "not_permitted"),
        (record("more", "ana", **of_team, team="red"), "not_permitted"),
        (record("more", "leo", **of_team | {"wants": "budget"}, team="red"), "invalid"),
        (record("more", "leo", **of_team, team="red"), "more_asked"),  # 5
        (limit("leo", 5), "other_ask"),
        (record("limit", scope="team", name="blue", part="0.3", answers=5), "other_ask"),
        (record("limit", scope="team", name="red", part="0.2", answers=5), "limit_set"),
        (record("limit", scope="team", name="red", part="0.3", answers=5), "unknown_ask"),
        (record("member", member="leo", roles=[]), "member_removed"),
        (record("more", "leo", **of_team, team="red"), "not_permitted"),
    ]
    for at, (body, expected) in enumerate(steps, START + 1):
        said = life.decide(Sent.made(body, at))
        assert expected in {said.get("reason"), said["outcome"]}, (body, said)
    life.finish()


def test_an_ask_and_its_answer_leave_every_amount_as_it_was() -> None:
    life, at, asked = Life(seed=2), START, {"unit": "person", "neighbours": "add_remove"}
    request = record("request", claim={"type": "pure", "epsilon": "0.1"}, **asked)
    del request["by"]
    said: list[dict[str, Any]] = []
    for body in (
        record("open", policy={"filter": "basic", "epsilon": "1"}),
        {**request, "analyst": "ana"},
        record("more", "ana", wants="limit", part="0.2", reason=WHY),
        decline(3, "ana"),
    ):
        at += 1
        said.append(life.decide(Sent.made(body, at)))
    life.commit()
    assert [each["totals"] for each in said[2:]] == [said[1]["totals"]] * 2
    assert [each["left"] for each in said[2:]] == [said[1]["left"]] * 2
    life.finish()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesServer]:
    with RolesServer(tmp_path_factory.mktemp("asks")) as made:
        made.furnish()
        yield made


def ask(server: RolesServer, name: str, dataset: str, **fields: Any) -> Any:
    fields = fields or {"wants": "access", "role": "analyst"}
    body = {"version": 1, "type": "more", "dataset": dataset, "by": name, "reason": WHY, **fields}
    return server.send(name, f"/datasets/{dataset}/more", body)


def shown(answer: Any, dataset: str) -> tuple[int, str, set[str]]:
    """Return what an answer shows, without the name that was asked for."""
    return answer.status_code, answer.text.replace(dataset, "DATASET"), {*answer.headers}


@pytest.mark.parametrize("name", ["zoe", "eve", "otto"])
def test_a_hidden_dataset_and_none_answer_alike(server: RolesServer, name: str) -> None:
    hidden, none = "closed-own", misspelt("closed-own")
    for _ in range(MAX_ASKS_OF_PERSON + 1):
        one, other = (ask(server, name, each) for each in (hidden, none))
        assert one.status_code == 202
        assert one.json()["status"] == "passed_on"
        assert shown(one, hidden) == shown(other, none)
    for fields in (
        {"wants": "limit", "part": "0.1"},
        {"wants": "budget", "budget": {"epsilon": "1"}},
        {"wants": "access"},
    ):
        one, other = (ask(server, name, each, **fields) for each in (hidden, none))
        assert one.status_code in {403, 422}
        assert shown(one, hidden) == shown(other, none)
    # Nobody can compute a decision that another hash in the log is compared with.
    decided = server.see("olga", f"/datasets/{hidden}/requests", after=0, limit=500).json()
    asks = [each["request"] for each in decided["decisions"] if each["request"].get("by") == name]
    nonces = [each.get("nonce", "") for each in asks]
    assert {len(each) for each in nonces} == {32}
    assert len(set(nonces)) == len(nonces) > 1
    one, other = (server.see(name, f"/datasets/{each}/more") for each in (hidden, none))
    assert one.status_code == 404
    assert shown(one, hidden) == shown(other, none)


def test_owners_auditors_and_the_person_see_an_ask_and_nobody_else(server: RolesServer) -> None:
    fields = {"wants": "limit", "part": "0.25"}
    for dataset in ("closed-own", "closed-all", "open-all"):
        asked = ask(server, "ana", dataset, **fields).json()
        number = asked["sequence"]
        for name in ("ana", "ben", "eng", "aud", "olga", "root"):
            seen = server.see(name, f"/datasets/{dataset}/more").json()
            found = [each for each in seen if each["ask"] == number]
            assert len(found) == (name in {"ana", "aud", "olga", "root"}), (name, dataset)
            whole = server.see(name, f"/datasets/{dataset}/requests", after=0, limit=500)
            assert (f'"sequence":{number},' in whole.text) is bool(found), (name, dataset)
            assert (WHY in whole.text) is bool(found), (name, dataset)


def test_the_person_sees_the_answer_and_colleagues_do_not(server: RolesServer) -> None:
    dataset, why = "closed-all", "the share of the team is large enough"
    for answer in ("limit", "decline"):
        number = ask(server, "ana", dataset, wants="limit", part="0.25").json()["sequence"]
        body = {"version": 1, "type": answer, "dataset": dataset, "by": "olga", "reason": why}
        if answer == "limit":
            body |= {"scope": "analyst", "name": "ana", "part": "0.25", "answers": number}
            path = "limits"
        else:
            body, path = body | {"ask": number, "asker": "ana"}, "more/decline"
        for somebody in ("ana", "ben", "aud"):
            sent = server.send(somebody, f"/datasets/{dataset}/{path}", body | {"by": somebody})
            assert sent.status_code == 403
        done = server.send("olga", f"/datasets/{dataset}/{path}", body).json()
        assert done["answers"] == number
        for name in ("ana", "ben"):
            log = server.see(name, f"/datasets/{dataset}/requests", after=0, limit=500).json()
            found = [each for each in log["decisions"] if each["sequence"] == done["sequence"]]
            assert len(found) == (name == "ana"), (name, answer)
        (listed,) = [
            each
            for each in server.see("ana", f"/datasets/{dataset}/more").json()
            if each["ask"] == number
        ]
        state = {"limit": "accepted", "decline": "declined"}[answer]
        assert (listed["state"], listed["answered_by"], listed["why"]) == (state, "olga", why)


def test_commands_ask_and_answer(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"

    def run(*words: str, by: str = "olga") -> Any:
        named = () if words[1] == "list" or not by else ("--by", by)
        return run_here(tmp_path, *words, *named, "--url", url)

    opening = ("--filter", "basic", "--epsilon", "0.5", "--ceiling", "1", "--access", "members")
    assert run("dataset", "open", "census", *opening).code == 0
    assert run("more", "ask", "census", "access", by="ana").code == 2  # without a reason
    asking = ("more", "ask", "census")
    assert run(*asking, "access", "--reason", WHY, by="ana").code == 0
    assert WHY in run("more", "list", "census").out
    accepting = run("more", "accept", "census", "2", "--team", "blue", "--json").json
    assert accepting["member"] == {"member": "ana", "roles": ["analyst"], "team": "blue"}
    assert run("more", "accept", "census", "2").code == 1
    assert run(*asking, "limit", "--part", "0.2", "--reason", WHY, by="ana").code == 0
    limited = run("more", "accept", "census", "5", "--json").json
    assert (limited["limit"]["part"], limited["answers"]) == ("0.2", 5)
    assert run(*asking, "limit", "--epsilon", "0.3", "--reason", WHY, by="ana").code == 0
    assert run("more", "accept", "census", "7", "--json").json["limit"]["name"] == "ana"
    assert run(*asking, "budget", "--epsilon", "0.9", "--reason", WHY, by="ana").code == 0
    raised = run("more", "accept", "census", "9", "--epsilon", "0.8", "--json").json
    assert raised["in_force"]["epsilon"] == "0.8"
    assert run(*asking, "access", "--role", "auditor", "--reason", WHY, by="ana").code == 0
    assert run("more", "decline", "census", "11").code == 2  # without a reason
    assert run("more", "decline", "census", "11", "--reason", "not now").code == 0
    assert "not now" in run("more", "list", "census").out
    states = [each["state"] for each in run("more", "list", "census", "--json").rows]
    assert states == ["accepted"] * 4 + ["declined"]
    assert run("more", "decline", "census", "99", "--reason", "x").code == 1
    assert run("ask", "census", "pure:0.07", "--analyst", "ana", by="").code == 0
    assert run(*asking, "budget", "--epsilon", "0.9", "--reason", WHY, by="ana").code == 0
    less = ("more", "accept", "census", "14", "--epsilon", "0.05")
    stopped = run(*less)
    assert stopped.code == 2
    assert "would grant nothing more" in stopped.err
    assert run(*less, "--yes", "--json").json["in_force"]["epsilon"] == "0.05"
    for_team = (*asking, "limit", "--part", "0.4", "--team", "blue", "--reason", WHY)
    assert run(*for_team, by="eve").code == 1
    assert run(*for_team, by="ana").code == 0
    assert run("more", "list", "census", "--json").rows[-1]["team"] == "blue"
    given = run("more", "accept", "census", "17", "--json").json["limit"]
    assert (given["scope"], given["name"], given["part"]) == ("team", "blue", "0.4")
    assert run(*for_team, by="ana").code == 0
    less = run("more", "accept", "census", "19", "--part", "0.2")
    assert less.code == 2
    assert "team blue would get ε 0.2, less than the limit in force, ε 0.4" in less.err
    assert "--yes" in less.err
    given = run("more", "accept", "census", "19", "--part", "0.2", "--yes", "--json").json
    assert (given["limit"]["part"], given["answers"]) == ("0.2", 19)


def test_an_ask_accepted_with_less_is_asked_back_over_http(server: RolesServer) -> None:
    dataset = "open-all"
    own = {"scope": "analyst", "name": "ana", "part": "0.1"}
    head = {"version": 1, "type": "limit", "dataset": dataset, "by": "olga", **own}
    address = f"/datasets/{dataset}/limits"
    assert server.send("olga", address, head).json()["outcome"] == "limit_set"
    number = ask(server, "ana", dataset, wants="limit", part="0.25").json()["sequence"]
    less = {**head, "part": "0.05", "answers": number}
    asked = server.send("olga", address, less)
    assert (asked.status_code, asked.json()["error"]) == (409, "smaller_limit")
    assert "less than the limit in force" in asked.json()["question"]
    done = server.send("olga", f"{address}?new=true", less).json()
    assert (done["outcome"], done["answers"]) == ("limit_set", number)


def test_a_command_asks_for_access_to_a_dataset_that_it_does_not_see(
    server: RolesServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(server.tokens["zoe"])
    token.chmod(0o600)
    for dataset in ("closed-all", "clozed-all"):
        words = ("more", "ask", dataset, "access", "--reason", WHY, "--token-file", str(token))
        done = run_here(tmp_path, *words, "--url", server.url)
        assert done.code == 0, done.err
        assert f"If there is a dataset {dataset}" in done.out


def test_an_ask_gives_one_alert_for_owners_and_without_its_reason() -> None:
    world = opened(filter="basic", epsilon="1", access="members")
    fields = {"by": "ana", "wants": "access", "role": "auditor", "reason": WHY}
    assert world.send("admin", world.admin("more", **fields)).sequence == 2
    (alert,) = AlertScan(0, 0).take(world.log[-1])
    assert (alert.alert_id, alert.asker, alert.wants) == ("census/1/ask/2", "ana", "access")
    assert WHY not in encode(alert).decode()
    for sees_all in (True, False):
        whose = DatasetAccess("ana", sees_all=sees_all, sees_requests=True)
        assert sees_alert(whose, alert) is sees_all
    assert world.encoded[-1].crossed  # what an embedded ledger's webhook goes by


def test_a_page_shows_asks_to_owners_and_a_person_theirs(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as pages:
        pages.open_for_olga("survey", access="members")
        for name in ("ana", "ben"):
            pages.enrol("survey", name, "analyst")
        body = {"version": 1, "type": "more", "dataset": "survey", "by": "ana", "reason": HOSTILE}
        body |= {"wants": "access", "role": "auditor"}
        number = pages.done("ana", "/datasets/survey/more", body, "more_asked")["sequence"]
        for name in ("olga", "ana", "ben"):
            text = pages.page(name).text
            assert (f"<q>{escape(HOSTILE)}</q>" in text) is (name != "ben"), name
            assert (f"?accept={number}#set-member" in text) is (name == "olga")


def test_the_text_of_an_ask_is_shown_as_it_is(tmp_path: Path) -> None:
    def run(*words: str, by: str = "olga") -> str:
        done = run_here(tmp_path, *words, *(() if "list" in words else ("--by", by)))
        assert done.code == 0, done.err
        return " ".join(done.out.split())

    run("dataset", "open", "census", "--filter", "basic", "--epsilon", "1", "--access", "members")
    text = "see [/b] [link=http://a.example]here[/link]"
    run("more", "ask", "census", "access", "--reason", text, by="ana")
    assert "[/b]" in run("more", "list", "census")
