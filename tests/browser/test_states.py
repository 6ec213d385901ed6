"""Every state of a page: to axe, at the width of a phone, and as a picture that was looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.browser.conftest import Opens
from tests.browser.page_checks import draw, overflow, picture, sign_in, unstyled, violations
from tests.browser.states_server import StatesServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

DESK, PHONE = 1_100, 390
# A picture's name: who looks, and where. `fred` is a member of nothing.
Scheme = Literal["light", "dark"]
STATES = {
    "open": ("olga", "/pages/datasets/residents"),
    "open-analyst": ("ana", "/pages/datasets/residents"),
    "empty": ("olga", "/pages/datasets/empty"),
    "empty-analyst": ("ana", "/pages/datasets/empty"),
    "paused": ("olga", "/pages/datasets/paused"),
    "paused-analyst": ("ana", "/pages/datasets/paused"),
    "suspended": ("olga", "/pages/datasets/suspended"),
    "closed": ("olga", "/pages/datasets/closed"),
    "exhausted": ("ana", "/pages/datasets/exhausted"),
    "halted": ("ana", "/pages/datasets/halted"),
    "below-ceiling": ("olga", "/pages/datasets/below-ceiling"),
    "waiting": ("olga", "/pages/datasets/waiting"),
    "waiting-analyst": ("ana", "/pages/datasets/waiting"),
    "crowded": ("olga", "/pages/datasets/crowded"),
    "list": ("olga", "/"),
    "owned": ("olga", "/pages/owned"),
    "report": ("olga", "/pages/datasets/residents/report"),
    "opening": ("opie", "/pages/open?dataset=no spaces&epsilon=x"),
    "empty-list": ("fred", "/"),
    "empty-owned": ("fred", "/pages/owned"),
    "not-found": ("fred", "/pages/datasets/residents"),
    "no-page": ("olga", "/pages/nowhere"),
    "signed-out": ("", "/sign-in?signed-out=yes"),
}


# Pictures of the documentation: the scheme, the window, and from where on.
PICTURES: dict[str, tuple[str, Scheme, int, int, str]] = {
    "dataset-owner-light": ("open", "light", DESK, 1_230, ""),
    "dataset-phone-dark": ("open", "dark", PHONE, 1_150, ""),
    "states-light": ("owned", "light", DESK, 960, ""),
    "suspended-light": ("suspended", "light", DESK, 620, ""),
    "waiting-light": ("waiting", "light", DESK, 700, "pending"),
    "members-light": ("crowded", "light", DESK, 600, "members"),
}


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StatesServer]:
    """A server for tests that write nothing."""
    with StatesServer(tmp_path_factory.mktemp("states")) as made:
        made.furnish()
        yield made


def look(opens: Opens, states: StatesServer, name: str, **window: Any) -> Page:
    """Return the page of a state, of somebody who has signed in."""
    who, path = STATES[name]
    page = opens(states.url, **{"width": DESK, **window})
    if who:
        sign_in(page, states.tokens[who])
        page.get_by_role("button", name="Sign out").wait_for()
    page.goto(path)
    return page


@pytest.mark.parametrize("name", STATES)
def test_each_state_passes_axe_and_fits_a_phone(
    opens: Opens, states: StatesServer, name: str
) -> None:
    page = look(opens, states, name)
    assert unstyled(page) == []
    for width, scheme in ((DESK, "light"), (PHONE, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        draw(page, f"{name}-{scheme}{'-phone' if width == PHONE else ''}")
        assert not violations(page)
        assert overflow(page) == 0


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_states_are_taken(opens: Opens, states: StatesServer, name: str) -> None:
    state, scheme, width, height, start = PICTURES[name]
    page = look(opens, states, state, width=width, height=height, scheme=scheme)
    if start:
        page.evaluate(
            "id => document.getElementById(id).closest('section').scrollIntoView()", start
        )
    picture(page, name)


def test_a_report_prints_in_black_on_white_without_what_is_pressed(
    opens: Opens, states: StatesServer
) -> None:
    page = look(opens, states, "report", height=700, scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 36, 48)"
    assert not page.get_by_role("navigation").is_visible()
    assert not page.get_by_role("button").first.is_visible()
    assert not page.get_by_role("link", name="By team as CSV").is_visible()
    assert page.get_by_role("heading", name="By team").is_visible()
    picture(page, "report-print")
