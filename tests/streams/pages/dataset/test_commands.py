"""Texts on a page lead to its forms: who has the page alone runs no command."""

from __future__ import annotations

from tests.streams.pages.dataset.pages_server import PagesServer
from tests.streams.pages.dataset.test_page import words


def test_a_refusal_has_links_to_the_forms_of_the_page(paged: PagesServer) -> None:
    answer = paged.fill("olga", "members", member="olga", role_analyst="yes", role_owner="")
    page = paged.followed("olga", answer).text
    link = '<a href="#set-member">the form that sets a member</a>'
    assert f"Make somebody else an owner first: {link}." in page
    answer = paged.fill("olga", "members", member="nobody", action="remove")
    page = paged.followed("olga", answer).text
    assert 'Check the spelling: <a href="#members">the list of members</a> shows' in page
    assert "accountant member" not in words(page)


def test_whoever_has_no_such_form_reads_words(paged: PagesServer) -> None:
    paged.open_for_olga("raised", filter="basic", epsilon="2", access="anyone")
    budget = {"version": 1, "type": "budget", "dataset": "raised", "by": "olga"}
    lowered = {**budget, "budget": {"epsilon": "0.01"}}
    paged.done("olga", "/datasets/raised/budget", lowered, "budget_set")
    page = paged.page("ana", "raised", kind="pure", epsilon="0.1").text
    assert "an owner (whoever runs the ledger can name them) may raise the budget" in words(page)
    assert "to at most 2: the form that sets the budget" in words(page)
    assert "#set-budget" not in page
    assert "accountant dataset" not in words(page)
    assert (
        '<a href="#set-budget">the form that sets the budget</a>'
        in paged.page("olga", "raised", kind="pure", epsilon="0.1").text
    )
