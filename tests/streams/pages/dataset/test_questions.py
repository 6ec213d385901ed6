"""The form "Ask a question": a preview, the question itself, and its answer on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from accountant.questions import Schema
from streams.client import Accountant
from streams.clock import SystemClock
from streams.pages import PAGES
from streams.pages.dataset.question_form import parse_query, question_line, question_of
from streams.server.app import Pages
from streams.settings import Settings
from streams.sources.no_sources import NoSources
from tests.streams.auth.answering_roles import AnsweringRoles
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import SCHEMA, data_settings, opening_with_schema
from tests.streams.gateway.local_server import LocalServer
from tests.streams.pages.people import Person

PAGE = "/pages/datasets/survey"
POLICY = {"filter": "zcdp_tight", "epsilon": "10", "delta": "1e-6"}
HISTOGRAM = {
    "ask": "histogram",
    "q_histogram_column": "region",
    "q_where": "age > 30",
    "q_noise": "epsilon",
    "q_amount": "0.5",
    "q_asker": "ana",
}


@pytest.fixture
def server(tmp_path: Path, pages: Pages) -> Iterator[LocalServer]:
    settings = Settings(port=0, **data_settings(tmp_path))
    with LocalServer(tmp_path / "l.db", TestClock(), settings, pages=pages) as made:
        body = opening_with_schema(made.clock, "survey", **POLICY)
        assert made.post("/datasets", body).json()["outcome"] == "opened"
        yield made


@pytest.fixture
def person(server: LocalServer) -> Iterator[Person]:
    with Person(server) as made:
        yield made


def preview(person: Person, query: dict[str, str] = HISTOGRAM, page: str = PAGE) -> str:
    """Return the section of the page with the form."""
    response = person.http.get(page, params=query)
    assert response.status_code == 200, response.text
    return section(response.text, "ask")


def section(page: str, name: str) -> str:
    found = re.search(
        f'<section class="card" aria-labelledby="{name}">.*?</section>', page, re.DOTALL
    )
    return "" if found is None else found[0]


def hidden(text: str) -> dict[str, str]:
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text)
    return {name: unescape(value) for name, value in found}


def ask(person: Person, form: dict[str, str], page: str = PAGE) -> httpx.Response:
    return person.http.post(f"{page}/questions", data=form)


def latest(person: Person, page: str = PAGE) -> str:
    return section(person.look(page).text, "requests")


def test_a_preview_says_what_a_question_costs_and_writes_nothing(
    server: LocalServer, person: Person
) -> None:
    before = server.last_sequence()
    text = preview(person)
    assert "histogram(region) where age &gt; 30 (epsilon: 0.5)" in text
    assert "It costs ρ 0.1225" in text
    assert "histogram(region): each value ± 6 with 95 % confidence." in text
    assert "<code>histogram(region)</code>" in section(person.look(PAGE).text, "columns")
    assert hidden(text)["question"].startswith('{"ask":"histogram"')
    assert server.last_sequence() == before


def test_an_asked_question_has_its_answer_on_the_page_once(
    server: LocalServer, person: Person
) -> None:
    form = hidden(preview(person))
    response = ask(person, form)
    assert response.status_code == 303
    assert response.headers["location"] == f"{PAGE}?q_asker=ana#requests"
    text = latest(person)
    assert text.count('class="request ') == 1
    assert "histogram(region) where age &gt; 30, 95 % intervals" in text
    assert text.count("<svg") == 1
    assert " style=" not in text
    assert "<script" not in text
    assert ask(person, form).status_code == 303  # a double click
    assert latest(person) == text
    assert len(server.http.get("/datasets/survey/answers").json()["answers"]) == 1


def test_an_accuracy_first_answer_is_on_the_page(tmp_path: Path, pages: Pages) -> None:
    settings = Settings(port=0, **data_settings(tmp_path))
    clock = SystemClock()  # a curator dates its steps by it
    with LocalServer(tmp_path / "l.db", clock, settings, pages=pages) as server:
        with Accountant(server.url, analyst="ana", clock=clock) as ledger:
            ledger.as_owner("owner").open("survey", POLICY, schema=SCHEMA, as_given=True)
            ledger.as_owner("owner").set_member("survey", "curator", roles=["curator"])
            ledger.count("survey", epsilon="1", relative_error="0.5", store=tmp_path / "r.db")
        with Person(server) as person:
            text = latest(person)
    assert text.count('class="request ') == 1
    assert '<span class="outcome">settled</span>' in text
    assert "count (epsilon: 1, laplace_reduction) until relative_error: 0.5 at 0.95" in text
    assert "holds at most" not in text, "a settled session holds nothing"
    assert '<span class="cost">cost ρ' in text
    assert " reserved; noise fixed in advance" in text


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ({"ask": "count", "q_by": "region"}, "count by region"),
        ({"ask": "sum", "q_sum_column": "age"}, "sum(age)"),
        ({"ask": "mean", "q_mean_column": "age"}, "mean(age)"),
        ({"ask": "variance", "q_variance_column": "age"}, "variance(age)"),
        (
            {"ask": "quantile", "q_quantile_column": "age", "q_quantile_fraction": "0.5"},
            "quantile(age, 0.5)",
        ),
        ({"ask": "top", "q_top_column": "region", "q_top_most": "1"}, "region"),
    ],
    ids=lambda each: each["ask"] if isinstance(each, dict) else "",
)
def test_each_statistic_is_asked_and_answered(
    person: Person, query: dict[str, str], asked: str
) -> None:
    form = hidden(preview(person, query | {"q_amount": "0.5", "q_asker": "ana"}))
    assert ask(person, form).status_code == 303
    text = latest(person)
    assert asked in text
    assert '<div class="answer"><table>' in text


WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"q_where": "wages > 3"}, "q-where", "Must have a column of the schema"),
    ({"q_where": "age >"}, "q-where", "Must"),
    ({"q_amount": ""}, "q-amount", "Must not be empty"),
    ({"q_amount": "much"}, "q-amount", "not much"),
    ({"q_amount": "-1"}, "q-amount", "not -1"),
    ({"q_by": "wages"}, "q-by", "Must"),
    ({"q_histogram_column": "age"}, "q-histogram-column", "Must"),
    ({"ask": "quantile", "q_quantile_column": "age"}, "q-quantile_fraction", "Must not be empty"),
    ({"ask": "top", "q_top_column": "region", "q_top_most": "x"}, "q-top_most", "whole number"),
    ({"q_asker": "no name!"}, "q-asker", "Must be"),
]


@pytest.mark.parametrize(("query", "field", "words"), WRONG)
def test_a_mistake_is_shown_beside_its_field(
    server: LocalServer, person: Person, query: dict[str, str], field: str, words: str
) -> None:
    before = server.last_sequence()
    text = preview(person, HISTOGRAM | query)
    (error,) = re.findall(r'<p class="error" id="([^"]*)-error">(.*?)</p>', text)
    assert error[0] == field
    assert words in unescape(error[1])
    assert hidden(text) == {}
    assert server.last_sequence() == before


def test_a_column_is_chosen_by_its_exact_name() -> None:
    declared = msgspec.to_builtins(SCHEMA) | {
        "columns": [
            {"type": "number", "name": "year of birth ", "lower": "0", "upper": "9"},
            {"type": "category", "name": " where", "categories": ["a"]},
        ]
    }
    schema = msgspec.convert(declared, Schema)
    query = {"ask": "sum", "q_sum_column": "year of birth ", "q_by": " where", "q_amount": " 0.5 "}
    question, noise = question_of(parse_query(query, schema), schema)
    assert question_line(question, noise) == 'sum("year of birth ") by " where" (epsilon: 0.5)'


def test_a_question_above_the_budget_is_refused_in_the_preview(person: Person) -> None:
    text = preview(person, HISTOGRAM | {"q_amount": "100"})
    assert "It would be refused" in text
    assert hidden(text) == {}


def test_what_the_page_did_not_write_is_not_asked(server: LocalServer, person: Person) -> None:
    form = hidden(preview(person))
    before = server.last_sequence()
    for change in ({"question": "{"}, {"noise": '{"epsilon":"x"}'}, {"request_id": "7"}):
        response = ask(person, form | change)
        assert response.status_code == 422
        assert "Nothing was asked" in response.text
    assert ask(person, form | {"form_token": "x"}).status_code == 403
    wrong = form | {"question": '{"ask":"sum","column":"wages"}'}
    assert ask(person, wrong).status_code == 303  # the ledger refuses it, and charges nothing
    assert server.last_sequence() == before + 1
    assert "wages" in latest(person)


def test_a_question_on_another_datasets_data_is_not_asked(tmp_path: Path) -> None:
    settings = Settings(port=0, **data_settings(tmp_path, datasets=["census"]))
    shown = LocalServer(tmp_path / "l.db", TestClock(), settings, pages=PAGES)
    with shown as server, Person(server) as person:
        body = msgspec.json.encode(opening_with_schema(server.clock, "survey", **POLICY))
        server.service.submit_sync("admin", body, 5)  # no server has looked at it
        before = server.last_sequence()
        response = ask(person, hidden(preview(person)))
        assert response.status_code == 403
        assert "Nothing was asked: this dataset may not read the data" in response.text
        assert server.last_sequence() == before


def test_a_question_that_nobody_would_run_is_not_asked(tmp_path: Path) -> None:
    settings = Settings(port=0, **data_settings(tmp_path))
    nobody = NoSources(is_asked=True)
    shown = LocalServer(tmp_path / "l.db", TestClock(), settings, pages=PAGES, sources=nobody)
    with shown as server, Person(server) as person:
        body = opening_with_schema(server.clock, "survey", **POLICY)
        assert server.post("/datasets", body).json()["outcome"] == "opened"
        before = server.last_sequence()
        response = ask(person, hidden(preview(person)))
        assert response.status_code == 409
        assert "Nothing was asked, and nothing is charged: this server reads no" in response.text
        assert server.last_sequence() == before


def test_hostile_filters_are_shown_as_text(person: Person) -> None:
    hostile = "region = '<script>alert(1)</script>'"
    text = preview(person, HISTOGRAM | {"q_where": hostile})
    assert "<script" not in text


def test_a_server_without_data_has_no_form(tmp_path: Path, pages: Pages) -> None:
    with (
        LocalServer(tmp_path / "l.db", TestClock(), pages=pages) as server,
        Person(server) as person,
    ):
        body = opening_with_schema(server.clock, "survey", **POLICY)
        assert server.post("/datasets", body).json()["outcome"] == "opened"
        page = person.look(PAGE).text
        assert section(page, "ask") == ""
        assert section(page, "fits") != ""


def test_a_dataset_without_a_schema_has_no_form(server: LocalServer, person: Person) -> None:
    server.open()
    assert section(person.look("/pages/datasets/census").text, "ask") == ""


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory, pages: Pages) -> Iterator[AnsweringRoles]:
    with AnsweringRoles(tmp_path_factory.mktemp("roles"), pages=pages) as made:
        made.furnish()
        made.ask_all("closed-own")
        yield made


@pytest.mark.parametrize(
    ("name", "asks", "sees"),
    [("ana", True, 2), ("ben", True, 1), ("aud", False, 3), ("olga", False, 3), ("eng", False, 1)],
)
def test_analysts_ask_and_each_role_sees_its_answers(
    roles: AnsweringRoles, name: str, asks: bool, sees: int
) -> None:
    page = "/pages/datasets/closed-own"
    with Person(roles) as person:
        person.sign_in(roles.tokens[name])
        text = person.look(page).text
        assert (section(text, "ask") != "") == asks
        assert section(text, "requests").count('<div class="answer">') == sees
        form: dict[str, Any] = {"form_token": person.form_token(page)}
        form |= {"question": '{"ask":"count"}', "noise": '{"epsilon":"1"}'}
        form |= {"request_id": "01a1fdfa-4600-7ca9-a811-2ca1bbdcafac", "asker": "ana"}
        if not asks:
            assert ask(person, form, page).status_code == 403


def test_an_analyst_asks_under_their_own_name_alone(tmp_path: Path, pages: Pages) -> None:
    with AnsweringRoles(tmp_path, pages=pages) as server, Person(server) as person:
        server.furnish()
        person.sign_in(server.tokens["ana"])
        page = "/pages/datasets/closed-own"
        form = hidden(preview(person, {"ask": "count", "q_amount": "1"}, page))
        assert "asker" not in form
        response = ask(person, form | {"asker": "ben"}, page)
        assert response.headers["location"] == f"{page}#requests"
        answers = server.see("olga", "/datasets/closed-own/answers").json()["answers"]
        assert [each["analyst"] for each in answers] == ["ana"]


def test_the_cause_that_closes_a_source_is_for_owners_alone(tmp_path: Path, pages: Pages) -> None:
    with AnsweringRoles(tmp_path, pages=pages) as server:
        server.furnish()
        data = tmp_path / "people.csv"
        data.write_text(data.read_text().replace("age,", "age,hiv_status,", 1))
        for name, is_owner in (("olga", True), ("ana", False), ("aud", False)):
            with Person(server) as person:
                person.sign_in(server.tokens[name])
                text = person.look("/pages/datasets/closed-own").text
                assert ("hiv_status" in text) == is_owner, name


def test_a_question_that_waits_is_answered_on_the_page_after_its_approval(
    tmp_path: Path, pages: Pages
) -> None:
    settings = Settings(port=0, **data_settings(tmp_path))
    with (
        LocalServer(tmp_path / "l.db", TestClock(), settings, pages=pages) as server,
        Person(server) as person,
    ):
        body = opening_with_schema(server.clock, "survey", approve_above="0.01", **POLICY)
        assert server.post("/datasets", body).json()["outcome"] == "opened"
        shown = preview(person)
        assert "It would wait until an owner approves it" in shown
        assert ask(person, hidden(shown)).status_code == 303
        assert '<span class="outcome">pending</span>' in latest(person)
        waiting = section(person.look(PAGE).text, "pending")
        assert "histogram(region) where age &gt; 30 (epsilon: 0.5)" in waiting
        assert "would cost ρ 0.1225" in waiting
        answer = {**hidden(waiting), "by": "owner", "action": "approve"}
        assert person.http.post(f"{PAGE}/pending", data=answer).status_code == 303
        asked = server.http.get("/datasets/survey/requests").json()["decisions"][-1]["request"]
        query = {"dataset": "survey", "analyst": "ana"}
        path = f"/answers/{asked['request_id']}"
        found = server.http.get(path, params=query, headers={"prefer": "wait=30"})
        assert found.status_code == 200, found.text
        assert "histogram(region) where age &gt; 30, 95 % intervals" in latest(person)
