"""The page that opens a dataset: who gets it, what it promises first, and the record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from accountant.display.opening_previews import TYPICAL
from tests.streams.pages.dataset.pages_server import PagesServer, form_of
from tests.streams.pages.dataset.test_page import words

DRAFT = {"dataset": "trial-2027", "epsilon": "1", "delta": "1e-6", "unit": "person"}


@pytest.fixture(scope="module")
def offices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesServer]:
    """A server where opie may open datasets; each test opens others."""
    with PagesServer(tmp_path_factory.mktemp("opening")) as made:
        made.furnish()
        yield made


def draft(server: PagesServer, name: str, **fields: str) -> Any:
    """Return the preview of a draft."""
    query = {**DRAFT, **fields}
    return server.http.get("/pages/open", params=query, headers=server.auth_headers(name))


def send(server: PagesServer, name: str, fields: dict[str, str]) -> Any:
    headers = {"origin": server.url, "sec-fetch-site": "same-origin", **server.auth_headers(name)}
    return server.http.post("/pages/open", data=fields, headers=headers)


def opened(server: PagesServer, name: str) -> bool:
    return server.see("root", f"/datasets/{name}").status_code == 200


def posted(page: str) -> dict[str, str]:
    """Return the form that opens, without that of the draft below it."""
    return form_of(page.split('id="draft"', maxsplit=1)[0], "pages/open".partition("/")[2])


def test_a_draft_shows_what_it_would_promise_and_writes_nothing(offices: PagesServer) -> None:
    before = offices.stored_rows()
    page = draft(offices, "opie", kind="gaussian", ceiling="2").text
    said = words(page)
    assert "ε = 2, δ = 1e-6, per person, for all releases of trial-2027" in said
    assert "For gaussian:sigma=100.0,sensitivity=1.0: filter" in said or "For gaussian:" in said
    assert all(text in said for text in TYPICAL)
    assert "Reserve a share of the budget for a team or an analyst?" in said
    assert offices.stored_rows() == before
    assert not opened(offices, "trial-2027")


def test_a_budget_in_rho_is_opened_by_the_form(offices: PagesServer) -> None:
    draft_in_rho = {"dataset": "in-rho", "epsilon": "", "rho": "0.5", "ceiling": "0.8"}
    page = draft(offices, "opie", **draft_in_rho, lifetime="2", approve_above="50").text
    assert "ρ = 0.8, δ = 0, per person, for all releases of in-rho" in words(page)
    assert send(offices, "opie", posted(page)).status_code == 303
    found = offices.see("opie", "/datasets/in-rho").json()
    assert (found["policy"]["rho"], found["policy"]["filter"]) == ("0.8", "zcdp")
    assert (found["in_force"]["rho"], found["lifetime"]["rho"]) == ("0.5", "2")


def test_a_proposal_below_a_ceiling_admits_what_its_table_says(offices: PagesServer) -> None:
    claim = {"claims": "laplace:scale=100,sensitivity=1", "epsilon": "2", "ceiling": "3"}
    said = words(draft(offices, "opie", **claim).text)
    admits = re.search(r"The budget admits ([0-9,]+) of them", said)
    row = re.search(r"laplace:scale=100,sensitivity=1 [0-9.]+ ([0-9,]+)", said)
    assert admits is not None
    assert row is not None
    assert admits[1] == row[1] == "2,009", "without the ceiling it would be 2,008"


def test_the_draft_is_opened_as_it_was_shown(offices: PagesServer) -> None:
    fields = {"dataset": "office-1", "claims": "10*gaussian:sigma=20,sensitivity=1\npure:0.01"}
    shown = posted(draft(offices, "opie", **fields, approve_above="5", reason="trial").text)
    answer = send(offices, "opie", shown)
    page = words(offices.followed("opie", answer).text)
    assert "Done. The dataset is open." in page
    view = offices.see("opie", "/datasets/office-1").json()
    assert view["policy"]["access"] == "members"
    assert view["policy"]["approve_above"] == "0.05"
    assert view["policy"]["filter"] in page
    record = offices.see("opie", "/datasets/office-1/requests").json()["decisions"][0]["request"]
    assert (record["by"], record["reason"]) == ("opie", "trial")
    # Sent twice it is one record.
    again = send(offices, "opie", shown)
    assert again.headers["location"] == answer.headers["location"]
    assert offices.see("opie", "/datasets/office-1").json()["sequence"] == 1


def test_a_lifetime_of_a_population_is_opened_and_asks_back_what_is_taken(
    offices: PagesServer,
) -> None:
    people = {"population": "pupils"}
    lifetime = {"lifetime": "3", "lifetime_delta": "1e-5", "lifetime_shared": "yes"}
    missing = draft(offices, "opie", dataset="marks", **people, lifetime_shared="yes").text
    assert "Must be given where it is to be the population's" in words(missing)
    small = words(draft(offices, "opie", dataset="marks", ceiling="2", lifetime="1").text)
    assert "this dataset alone guarantees epsilon 2, at its ceiling" in small
    first = draft(offices, "opie", dataset="marks", **people, **lifetime).text
    assert "The dataset will guarantee epsilon 3, delta 1e-5 for all datasets of" in words(first)
    assert send(offices, "opie", posted(first)).status_code == 303
    view = offices.see("root", "/datasets/marks").json()
    assert view["lifetime"]["shared"] is True
    page = draft(offices, "opie", dataset="sports", **people, epsilon="1.5").text
    said = words(page)
    assert "it takes epsilon 1.5, delta 0.000001 of the lifetime of population pupils" in said
    assert "too little to renew marks, which takes epsilon 1, delta 0.000001" in said
    assert "will guarantee" not in said, "said once"
    asked = send(offices, "opie", posted(page))
    assert (asked.status_code, opened(offices, "sports")) == (409, False)
    assert send(offices, "opie", {**posted(asked.text), "new": "yes"}).status_code == 303
    too_much = words(draft(offices, "opie", dataset="clubs", **people).text)
    assert "The opening would be refused. It would take epsilon 1, delta 0.000001" in too_much


@pytest.mark.parametrize("name", ["ana", "olga", "aud"])
def test_who_may_not_open_gets_no_form_and_opens_nothing(offices: PagesServer, name: str) -> None:
    shown = posted(draft(offices, "opie", dataset="office-2").text)
    assert draft(offices, name).status_code == 403
    assert "/pages/open" not in offices.http.get("/", headers=offices.auth_headers(name)).text
    token = offices.token_of(name)
    before = offices.stored_rows()
    answer = send(offices, name, {**shown, "form_token": token})
    assert answer.status_code == 403
    assert "Not permitted" in words(answer.text)
    assert offices.stored_rows() == before


def test_a_name_nearly_another_is_asked_back_with_the_draft_kept(offices: PagesServer) -> None:
    fields = {"dataset": "Survey", "population": "town", "owners": "opie"}
    page = draft(offices, "root", **fields).text
    assert "survey is open already, and another name is another budget" in words(page)
    shown = posted(page)
    before = offices.stored_rows()
    asked = send(offices, "root", shown)
    assert asked.status_code == 409
    again = posted(asked.text)
    assert (again["dataset"], again["population"]) == ("Survey", "town")
    assert offices.stored_rows() == before
    answer = send(offices, "root", {**again, "new": "yes"})
    assert answer.status_code == 303
    assert opened(offices, "Survey")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"epsilon": ""}, "Must be given"),
        ({"rho": "0.5"}, "Must be left out where"),
        ({"epsilon": "", "rho": "0.5", "filter": "basic"}, "Must be zcdp for a budget in"),
        ({"epsilon": "much"}, "plain decimal"),
        ({"dataset": "no spaces here"}, "Must be 1 to 100 letters"),
        ({"claims": "pure:x"}, "plain decimal"),
        ({"claims": "gaussian:sigma=1,sensitivity=1000"}, "no filter does"),
        ({"ceiling": "0.5"}, "Must be at least the budget in force"),
        ({"lifetime": "0.5"}, "at least"),
        ({"approve_above": "0.5"}, "Is less than one percent: write 50 for 50 %"),
    ],
)
def test_an_error_of_a_draft_stands_beside_its_field(
    offices: PagesServer, fields: dict[str, str], said: str
) -> None:
    page = draft(offices, "opie", **fields).text
    assert said in words(page)
    assert 'aria-invalid="true"' in page
    assert "What would fit" not in page
    shown = form_of(page, "open")
    assert all(shown.get(name, text) == text for name, text in fields.items())


def test_a_name_that_was_opened_is_refused_with_the_draft_kept(offices: PagesServer) -> None:
    shown = posted(draft(offices, "root", dataset="survey", epsilon="3").text)
    answer = send(offices, "root", shown)
    assert answer.status_code == 409
    assert "Refused" in words(answer.text)
    assert posted(answer.text)["epsilon"] == "3"


def test_a_form_of_another_site_opens_nothing(offices: PagesServer) -> None:
    shown = posted(draft(offices, "opie", dataset="office-3").text)
    headers = {"origin": "https://elsewhere.example", **offices.auth_headers("opie")}
    assert offices.http.post("/pages/open", data=shown, headers=headers).status_code == 403
    assert not opened(offices, "office-3")


def test_an_approval_above_the_cap_is_said_to_be_idle(offices: PagesServer) -> None:
    idle = "above 20 % of the budget never waits for an approval: above 10 % it is refused"
    shown = draft(offices, "opie", dataset="office-idle", approve_above="20")
    assert idle in words(shown.text)
    opened = offices.followed("opie", send(offices, "opie", posted(shown.text)))
    assert f"Note: a request {idle}" in words(opened.text)
