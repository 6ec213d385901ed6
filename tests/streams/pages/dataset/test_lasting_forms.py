"""Forms for what stays for ever: budget, closing, renewal, releases made elsewhere, remarks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.streams.auth.roles_server import RolesServer
from tests.streams.pages.dataset.pages_server import PagesServer, form_of
from tests.streams.pages.dataset.test_forms import last_decision
from tests.streams.pages.dataset.test_page import words

FORMS = ("budget", "amend", "record", "remark", "close")
RELEASE = {"claim": "pure:0.1", "released_at": "2026-11-21", "evidence": "table 3"}


def send_twice(paged: PagesServer, kind: str, **fields: str) -> tuple[Any, Any]:
    """Send a form, and again as the page that asks returns it; return both answers."""
    asked = paged.fill("olga", kind, **fields)
    again = form_of(asked.text, kind)
    return asked, paged.post_form("olga", kind, {**again, "action": "send"})


def test_only_an_owner_gets_and_sends_the_forms(paged: PagesServer) -> None:
    shown = {kind: form_of(paged.page("olga").text, kind) for kind in FORMS}
    before = paged.stored_rows()
    for name in ("ana", "aud", "root"):
        page = paged.page(name).text
        assert "Change this dataset" not in page
        for kind, fields in shown.items():
            assert f"/survey/{kind}" not in page
            own = {**fields, **RELEASE, "name": "survey", "form_token": paged.token_of(name)}
            before = paged.stored_rows()
            answer = paged.post_form(name, kind, own)
            assert answer.status_code == 403
            assert "Only owners of dataset survey may" in words(answer.text)
            assert paged.stored_rows() == before


def test_a_recorded_release_stands_on_the_page_of_everybody_who_sees_it(
    paged: PagesServer,
) -> None:
    assert 'id="releases"' not in paged.page("olga").text
    asked = paged.fill("olga", "record", **RELEASE, team="red")
    again = {**form_of(asked.text, "record"), "action": "send"}
    assert paged.post_form("olga", "record", again).status_code == 303
    for who in ("olga", "ana", "aud"):
        page = paged.page(who).text
        said = words(page[page.index('id="releases"') :].split("</section>")[0])
        for part in ("pure:0.1", "red", "ε 0.1", RELEASE["evidence"], "by olga"):
            assert part in said, (who, part, said)


def test_a_release_of_a_misspelt_team_is_asked_back(paged: PagesServer) -> None:
    before = paged.stored_rows()
    for team, said in (
        ("bleu", "Team bleu is nearly team blue of dataset survey".lower()),
        ("violet", "team violet has no members yet"),
        ("red", "and the limits of team red back"),
    ):
        asked = words(paged.fill("olga", "record", **RELEASE, team=team).text)
        assert f"dataset survey and the limits of team {team} back. It costs" in asked
        assert said in asked.lower(), (team, asked)
        assert ("is nearly" in asked) is (team == "bleu")
    assert paged.stored_rows() == before


def test_a_closing_needs_the_name_again(paged: PagesServer) -> None:
    assert "68.6 % of its budget is lost" in words(paged.page("olga").text)
    before = paged.stored_rows()
    for typed in ("", "Survey", "surveys"):
        answer = paged.fill("olga", "close", name=typed, reason="over")
        assert answer.status_code == 422
        assert "Must be survey, the name of the dataset that you want to close" in words(
            answer.text
        )
        again = form_of(answer.text, "close")
        assert (again["name"], again["reason"]) == (typed, "over")
    assert paged.stored_rows() == before
    page = paged.followed("olga", paged.fill("olga", "close", name="survey", reason="over"))
    assert "Done. The dataset is closed (decision" in words(page.text)
    last = last_decision(paged)
    assert (last["outcome"], last["request"]["reason"]) == ("closed", "over")
    assert "/survey/close" not in page.text


def test_a_budget_that_stops_grants_is_confirmed_first(paged: PagesServer) -> None:
    unlimited = {"version": 1, "type": "limit", "by": "olga", "dataset": "survey"}
    unlimited |= {"scope": "team", "name": "blue"}
    paged.done("olga", "/datasets/survey/limits", unlimited, "limit_removed")
    before = last_decision(paged)["sequence"]
    asked, done = send_twice(paged, "budget", epsilon="0.2")
    assert asked.status_code == 409
    assert "157 % of ε 0.2 is spent already" in words(asked.text)
    assert last_decision(paged)["sequence"] == before + 1
    assert "The budget in force is set" in words(paged.followed("olga", done).text)
    # One that stops nothing is sent at once; one above the ceiling is refused and stays typed in.
    assert paged.fill("olga", "budget", epsilon="0.9").status_code == 303
    refused = paged.fill("olga", "budget", epsilon="7", reason="more")
    assert refused.status_code == 409
    assert "7 is above it" in words(refused.text)
    again = form_of(refused.text, "budget")
    assert (again["epsilon"], again["reason"]) == ("7", "more")


def test_a_release_is_charged_after_its_effect_was_shown(paged: PagesServer) -> None:
    before = paged.stored_rows()
    asked = paged.fill("olga", "record", **RELEASE)
    assert asked.status_code == 409
    assert (
        "No later record takes a charge of pure:0.1 to dataset survey back. It costs ε 0.1;"
        in words(asked.text)
    )
    assert paged.stored_rows() == before
    again = {**form_of(asked.text, "record"), "action": "send"}
    # What was not shown is not confirmed.
    other = paged.post_form("olga", "record", {**again, "claim": "pure:0.2"})
    assert "charge of pure:0.2 to dataset survey back" in words(other.text)
    assert paged.stored_rows() == before
    first = paged.post_form("olga", "record", again)
    assert "The release is charged" in words(paged.followed("olga", first).text)
    assert last_decision(paged)["request"]["evidence"] == "table 3"
    after = last_decision(paged)["sequence"]
    assert paged.post_form("olga", "record", again).headers["location"] == first.headers["location"]
    assert last_decision(paged)["sequence"] == after


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("budget", {"epsilon": "much"}, "Must be a plain decimal"),
        ("amend", {"alert_at": "50, x"}, "Must be a percentage"),
        ("amend", {"horizon": "long"}, "Must be a whole number of days"),
        ("record", RELEASE | {"claim": "pure:x"}, "plain decimal"),
        ("record", RELEASE | {"claim": ""}, "Must be given"),
        ("record", RELEASE | {"released_at": "soon"}, "Must be a day such as"),
        ("record", RELEASE | {"evidence": ""}, "Must be 1 to 200 characters"),
        ("remark", {"decision": "first", "remark": "x"}, "Must be a decision's number"),
        ("remark", {"decision": "999", "remark": "x"}, "at most 21"),
        ("remark", {"decision": "3", "remark": ""}, "Must be 1 to 200 characters"),
    ],
)
def test_an_error_stands_beside_its_field_and_nothing_is_sent(
    paged: PagesServer, kind: str, fields: dict[str, str], said: str
) -> None:
    before = paged.stored_rows()
    answer = paged.fill("olga", kind, **fields)
    assert answer.status_code == 422
    assert said in words(answer.text)
    assert 'aria-invalid="true"' in answer.text
    shown = form_of(answer.text, kind)
    assert {name: shown[name] for name in fields} == fields
    assert paged.stored_rows() == before


def test_a_remark_shows_its_decision_first(paged: PagesServer) -> None:
    number = str(last_decision(paged)["sequence"])
    assert f"remark={number}#remark" in paged.page("olga").text
    assert "#remark" not in paged.page("ana").text
    shown = form_of(paged.page("olga", remark=number).text, "remark")
    assert shown["decision"] == number
    asked, done = send_twice(paged, "remark", decision=number, remark="never ran")
    assert f"This one is about decision {number} of dataset survey: ana asked" in words(asked.text)
    page = words(paged.followed("olga", done).text)
    assert "The remark stands beside its decision" in page
    assert "Remark by olga" in page


def renewable(server: RolesServer) -> None:
    """Open a dataset that can be renewed, with a member and limits."""
    body = {
        "version": 1,
        "type": "open",
        "by": "root",
        "dataset": "h::1",
        "owners": ["olga"],
        "policy": {"filter": "basic", "epsilon": "1", "unit": "user", "access": "members"},
        "lifetime": {"epsilon": "3"},
    }
    server.done("root", "/datasets", body, "opened")
    server.enrol("h::1", "ana", "analyst", team="red")
    limit = {"by": "olga", "dataset": "h::1", "scope": "team", "name": "red", "part": "0.5"}
    server.done(
        "olga", "/datasets/h::1/limits", {"version": 1, "type": "limit", **limit}, "limit_set"
    )


def renewal(paged: PagesServer, **fields: str) -> Any:
    page = form_of(paged.page("olga", "h::1").text, "renew")
    return paged.post_form("olga", "renew", {**page, **fields, "action": "send"}, "h::1")


def test_a_renewal_says_first_what_it_does_and_brings_limits_and_members_along(
    paged: PagesServer,
) -> None:
    renewable(paged)
    before = paged.stored_rows()
    asked = renewal(paged, renewed_as="h::2")
    assert asked.status_code == 409
    said = words(asked.text)
    assert "If you renew it: h::1 will be closed for ever, and h::2 will open in its place;" in said
    assert "h::2 will take ε = 1, δ = 0; ε = 1, δ = 0 will remain afterwards" in said
    assert paged.stored_rows() == before
    again = {**form_of(asked.text, "renew"), "action": "send"}
    page = paged.followed("olga", paged.post_form("olga", "renew", again, "h::1"))
    assert "The dataset is renewed" in words(page.text)
    new = words(paged.page("olga", "h::2").text)
    assert "Team red" in new
    assert "ana analyst red" in new
    assert paged.see("olga", "/datasets/h::1").json()["renewed_as"] == "h::2"


def test_a_renewal_below_a_ceiling_within_the_lifetime(paged: PagesServer) -> None:
    renewable(paged)
    before = paged.stored_rows()
    over = renewal(paged, renewed_as="h::2", ceiling="2.5")
    assert over.status_code == 422
    assert "This will be refused: h::2 would take ε = 2.5" in words(over.text)
    below = renewal(paged, renewed_as="h::2", ceiling="0.5")
    assert below.status_code == 422
    assert form_of(below.text, "renew")["ceiling"] == "0.5"
    assert paged.stored_rows() == before
    asked = renewal(paged, renewed_as="h::2", ceiling="2")
    assert "h::2 will begin with ε = 1 in force" in words(asked.text)
    again = {**form_of(asked.text, "renew"), "action": "send"}
    paged.followed("olga", paged.post_form("olga", "renew", again, "h::1"))
    view = paged.see("olga", "/datasets/h::2").json()
    assert (view["policy"]["epsilon"], view["in_force"]["epsilon"]) == ("2", "1")
    assert paged.page("ana", "h::2").status_code == 200


def test_a_renewal_says_the_budget_in_force_as_the_policy_names_it(paged: PagesServer) -> None:
    # The default filter counts in ρ, and the policy says ε.
    policy = {"epsilon": "1", "delta": "1e-6", "unit": "user", "access": "members"}
    head = {"version": 1, "by": "root", "dataset": "h::1"}
    opening = {"type": "open", "owners": ["olga"], "policy": policy}
    lifetime = {"epsilon": "30", "delta": "1e-4"}
    paged.done("root", "/datasets", {**head, **opening, "lifetime": lifetime}, "opened")
    page = renewal(paged, renewed_as="h::2", ceiling="10")
    assert "h::2 will begin with ε = 1 in force" in words(page.text)


def test_an_amendment_changes_what_is_typed_alone(paged: PagesServer) -> None:
    empty = paged.fill("olga", "amend", reason="no change")
    assert empty.status_code == 422
    assert "Nothing to change." in words(empty.text)
    before = paged.see("olga", "/datasets/survey").json()["policy"]
    fields = {"alert_at": "50, 90", "approve_above": "5", "approve_within": "3", "horizon": "30"}
    page = paged.followed("olga", paged.fill("olga", "amend", **fields, access="anyone"))
    assert "Done. The dataset is amended" in words(page.text)
    changed = {"alert_at": ["0.5", "0.9"], "approve_above": "0.05", "approve_within": "P3D"}
    changed |= {"horizon": "P30D", "access": "anyone"}
    assert paged.see("olga", "/datasets/survey").json()["policy"] == before | changed


def test_a_renewal_that_leaves_a_limit_behind_says_so(paged: PagesServer) -> None:
    policy = {"filter": "basic", "epsilon": "1", "delta": "0", "unit": "user", "access": "members"}
    head = {"version": 1, "by": "root", "dataset": "h::1"}
    opening = {"type": "open", "owners": ["olga"], "policy": policy, "lifetime": {"epsilon": "30"}}
    paged.done("root", "/datasets", {**head, **opening}, "opened")
    limit = {**head, "type": "limit", "by": "olga", "scope": "team", "name": "red"}
    share = {**limit, "part": "0.3", "reserved": "0.3"}
    paged.done("olga", "/datasets/h::1/limits", share, "limit_set")
    asked = renewal(paged, renewed_as="h::2", ceiling="10")
    sent = {**form_of(asked.text, "renew"), "action": "send"}
    done = paged.followed("olga", paged.post_form("olga", "renew", sent, "h::1"))
    said = words(done.text)
    assert "h::2 has not: limit of team red. It grants without them: set them there" in said
