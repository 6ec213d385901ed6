"""Leads over HTTP: what they read of their team, never an answer, and what they send."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from streams.pages import PAGES
from tests.streams.auth.answering_roles import AnsweringRoles
from tests.streams.auth.roles_server import RolesServer, setting
from tests.streams.auth.test_scope_alerts import Alerts, alerts_until_the_end, limited
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import asking
from tests.streams.gateway.records import request
from tests.streams.pages.dataset.pages_server import form_of
from tests.streams.pages.dataset.test_page import words
from tests.streams.waiting import eventually

DATASET = "survey"
PATH = f"/datasets/{DATASET}"


class LedServer(AnsweringRoles):
    """`survey` is olga's: zoe leads ana and ben in team blue; otto is in team red, led by opie.

    Each of ana, ben and otto has asked a question, and has one request that waits and one open
    reservation.
    """

    clock: TestClock

    def furnish(self) -> None:
        shown = {"access": "members", "visibility": "own", "alert_at": ["0.0001"]}
        self.open_for_olga(DATASET, approve_above="0.5", filter="basic", **shown)
        for name, role, team in (
            ("zoe", "lead", "blue"),
            ("ana", "analyst", "blue"),
            ("ben", "analyst", "blue"),
            ("otto", "analyst", "red"),
            ("opie", "lead", "red"),
        ):
            self.enrol(DATASET, name, role, team=team)
        for scope, name in (("team", "blue"), ("team", "red"), ("each", "blue")):
            self.limited(scope, name, part="0.8")
        self.limited("analyst", "otto", part="0.7")
        for name in ("ana", "ben", "otto"):
            body = asking(self.clock, DATASET, name)
            self.done(name, "/requests", body, "granted")
            self.asked[DATASET, name] = body["request_id"]
            self.reserved(DATASET, name)
            self.waits(name)

    def waits(self, name: str) -> None:
        claim = {"type": "pure", "epsilon": "60"}
        body = request(self.clock, dataset=DATASET, analyst=name, claim=claim)
        answer = self.send(name, "/requests", body)
        assert (answer.status_code, answer.json()["outcome"]) == (202, "pending")

    def limited(self, scope: str, name: str, by: str = "olga", **more: Any) -> Any:
        body = {"version": 1, "type": "limit", "by": by, "dataset": DATASET}
        return self.send(by, f"{PATH}/limits", {**body, "scope": scope, "name": name, **more})

    def sets(self, by: str, name: str, *roles: str, **more: Any) -> Any:
        return self.send(by, f"{PATH}/members", setting(by, DATASET, name, *roles, **more))


@pytest.fixture(scope="module")
def led(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedServer]:
    with LedServer(tmp_path_factory.mktemp("leads"), pages=PAGES) as server:
        server.furnish()
        eventually(lambda: server.see("olga", f"{PATH}/usage").status_code == 200)
        yield server


def asked_by(rows: list[dict[str, Any]]) -> set[str]:
    return {each["analyst"] for each in rows}


def whose(server: RolesServer, who: str) -> dict[str, set[str]]:
    """Return what somebody sees of each person."""

    def see(path: str, **query: int) -> Any:
        answer = server.see(who, f"{PATH}{path}", **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    decided = [each["request"] for each in see("/requests", limit=1000)["decisions"]]
    overview = see("/overview")
    recent = [each["request"] for each in overview["requests"]["decisions"]]
    return {
        "requests": asked_by([each for each in decided if "analyst" in each]),
        "recent": asked_by(recent),
        "pending": asked_by(see("/pending")),
        "reservations": asked_by(see("/reservations")["reservations"]),
        "usage": asked_by(see("/usage")),
        "why": asked_by(see("/why")["by_analyst"]),
        "members": {each["member"] for each in see("/members")},
    }


def test_a_lead_reads_what_concerns_the_team_and_nothing_of_another(led: LedServer) -> None:
    for who, analysts in (("zoe", {"ana", "ben"}), ("opie", {"otto"})):
        for part, found in whose(led, who).items():
            own = {who} if part in {"members", "why"} else set()
            assert found == analysts | own, (who, part)
    limits = led.see("zoe", f"{PATH}/limits").json()
    assert [(each["scope"], each["name"]) for each in limits] == [
        ("team", "blue"),
        ("each", "blue"),
    ]
    assert led.see("zoe", f"{PATH}/overview").json()["limits"] == limits
    for name, status in (("ana", 200), ("ben", 200), ("otto", 403), ("olga", 403)):
        assert led.see("zoe", f"{PATH}/budgets/{name}").status_code == status
    why = led.see("zoe", f"{PATH}/why").json()
    assert [each["team"] for each in why["by_team"]] == ["blue"]
    assert (why["largest"], why["by_purpose"], why["refusals"]) == ([], [], [])
    assert {each["team"] for each in why["by_analyst"]} == {"blue"}
    assert {each["name"] for each in why["forecasts"]} <= {None, "blue", "ana", "ben", "zoe"}
    assert led.see("zoe", f"{PATH}/usage", by="day").status_code == 403


def test_a_lead_reads_no_answer(led: LedServer) -> None:
    assert led.see("zoe", f"{PATH}/answers").json()["answers"] == []
    for name in ("ana", "ben", "otto"):
        path, asked = f"/answers/{led.asked[DATASET, name]}", {"dataset": DATASET, "analyst": name}
        eventually(lambda path=path, asked=asked: led.see("olga", path, **asked).status_code == 200)
        assert led.see(name, path, **asked).status_code == 200
        assert led.see("zoe", path, **asked).status_code == 404
    page = led.see("zoe", f"/pages/datasets/{DATASET}").text
    assert 'class="answer"' not in page
    assert 'class="answer"' in led.see("ana", f"/pages/datasets/{DATASET}").text


def test_a_lead_who_is_an_analyst_too_reads_what_analysts_do(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:
        server.open_for_olga(DATASET, access="members", visibility="members")
        for name, roles in (("zoe", ["lead", "analyst"]), ("ana", ["analyst"]), ("ben", ["lead"])):
            server.enrol(DATASET, name, *roles, team="blue")
        server.enrol(DATASET, "otto", "analyst", team="red")
        for name in ("ana", "otto", "zoe"):
            server.granted(DATASET, name)
        rows = server.see("zoe", f"{PATH}/requests", limit=100).json()["decisions"]
        asked = [each["request"] for each in rows]
        assert asked_by([each for each in asked if "analyst" in each]) == {"ana", "otto", "zoe"}
        recent = server.see("zoe", f"{PATH}/overview").json()["requests"]["decisions"]
        assert asked_by([each["request"] for each in recent]) == {"ana", "zoe"}
        ask = request(server.clock, dataset=DATASET, analyst="ben")
        assert server.send("ben", "/requests", ask).status_code == 403


def test_a_lead_sees_no_request_from_before_the_membership(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:
        server.open_for_olga(DATASET, access="members", visibility="own")
        server.enrol(DATASET, "zoe", "lead", team="blue")
        server.enrol(DATASET, "otto", "analyst", team="red")
        before = server.granted(DATASET, "otto")
        server.reserved(DATASET, "otto")
        server.enrol(DATASET, "otto")
        body = setting("zoe", DATASET, "otto", "analyst", team="blue")
        refused = server.done("zoe", f"{PATH}/members", body, "refused")
        assert refused["reason"] == "beyond_team"  # for a reservation is open
        server.enrol(DATASET, "otto", "analyst", team="blue")
        after = server.granted(DATASET, "otto")
        rows = server.see("zoe", f"{PATH}/requests", limit=100).json()["decisions"]
        asked = [each["request"] for each in rows if "analyst" in each["request"]]
        assert [each["request_id"] for each in asked] == [after["request_id"]]
        path = f"{PATH}/requests/{before['request_id']}"
        assert server.see("zoe", path, analyst="otto").status_code == 404
        assert server.see("zoe", f"{PATH}/reservations").json()["reservations"] == []


def test_a_lead_gets_the_alerts_of_the_team_and_its_analysts(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:
        server.open_for_olga("census", access="members", visibility="own", alert_at=["0.01"])
        for name, role, team in (
            ("zoe", "lead", "blue"),
            ("ana", "analyst", "blue"),
            ("opie", "lead", "red"),
        ):
            server.enrol("census", name, role, team=team)
        limited(server, "team", "blue")
        limited(server, "analyst", "ana")
        readers = {name: Alerts(server, name) for name in ("zoe", "ana", "opie", "olga")}
        server.granted("census", "ana")
        found = alerts_until_the_end(server, readers)
        assert found["zoe"] == found["ana"] == found["olga"]
        assert len(found["zoe"]) == 2
        assert found["opie"] == set()


def test_a_lead_sets_analysts_and_limits_of_the_team_alone(tmp_path: Path) -> None:
    with LedServer(tmp_path) as server:
        server.furnish()
        for name, roles, team, status in (
            ("eve", ["analyst"], "blue", 200),
            ("eve", [], None, 200),
            ("eve", ["analyst"], "red", 403),
            ("eve", ["analyst", "auditor"], "blue", 403),
            ("otto", ["analyst"], "blue", 403),
            ("otto", [], None, 403),
            ("olga", [], None, 403),
            ("zoe", [], None, 403),
            ("zoe", ["lead", "analyst"], "blue", 403),
            ("ana", ["owner"], "blue", 403),
        ):
            answer = server.sets("zoe", name, *roles, **({"team": team} if team else {}))
            assert answer.status_code == status, (name, roles, answer.text)
        for name, status in (("ana", 200), ("otto", 403), ("zoe", 403)):
            assert server.limited("analyst", name, "zoe", part="0.5").status_code == status
        refused = server.limited("analyst", "ana", "zoe", part="0.9")
        assert (refused.status_code, refused.json()["reason"]) == (200, "beyond_team")
        for scope, name in (("team", "blue"), ("each", "blue")):
            assert server.limited(scope, name, "zoe", part="0.5").status_code == 403
        assert server.sets("ana", "eve", "analyst", team="blue").status_code == 403
        server.enrol(DATASET, "zoe", "analyst", team="blue")
        answer = server.sets("zoe", "eve", "analyst", team="blue")
        assert answer.status_code == 403
        assert "you are signed in as zoe (analyst)" in answer.json()["message"]


def test_the_page_of_a_lead_has_the_team_and_its_forms(led: LedServer) -> None:
    page = led.see("zoe", f"/pages/datasets/{DATASET}").text
    for name, shown in (("ana", True), ("ben", True), ("otto", False), ("opie", False)):
        assert (name in page) is shown, name
    form = form_of(page, "members")
    assert (form["team"], form["role_analyst"], "role_owner" in form) == ("blue", "yes", False)
    assert form_of(page, "limits")["scope"] == "analyst"
    assert "member=ana" in page
    assert "member=zoe" not in page
    for absent in ("members/pause", "/pause", "/pending"):
        with pytest.raises(KeyError):
            form_of(page, absent)
    changed = led.see("zoe", f"/pages/datasets/{DATASET}", member="olga").text
    assert form_of(changed, "members")["member"] == ""
    made = led.sets("zoe", "eve", "analyst", team="blue").json()["request"]["request_id"]
    done = words(led.see("zoe", f"/pages/datasets/{DATASET}", done=made).text)
    led.sets("zoe", "eve")
    assert "eve is analyst in team blue" in done


def test_the_lines_of_a_team_add_up_to_its_total_after_a_removal(tmp_path: Path) -> None:
    with LedServer(tmp_path, pages=PAGES) as server:
        server.furnish()

        def used() -> tuple[list[str], str]:
            page = words(server.see("zoe", f"/pages/datasets/{DATASET}").text)
            lines = re.findall(r"as used by (\w+)", page)
            rest = re.findall(r"ε ([0-9.]+) of what is used is by former members", page)
            return lines, "".join(rest)

        assert used() == (["ana", "ben"], "")
        team = server.see("olga", f"{PATH}/limits").json()
        (blue,) = [each for each in team if (each["scope"], each["name"]) == ("team", "blue")]
        assert server.sets("zoe", "ben").status_code == 200
        lines, rest = used()
        assert (lines, bool(rest)) == (["ana"], True)
        assert Decimal(rest) == Decimal(blue["used"]["epsilon"]) / 2
        assert server.sets("zoe", "ana").status_code == 200
        assert Decimal(used()[1]) == Decimal(blue["used"]["epsilon"])


def test_a_lead_s_report_is_of_the_team_alone(led: LedServer) -> None:
    for who, analysts in (("zoe", {"ana", "ben"}), ("opie", {"otto"})):
        report = led.see(who, f"{PATH}/report").json()
        assert {row["key"] for row in report["by_analyst"]} == analysts
        assert [row["key"] for row in report["by_team"]] == [report["team"]]
        assert report["by_month"][0]["granted"] == 2 * len(analysts)
        page = led.http.get(f"/pages{PATH}/report", headers=led.auth_headers(who))
        assert f"Counted are the requests of team {report['team']} alone" in page.text
        others = {"ana", "ben", "otto", "blue", "red"} - analysts - {report["team"]}
        assert not others & set(words(page.text).split())
        assert (
            f"/pages{PATH}/report"
            in led.http.get(f"/pages{PATH}", headers=led.auth_headers(who)).text
        )
    for who, status in (("olga", 200), ("ana", 403), ("root", 200)):
        assert led.see(who, f"{PATH}/report", format="csv", by="team").status_code == status
