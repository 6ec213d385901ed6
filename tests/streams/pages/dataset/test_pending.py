"""Requests that wait on the page of a dataset: who sees which, and what an owner answers there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from streams.server.app import Pages
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import opening, request
from tests.streams.pages.dataset.pages_server import PagesServer, form_of
from tests.streams.pages.dataset.test_page import names_in, words

BY_FACTS = "Decide by public facts and by released answers alone"


def card(page: str, name: str = "pending") -> str:
    """Return a card of the page, "" without it."""
    section = rf'<section class="card[ a-z]*" aria-labelledby="{name}">.*?</section>'
    found = re.search(section, page, re.DOTALL)
    return "" if found is None else found[0]


class Asked:
    """A dataset of which more than a tenth waits: olga and otto own it, ana and ben ask."""

    def __init__(self, paged: PagesServer, dataset: str) -> None:
        self.paged, self.dataset = paged, dataset
        policy = {"filter": "basic", "epsilon": "1", "access": "members"}
        paged.open_for_olga(dataset, approve_above="0.1", **policy)
        for name, role in (("ana", "analyst"), ("ben", "analyst"), ("aud", "auditor")):
            paged.enrol(dataset, name, role)
        paged.enrol(dataset, "otto", "owner", "analyst")
        self.waiting = {name: self.ask(name) for name in ("ana", "otto")}

    def ask(self, name: str, epsilon: str = "0.3", **more: Any) -> dict[str, Any]:
        claim = {"type": "pure", "epsilon": epsilon}
        body = request(
            self.paged.clock,
            dataset=self.dataset,
            analyst=name,
            claim=claim,
            purpose=f"of {name}",
            **more,
        )
        decision: dict[str, Any] = self.paged.send(name, "/requests", body).json()
        assert decision["outcome"] == "pending", decision
        return decision

    def page(self, who: str) -> str:
        return self.paged.page(who, self.dataset).text

    def answer(self, who: str, action: str, of: str = "ana", **typed: str) -> Any:
        shown = form_of(self.page("olga"), "pending")
        fields = {**shown, "pending": self.waiting[of]["hash"], "action": action, **typed}
        fields["form_token"] = self.paged.token_of(who)
        return self.paged.post_form(who, "pending", fields, self.dataset)

    def said(self, who: str, answer: Any) -> str:
        return words(self.paged.followed(who, answer).text)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesServer]:
    with PagesServer(tmp_path_factory.mktemp("waiting")) as made:
        yield made


_NUMBERS = count(1)


@pytest.fixture
def asked(server: PagesServer) -> Asked:
    return Asked(server, f"plans-{next(_NUMBERS)}")


def test_a_page_without_requests_that_wait_has_no_word_of_them(shared_pages: PagesServer) -> None:
    assert "wait for" not in words(shared_pages.page("olga").text)


def test_an_owner_sees_what_each_request_costs_and_leaves_and_how_to_decide(asked: Asked) -> None:
    page = words(card(asked.page("olga")))
    assert BY_FACTS in page
    assert "pure:0.3 would cost ε 0.3, 30 % of the budget" in page
    assert "ana asks for of ana . ε 0.7 would be left of the dataset" in page
    assert "in 7 days" in page
    assert "reserved" not in page
    asked.ask("ben", "0.7", reserve={"until": "PT1H"})
    assert asked.answer("olga", "approve").status_code == 303
    page = words(card(asked.page("olga")))
    assert "ben asks for of ben , reserved for PT1H. ε 0 would be left of the dataset" in page
    asked.ask("ben", "0.6")
    assert asked.answer("olga", "approve", of="otto").status_code == 303
    page = words(card(asked.page("olga")))
    assert "It would be refused now: Did not fit" in page


def test_only_owners_have_buttons_and_none_approves_an_own_request(asked: Asked) -> None:
    own = asked.page("olga")
    assert own.count('value="approve"') == own.count('value="deny"') == 2
    own = asked.page("otto")
    assert (own.count('value="approve"'), own.count('value="deny"')) == (1, 2)
    assert "Another owner must approve this request" in words(own)
    auditor = asked.page("aud")
    assert "of ana" in card(auditor)
    for page in (auditor, asked.page("ana"), asked.page("root")):
        assert 'value="approve"' not in page
        assert BY_FACTS not in words(page)


def test_an_asker_sees_their_own_with_its_deadline_beside_their_budget(asked: Asked) -> None:
    page = asked.page("ana")
    own = words(card(page, "mine"))
    assert "pure:0.3 , which would cost ε 0.3, 30 % of the budget: until" in own
    assert "in 7 days, for of ana . Nothing is charged until then" in own
    assert card(page) == ""
    assert "pending pure:0.3 would cost ε 0.3" in words(card(page, "requests"))
    assert names_in(page) == {"ana"}
    for other in ("ben", "eng"):
        assert "of ana" not in asked.page(other)


def test_an_owner_approves_and_the_page_says_what_was_charged(asked: Asked) -> None:
    said = asked.said("olga", asked.answer("olga", "approve"))
    assert "Done. Olga has approved the request of ana: ε 0.3 is charged (decision" in said
    assert "30 % is spent" in said
    assert "of ana" not in card(asked.page("olga"))
    shown = words(card(asked.page("ana"), "requests"))
    assert "granted pure:0.3 cost ε 0.3" in shown
    again = asked.said("olga", asked.answer("olga", "approve"))
    assert "Refused: Answered before" in again


def test_a_denial_needs_a_reason_which_the_asker_reads(asked: Asked) -> None:
    answer = asked.answer("olga", "deny")
    assert answer.status_code == 422
    said = words(answer.text)
    assert "Must be set to deny a request: the analyst sees it." in said
    assert answer.text.count('aria-invalid="true"') == 1
    said = asked.said("olga", asked.answer("olga", "deny", reason="table 4 has it"))
    assert "Done. Olga has denied the request of ana; nothing is charged" in said
    shown = words(card(asked.page("ana"), "requests"))
    assert "Denied" in shown
    assert 'The reason: "table 4 has it".' in shown


def test_an_approval_of_what_does_not_fit_or_comes_too_late_says_so(asked: Asked) -> None:
    asked.waiting["ben"] = asked.ask("ben", "0.9")
    assert asked.answer("olga", "approve").status_code == 303
    said = asked.said("olga", asked.answer("olga", "approve", of="ben"))
    assert "Refused: Did not fit" in said
    assert "of ben" in card(asked.page("olga")), "it waits on"
    asked.paged.clock.pass_(seconds=7 * 86_400)
    assert "of ben" in card(asked.page("olga")), "the log's clock moves with decisions alone"
    said = asked.said("olga", asked.answer("olga", "approve", of="ben"))
    assert "Refused: Too late. The deadline of this request has passed" in said
    assert card(asked.page("olga")) == ""


def test_nobody_else_answers_by_the_form(asked: Asked) -> None:
    for name in ("ana", "ben", "aud", "root"):
        assert asked.answer(name, "approve").status_code == 403, name
        assert asked.answer(name, "deny", reason="no").status_code == 403, name
    assert "of ana" in card(asked.page("olga"))


def test_an_owner_s_own_request_is_refused_though_the_form_is_forged(asked: Asked) -> None:
    said = asked.said("otto", asked.answer("otto", "approve", of="otto"))
    assert "Refused: Your own request" in said


def test_a_form_that_names_no_request_says_so(asked: Asked) -> None:
    asked.waiting["nobody"] = {"hash": "none"}
    answer = asked.answer("olga", "approve", of="nobody")
    assert answer.status_code == 422
    assert "Must be a hash: sha256:" in words(answer.text)


@pytest.fixture
def open_server(tmp_path: Path, pages: Pages) -> Iterator[LocalServer]:
    with LocalServer(tmp_path / "ledger.db", TestClock(), pages=pages) as server:
        yield server


def test_without_authentication_a_form_asks_for_the_name(open_server: LocalServer) -> None:
    body = opening(open_server.clock, "open", approve_above="0.001") | {"by": "olga"}
    assert open_server.post("/datasets", body).json()["outcome"] == "opened"
    asked = request(open_server.clock, dataset="open")
    assert open_server.post("/requests", asked).json()["outcome"] == "pending"
    page = open_server.http.get("/pages/datasets/open").text
    fields = {**form_of(page, "pending"), "action": "approve"}
    assert fields["by"] == "olga"
    headers = {"origin": open_server.url, "sec-fetch-site": "same-origin"}
    path = "/pages/datasets/open/pending"
    answer = open_server.http.post(path, data=fields, headers=headers)
    assert answer.status_code == 303, answer.text
    shown = open_server.http.get(answer.headers["location"]).text
    assert "Olga has approved the request of ana" in words(shown)


def test_what_was_answered_or_lapsed_is_not_listed_as_waiting(asked: Asked) -> None:
    def outcomes(who: str, **query: str) -> list[str]:
        page = asked.paged.page(who, asked.dataset, **query).text
        return re.findall(r'<span class="outcome">([a-z]+)</span>', card(page, "requests"))

    asked.waiting["ben"] = asked.ask("ben")
    assert outcomes("olga") == ["pending", "pending", "pending"]
    asked.answer("olga", "approve")
    asked.answer("olga", "deny", of="ben", reason="see table 4")
    assert outcomes("olga") == ["refused", "granted", "pending"]
    assert outcomes("ana") == ["granted"]
    assert outcomes("olga", requests_outcome="waiting") == ["pending"]
    asked.paged.clock.pass_(seconds=8 * 24 * 3600)
    assert outcomes("olga") == ["refused", "granted", "lapsed"]
    assert outcomes("olga", requests_outcome="waiting") == []
