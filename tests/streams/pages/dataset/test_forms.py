"""The owners' forms end to end: their records, written once, and by owners only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streams.server.app import Pages
from tests.streams.auth.survey_server import HOSTILE
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.pages.dataset.pages_server import PagesServer, form_of, without_ids
from tests.streams.pages.dataset.test_page import words


def member(server: PagesServer, name: str) -> Any:
    """Return a member as the ledger has it, None for nobody."""
    rows = server.see("olga", "/datasets/survey/members").json()
    return next((row for row in rows if row["member"] == name), None)


def limit(server: PagesServer, scope: str, name: str | None) -> Any:
    """Return a limit as the ledger has it, None for none."""
    rows = server.see("olga", "/datasets/survey/limits").json()
    found = (row for row in rows if (row["scope"], row.get("name")) == (scope, name))
    return next(found, None)


def last_decision(server: PagesServer) -> Any:
    """Return the last decision of the log."""
    value = server.see("root", "/datasets/survey/requests", limit=1_000)
    return value.json()["decisions"][-1]


def test_the_member_form_sets_a_member(paged: PagesServer) -> None:
    answer = paged.fill(
        "olga",
        "members",
        member="opie",
        team="red",
        until="2027-01-01",
        role_analyst="yes",
        reason="joins the team",
    )
    page = paged.followed("olga", answer)
    assert "opie is analyst in team red until 2027-01-01 00:00 UTC" in words(page.text)
    until = "2027-01-01T00:00:00.000Z"
    assert member(paged, "opie") == {
        "member": "opie",
        "roles": ["analyst"],
        "team": "red",
        "until": until,
    }
    record = last_decision(paged)["request"]
    assert (record["by"], record["reason"]) == ("olga", "joins the team")
    assert "as" not in record


def test_the_form_of_an_existing_member_changes_it(paged: PagesServer) -> None:
    shown = form_of(paged.page("olga", member="ana").text, "members")
    assert (shown["member"], shown["team"], shown["role_analyst"]) == ("ana", "red", "yes")
    changed = {**shown, "team": "blue", "role_auditor": "yes", "action": "set"}
    paged.followed("olga", paged.post_form("olga", "members", changed))
    assert member(paged, "ana") == {
        "member": "ana",
        "roles": ["analyst", "auditor"],
        "team": "blue",
    }


def test_a_new_team_name_gets_a_note_with_a_suggestion(paged: PagesServer) -> None:
    note = "Note: no limit and no other member of survey names team bluw; did you mean blue?"
    for team, shown in (("bluw", True), ("blue", False)):
        answer = paged.fill("olga", "members", member="opie", team=team, role_analyst="yes")
        assert (note in words(paged.followed("olga", answer).text)) is shown
    note = "Note: team rde has no members yet; existing teams: blue, red; did you mean red?"
    answer = paged.fill("olga", "limits", scope="each", name="rde", part="10")
    assert note in words(paged.followed("olga", answer).text)


def test_a_team_that_is_nearly_another_is_asked_back(paged: PagesServer) -> None:
    for kind, field, fields, name, other_name, there in (
        ("members", "team", {"member": "opie", "role_analyst": "yes"}, "B1UE", "BLUE", "blue"),
        ("limits", "name", {"scope": "team", "part": "10"}, "R-E-D", "RED", "red"),
    ):
        asked = paged.fill("olga", kind, **fields, **{field: name})
        assert asked.status_code == 409
        assert f"team {name} is nearly team {there} of dataset survey" in words(asked.text)
        shown = member(paged, "opie") if kind == "members" else limit(paged, "team", name)
        assert shown is None
        again = form_of(asked.text, kind)
        assert again["confirmed"] == name
        # The answer is for this name alone.
        other = paged.post_form("olga", kind, {**again, "action": "set", field: other_name})
        assert other.status_code == 409
        answer = paged.post_form("olga", kind, {**again, "action": "set"})
        assert name in words(paged.followed("olga", answer).text)


def test_a_membership_that_would_have_ended_is_refused_and_stays_typed_in(
    paged: PagesServer,
) -> None:
    answer = paged.fill("olga", "members", member="nora", role_analyst="yes", until="2020-01-01")
    page = paged.followed("olga", answer).text
    assert "The membership of nora would end at 2020-01-01 00:00 UTC" in words(page)
    assert form_of(page, "members")["until"] == "2020-01-01"
    assert member(paged, "nora") is None


def test_a_pause_of_nobody_s_name_has_a_note_with_the_one_that_is_meant(
    paged: PagesServer,
) -> None:
    paged.enrol("survey", "harald", "analyst")
    typed = {"member": "haradl", "reason": "a loop"}
    asked = paged.fill("olga", "members/pause", **typed, action="pause")
    assert asked.status_code == 409
    assert (
        "haradl is no member of dataset survey, and nearly harald, who is one"
        in words(asked.text).lower()
    )
    again = {**form_of(asked.text, "members/pause"), "action": "pause"}
    said = words(paged.followed("olga", paged.post_form("olga", "members/pause", again)).text)
    assert "Note: haradl is no member of survey; did you mean harald?" in said
    for name, note in (
        ("yvonne", "Note: yvonne is no member of survey"),
        ("harald", ""),
    ):
        answer = paged.fill("olga", "members/pause", member=name, reason="a loop", action="pause")
        said = words(paged.followed("olga", answer).text)
        assert (note or "Harald is paused") in said
        assert ("is no member" in said) is bool(note)
    answer = paged.fill("olga", "members/pause", member="yvone", action="resume")
    assert "Did you mean yvonne?" in words(paged.followed("olga", answer).text)


def test_a_limit_of_nearly_a_member_is_asked_back(paged: PagesServer) -> None:
    typed = {"scope": "analyst", "name": "anna", "part": "10"}
    asked = paged.fill("olga", "limits", **typed)
    assert asked.status_code == 409
    assert "nearly ana, who is one" in words(asked.text)
    assert limit(paged, "analyst", "anna") is None
    again = {**form_of(asked.text, "limits"), "action": "set"}
    said = words(paged.followed("olga", paged.post_form("olga", "limits", again)).text)
    assert "Note: anna is no member of survey; did you mean ana?" in said
    many = paged.fill("olga", "limits/many", lines="scope,name,part\nanalyst,anaa,10\n")
    assert "Line 2: nothing was changed: anaa is no member" in words(many.text)
    said = words(
        paged.followed("olga", paged.fill("olga", "limits", **typed | {"name": "yvonne"})).text
    )
    assert "Note: yvonne is no member of survey" in said


def test_the_member_form_removes_a_member(paged: PagesServer) -> None:
    shown = form_of(paged.page("olga", member="ana").text, "members")
    answer = paged.post_form("olga", "members", {**shown, "action": "remove"})
    assert "ana is no member any more" in words(paged.followed("olga", answer).text)
    assert member(paged, "ana") is None
    assert paged.page("ana").status_code == 404


def test_the_limit_form_sets_changes_and_lifts_a_limit(paged: PagesServer) -> None:
    answer = paged.fill(
        "olga", "limits", scope="analyst", name="zoe", part="12.5", pace_part="1", pace_days="7"
    )
    page = words(paged.followed("olga", answer).text)
    assert (
        "Analyst zoe may use 12.5 % of the budget, may use 1 % of the budget every 7 days" in page
    )
    assert limit(paged, "analyst", "zoe")["part"] == "0.125"
    shown = form_of(paged.page("olga", scope="analyst", name="zoe").text, "limits")
    assert (shown["part"], shown["pace_part"], shown["pace_days"]) == ("12.5", "1", "7")
    changed = {**shown, "part": "", "pace_part": "", "pace_days": "", "epsilon": "0.5"}
    changed |= {"filter": "basic", "action": "set"}
    paged.followed("olga", paged.post_form("olga", "limits", changed))
    assert limit(paged, "analyst", "zoe")["policy"]["epsilon"] == "0.5"
    shown = form_of(paged.page("olga", scope="analyst", name="zoe").text, "limits")
    assert (shown["epsilon"], shown["filter"]) == ("0.5", "basic")
    answer = paged.post_form("olga", "limits", {**shown, "action": "remove"})
    assert "Analyst zoe has no limit any more" in words(paged.followed("olga", answer).text)
    assert limit(paged, "analyst", "zoe") is None


def test_a_new_limit_over_an_existing_one_asks_for_confirmation(paged: PagesServer) -> None:
    given = {"scope": "team", "name": "green"}
    shown = form_of(paged.page("olga").text, "limits")
    first = {**shown, **given, "part": "50", "reserved": "10", "action": "set"}
    paged.followed("olga", paged.post_form("olga", "limits", first))
    before = limit(paged, "team", "green")
    sequence = last_decision(paged)["sequence"]
    shown = form_of(paged.page("olga").text, "limits")
    answer = paged.post_form("olga", "limits", {**shown, **given, "part": "40", "action": "set"})
    assert answer.status_code == 409
    assert "This scope has a limit already" in words(answer.text)
    assert (last_decision(paged)["sequence"], limit(paged, "team", "green")) == (sequence, before)
    again = form_of(answer.text, "limits")
    assert (again["part"], again["reserved"]) == ("40", "10")
    paged.followed("olga", paged.post_form("olga", "limits", {**again, "action": "set"}))
    after = limit(paged, "team", "green")
    assert (after["part"], after["reserved"]["part"]) == ("0.4", "0.1")


def test_a_limit_form_sent_twice_writes_one_record(paged: PagesServer) -> None:
    shown = form_of(paged.page("olga").text, "limits")
    fields = {**shown, "scope": "team", "name": "green", "part": "50", "action": "set"}
    first = paged.post_form("olga", "limits", fields)
    sequence = last_decision(paged)["sequence"]
    second = paged.post_form("olga", "limits", fields)
    assert first.headers["location"] == second.headers["location"]
    assert last_decision(paged)["sequence"] == sequence


def test_a_member_form_sent_twice_writes_one_record(paged: PagesServer) -> None:
    shown = form_of(paged.page("olga").text, "members")
    fields = {**shown, "member": "opie", "role_analyst": "yes", "action": "set"}
    first = paged.post_form("olga", "members", fields)
    sequence = last_decision(paged)["sequence"]
    second = paged.post_form("olga", "members", fields)
    assert first.headers["location"] == second.headers["location"]
    assert last_decision(paged)["sequence"] == sequence
    assert "opie is analyst" in words(paged.followed("olga", second).text)


def test_a_form_sent_before_with_other_values_is_shown_again(paged: PagesServer) -> None:
    shown = form_of(paged.page("olga").text, "members")
    fields = {**shown, "member": "opie", "role_analyst": "yes", "action": "set"}
    paged.post_form("olga", "members", fields)
    answer = paged.post_form("olga", "members", {**fields, "team": "blue"})
    assert answer.status_code == 409
    assert "This form was sent before with other values." in words(answer.text)
    again = form_of(answer.text, "members")
    assert (again["member"], again["team"]) == ("opie", "blue")
    assert again["request_id"] != shown["request_id"]
    paged.followed("olga", paged.post_form("olga", "members", {**again, "action": "set"}))
    assert member(paged, "opie")["team"] == "blue"


def test_a_form_open_for_too_long_is_shown_again(paged: PagesServer) -> None:
    shown = form_of(paged.page("olga").text, "members")
    paged.clock.pass_(seconds=2 * 3_600)
    paged.ask("zoe", "0.001")  # by which the ledger's clock has moved
    fields = {**shown, "member": "opie", "role_analyst": "yes", "action": "set"}
    answer = paged.post_form("olga", "members", fields)
    assert answer.status_code == 409
    assert "open for too long" in answer.text
    again = form_of(answer.text, "members")
    paged.followed("olga", paged.post_form("olga", "members", {**again, "action": "set"}))
    assert member(paged, "opie")["roles"] == ["analyst"]


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("members", {"member": "opie", "role_analyst": ""}, "Must be at least one"),
        ("members", {"member": HOSTILE, "role_analyst": "yes"}, "Must be 1 to 100 letters"),
        ("members", {"member": "opie", "role_analyst": "yes", "until": "soon"}, "Must be a day"),
        ("limits", {"scope": "team", "name": "red", "part": "120"}, "Must be a percentage"),
        ("limits", {"scope": "team", "name": "red"}, "Must be set"),
        ("limits", {"scope": "team", "name": "red", "part": "9" * 5_000}, "Must be a percentage"),
    ],
)
def test_an_invalid_form_shows_the_error_and_writes_nothing(
    paged: PagesServer, kind: str, fields: dict[str, str], said: str
) -> None:
    before = paged.stored_rows()
    answer = paged.fill("olga", kind, **fields, reason="kept as typed")
    assert answer.status_code == 422
    assert said in words(answer.text)
    assert "<script" not in answer.text
    again = form_of(answer.text, kind)
    assert again["reason"] == "kept as typed"
    assert 'aria-invalid="true"' in answer.text or "m-roles-error" in answer.text
    assert paged.stored_rows() == before


def test_a_refused_record_stays_in_the_form(paged: PagesServer) -> None:
    shown = form_of(paged.page("olga", member="olga").text, "members")
    answer = paged.post_form("olga", "members", {**shown, "action": "remove", "reason": "leaves"})
    page = paged.followed("olga", answer)
    assert "Refused: The last owner." in words(page.text)
    over = paged.fill("olga", "limits", scope="team", name="green", reserved="90")
    page = paged.followed("olga", over)
    assert "Refused: More than can be reserved." in words(page.text)
    again = form_of(page.text, "limits")
    assert (again["name"], again["reserved"]) == ("green", "90")


@pytest.mark.parametrize("name", ["ana", "aud", "eng"])
@pytest.mark.parametrize("kind", ["members", "limits"])
def test_a_form_of_a_caller_who_is_no_owner_writes_nothing(
    paged: PagesServer, name: str, kind: str
) -> None:
    shown = form_of(paged.page("olga").text, kind)
    own_token = paged.token_of(name)
    before = paged.stored_rows()
    fields = {**shown, "member": name, "role_owner": "yes", "scope": "team", "name": "red"}
    fields |= {"part": "100", "action": "set"}
    # With the owner's token the form is another's; with one of their own it is not permitted.
    assert paged.post_form(name, kind, fields).status_code == 403
    fields["form_token"] = own_token
    answer = paged.post_form(name, kind, fields)
    assert answer.status_code == 403
    assert f"Only owners of dataset survey may set its {kind}" in words(answer.text)
    assert "The lead of a team sets those of its analysts alone" in words(answer.text)
    assert paged.stored_rows() == before


def test_the_done_parameter_shows_only_records_of_the_caller(paged: PagesServer) -> None:
    answer = paged.fill("olga", "members", member="opie", role_analyst="yes")
    done = answer.headers["location"].partition("done=")[2]
    assert "opie is analyst" in words(paged.page("olga", done=done).text)
    for name in ("ana", "aud", "root"):
        assert "Not decided yet" in words(paged.page(name, done=done).text)
    request_row = paged.see("ana", "/datasets/survey/requests").json()["decisions"][-1]["request"]
    page = words(paged.page("ana", done=request_row["request_id"]).text)
    assert "Not decided yet" in page


def test_a_form_for_a_hidden_dataset_gets_the_404_of_a_missing_one(paged: PagesServer) -> None:
    fields = {"form_token": paged.token_of("opie"), "member": "opie", "role_owner": "yes"}
    before = paged.stored_rows()
    unseen = paged.post_form("opie", "members", fields)
    unknown = paged.post_form("opie", "members", fields, dataset="nowhere")
    assert unseen.status_code == unknown.status_code == 404
    assert without_ids(unseen.text).replace("survey", "nowhere") == without_ids(unknown.text)
    assert paged.stored_rows() == before


def test_a_member_form_of_an_administrator_is_logged_as_such(paged: PagesServer) -> None:
    answer = paged.fill("root", "members", member="opie", role_owner="yes")
    paged.followed("root", answer)
    last = last_decision(paged)
    assert last["administrator"] is True
    assert (last["request"]["as"], last["request"]["by"]) == ("administrator", "root")
    fields = {"form_token": paged.token_of("root"), "scope": "team", "name": "red", "part": "50"}
    before = paged.stored_rows()
    assert paged.post_form("root", "limits", fields).status_code == 403
    assert paged.stored_rows() == before


def test_a_form_without_token_or_from_another_site_is_refused(paged: PagesServer) -> None:
    shown = form_of(paged.page("olga").text, "members")
    fields = {**shown, "member": "opie", "role_owner": "yes", "action": "set"}
    path, before = "/pages/datasets/survey/members", paged.stored_rows()
    shows = paged.auth_headers("olga")

    def sent(given: dict[str, str], **headers: str) -> int:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return paged.http.post(path, data=given, headers=shows | named).status_code

    assert sent({**fields, "form_token": ""}, origin=paged.url) == 403
    assert sent({**fields, "form_token": "0" * 64}, origin=paged.url) == 403
    assert sent(fields, origin="https://elsewhere.example") == 403
    assert sent(fields, origin=paged.url, sec_fetch_site="cross-site") == 403
    assert sent(fields) == 403
    assert paged.http.post(path, data=fields, headers={"origin": paged.url}).status_code in {
        303,
        401,
    }
    body = msgspec.json.encode(fields)
    json = {**shows, "origin": paged.url, "content-type": "application/json"}
    assert paged.http.post(path, content=body, headers=json).status_code == 415
    assert paged.stored_rows() == before


def test_an_owner_who_removes_themselves_is_redirected_to_the_list(paged: PagesServer) -> None:
    paged.enrol("survey", "opie", "owner")
    shown = form_of(paged.page("olga", member="olga").text, "members")
    answer = paged.post_form("olga", "members", {**shown, "action": "remove"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert paged.page("olga").status_code == 404


def brake(server: PagesServer, name: str, action: str, **fields: str) -> Any:
    """Send the form that pauses or resumes, and return the page that the browser then shows."""
    return server.followed(name, server.fill(name, "pause", action=action, **fields))


def test_an_owner_pauses_and_resumes_by_the_form(paged: PagesServer) -> None:
    assert "Pause the dataset" in words(paged.page("olga").text)
    page = words(brake(paged, "olga", "pause", reason="a loop").text)
    assert "Done. The dataset is paused" in page
    assert "survey paused" in page
    assert re.search(r"Paused by olga at [-0-9]+ [0-9:]+ UTC: a loop\. Nothing is granted", page)
    record = last_decision(paged)
    assert (record["outcome"], record["request"]["reason"]) == ("paused", "a loop")
    assert "as" not in record["request"]
    paged.ask("zoe", "0.001", outcome="refused")
    mine = words(paged.page("zoe").text)
    assert "Nothing is granted now: the dataset is paused." in mine
    assert "After the pause you may use" in mine
    assert "Dataset survey grants nothing now: paused by olga at" in mine
    assert "UTC: a loop. Ask an owner (olga) when it continues" in mine
    assert "Pause the dataset" not in mine
    assert "Resume the dataset" not in mine
    assert "paused" in words(paged.see("zoe", "/").text)
    page = words(brake(paged, "olga", "resume", reason="it ended").text)
    assert "Done. The dataset is resumed" in page
    paged.ask("zoe", "0.001")
    assert "Nothing is granted now" not in words(paged.page("zoe").text)


def test_an_owner_pauses_one_person_and_resumes_their_team(paged: PagesServer) -> None:
    def send(**fields: str) -> str:
        answer = paged.fill("olga", "members/pause", **fields)
        return words(paged.followed("olga", answer).text)

    assert 'value="zoe"' in paged.page("olga", person="zoe").text
    page = send(action="pause", member="zoe", reason="a loop")
    assert "Done. Zoe is paused" in page
    assert "zoe analyst (paused)" in page
    paged.ask("zoe", "0.001", outcome="refused")
    paged.ask("ana", "0.001")
    assert "a loop" in words(paged.page("zoe").text)
    assert "Done. Zoe is not paused any more" in send(action="resume", member="zoe")
    paged.ask("zoe", "0.001")
    assert "Done. Team red is paused" in send(action="pause", team="red", reason="moves")
    assert "Refused: Person not paused" in send(action="resume", member="ana")
    assert "Done. Team red is not paused any more" in send(action="resume", team="red")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"member": "zoe"}, "reason"),
        ({"member": "zoe", "reason": "x" * 201}, "reason"),
        ({"member": "zoe", "team": "red", "reason": "two"}, "member"),
        ({"reason": "nobody"}, "member"),
        ({"member": "z\u0000e", "reason": "a name"}, "member"),
    ],
)
def test_an_error_in_the_form_of_a_person_stands_beside_its_field(
    paged: PagesServer, fields: dict[str, str], field: str
) -> None:
    before = paged.stored_rows()
    answer = paged.fill("olga", "members/pause", action="pause", **fields)
    assert answer.status_code == 422
    assert f'id="w-{field}-error"' in answer.text
    assert paged.stored_rows() == before


def test_a_form_of_another_moment_is_refused_and_changes_nothing(paged: PagesServer) -> None:
    brake(paged, "olga", "pause")
    page = words(brake(paged, "olga", "pause").text)
    assert "Refused: Paused before. Dataset survey is paused already, by olga at" in page
    brake(paged, "olga", "resume")
    assert "Refused: Not paused." in words(brake(paged, "olga", "resume").text)


def test_an_administrator_pauses_in_an_owners_place(paged: PagesServer) -> None:
    assert "You act as an administrator, not as an owner." in words(paged.page("root").text)
    brake(paged, "root", "pause", reason="on call")
    last = last_decision(paged)
    assert (last["outcome"], last["administrator"]) == ("paused", True)
    assert (last["request"]["as"], last["request"]["by"]) == ("administrator", "root")
    brake(paged, "root", "resume")
    assert last_decision(paged)["outcome"] == "resumed"


@pytest.mark.parametrize("name", ["ana", "aud", "eng"])
@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_caller_who_is_no_owner_pauses_and_resumes_nothing(
    paged: PagesServer, name: str, action: str
) -> None:
    if action == "resume":
        brake(paged, "olga", "pause")
    shown = form_of(paged.page("olga").text, "pause")
    own_token, before = paged.token_of(name), paged.stored_rows()
    assert paged.post_form(name, "pause", {**shown, "action": action}).status_code == 403
    answer = paged.post_form(name, "pause", {**shown, "form_token": own_token, "action": action})
    assert answer.status_code == 403
    assert "Only owners of dataset survey may pause or resume it" in words(answer.text)
    assert paged.stored_rows() == before


def test_a_pause_needs_the_pages_own_form(paged: PagesServer) -> None:
    shown = {**form_of(paged.page("olga").text, "pause"), "action": "pause"}
    path, before = "/pages/datasets/survey/pause", paged.stored_rows()
    shows = paged.auth_headers("olga")
    for fields, origin in (
        ({**shown, "form_token": ""}, paged.url),
        ({**shown, "form_token": "0" * 64}, paged.url),
        (shown, "https://elsewhere.example"),
    ):
        answer = paged.http.post(path, data=fields, headers={**shows, "origin": origin})
        assert answer.status_code == 403
    assert paged.stored_rows() == before


def test_a_pause_that_is_sent_twice_is_one_record(paged: PagesServer) -> None:
    fields = {**form_of(paged.page("olga").text, "pause"), "action": "pause"}
    first = paged.post_form("olga", "pause", fields)
    sequence = last_decision(paged)["sequence"]
    second = paged.post_form("olga", "pause", fields)
    assert first.headers["location"] == second.headers["location"]
    assert last_decision(paged)["sequence"] == sequence


def test_a_reason_that_is_too_long_stands_beside_its_field(paged: PagesServer) -> None:
    before = paged.stored_rows()
    answer = paged.fill("olga", "pause", action="pause", reason="x" * 201)
    assert answer.status_code == 422
    assert 'id="p-reason-error"' in answer.text
    assert paged.stored_rows() == before


@pytest.fixture
def open_server(tmp_path: Path, pages: Pages) -> Iterator[LocalServer]:
    with LocalServer(tmp_path / "ledger.db", TestClock(), pages=pages) as made:
        made.open("census", access="members")
        yield made


def sent_openly(server: LocalServer, kind: str, **fields: str) -> Any:
    shown = form_of(server.http.get("/pages/datasets/census").text, kind)
    path = f"/pages/datasets/census/{kind}"
    data = {**shown, "action": "set", **fields}
    return server.http.post(path, data=data, headers={"origin": server.url})


def test_without_authentication_a_form_asks_for_the_name(open_server: LocalServer) -> None:
    shown = form_of(open_server.http.get("/pages/datasets/census").text, "members")
    assert shown["by"] == "owner", "the only owner is proposed"
    answer = sent_openly(open_server, "members", member="ana", role_analyst="yes")
    assert answer.status_code == 303
    page = open_server.http.get(answer.headers["location"]).text
    assert "ana is analyst" in words(page)
    by_ana = sent_openly(open_server, "limits", scope="team", name="red", part="20", by="ana")
    page = open_server.http.get(by_ana.headers["location"]).text
    assert "Refused: Not permitted." in words(page)
    nobody = sent_openly(open_server, "limits", scope="team", name="red", part="20", by="")
    assert nobody.status_code == 422
    assert 'id="l-by-error"' in nobody.text


def test_without_authentication_the_page_shows_all_requests(open_server: LocalServer) -> None:
    sent_openly(open_server, "members", member="ana", role_analyst="yes")
    open_server.ask(purpose="a look")
    page = open_server.http.get("/pages/datasets/census").text
    assert "The latest requests" in page
    assert "a look" in page
    assert '<a href="/datasets/census/usage">' in page, "a browser needs no token for it"
