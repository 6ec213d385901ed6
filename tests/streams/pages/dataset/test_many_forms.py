"""Many members and limits by one form: checked before any is saved, once each."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from accountant.times import uuid7
from streams.pages.dataset.form_data import FormData, SentForm
from streams.pages.dataset.many_forms import limit_lines, not_all_sent
from tests.streams.pages.dataset.pages_server import PagesServer, form_of
from tests.streams.pages.dataset.test_forms import last_decision, limit, member
from tests.streams.pages.dataset.test_page import words

LINES = "team, green, 5\n\nteam, black, 5\nteam, white, 5"


def send(paged: PagesServer, kind: str, lines: str, **fields: str) -> tuple[Any, dict[str, str]]:
    """Send a form and confirm it; return the answer, and what was sent."""
    asked = paged.fill("olga", kind, lines=lines, **fields)
    assert asked.status_code == 409, words(asked.text)
    again = {**form_of(asked.text, kind), "lines": lines, "action": "send"}
    return paged.post_form("olga", kind, again), again


def test_many_members_are_shown_first_and_saved_once(paged: PagesServer) -> None:
    lines = "opie, analyst, red, 2027-01-01\n\neve,analyst+auditor\nana, analyst, blue"
    before = paged.stored_rows()
    asked = paged.fill("olga", "members/many", lines=lines)
    assert "3 lines will be saved. They replace what is there of: member ana." in words(asked.text)
    assert "ana, analyst, blue" in asked.text
    assert paged.stored_rows() == before
    answer, sent = send(paged, "members/many", lines, reason="new year")
    assert "ana is analyst in team blue" in words(paged.followed("olga", answer).text)
    assert member(paged, "opie")["until"] == "2027-01-01T00:00:00.000Z"
    assert member(paged, "eve")["roles"] == ["analyst", "auditor"]
    assert member(paged, "ana")["team"] == "blue"
    last = last_decision(paged)
    assert last["request"]["reason"] == "new year"
    again = paged.post_form("olga", "members/many", sent)
    assert again.headers["location"] == answer.headers["location"]
    assert last_decision(paged)["sequence"] == last["sequence"]


def test_lines_that_are_new_are_confirmed_though_the_first_was_saved(paged: PagesServer) -> None:
    first = form_of(paged.page("olga").text, "members/many")  # another tab holds the same form
    one = {**first, "lines": "kim, analyst, red"}
    asked = form_of(paged.post_form("olga", "members/many", one).text, "members/many")
    assert paged.post_form("olga", "members/many", {**asked, **one}).status_code in {303, 409}
    paged.post_form("olga", "members/many", {**asked, "lines": one["lines"], "action": "send"})
    more = {**first, "lines": f"{one['lines']}\nana, owner, red"}
    answer = paged.post_form("olga", "members/many", more)
    assert answer.status_code == 409
    assert member(paged, "ana")["roles"] == ["analyst"]


def test_many_limits_are_saved(paged: PagesServer) -> None:
    answer, _ = send(
        paged, "limits/many", "team, green, 20\nanalyst, zoe, 5, 1, 7\neach, green, , 2, 1"
    )
    assert answer.status_code == 303
    assert limit(paged, "team", "green")["part"] == "0.2"
    assert limit(paged, "analyst", "zoe")["pace"]["period"] == "P7D"
    assert limit(paged, "each", "green")["pace"]["part"] == "0.02"


@pytest.mark.parametrize(
    ("kind", "lines", "said"),
    [
        ("members/many", "", "Must have at least one line"),
        ("members/many", "opie, analyst\nbad name, analyst", "Line 2: member must be"),
        ("members/many", "opie, analyst\n\nopie, auditor", "Line 3: is about the same as line 1"),
        ("members/many", "opie, analyst\neve, boss", "Line 2: roles must be of owner"),
        ("members/many", "opie, analyst\neve", "Line 2: roles must be at least one"),
        ("members/many", "opie, analyst\neve, analyst, red, soon", "Line 2: until must be a day"),
        ("members/many", "a, analyst, b, , c", "Line 1: must be member, roles, team, until"),
        ("limits/many", "team, red, 20\nteam, blue, 0.2", "Line 2: part is less than one percent"),
        ("limits/many", "team, red, 20\nteam, blue", "Line 2: part must be set"),
        ("limits/many", "\n".join(f"team, t{n}, 2" for n in range(201)), "at most 200 lines"),
    ],
)
def test_an_error_names_its_line_and_nothing_is_sent(
    paged: PagesServer, kind: str, lines: str, said: str
) -> None:
    before = paged.stored_rows()
    answer = paged.fill("olga", kind, lines=lines)
    assert answer.status_code == 422
    assert said in words(answer.text)
    assert all(line in answer.text for line in lines.splitlines())
    assert paged.stored_rows() == before


def test_a_line_that_would_be_refused_keeps_all_from_being_saved(paged: PagesServer) -> None:
    before = paged.stored_rows()
    lines = "team, green, 5\nteam, black, , , , 90\nteam, white, 5"
    answer, _ = send(paged, "limits/many", lines)
    assert answer.status_code == 422
    said = words(answer.text)
    assert "Line 2: " in said
    assert "No line is saved." in said
    assert paged.stored_rows() == before
    assert f"{lines}</textarea>" in answer.text
    # Lines are decided one after the other: two shares that fit alone do not fit together.
    together = "team, green, , , , 40\nteam, black, , , , 40"
    assert "Line 2: " in words(send(paged, "limits/many", together)[0].text)
    assert paged.stored_rows() == before


def test_lines_that_are_saved_are_named_where_a_later_one_is_refused() -> None:
    sent = SentForm(FormData(uuid7(1_000_000, bytes(10)), {"lines": LINES, "reason": ""}), "s", "o")
    error = not_all_sent(limit_lines(sent), 2, "It is full.")
    assert error.rule == (
        "line 4: It is full. Lines 1, 3 are saved, and no longer in the form. This line and those "
        "after it are not: correct it, and send the form again"
    )
    assert error.remaining == "team, white, 5"
    assert "Line 1 is saved" in not_all_sent(limit_lines(sent), 1, "").rule
    assert "No line is saved" in not_all_sent(limit_lines(sent), 0, "").rule


def test_a_team_that_is_nearly_another_is_named_with_its_line(paged: PagesServer) -> None:
    asked = paged.fill("olga", "members/many", lines="opie, analyst\neve, analyst, b1ue")
    assert "Line 2: " in words(asked.text)
    assert "team b1ue is nearly team blue" in words(asked.text)


def test_a_table_is_pasted_with_its_header_and_quotes(paged: PagesServer) -> None:
    table = 'Name,Role,Team,Until\n"eve", "analyst",red\nopie;analyst;red'
    assert send(paged, "members/many", table)[0].status_code == 303
    assert [member(paged, name)["team"] for name in ("eve", "opie")] == ["red", "red"]


def test_a_pasted_table_with_an_error_comes_back_as_it_was_typed(paged: PagesServer) -> None:
    table = "opie\tanalyst\tred\neve\t\t<b>"
    answer = paged.fill("olga", "members/many", lines=table)
    assert "to remove a member, choose Change beside the name" in words(answer.text)
    found = re.search(r'<textarea id="set-members-lines"[^>]*>\n([^<]*)</textarea>', answer.text)
    assert found is not None
    typed = unescape(found[1])
    assert typed == table
    table = typed.replace("eve\t\t<b>", "eve\tanalyst\tred")
    assert send(paged, "members/many", table)[0].status_code == 303
    assert [member(paged, name)["team"] for name in ("eve", "opie")] == ["red", "red"]


def test_a_near_name_in_the_first_line_is_asked_about_once(paged: PagesServer) -> None:
    answer, _ = send(paged, "members/many", "eve, analyst, b1ue")
    assert answer.status_code == 303
    assert member(paged, "eve")["team"] == "b1ue"


def test_nobody_else_sends_them(paged: PagesServer) -> None:
    shown = {
        kind: form_of(paged.page("olga").text, kind) for kind in ("members/many", "limits/many")
    }
    for name in ("ana", "aud"):
        assert "/many" not in paged.page(name).text
        for kind, fields in shown.items():
            own = {**fields, "lines": "ana, owner", "form_token": paged.token_of(name)}
            before = paged.stored_rows()
            assert paged.post_form(name, kind, own).status_code == 403
            assert paged.stored_rows() == before
    assert "limits/many" not in paged.page("root").text
    assert "members/many" in paged.page("root").text
