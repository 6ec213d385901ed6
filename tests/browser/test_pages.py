"""Each page for everybody: light and dark, on a phone, to axe; and its pictures."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Opens
from tests.browser.page_checks import overflow, picture, sign_in, violations
from tests.streams.auth.roles_server import RolesServer

PAGES = {
    # What it is called in docs/pictures: its address, or None for what is shown before signing in.
    "sign-in": "/sign-in",
    "list": "/",
    "problem": "/pages/nowhere",
}
SCHEMES = ("light", "dark")
PHONE, DESK = 320, 1_280


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PAGES)
def test_pages_pass_axe_at_a_desk_and_on_a_phone(
    server: RolesServer, opens: Opens, name: str, scheme: str
) -> None:
    for width in (DESK, PHONE):
        page = opens(server.url, width=width, scheme=scheme)
        if name != "sign-in":
            sign_in(page, server.tokens["olga"])
        page.goto(PAGES[name])
        assert not violations(page)
        assert overflow(page) == 0, f"{name} is wider than a window of {width} pixels"
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        is_dark = sum(map(int, ground[4:-1].split(","))) < 3 * 128
        assert is_dark == (scheme == "dark")
        if name != "problem":
            picture(page, f"{name}-{scheme}" if width == DESK else f"{name}-{scheme}-phone")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_sign_in_page_passes_axe_after_a_wrong_token(
    server: RolesServer, opens: Opens, scheme: str
) -> None:
    page = opens(server.url, scheme=scheme)
    sign_in(page, "wrong")
    assert page.get_by_role("alert").is_visible()
    assert not violations(page)


def test_a_page_loads_only_files_of_its_own_server(server: RolesServer, opens: Opens) -> None:
    page = opens(server.url)
    asked: list[str] = []
    result: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on(
        "console",
        lambda message: (
            result.append(message.text) if message.type in {"error", "warning"} else None
        ),
    )
    sign_in(page, server.tokens["ana"])
    assert page.get_by_role("link", name="census").is_visible()
    assert all(each.startswith(f"{server.url}/") for each in asked)
    assert not result  # nothing broke the page's policy
    scripts = page.evaluate("document.scripts.length")
    assert scripts == 0


def test_a_page_fits_at_a_zoom_of_200_percent(server: RolesServer, opens: Opens) -> None:
    page = opens(server.url, width=640)
    sign_in(page, server.tokens["ana"])
    # What a browser's zoom of 200 % leaves of a window of 1280 pixels: WCAG 1.4.10.
    assert overflow(page) == 0
