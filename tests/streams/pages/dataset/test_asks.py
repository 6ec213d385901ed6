"""Asks for more on the page of a dataset: the form that asks, and what an owner answers there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.streams.auth.roles_server import misspelt
from tests.streams.gateway.records import request
from tests.streams.pages.dataset.pages_server import PagesServer, form_of, without_ids
from tests.streams.pages.dataset.test_page import names_in, words
from tests.streams.pages.dataset.test_pending import card

WHY = "for the annual report"


class Survey:
    """A dataset of which half of the ceiling is in force: olga owns it, ana and ben ask."""

    def __init__(self, paged: PagesServer, dataset: str) -> None:
        self.paged, self.dataset = paged, dataset
        paged.open_for_olga(dataset, filter="basic", epsilon="1", access="members")
        budget = {"version": 1, "type": "budget", "dataset": dataset, "by": "olga"}
        path = f"/datasets/{dataset}/budget"
        paged.done("olga", path, {**budget, "budget": {"epsilon": "0.5"}}, "budget_set")
        for name, role in (("ana", "analyst"), ("ben", "analyst"), ("aud", "auditor")):
            paged.enrol(dataset, name, role)

    def page(self, who: str, **query: str | int) -> str:
        return self.paged.page(who, self.dataset, **query).text

    def post(self, who: str, kind: str, fields: dict[str, str]) -> Any:
        fields = {**fields, "form_token": self.paged.token_of(who)}
        return self.paged.post_form(who, kind, fields, self.dataset)

    def ask(self, who: str, **typed: str) -> Any:
        """Send the form that asks, and return the ask that the page then shows."""
        shown = form_of(self.page(who), "more")
        said = self.said(who, self.post(who, "more", {**shown, "reason": WHY, **typed}))
        assert "Done. The owners can read your ask" in said
        return self.asks()[-1]

    def answer(self, action: str, ask: Any, who: str = "olga", **typed: str) -> Any:
        shown = form_of(self.page("olga"), "more/answer")
        whose = {"ask": str(ask["ask"]), "asker": ask["by"], "action": action}
        return self.post(who, "more/answer", {**shown, **whose, **typed})

    def accept(self, ask: Any, kind: str, **typed: str) -> str:
        """Send the form that the link of an ask fills, and return what the page says."""
        shown = form_of(self.page("olga", accept=ask["ask"]), kind)
        return self.said("olga", self.post("olga", kind, {**shown, "action": "set", **typed}))

    def said(self, who: str, answer: Any) -> str:
        return words(self.paged.followed(who, answer).text)

    def asks(self) -> Any:
        return self.paged.see("olga", f"/datasets/{self.dataset}/more").json()

    def rows(self, kind: str, **wanted: str) -> Any:
        rows = self.paged.see("olga", f"/datasets/{self.dataset}/{kind}").json()
        (found,) = [row for row in rows if wanted.items() <= row.items()]
        return found


_NUMBERS = count(1)
TEAM = "a larger limit of team red"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesServer]:
    with PagesServer(tmp_path_factory.mktemp("asks")) as made:
        yield made


@pytest.fixture
def survey(server: PagesServer) -> Survey:
    return Survey(server, f"asked-{next(_NUMBERS)}")


def test_an_analyst_asks_by_the_form_and_reads_the_answer(survey: Survey) -> None:
    ask = survey.ask("ana", wants="limit", part="20", amount="7", role="owner")
    assert (ask["by"], ask["wants"], ask["part"], ask["reason"]) == ("ana", "limit", "0.2", WHY)
    assert "no owner has answered" in words(card(survey.page("ana"), "asks"))
    assert WHY not in survey.page("ben")
    said = survey.said("olga", survey.answer("decline", ask, reason="table 4 has it"))
    assert f"Done. Ask {ask['ask']} is declined" in said
    own = words(card(survey.page("ana"), "asks"))
    assert "declined You asked for a limit of 20 %" in own
    assert "The answer: table 4 has it" in own
    assert names_in(survey.page("ben")) == {"ben"}


def test_an_owner_accepts_an_ask_for_access_in_the_member_s_form(survey: Survey) -> None:
    ask = survey.ask("ana", wants="access", role="auditor")
    asked = words(card(survey.page("olga"), "asks"))
    assert f"ana asks for the role auditor {WHY}" in asked
    said = survey.accept(ask, "members", team="red", reason="as you asked")
    assert f"ana is analyst and auditor in team red (decision {ask['ask'] + 1}" in said
    assert f"It accepts ask {ask['ask']}." in said
    assert survey.rows("members", member="ana")["roles"] == ["analyst", "auditor"]
    assert survey.asks()[-1]["why"] == "as you asked"
    assert 'value="decline"' not in survey.page("olga")


def test_an_owner_accepts_an_ask_for_a_limit_and_may_give_less(survey: Survey) -> None:
    pace = {"part": "0.1", "period": "P1D"}
    body = {"version": 1, "type": "limit", "dataset": survey.dataset, "by": "olga"}
    body |= {"scope": "analyst", "name": "ana", "part": "0.1", "pace": pace}
    survey.paged.done("olga", f"/datasets/{survey.dataset}/limits", body, "limit_set")
    ask = survey.ask("ana", wants="limit", part="40")
    said = survey.accept(ask, "limits", part="30")
    assert f"It accepts ask {ask['ask']}." in said
    found = survey.rows("limits", scope="analyst", name="ana")
    assert (found["part"], found["pace"]["part"]) == ("0.3", "0.1"), "its other fields stay"
    ask = survey.ask("ana", wants="limit", amount="0.4")
    survey.accept(ask, "limits")
    found = survey.rows("limits", scope="analyst", name="ana")
    assert (found["policy"]["epsilon"], found.get("part")) == ("0.4", None)
    assert survey.asks()[-1]["state"] == "accepted"


def test_a_limit_that_gives_less_than_there_is_is_asked_back(survey: Survey) -> None:
    body = {"version": 1, "type": "limit", "dataset": survey.dataset, "by": "olga"}
    body |= {"scope": "analyst", "name": "ana", "part": "0.1"}
    survey.paged.done("olga", f"/datasets/{survey.dataset}/limits", body, "limit_set")
    claim = {"type": "pure", "epsilon": "0.08"}
    asked = request(survey.paged.clock, dataset=survey.dataset, analyst="ana", claim=claim)
    survey.paged.done("ana", "/requests", asked, "granted")
    for typed, why in (
        ({"part": "9"}, "less than the limit in force, ε 0.1"),
        ({"part": "8"}, "not more than what is used already, ε 0.08"),
        ({"amount": "0.09"}, "less than the limit in force, ε 0.1"),
    ):
        ask = survey.ask("ana", wants="limit", **typed)
        shown = form_of(survey.page("olga", accept=ask["ask"]), "limits")
        asked = survey.post("olga", "limits", {**shown, "action": "set"})
        assert (asked.status_code, why in words(asked.text)) == (409, True), words(asked.text)
        again = form_of(asked.text, "limits")
        said = survey.said("olga", survey.post("olga", "limits", {**again, "action": "set"}))
        assert f"It accepts ask {ask['ask']}." in said
        back = {**body, "part": "0.1"}
        survey.paged.done("olga", f"/datasets/{survey.dataset}/limits", back, "limit_set")


def test_an_owner_accepts_an_ask_for_a_budget_beside_it(survey: Survey) -> None:
    ask = survey.ask("ana", wants="budget", amount="0.9")
    assert form_of(survey.page("olga"), "more/answer")["amount"] == "0.9"
    answer = survey.answer("accept", ask, amount="2,5")
    assert answer.status_code == 422
    assert answer.text.count('aria-invalid="true"') == 1
    survey.ask("ben", wants="limit", part="20")
    for expected in ("Done. The budget in force is set", "Refused: No such ask"):
        assert expected in survey.said("olga", survey.answer("accept", ask, amount="0.8"))


def test_a_form_that_accepts_what_was_answered_meanwhile_can_be_sent_without_it(
    survey: Survey,
) -> None:
    ask = survey.ask("ana", wants="access", role="auditor")
    shown = form_of(survey.page("olga", accept=ask["ask"]), "members")
    survey.said("olga", survey.answer("decline", ask, reason="no"))
    page = survey.paged.followed("olga", survey.post("olga", "members", {**shown, "action": "set"}))
    assert "Refused: No such ask" in words(page.text)
    again = form_of(page.text, "members")
    assert (again["member"], "answers" in again) == ("ana", False)


def test_a_reason_is_needed_to_ask_and_to_decline(survey: Survey) -> None:
    ask = survey.ask("ana", wants="limit", part="20")
    answer = survey.answer("decline", ask)
    assert answer.status_code == 422
    assert "Must be set to decline" in words(answer.text)
    shown = form_of(survey.page("ana"), "more")
    for typed in ({"part": "20"}, {"reason": "x", "part": "0"}, {"reason": "x"}):
        answer = survey.post("ana", "more", {**shown, "wants": "limit", **typed})
        assert answer.status_code == 422
        assert answer.text.count('aria-invalid="true"') == 1, typed


def test_nobody_else_answers_and_owners_do_not_ask(survey: Survey) -> None:
    ask = survey.ask("ana", wants="budget", amount="0.9")
    for name in ("ana", "ben", "aud", "root"):
        assert survey.answer("decline", ask, name, reason="no").status_code == 403, name
        assert survey.answer("accept", ask, name).status_code == 403, name
        assert 'value="decline"' not in survey.page(name)
    assert survey.asks()[-1]["state"] == "open"
    shown = [name for name in ("ana", "aud", "olga") if "ask-more-title" in survey.page(name)]
    assert shown == ["ana", "aud"]


def test_a_refusal_that_an_owner_could_change_has_the_link_that_asks(survey: Survey) -> None:
    clock, path = survey.paged.clock, f"/datasets/{survey.dataset}/limits"
    claim = {"type": "pure", "epsilon": "0.7"}
    body = request(clock, dataset=survey.dataset, analyst="ana", claim=claim)
    assert survey.paged.send("ana", "/requests", body).json()["reason"] == "exhausted"
    limited = {"version": 1, "type": "limit", "dataset": survey.dataset, "by": "olga"}
    limited |= {"scope": "analyst", "name": "ben", "part": "0.1"}
    survey.paged.done("olga", path, limited, "limit_set")
    body = request(clock, dataset=survey.dataset, analyst="ben", claim=claim | {"epsilon": "0.3"})
    assert survey.paged.send("ben", "/requests", body).json()["level"]["scope"] == "analyst"
    for name, wants in (("ana", "budget"), ("ben", "limit")):
        link = f"/pages/datasets/{survey.dataset}?wants={wants}#ask-more"
        assert f'<a href="{link}">Ask the owners for a larger {wants}</a>' in survey.page(name)
        assert form_of(survey.page(name, wants=wants), "more")["wants"] == wants
    assert "#ask-more" not in survey.page("olga")


def test_the_page_of_a_hidden_dataset_asks_as_that_of_none(server: PagesServer) -> None:
    hidden = "closed-alone"
    server.open_for_olga(hidden, access="members", visibility="members")
    none, seen = misspelt(hidden), []
    assert none != hidden
    for name in (hidden, none):
        page = server.page("zoe", name)
        assert page.status_code == 404
        fields = {**form_of(page.text, "more"), "role": "auditor"}
        wrong = server.post_form("zoe", "more", fields, name)
        assert wrong.status_code == 422
        asked = [server.post_form("zoe", "more", {**fields, "reason": WHY}, name) for _ in "12"]
        assert f"Passed on. If there is a dataset {name}" in words(asked[0].text)
        texts = [without_ids(each.text).replace(name, "X") for each in (wrong, *asked)]
        seen.append(([each.status_code for each in (wrong, *asked)], texts))
    assert seen[0] == seen[1]
    (found,) = server.see("olga", f"/datasets/{hidden}/more").json()
    assert (found["by"], found["role"], found["reason"]) == ("zoe", "auditor", WHY)


def test_a_lead_asks_for_a_larger_limit_of_the_team(survey: Survey) -> None:
    made, dataset = survey.paged, survey.dataset
    made.enrol(dataset, "ben", "lead", team="red")
    made.enrol(dataset, "ana", "analyst", team="red")
    limit = {"version": 1, "type": "limit", "dataset": dataset, "by": "olga", "scope": "team"}
    limit |= {"name": "red", "part": "0.1"}
    made.done("olga", f"/datasets/{dataset}/limits", limit, "limit_set")
    assert TEAM in survey.page("ben")
    assert TEAM not in survey.page("aud")
    claim = {"type": "pure", "epsilon": "0.2"}
    body = request(made.clock, dataset=dataset, analyst="ana", claim=claim)
    made.done("ana", "/requests", body, "refused")
    for who in ("ana", "ben"):
        assert "wants=team#ask-more" in survey.page(who)
    own = {**form_of(survey.page("ben"), "limits"), "name": "ana", "part": "50", "action": "set"}
    beyond = survey.paged.followed("ben", survey.post("ben", "limits", own)).text
    assert "Refused: Beyond the team" in words(beyond)
    assert f'{dataset}?wants=team#ask-more">Ask the owners for a larger limit' in beyond
    shown = form_of(survey.page("ben", wants="team"), "more")
    wrong = survey.post("ben", "more", {**shown, "wants": "team", "reason": WHY, "part": "0.3"})
    assert wrong.status_code == 422
    assert "Is less than one percent: write" in words(wrong.text)
    ask = survey.ask("ben", wants="team", part="30")
    assert (ask["wants"], ask["team"], ask["part"]) == ("limit", "red", "0.3")
    assert "ben asks for a limit of 30 % for team red" in words(survey.page("olga"))
    said = survey.accept(ask, "limits")
    assert f"It accepts ask {ask['ask']}." in said, said[150:500]
    assert survey.rows("limits", scope="team", name="red")["part"] == "0.3"
    assert survey.asks()[-1]["state"] == "accepted"


def test_a_smaller_budget_than_is_spent_is_asked_back_before_it_answers(survey: Survey) -> None:
    made, dataset = survey.paged, survey.dataset
    claim = {"type": "pure", "epsilon": "0.3"}
    body = request(made.clock, dataset=dataset, analyst="ana", claim=claim)
    made.done("ana", "/requests", body, "granted")
    ask = survey.ask("ben", wants="budget", amount="0.9")
    other = survey.ask("ana", wants="budget", amount="0.8")
    asked = survey.answer("accept", ask, amount="0.2")
    assert asked.status_code == 409
    said = words(card(asked.text, "asks"))
    assert f"150 % of ε 0.2 is spent already: dataset {dataset} would grant nothing more" in said
    assert said.count("Confirm: Accept") == 1
    assert all(each["state"] == "open" for each in survey.asks())
    confirmed = {**form_of(asked.text, "more/answer"), "ask": str(ask["ask"])}
    proof = asked.text.split('name="confirmed" value="')[1].split('"')[0]
    confirmed |= {"asker": "ben", "amount": "0.2", "confirmed": proof, "action": "accept"}
    survey.post("olga", "more/answer", {**confirmed, "ask": str(other["ask"]), "asker": "ana"})
    assert all(each["state"] == "open" for each in survey.asks()), "the proof is of one ask"
    survey.post("olga", "more/answer", confirmed)
    assert [each["state"] for each in survey.asks()] == ["accepted", "open"]
