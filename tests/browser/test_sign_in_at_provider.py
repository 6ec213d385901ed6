"""Signing in at a provider of another site, in a real browser with its own rules for cookies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import Opens
from tests.browser.page_checks import overflow, violations
from tests.browser.test_sign_in import session
from tests.streams.oauth.sign_in_provider import SignInProvider
from tests.streams.pages.login.provider_server import ProviderServer

BUTTON = "Sign in with your organisation's account"


@pytest.fixture
def office(tmp_path: Path) -> Iterator[ProviderServer]:
    """A server at `localhost`: for a browser another site than the provider at 127.0.0.1."""
    with (
        SignInProvider() as provider,
        ProviderServer(tmp_path, provider, host="localhost") as server,
    ):
        yield server


def site(office: ProviderServer) -> str:
    return office.callback.removesuffix("/sign-in/callback")


@pytest.mark.parametrize("shows_page", [False, True], ids=["at once", "after a click there"])
def test_a_person_signs_in_at_another_site_and_arrives_signed_in(
    office: ProviderServer, opens: Opens, shows_page: bool
) -> None:
    office.provider.shows_page = shows_page
    page = opens(site(office))
    page.goto("/pages/datasets/survey")
    page.get_by_role("button", name=BUTTON).click()
    if shows_page:
        page.wait_for_url(f"{office.provider.issuer}/authorize**")
        page.get_by_role("link", name="Agree").click()
    page.wait_for_url(f"{site(office)}/pages/datasets/survey")
    assert page.get_by_text("Signed in as ana").is_visible()
    cookie = session(page)
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.go_back()  # neither the code nor the page that led on is in the history
    assert "/sign-in/callback" not in page.url
    page.goto("/")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{site(office)}/sign-in?signed-out=yes")
    assert session(page) is None


def test_the_end_of_another_s_sign_in_signs_nobody_in(office: ProviderServer, opens: Opens) -> None:
    office.provider.person, office.provider.shows_page = "mallory", True
    mallory = opens(site(office))
    mallory.goto("/sign-in")
    mallory.get_by_role("button", name=BUTTON).click()
    mallory.wait_for_url(f"{office.provider.issuer}/authorize**")
    where = f"{office.provider.issuer}{mallory.get_by_role('link').get_attribute('href')}"
    victim = opens(site(office))
    victim.goto(where)
    assert victim.get_by_role("alert").inner_text().startswith("This browser did not begin")
    assert session(victim) is None


def test_the_sign_in_page_with_a_provider_is_accessible(
    office: ProviderServer, opens: Opens
) -> None:
    for width in (320, 1280):
        page = opens(site(office), width=width)
        page.goto("/sign-in")
        assert (violations(page), overflow(page)) == ([], 0)
        page.get_by_role("button", name=BUTTON).focus()
        page.keyboard.press("Enter")
        page.wait_for_url(f"{site(office)}/")
        office.provider.denied = "access_denied"
        denied = opens(site(office), width=width)
        denied.goto("/sign-in")
        denied.get_by_role("button", name=BUTTON).click()
        denied.get_by_role("link", name="Sign in again").wait_for()
        assert (violations(denied), overflow(denied)) == ([], 0)
        office.provider.denied = None
