"""Each role sees on the page what it may, and nothing more."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qsl

import pytest

from tests.streams.auth.roles_server import RolesServer
from tests.streams.auth.survey_server import HOSTILE
from tests.streams.gateway.records import amending, request
from tests.streams.pages.dataset.pages_server import PagesServer, without_ids

ANALYSTS = {"ana", "ben", "otto", "zoe"}
EVERYBODY = ANALYSTS | {"olga", "aud", "eng", "eve", "opie"}


def names_in(page: str) -> set[str]:
    """Return whose names stand on a page; words of ours are no names."""
    return {name for name in EVERYBODY if re.search(rf"\b{name}\b", unescape(page))}


WRITES = re.compile(r'method="post" action="/pages/datasets/[^/"]+/([^"]+)"')


def words(page: str) -> str:
    """Return what is read of a page."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


@pytest.mark.parametrize(
    ("name", "visible"),
    [
        ("ana", {"ana"}),
        ("ben", {"ben"}),
        ("otto", {"otto"}),
        ("zoe", {"zoe"}),
        ("eng", {"eng"}),
        # An auditor's, an owner's and an administrator's page has them all.
        ("aud", ANALYSTS | {"aud", "eng", "olga"}),
        ("olga", ANALYSTS | {"aud", "eng", "olga"}),
        ("root", ANALYSTS | {"aud", "eng", "olga"}),
    ],
)
def test_the_page_contains_only_names_that_the_caller_may_see(
    shared_pages: PagesServer, name: str, visible: set[str]
) -> None:
    answer = shared_pages.page(name)
    assert answer.status_code == 200
    assert names_in(answer.text) == visible


@pytest.mark.parametrize("name", ["ana", "otto", "zoe", "eng"])
def test_the_page_of_an_analyst_hides_requests_of_others(
    shared_pages: PagesServer, name: str
) -> None:
    page = words(shared_pages.page(name).text)
    own = {"ana": "age by district", "otto": "income model", "zoe": HOSTILE}.get(name)
    purposes = {"age by district", "a first look", "counts by county", "income model", HOSTILE}
    shown = {each for each in purposes if each in page}
    assert shown <= ({own, "a first look"} if name == "ana" else {own})
    for part in ("Usage</h2>", "Spent over time", "Refusals by reason", "Members", "Limits</h2>"):
        assert part not in page


def test_the_page_of_a_hidden_dataset_equals_that_of_a_missing_one(
    shared_pages: PagesServer,
) -> None:
    unseen, unknown = shared_pages.page("opie"), shared_pages.page("opie", "nowhere")
    assert unseen.status_code == unknown.status_code == 404
    assert without_ids(unseen.text).replace("survey", "nowhere") == without_ids(unknown.text)
    assert "ε" not in unseen.text


def test_the_page_explains_a_refusal_with_what_fits_and_when_more_comes(
    shared_pages: PagesServer,
) -> None:
    page = words(shared_pages.page("ana").text)
    assert "You may still use 0.6 % of the budget (ε 0.006)" in page
    assert "Your team, red, has 13.6 % of the budget (ε 0.136) left." in page
    assert "More is available in 24 hours, at 2026-12-01 12:00 UTC" in page
    assert "The period limit of team red has too little left in this period" in page
    assert "Would fit: pure:0.006" in page
    assert "You the last 7 days" in page


def test_an_owner_sees_all_and_gets_the_forms(shared_pages: PagesServer) -> None:
    page = shared_pages.page("olga").text
    for part in ("Spent over time", "Usage</h2>", "Refusals by reason", "Members", "Limits</h2>"):
        assert part in page
    assert not re.search(r"\{(owner|dataset|the_dataset|by)\}", page)
    assert "Did not fit at a team's limit or period limit exhausted 1" in words(page)
    assert "All together the last 7 days 2026-12-18 2026-12-07 to never ε 0.294" in words(page)
    assert 'action="/pages/datasets/survey/members"' in page
    assert 'action="/pages/datasets/survey/limits"' in page
    assert "as an administrator" not in page


def test_an_auditor_sees_all_and_may_ask_for_more(shared_pages: PagesServer) -> None:
    page = shared_pages.page("aud").text
    assert "Usage</h2>" in page
    assert WRITES.findall(page) == ["more"]


def test_an_administrator_gets_only_the_member_form(shared_pages: PagesServer) -> None:
    page = shared_pages.page("root").text
    assert 'action="/pages/datasets/survey/members"' in page
    assert 'action="/pages/datasets/survey/limits"' not in page
    assert "You act as an administrator" in page


def test_an_analyst_gets_no_form_that_writes_but_may_ask_for_more(
    shared_pages: PagesServer,
) -> None:
    page = shared_pages.page("ana").text
    assert WRITES.findall(page) == ["more"]
    assert "would_not" not in page


def test_text_typed_by_others_is_escaped(shared_pages: PagesServer) -> None:
    page = shared_pages.page("olga").text
    assert "<script" not in page
    assert "&lt;script&gt;alert(" in page


def test_hostile_query_parameters_are_escaped(shared_pages: PagesServer) -> None:
    query = {"kind": "text", "text_claim": HOSTILE, "member": HOSTILE, "scope": HOSTILE}
    page = shared_pages.page("olga", **query, done=HOSTILE, analyst=HOSTILE, times=HOSTILE)
    assert page.status_code == 200
    assert "<script" not in page.text
    assert shared_pages.page("olga", HOSTILE).status_code == 404
    assert "<script" not in shared_pages.page("olga", HOSTILE).text


def test_the_chart_has_a_description_for_screen_readers(shared_pages: PagesServer) -> None:
    page = shared_pages.page("olga").text
    assert '<title id="chart-title">Spent of the budget, 2026-11-21 to 2026-11-30</title>' in page
    assert '<desc id="chart-about">A line that rises from nothing to 31.4 % of the budget' in page
    assert "even spending until 2027-11-21" in words(page)
    assert words(page).count("2026-11-30 ε 0.054 ε 0.314 31.4 % 2 2") == 1


def test_reading_the_page_writes_nothing(paged: PagesServer) -> None:
    before = paged.stored_rows()
    for name in ("olga", "ana", "root", "aud", "eng", "opie"):
        paged.page(name, kind="pure", pure_epsilon="0.1", member="ana", scope="team", name="red")
    assert paged.http.get("/pages/datasets/survey/members").status_code in {401, 405}
    assert paged.see("olga", "/pages/datasets/survey/members").status_code == 405
    assert paged.stored_rows() == before


def test_a_preview_on_the_page_applies_the_limits_of_the_caller(shared_pages: PagesServer) -> None:
    page = words(shared_pages.page("ana", kind="pure", pure_epsilon="0.05").text)
    assert "It would be refused: Did not fit , at a cost of ε 0.05." in page
    assert "Would fit: pure:0.006" in page
    fits = words(shared_pages.page("ana", kind="pure", pure_epsilon="0.001").text)
    assert "It would be granted at a cost of ε 0.001" in fits


def test_a_preview_begins_with_common_claims_and_names_the_command(
    shared_pages: PagesServer,
) -> None:
    page = shared_pages.page("ana").text
    assert "A request names a claim: how much its result may reveal of one person" in words(page)
    # The filter basic accepts no claim in ρ.
    assert "A result whose library states ρ" not in page
    (href,) = re.findall(r'<a href="([^"]*)">A result whose library states ε 0.1</a>', page)
    query = dict(parse_qsl(unescape(href).partition("?")[2].partition("#")[0]))
    shown = words(shared_pages.page("ana", **query).text)
    assert "at a cost of" in shown
    assert "accountant ask survey pure:0.1 --analyst ana" in shown


def test_a_lead_previews_for_the_team_and_for_nobody_else(paged: PagesServer) -> None:
    paged.enrol("survey", "zoe", "lead", team="red")
    paged.enrol("survey", "ana", "analyst", team="red")
    first = paged.page("zoe", kind="pure", pure_epsilon="0.05").text
    assert 'name="analyst" value="ana"' in first
    assert "It would be refused" in words(first)
    other = paged.page("zoe", kind="pure", pure_epsilon="0.05", analyst="otto").text
    assert "Must be of team red, which you lead, not otto" in words(other)
    assert "It would be" not in words(other)


def test_a_preview_names_the_filter_that_would_grant(shared_pages: PagesServer) -> None:
    claim = "96*subsampled_gaussian:sigma=1.1,sensitivity=1,rate=0.0001"
    page = words(shared_pages.page("olga", kind="text", text_claim=claim).text)
    assert "filter renyi at order" in page
    assert "A filter is fixed at the opening" in page


def test_an_owner_may_preview_for_an_analyst(shared_pages: PagesServer) -> None:
    for_ana = shared_pages.page("olga", kind="pure", pure_epsilon="0.05", analyst="ana").text
    assert "It would be refused" in for_ana
    for_anybody = shared_pages.page("olga", kind="pure", pure_epsilon="0.05", analyst="").text
    assert "It would be granted" in for_anybody
    # Nobody else learns of another's limits so.
    other = shared_pages.page("otto", kind="pure", pure_epsilon="0.05", analyst="ana").text
    assert "It would be granted" in other
    assert "ana" not in names_in(other)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"kind": "pure", "pure_epsilon": "much"}, "not much"),
        ({"kind": "pure"}, "Must not be empty."),
        ({"kind": "pure", "pure_epsilon": "0.1", "times": "x"}, "Must be a whole number"),
        ({"kind": "pure", "pure_epsilon": "0.1", "analyst": "a b"}, "not a b"),
    ],
)
def test_an_invalid_preview_shows_the_error_beside_its_field(
    shared_pages: PagesServer, query: dict[str, str], said: str
) -> None:
    answer = shared_pages.page("olga", **query)
    assert answer.status_code == 200
    assert said in words(answer.text)
    assert 'aria-invalid="true"' in answer.text
    assert "It would be" not in answer.text


def test_the_page_shows_odd_names_and_long_values(paged: PagesServer) -> None:
    name = "a:b@c.d_e-" + "x" * 90
    paged.open_for_olga(name, access="members")
    paged.enrol(name, "ana", "analyst", team="t:" + "y" * 98)
    claim = {"type": "all_of", "claims": [{"type": "pure", "epsilon": "0.000001"}] * 100}
    body = {"claim": claim, "purpose": "z" * 200}
    paged.granted(name, "ana")
    paged.done("ana", "/requests", request(paged.clock, dataset=name, **body), "granted")
    page = paged.page("ana", name).text
    assert "z" * 200 in page
    assert "Full claim" in page
    assert paged.page("olga", name).status_code == 200


def test_the_page_finds_own_requests_behind_150_of_others(paged: PagesServer) -> None:
    for _ in range(150):
        paged.ask("zoe", "0.0001")
    page = words(paged.page("ana").text)
    assert "age by district" in page
    own_budget = words(paged.page("zoe").text)
    assert own_budget.count("granted pure:0.0001") == 20


@pytest.mark.parametrize("access", ["anyone", "members"])
def test_with_members_visibility_the_page_shows_all_usage_but_own_requests(
    roles_server: RolesServer, access: str
) -> None:
    roles_server.open_for_olga("shared", access=access, visibility="members")
    roles_server.enrol("shared", "ana", "analyst")
    roles_server.enrol("shared", "ben", "analyst")
    roles_server.granted("shared", "ben")
    page = words(roles_server.see("ana", "/pages/datasets/shared").text)
    assert "You have sent no requests yet." in page
    assert "Usage" in page
    assert "ben" in page
    assert "Members" not in page


@pytest.mark.parametrize(
    ("state", "said"),
    [("closed", "An owner has closed it"), ("halted", "this policy grants nothing after that")],
)
def test_the_page_of_a_closed_or_halted_dataset_explains_why(
    roles_server: RolesServer, state: str, said: str
) -> None:
    roles_server.open_for_olga("over", access="anyone", halt_on_refusal=True)
    if state == "closed":
        fields = amending(roles_server.clock, "over", reason="done")
        roles_server.done(
            "olga", "/datasets/over/close", {**fields, "type": "close", "by": "olga"}, state
        )
    else:
        claim = {"type": "pure", "epsilon": "101"}
        body = request(roles_server.clock, dataset="over", claim=claim)
        roles_server.done("ana", "/requests", body, "refused")
    page = words(roles_server.see("ana", "/pages/datasets/over").text)
    assert said in page
    assert f"nothing more is granted: the dataset is {state}" in page
    assert "You may still use 0 % of the budget" in page


def test_the_page_forbids_scripts_and_caching(shared_pages: PagesServer) -> None:
    answer = shared_pages.page("olga")
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert " style=" not in answer.text
    assert " on" + "click" not in answer.text
