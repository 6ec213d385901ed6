"""What every page has: headers that let nothing else in, no script, errors as pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from litestar.testing import TestClient

from streams.pages.render import environment
from streams.server.app import Pages, create_app
from streams.settings import Settings
from tests.streams.auth.roles_server import RolesServer
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.pages.people import Person
from tests.streams.server.test_raw_requests import NEXT_REQUEST, exchanged, statuses

PATHS = ("/", "/sign-in", "/pages/nowhere", "/sign-out")


@pytest.mark.parametrize("path", PATHS)
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


@pytest.mark.parametrize("path", PATHS)
def test_a_head_request_for_a_page_gets_its_headers_without_a_body(
    server: LocalServer, path: str
) -> None:
    got, head = server.http.get(path), server.http.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    volatile = {"date", "x-request-id"}
    assert {name: head.headers[name] for name in head.headers if name not in volatile} == {
        name: got.headers[name] for name in got.headers if name not in volatile
    }


def test_pages_are_rate_limited(tmp_path: Path, pages: Pages) -> None:
    settings = Settings(port=0, limit_per_second=0.01, limit_by="X-Forwarded-For")
    headers = {"X-Forwarded-For": "203.0.113.7"}
    with LocalServer(tmp_path / "limited.db", TestClock(), settings, pages=pages) as limited:
        assert limited.http.get("/nothing", headers=headers).status_code == 404
        for path in PATHS:
            assert limited.http.get(path, headers=headers).status_code == 429
            head = limited.http.head(path, headers=headers)
            assert (head.status_code, head.content) == (429, b"")


def test_an_absolute_url_without_a_path_is_the_list(server: LocalServer) -> None:
    root = NEXT_REQUEST.replace(b"/healthz", b"http://localhost")
    for target in (root, root.replace(b"localhost ", b"localhost?a=1 ")):
        response = exchanged(server, target)
        assert statuses(response) == [200]
        assert b"census" in response


@pytest.mark.parametrize("accept", ["text/html", "text/html,*/*;q=0.8"])
def test_the_api_answers_browsers_in_json(server: LocalServer, accept: str) -> None:
    headers = {"accept": accept, "content-type": "application/json"}
    wrong = [server.http.get(path, headers=headers) for path in ("/datasets/nowhere", "/nowhere")]
    # A header sent twice makes Litestar answer.
    wrong += [
        server.http.post("/requests", content=b"{", headers=[*headers.items(), *twice])
        for twice in ([], [("X-Twice", "1"), ("X-Twice", "2")])
    ]
    for answer in wrong:
        assert answer.status_code in {400, 404, 422}
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code


def test_pages_add_nothing_to_the_openapi_document(
    shared_server: LocalServer, census: RolesServer, pages: Pages
) -> None:
    for each, headers in ((shared_server, {}), (census, census.auth_headers("ana"))):
        documents = []
        for given in (None, pages):
            app = create_app(each.service, each.settings, pages=given)
            with TestClient(app, base_url="http://127.0.0.1:8000") as http:
                documents.append(http.get("/schema/openapi.json", headers=headers).json())
        assert documents[0] == documents[1]
        assert "/requests" in documents[0]["paths"]


def test_the_list_shows_each_dataset(server: LocalServer) -> None:
    page = server.http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "census" in page.text


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


def test_a_template_names_a_macro_once() -> None:
    made = environment
    assert made.loader is not None
    twice = []
    for name in made.list_templates(extensions=["html"]):
        found = re.findall(r"{% macro (\w+)", made.loader.get_source(made, name)[0])
        twice += [f"{name}: {macro}" for macro in sorted(set(found)) if found.count(macro) > 1]
    assert not twice


def test_templates_escape_quotes_and_reject_undefined_names() -> None:
    template = environment.from_string("{{ shown }}")
    assert template.render(shown="<b>\"'&") == "&lt;b&gt;&#34;&#39;&amp;"
    with pytest.raises(UndefinedError):
        template.render()
