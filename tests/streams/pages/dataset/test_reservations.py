"""Open reservations on the page of a dataset: who sees which, and what an owner voids there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accountant.display.reservations import SHORT_GRANT
from streams.server.app import Pages
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import opening, request
from tests.streams.pages.dataset.pages_server import PagesServer, form_of
from tests.streams.pages.dataset.test_page import words

CLAIM = {"type": "pure", "epsilon": "0.02"}


def reserved(paged: PagesServer, analyst: str) -> dict[str, Any]:
    return paged.reserved("survey", analyst, claim=CLAIM, purpose=f"of {analyst}")


def card(page: str) -> str:
    """Return the words of the card of reservations, "" without one."""
    section = r'<section class="card" aria-labelledby="reservations">.*?</section>'
    found = re.search(section, page, re.DOTALL)
    return "" if found is None else words(found[0])


def void(paged: PagesServer, who: str, grant: str) -> Any:
    token = paged.token_of(who)
    shown = form_of(paged.page("olga").text, "reservations")
    fields = {"form_token": token, "request_id": shown["request_id"], "grant": grant}
    return paged.post_form(who, "reservations", fields)


def test_a_page_without_reservations_has_no_word_of_them(paged: PagesServer) -> None:
    page = paged.page("olga").text
    assert card(page) == ""
    assert "reserved</a>" not in page


def test_spent_reserved_and_left_are_apart_on_both_pages(paged: PagesServer) -> None:
    before = words(paged.page("olga").text)
    assert "31.4 % is spent, 68.6 % is left" in before
    reserved(paged, "zoe")
    page = words(paged.page("olga").text)
    assert "31.4 % is spent, 2 % is reserved , 66.6 % is left" in page
    assert "Sum Budget Spent Reserved Left ε 1 0.314 0.02 0.666" in page
    listing = words(paged.http.get("/", headers=paged.auth_headers("olga")).text)
    assert "31.4 % 2 % reserved" in listing


def test_an_analyst_sees_the_own_reservations_and_an_owner_all(paged: PagesServer) -> None:
    for name in ("zoe", "otto"):
        reserved(paged, name)
    for name in ("olga", "aud"):
        shown = card(paged.page(name).text)
        assert "for of zoe" in shown
        assert "for of otto" in shown
    own = card(paged.page("zoe").text)
    assert "Your open reservations" in own
    assert "for of zoe" in own
    assert "otto" not in own
    assert "You have no open reservations" in card(paged.page("ana").text)


def test_only_owners_have_a_button_and_only_for_what_never_began(paged: PagesServer) -> None:
    begun = reserved(paged, "zoe")
    assert paged.step("begin", begun).json()["outcome"] == "begun"
    waiting = reserved(paged, "zoe")
    page = paged.page("olga").text
    assert f'value="{waiting["hash"]}"' in page
    assert f'value="{begun["hash"]}"' not in page
    for name in ("zoe", "aud", "root"):
        assert 'name="grant"' not in paged.page(name).text


def test_an_owner_voids_a_reservation(paged: PagesServer) -> None:
    grant = reserved(paged, "zoe")["hash"]
    page = paged.followed("olga", void(paged, "olga", grant))
    said = words(page.text)
    assert "Done. The reservation of zoe is voided: ε 0.02 is left again" in said
    assert "31.4 % is spent, 68.6 % is left" in said
    again = paged.followed("olga", _again(paged, grant))
    assert "Refused: No such reservation" in words(again.text)


def _again(paged: PagesServer, grant: str) -> Any:
    reserved(paged, "zoe")  # a form needs one
    return void(paged, "olga", grant)


def test_the_reason_of_a_void_stands_beside_the_request(paged: PagesServer) -> None:
    grant = reserved(paged, "zoe")["hash"]
    shown = form_of(paged.page("olga").text, "reservations")
    fields = {**shown, "grant": grant, "reason": "zoe has left"}
    fields["form_token"] = paged.token_of("olga")
    long = paged.post_form("olga", "reservations", {**fields, "reason": "x" * 193})
    assert "Must be at most 192 characters" in words(long.text)
    page = paged.followed("olga", paged.post_form("olga", "reservations", fields)).text
    assert "Done. The reservation of zoe is voided" in words(page)
    assert "Remark by olga" in words(page)
    for who in ("olga", "zoe"):
        assert "Voided: zoe has left" in words(paged.page(who).text)


@pytest.mark.parametrize("name", ["zoe", "aud", "root"])
def test_nobody_else_voids_by_the_form(paged: PagesServer, name: str) -> None:
    grant = reserved(paged, "zoe")["hash"]
    assert void(paged, name, grant).status_code == 403
    assert grant[:SHORT_GRANT] in card(paged.page("olga").text)


def test_a_form_that_names_no_grant_says_so(paged: PagesServer) -> None:
    reserved(paged, "zoe")
    answer = void(paged, "olga", "none")
    assert answer.status_code == 422
    assert "Must be a hash: sha256:" in words(answer.text)


def test_limits_show_what_is_reserved_of_them(paged: PagesServer) -> None:
    paged.clock.pass_(seconds=86_400)
    paged.reserved("survey", "ana", claim={"type": "pure", "epsilon": "0.004"})
    page = words(paged.page("olga").text)
    assert "Limit: 20 % of the budget 32 % used, 2 % reserved" in page
    assert "Period limit: 1 % of the budget each day 0 % used, 40 % reserved" in page


@pytest.fixture
def open_server(tmp_path: Path, pages: Pages) -> Iterator[LocalServer]:
    with LocalServer(tmp_path / "ledger.db", TestClock(), pages=pages) as server:
        yield server


def test_without_authentication_a_form_asks_for_the_name(open_server: LocalServer) -> None:
    body = opening(open_server.clock, "open") | {"by": "olga"}
    assert open_server.post("/datasets", body).json()["outcome"] == "opened"
    asked = request(open_server.clock, dataset="open", reserve={"until": "PT1H"})
    grant = open_server.post("/requests", asked).json()["hash"]
    page = open_server.http.get("/pages/datasets/open").text
    fields = {**form_of(page, "reservations"), "grant": grant}
    assert fields["by"] == "olga"
    headers = {"origin": open_server.url, "sec-fetch-site": "same-origin"}
    path = "/pages/datasets/open/reservations"
    answer = open_server.http.post(path, data=fields, headers=headers)
    assert answer.status_code == 303, answer.text
    shown = open_server.http.get(answer.headers["location"]).text
    assert "The reservation of ana is voided" in words(shown)
