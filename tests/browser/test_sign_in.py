"""Signing in and out, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from streams.auth import token_file
from streams.pages import PAGES
from tests.browser.conftest import Opens
from tests.browser.page_checks import sign_in
from tests.streams.auth.certificates import certificate
from tests.streams.auth.roles_server import RolesServer
from tests.streams.auth.token_server import wall


def session(page: Any) -> Any:
    found = [each for each in page.context.cookies() if each["name"].endswith("session")]
    return found[0] if found else None


def test_a_wrong_token_is_reported_and_a_valid_one_signs_in(
    server: RolesServer, opens: Opens
) -> None:
    page = opens(server.url)
    page.goto("/")
    assert page.url == f"{server.url}/sign-in"
    sign_in(page, "a-token-that-nobody-made")
    alert = page.get_by_role("alert")
    assert "This token is not valid" in alert.inner_text()
    assert page.get_by_label("Token").input_value() == ""
    assert session(page) is None
    sign_in(page, server.tokens["ana"])
    assert page.url == f"{server.url}/"
    assert page.get_by_role("heading", name="Datasets", exact=True).is_visible()
    assert page.get_by_text("Signed in as ana").is_visible()


def test_signing_in_continues_to_the_requested_page(server: RolesServer, opens: Opens) -> None:
    page = opens(server.url)
    page.goto("/pages/datasets/census")
    assert page.url.startswith(f"{server.url}/sign-in?next=")
    page.get_by_label("Token").fill(server.tokens["ana"])
    page.get_by_label("Token").press("Enter")
    page.wait_for_url(f"{server.url}/pages/datasets/census")


def test_the_session_cookie_is_httponly_and_same_site(server: RolesServer, opens: Opens) -> None:
    page = opens(server.url)
    sign_in(page, server.tokens["ana"])
    cookie = session(page)
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert cookie["expires"] == -1  # it is gone with the browser
    assert server.tokens["ana"] not in cookie["value"]
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("fetch('/datasets').then(r => r.status).catch(() => 0)") in {0, 401}


def test_over_tls_the_cookie_is_secure_and_bound_to_the_host(tmp_path: Path, opens: Opens) -> None:
    files = certificate(tmp_path)
    settings = {"tls_certificate": files.certificate, "tls_key": files.key}

    class Encrypted(RolesServer):
        verify = False

    with Encrypted(tmp_path, settings=settings, pages=PAGES) as server:
        page = opens(server.url, ignore_https_errors=True)
        sign_in(page, server.tokens["ana"])
        assert page.get_by_text("Signed in as ana").is_visible()
        cookie = session(page)
        assert (cookie["name"], cookie["secure"]) == ("__Host-accountant-session", True)
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{server.url}/sign-in?signed-out=yes")
        assert session(page) is None


def test_after_signing_out_the_back_button_shows_nothing(server: RolesServer, opens: Opens) -> None:
    page = opens(server.url)
    sign_in(page, server.tokens["ana"])
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{server.url}/sign-in?signed-out=yes")
    assert session(page) is None
    page.go_back()
    page.wait_for_url(re.compile("/sign-in"))
    assert page.get_by_text("census").count() == 0


def test_a_revoked_token_ends_the_session(server: RolesServer, opens: Opens) -> None:
    page = opens(server.url)
    sign_in(page, server.tokens["ana"])
    assert token_file.revoke(server.tokens_file, "ana", now=wall())
    page.get_by_role("link", name="Reload").click()
    page.wait_for_url(f"{server.url}/sign-in")
    assert page.get_by_text("Your session has ended").is_visible()
    assert session(page) is None


def test_a_page_of_another_origin_cannot_submit_forms(
    server: RolesServer, opens: Opens, evil: str
) -> None:
    page = opens(server.url)
    sign_in(page, server.tokens["ana"])
    page.goto(f"{evil}/?{server.url}/sign-out")
    page.get_by_role("button", name="Win").click()
    page.wait_for_load_state()
    # Of another port, which is the same site: the cookie comes along, and is not enough.
    assert page.get_by_text("Nothing was done").is_visible()
    page.goto("/")
    assert page.get_by_text("Signed in as ana").is_visible()


def test_a_form_with_a_wrong_csrf_token_does_nothing(server: RolesServer, opens: Opens) -> None:
    page = opens(server.url)
    sign_in(page, server.tokens["ana"])
    for value in ("", "0" * 64):
        page.goto("/")
        page.evaluate(
            "v => document.querySelector('[name=form_token]').setAttribute('value', v)", value
        )
        page.get_by_role("button", name="Sign out").click()
        assert page.get_by_text("Nothing was done").is_visible()
    assert session(page) is not None


def test_signing_in_and_out_works_by_keyboard(server: RolesServer, opens: Opens) -> None:
    page = opens(server.url)
    page.goto("/sign-in")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    assert skip.evaluate("e => e === document.activeElement && e.getBoundingClientRect().left >= 0")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")  # from the content on, to the field
    assert page.get_by_label("Token").evaluate("e => e === document.activeElement")
    outline = "e => parseFloat(getComputedStyle(e).outlineWidth)"
    assert page.get_by_label("Token").evaluate(outline) >= 2
    page.keyboard.type(server.tokens["ana"])
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.url}/")
    for _ in range(30):
        page.keyboard.press("Tab")
        focused = page.evaluate("document.activeElement.textContent.trim()")
        assert (
            page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
        ), f"{focused} does not show that it has the focus"
        if focused == "Sign out":
            break
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.url}/sign-in?signed-out=yes")
