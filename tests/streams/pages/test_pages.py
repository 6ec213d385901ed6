"""What every page has: headers that let nothing else in, no script, errors as pages."""

from __future__ import annotations

import re

import pytest
from jinja2 import UndefinedError

from streams.pages.render import environment
from tests.streams.auth.roles_server import RolesServer
from tests.streams.gateway.local_server import LocalServer
from tests.streams.pages.people import Person

PAGES = ("/", "/sign-in", "/pages/nowhere", "/sign-out")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_forbids_scripts_frames_and_caching(census: RolesServer, path: str) -> None:
    with Person(census) as person:
        if path != "/sign-in":
            person.sign_in(census.tokens["ana"])
        page = person.look(path)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    for rule in ("default-src 'none'", "frame-ancestors 'none'", "form-action 'self'"):
        assert rule in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "same-origin"
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=|http-equiv|https?://", page.text)


def test_an_error_is_a_page_for_browsers_and_json_for_programs(ana: Person) -> None:
    page = ana.look("/pages/nowhere")
    assert page.status_code == 404
    assert "Page not found" in page.text
    problem = ana.look("/pages/nowhere", accept="application/json")
    assert (problem.status_code, problem.json()["status"]) == (404, 404)


def test_the_sign_in_page_shows_no_dataset(anybody: Person) -> None:
    page = anybody.look("/sign-in").text
    assert "census" not in page
    for address in re.findall(r'href="(/pages/static/[^"]+)"', page):
        answer = anybody.look(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert anybody.look("/pages/static/page.py").status_code == 303
    assert anybody.look("/pages/static/../render.py").status_code in {303, 404}


def test_templates_escape_markup_and_control_characters() -> None:
    made = environment.from_string("{{ text }}<b title='{{ text }}'>{{ text|upper }}</b>")
    shown = made.render(text="<i>a\x1b\u202e\u2028</i>")
    result = "&lt;i&gt;a\\u001b\\u202e\\u2028&lt;/i&gt;"
    assert shown.startswith(f"{result}<b title='{result}'>")
    assert shown.isprintable()


def test_the_list_links_a_dataset_to_its_page(server: LocalServer) -> None:
    server.open("a:b@c")
    page = server.http.get("/").text
    assert '<a href="/pages/datasets/a%3Ab%40c">a:b@c</a>' in page


def test_the_list_shows_spending_as_a_bar_and_in_words(server: LocalServer) -> None:
    server.ask(claim={"type": "pure", "epsilon": "0.25"})
    page = server.http.get("/").text
    assert 'aria-label="The budget of census: 25 % used"' in page
    assert '<rect class="bar-used" width="25.0" height="10"/>' in page
    assert '<data value="0.75" title="0.75">0.75</data>' in page


def test_templates_escape_quotes_and_reject_undefined_names() -> None:
    template = environment.from_string("{{ shown }}")
    assert template.render(shown="<b>\"'&") == "&lt;b&gt;&#34;&#39;&amp;"
    with pytest.raises(UndefinedError):
        template.render()
