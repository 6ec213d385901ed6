"""Everything that can be done is reached by Tab, shows the focus, and an error takes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Opens
from tests.browser.page_checks import overflow, picture, sign_in, violations
from tests.streams.gateway.records import request
from tests.streams.pages.dataset.pages_server import PagesServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

PHONE = 390
# What Tab stops at: of radio buttons with one name the chosen one alone, arrows do the rest.
STOPS = """() => [...document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]'
)].filter(each => each.checkVisibility() && !(each.type === 'radio' && !each.checked))"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesServer]:
    """A server for tests that write nothing: with a request that waits on `plans`."""
    with PagesServer(tmp_path_factory.mktemp("keys")) as made:
        made.furnish()
        made.open_for_olga("plans", approve_above="0.1", filter="basic", epsilon="1")
        claim = {"type": "pure", "epsilon": "0.3"}
        asked = request(made.clock, dataset="plans", analyst="ben", claim=claim)
        assert made.send("ben", "/requests", asked).status_code == 202
        yield made


def signed_in(opens: Opens, office: PagesServer, who: str, path: str) -> Page:
    """Return a page of somebody who has signed in."""
    page = opens(office.url, width=1_100)
    sign_in(page, office.tokens[who])
    page.get_by_role("button", name="Sign out").wait_for()
    page.goto(path)
    return page


def focused(page: Page) -> str:
    """Return the id of what has the focus."""
    return str(page.evaluate("document.activeElement.id"))


@pytest.mark.parametrize(
    ("who", "path"),
    [
        ("olga", "/pages/datasets/plans"),
        ("olga", "/pages/datasets/plans?scope=team&name=red&member=ben"),
        ("ben", "/pages/datasets/plans"),
        ("olga", "/pages/owned"),
        ("opie", "/pages/open?dataset=trial&epsilon=1&unit=person&kind=gaussian"),
        ("olga", "/pages/datasets/survey/report"),
        ("zoe", "/pages/datasets/unknown"),
    ],
)
def test_every_action_is_reached_by_tab_and_shows_the_focus(
    opens: Opens, office: PagesServer, who: str, path: str
) -> None:
    page = signed_in(opens, office, who, path)
    count = page.evaluate(f"() => (window.left = new Set(({STOPS})())).size")
    for _ in range(count + 1):
        page.keyboard.press("Tab")
        outline = page.evaluate(
            "() => { left.delete(document.activeElement);"
            " return [parseFloat(getComputedStyle(document.activeElement).outlineWidth),"
            " document.activeElement.outerHTML.slice(0, 200)] }"
        )
        assert outline[0] >= 2 or outline[1].startswith("<body"), outline[1]
    assert page.evaluate("[...left].map(each => each.outerHTML.slice(0, 200))") == []


def test_the_first_field_with_an_error_gets_the_focus_and_its_words(
    opens: Opens, office: PagesServer
) -> None:
    page = signed_in(opens, office, "olga", "/pages/datasets/survey?scope=team&name=red")
    page.locator("#l-part").fill("120")
    page.locator("#l-days").fill("soon")
    page.locator("#l-part").press("Enter")
    page.wait_for_selector("#l-part-error")
    assert focused(page) == "l-part"
    described = page.locator("#l-part").get_attribute("aria-describedby")
    assert described == "l-part-hint l-part-error"
    assert page.locator("[autofocus]").count() == 1
    picture(page, "form-errors-light", clip=page.locator("#set-limit"))
    for width, scheme in ((1_100, "dark"), (PHONE, "dark"), (PHONE, "light")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert not violations(page)
        assert overflow(page) == 0


@pytest.mark.parametrize(
    ("who", "path", "field"),
    [
        ("opie", "/pages/open?dataset=trial&epsilon=x", "o-epsilon"),
        ("ana", "/pages/datasets/survey?kind=pure&pure_epsilon=x", "p-pure-epsilon"),
    ],
)
def test_a_field_with_an_error_of_a_preview_gets_the_focus(
    opens: Opens, office: PagesServer, who: str, path: str, field: str
) -> None:
    assert focused(signed_in(opens, office, who, path)) == field


def test_the_result_of_a_preview_gets_the_focus(opens: Opens, office: PagesServer) -> None:
    page = signed_in(opens, office, "ana", "/pages/datasets/survey?kind=pure&pure_epsilon=0.001")
    text = page.evaluate("document.activeElement.innerText")
    assert text.startswith("It would be granted")


def test_a_member_without_a_role_gets_the_focus_at_the_roles(
    opens: Opens, office: PagesServer
) -> None:
    page = signed_in(opens, office, "olga", "/pages/datasets/plans")
    page.locator("#set-member > summary").click()
    page.locator("#m-member").fill("cleo")
    for role in page.locator("#set-member input:checked").all():
        role.uncheck()
    page.locator("#m-member").press("Enter")
    page.wait_for_selector("#m-roles-error")
    assert focused(page) == "m-role-owner"


def test_a_wrong_token_leaves_the_focus_in_its_field(opens: Opens, office: PagesServer) -> None:
    page = opens(office.url, width=PHONE)
    sign_in(page, "wrong")
    page.get_by_role("alert").wait_for()
    assert focused(page) == "token"
    assert not violations(page)
