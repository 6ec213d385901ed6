"""What only a page of this server can send: forms with their proof, from the same origin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from litestar import Litestar, Response, post
from litestar.datastructures import State
from litestar.testing import TestClient

from streams.http.context import HttpRequest
from streams.http.problems import HANDLERS
from streams.pages import form_token, read_form
from streams.pages.csrf import MAX_BYTES, set_form_secret
from tests.streams.auth.roles_server import RolesServer
from tests.streams.pages.people import Person


def refused(person: Person, form: dict[str, str], **headers: str) -> None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = person.http.post("/sign-out", data=form, headers=named)
    assert answer.status_code == 403, answer.text
    assert "Nothing was done" in answer.text
    assert person.look("/").status_code == 200  # the session goes on


def test_a_form_needs_its_csrf_token(ana: Person) -> None:
    token = ana.form_token("/")
    refused(ana, {"other": "1"})
    refused(ana, {"form_token": ""})
    refused(ana, {"form_token": "é"})
    refused(ana, {"form_token": token[:-1]})
    refused(ana, {"form_token": token.upper()})


def test_the_csrf_token_of_another_session_is_refused(census: RolesServer, ana: Person) -> None:
    for name in ("olga", "ana"):  # even of another session of the same name
        with Person(census) as other:
            other.sign_in(census.tokens[name])
            refused(ana, {"form_token": other.form_token("/")})


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", ""])
def test_a_form_of_another_site_is_refused(ana: Person, site: str) -> None:
    refused(ana, {"form_token": ana.form_token("/")}, sec_fetch_site=site)


@pytest.mark.parametrize("origin", ["", "null", "https://evil.example", "http://[", "http://h:1"])
def test_without_sec_fetch_site_the_origin_decides(ana: Person, origin: str) -> None:
    form = {"form_token": ana.form_token("/")}
    del ana.http.headers["sec-fetch-site"]
    refused(ana, form, origin=origin)
    own = str(ana.http.base_url).rstrip("/")
    answer = ana.http.post("/sign-out", data=form, headers={"origin": own})
    assert answer.status_code == 303


def test_the_sign_in_form_of_another_browser_is_refused(
    census: RolesServer, anybody: Person
) -> None:
    with Person(census) as attacker:
        stolen = attacker.form_token()
    form = {"form_token": stolen, "token": census.tokens["ana"]}
    assert anybody.http.post("/sign-in", data=form).status_code == 403  # without a cookie
    anybody.look("/sign-in")
    assert anybody.http.post("/sign-in", data=form).status_code == 403
    assert anybody.session is None


def test_a_sign_in_from_another_site_is_refused(census: RolesServer, anybody: Person) -> None:
    form = {"form_token": anybody.form_token(), "token": census.tokens["ana"]}
    for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
        assert anybody.http.post("/sign-in", data=form, headers=headers).status_code == 403
    assert anybody.session is None


def test_a_get_request_does_not_sign_out(ana: Person) -> None:
    assert ana.look("/sign-out").status_code == 405
    assert ana.look("/").status_code == 200


def test_a_malformed_form_is_reported(ana: Person) -> None:
    assert ana.http.post("/sign-out", json={}).status_code == 415
    kind = {"content-type": "application/x-www-form-urlencoded"}
    for body, status in (
        (b"a=1&a=2", 400),
        (b"\xff", 400),
        (b"&".join(b"a%d=" % number for number in range(300)), 400),
        (b"a=" + b"x" * MAX_BYTES, 413),
    ):
        answer = ana.http.post("/sign-out", content=body, headers=kind)
        assert answer.status_code == status
        assert answer.headers["content-type"].startswith("text/html")


@pytest.fixture
def plain() -> Iterator[TestClient[Litestar]]:
    """A server that knows nobody, with a form of its own."""

    @post("/form", status_code=200)
    async def send(request: HttpRequest) -> dict[str, str]:
        return await read_form(request)

    @post("/token", status_code=200)
    async def token(request: HttpRequest) -> Response[str]:
        return Response(form_token(request), media_type="text/plain")

    app = Litestar([send, token], exception_handlers=HANDLERS, state=State({}))
    set_form_secret(app.state)
    with TestClient(app) as client:
        yield client


def test_without_authentication_forms_need_a_csrf_token(
    plain: TestClient[Litestar],
) -> None:
    own = {"sec-fetch-site": "same-origin"}
    token = plain.post("/token").text
    form = {"form_token": token, "a": "1", "b": ""}
    assert plain.post("/form", data=form, headers=own).json() == {"a": "1", "b": ""}
    assert plain.post("/form", data={"a": "1"}, headers=own).status_code == 403
    assert plain.post("/form", data=form).status_code == 403
    other = {"sec-fetch-site": "cross-site"}
    assert plain.post("/form", data=form, headers=other).status_code == 403
