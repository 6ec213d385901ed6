"""Signing in with a token: the cookie stands for it, ends with it, and counts for pages alone."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from streams.auth import token_file
from streams.pages.login.browser_sessions import IDLE_S, LIFETIME_S
from streams.pages.paths import local
from streams.server.app import Pages
from streams.settings import Settings
from tests.every_case import every_case
from tests.streams.auth.certificates import certificate
from tests.streams.auth.provider import AUDIENCE, LocalProvider
from tests.streams.auth.roles_server import RolesServer
from tests.streams.auth.token_server import TokenServer, wall
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.pages.people import Person
from tests.streams.waiting import eventually


def cookies_of(answer: httpx.Response, name: str) -> list[str]:
    return [line for line in answer.headers.get_list("set-cookie") if line.startswith(f"{name}=")]


def test_a_browser_is_redirected_to_sign_in_and_back(census: RolesServer, anybody: Person) -> None:
    sent = anybody.look("/pages/datasets/census?of=ana")
    assert sent.status_code == 303
    where = sent.headers["location"]
    assert where == "/sign-in?next=/pages/datasets/census%3Fof%3Dana"
    page = anybody.look(where)
    assert page.status_code == 200
    assert 'name="next" value="/pages/datasets/census?of=ana"' in page.text
    done = anybody.sign_in(census.tokens["ana"], next_="/pages/datasets/census?of=ana")
    assert (done.status_code, done.headers["location"]) == (303, "/pages/datasets/census?of=ana")
    listed = anybody.look("/")
    assert listed.status_code == 200
    assert ">census</a>" in listed.text
    assert "<b>ana</b>" in listed.text


def test_programs_get_json_errors_instead_of_pages(anybody: Person) -> None:
    answer = anybody.look("/", accept="*/*")
    assert (answer.status_code, answer.json()["error"]) == (401, "unauthenticated")
    assert anybody.look("/datasets").status_code == 401


def test_a_wrong_token_begins_no_session_and_is_not_shown(anybody: Person) -> None:
    for wrong in ("", "x" * 40, "a b", "é", "x\r\ny", "spa_" + "A" * 8_000):
        answer = anybody.sign_in(wrong)
        assert answer.status_code == 401
        assert "This token is not valid" in answer.text
        assert not wrong or wrong not in answer.text
        assert anybody.session is None
    assert anybody.look("/").status_code == 303


def test_the_session_cookie_is_httponly_and_contains_no_token(
    census: RolesServer, anybody: Person
) -> None:
    done = anybody.sign_in(census.tokens["ana"])
    (cookie,) = cookies_of(done, "accountant-session")
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert parts == {"httponly", "path=/", "samesite=strict"}
    assert census.tokens["ana"] not in done.text + str(done.headers)
    assert len(anybody.session or "") == 43


def test_over_tls_the_cookie_is_secure_and_bound_to_the_host(tmp_path: Path, pages: Pages) -> None:
    files = certificate(tmp_path)
    settings = {"tls_certificate": files.certificate, "tls_key": files.key}

    class Encrypted(RolesServer):
        verify = False

    with (
        Encrypted(tmp_path, settings=settings, pages=pages) as server,
        Person(server) as person,
    ):
        done = person.sign_in(server.tokens["ana"])
        (cookie,) = cookies_of(done, "__Host-accountant-session")
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert parts == {"httponly", "path=/", "samesite=strict", "secure"}


def test_the_session_cookie_does_not_authenticate_api_requests(
    census: RolesServer, ana: Person
) -> None:
    assert ana.look("/").status_code == 200
    for path in (
        "/datasets",
        "/datasets/census",
        "/me",
        "/head",
        "/schema/openapi.json",
        f"{census.url}//me",
    ):
        assert ana.look(path).status_code == 401, path
    body = {"version": 1, "type": "close", "dataset": "census", "by": "ana"}
    before = census.last_sequence()
    assert ana.http.post("/datasets/census/close", json=body).status_code == 401
    for path in ("/pages/../datasets", "/pages//datasets", "/pages/%2e%2e/datasets"):
        answer = ana.look(f"{census.url}{path}")
        assert answer.status_code in {401, 404}
        assert '"dataset"' not in answer.text
    assert census.last_sequence() == before


def test_signing_out_ends_every_copy_of_the_cookie(census: RolesServer, ana: Person) -> None:
    copied = {"accountant-session": ana.session or ""}
    done = ana.sign_out()
    assert (done.status_code, done.headers["location"]) == (303, "/sign-in?signed-out=yes")
    assert ana.session is None
    page = ana.look("/sign-in?signed-out=yes").text
    assert "You are signed out." in page
    assert "organisation" not in page  # this server has no provider
    with Person(census) as thief:
        thief.http.cookies.update(copied)
        assert thief.look("/").status_code == 303


def test_a_revoked_token_ends_its_session_at_once(census: RolesServer, ana: Person) -> None:
    cookie = ana.session
    assert token_file.revoke(census.tokens_file, "ana", now=wall())
    sent = ana.look("/")
    assert sent.status_code == 303
    assert sent.headers["location"] == "/sign-in"
    page = ana.look("/sign-in")
    assert "Your session has ended" in page.text
    assert ana.session is None  # the page has the browser forget it
    assert cookie


def test_a_provider_s_token_ends_its_session_when_it_expires(
    token_server: TokenServer, provider: LocalProvider
) -> None:
    with Person(token_server) as person:
        token = provider.token("ana", exp=int(time.time()) - 58)  # clocks may differ by 60 s
        assert person.sign_in(token).status_code == 303
        eventually(lambda: person.look("/").status_code == 303)
    with Person(token_server) as person:
        assert person.sign_in(provider.token("ben")).status_code == 303
        assert "<b>ben</b>" in person.look("/").text


def test_a_session_survives_an_outage_of_the_token_check(census: RolesServer, ana: Person) -> None:
    hidden = census.tokens_file.with_suffix(".hidden")
    census.tokens_file.rename(hidden)
    answer = ana.look("/")
    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("text/html")
    assert "retry-after" in answer.headers
    with Person(census) as other:
        assert other.sign_in(census.tokens["ana"]).status_code == 503
    hidden.rename(census.tokens_file)
    eventually(lambda: ana.look("/").status_code == 200)


def test_a_session_ends_when_idle_and_after_its_lifetime(tmp_path: Path, pages: Pages) -> None:
    clock = TestClock()
    with RolesServer(tmp_path, clock=clock, pages=pages) as server:
        with Person(server) as idle:
            idle.sign_in(server.tokens["ana"])
            clock.pass_(seconds=IDLE_S)
            assert idle.look("/").status_code == 303
        with Person(server) as busy:
            busy.sign_in(server.tokens["ana"])
            for _ in range(11):
                clock.pass_(seconds=LIFETIME_S / 12)
                assert busy.look("/").status_code == 200
            clock.pass_(seconds=LIFETIME_S / 12)
            assert busy.look("/").status_code == 303


def test_a_new_session_has_a_new_id(census: RolesServer, ana: Person) -> None:
    before = ana.session
    token = ana.http.get("/sign-in")
    assert token.status_code == 303  # who has signed in goes on
    ana.sign_out()
    ana.sign_in(census.tokens["ana"])
    assert ana.session != before


def test_a_wrong_token_does_not_end_the_current_session(census: RolesServer, ana: Person) -> None:
    with Person(census) as other:
        token = other.form_token()
        ana.http.cookies.update(other.http.cookies)
    form = {"form_token": token, "token": "x", "next": "/"}
    assert ana.http.post("/sign-in", data=form).status_code == 401
    assert ana.look("/").status_code == 200
    second = ana.http.post("/sign-in", data={**form, "token": census.tokens["olga"]})
    assert second.status_code == 303
    assert "<b>olga</b>" in ana.look("/").text


def test_a_browser_cannot_choose_its_session_id(census: RolesServer, anybody: Person) -> None:
    anybody.http.cookies.set("accountant-session", "A" * 43, domain="127.0.0.1", path="/")
    anybody.sign_in(census.tokens["ana"])
    assert anybody.session != "A" * 43


def test_an_authorization_header_takes_precedence_over_the_cookie(
    census: RolesServer, ana: Person
) -> None:
    page = ana.look("/", authorization=f"Bearer {census.tokens['olga']}")
    assert "<b>olga</b>" in page.text
    assert "Sign out" not in page.text  # the proxy that adds the header would sign in again
    assert ana.look("/", authorization="Bearer x").status_code == 303


@every_case(
    "address",
    [
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/pages/ x",
        "/pages/\r\nSet-Cookie: a=b",
        "/datasets",
        "/events",
        "/sign-out",
        "/sign-in?next=/",
        "",
        "/pages/" + "x" * 3_000,
        *("/pages/../metrics", "/pages/datasets/.", "/pages/./datasets/census", "/pages//evil"),
        *("/pages/%2e%2e/metrics", "/pages/.%2E/metrics", "/pages/%2f%2fevil.example", "/%2fevil"),
        *("/pages/%5cevil.example", "/pages/%252e%252e/metrics", "/pages/census%0d%0aa", "/%09/x"),
        *("/pages/%00", "/pages/%ff", "/pages/%C2%85", "/pages/x?a=%0d%0aSet-Cookie:b", "/?%00"),
    ],
)
def test_sign_in_never_redirects_to_another_site(census: RolesServer, address: str) -> None:
    assert local(address) == "/"
    with Person(census) as anybody:
        done = anybody.sign_in(census.tokens["ana"], next_=address)
    assert (done.status_code, done.headers["location"]) == (303, "/")


def test_a_link_from_another_site_gets_a_page_to_continue(ana: Person) -> None:
    ana.http.cookies.clear()  # which a browser does not send along
    page = ana.look("/sign-in?next=/pages/datasets/census", sec_fetch_site="cross-site")
    assert '<a href="/pages/datasets/census">continue</a>' in page.text
    assert "go on</a>" not in ana.look("/sign-in?next=/pages/datasets/census").text


def test_the_log_contains_no_token_and_no_session_id(
    census: RolesServer, anybody: Person, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    wrong = "spa_" + "w" * 43
    anybody.sign_in(wrong)
    anybody.sign_in(census.tokens["ana"])
    session = anybody.session or ""
    anybody.look("/")
    anybody.sign_out()
    written = "".join(
        each.getMessage() for each in caplog.records if not each.name.startswith("http")
    )
    for event in ("signed_in", "signed_out", "authentication_refused"):
        assert event in written
    for secret in (wrong, census.tokens["ana"], session):
        assert secret not in written


def test_a_visit_without_a_token_is_no_warning_and_a_wrong_token_is_one(
    anybody: Person, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    anybody.look("/")
    anybody.sign_in("spa_" + "w" * 43)
    events = [
        (each.levelname, "why=none" in each.getMessage().replace("'", ""))
        for each in caplog.records
        if "authentication_refused" in each.getMessage()
    ]
    assert events == [("INFO", True), ("WARNING", False)]


def test_the_form_names_the_kinds_of_tokens_that_the_server_accepts(
    tmp_path: Path, anybody: Person, pages: Pages
) -> None:
    own = anybody.look("/sign-in").text
    assert "accountant token create" in own
    assert "access token from" not in own
    with LocalProvider() as provider:
        accepts = Settings(port=0, oidc_issuer=provider.issuer, oidc_audience=AUDIENCE)
        with (
            LocalServer(tmp_path / "own.db", TestClock(), accepts, pages=pages) as server,
            Person(server) as person,
        ):
            page = person.look("/sign-in").text
    assert "accountant token create" not in page
    assert f"An access token from {provider.issuer}." in page


def test_without_authentication_sign_in_redirects_to_the_list(server: LocalServer) -> None:
    with Person(server) as person:
        assert person.look("/sign-in").headers["location"] == "/"
        assert person.http.post("/sign-in").headers["location"] == "/"
        page = person.look("/")
        assert "Authentication is off" in page.text
        assert "Sign out" not in page.text
