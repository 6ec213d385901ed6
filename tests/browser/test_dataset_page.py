"""The page of a dataset in a real browser: read, typed into by keyboard alone, and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.rendering.pictures import PICTURES, program
from tests.streams.gateway.pages.dataset.paged_door import PagedDoor

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

WIDE, PHONE = {"width": 1100, "height": 900}, {"width": 390, "height": 844}
EDITING = "?member=ana&scope=team&name=red"
PREVIEW = "?kind=pure&pure_epsilon=0.05"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    path = program("chromium", "chromium-browser", "google-chrome", package="chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def surveyed(tmp_path: Path) -> Iterator[PagedDoor]:
    with PagedDoor(tmp_path) as made:
        made.furnish()
        yield made


@pytest.fixture(scope="module")
def surveyed_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagedDoor]:
    with PagedDoor(tmp_path_factory.mktemp("survey")) as made:
        made.furnish()
        yield made


def signed_in(chromium: Browser, door: PagedDoor, name: str, query: str = "", **how: Any) -> Page:
    """Return a browser's page of the dataset, of somebody who has signed in by the form."""
    page = chromium.new_context(**{"viewport": WIDE, **how}).new_page()
    page.goto(f"{door.url}/pages/datasets/survey{query}")
    page.get_by_label("Token").fill(door.tokens[name])
    page.keyboard.press("Enter")
    page.wait_for_selector(".dataset")
    return page


def tab_to(page: Page, selector: str, most: int = 150) -> None:
    """Reach something by the key that moves on, as who has no pointer does."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("chosen => document.activeElement.matches(chosen)", selector):
            return
    pytest.fail(f"{selector} is not reached by {most} times Tab")


@pytest.mark.parametrize(
    ("name", "query"),
    [("olga", EDITING), ("ana", PREVIEW), ("ana", "?kind=text"), ("root", "")],
)
def test_nobody_is_kept_out(
    chromium: Browser, surveyed_once: PagedDoor, name: str, query: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    said: list[str] = []
    page = signed_in(chromium, surveyed_once, name, query)
    page.on("console", lambda message: said.append(message.text))
    page.reload()
    for closed in page.locator("details:not([open]) > summary").all():
        closed.click()
    wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    for viewport, scheme in ((WIDE, "light"), (PHONE, "dark"), (PHONE, "light"), (WIDE, "dark")):
        page.set_viewport_size(viewport)  # type: ignore[arg-type]
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        broken = Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in broken] == []
        assert not page.evaluate(wider), "the page scrolls to the side"
    page.set_viewport_size({"width": 320, "height": 640})
    assert not page.evaluate(wider), "the page scrolls to the side on the smallest phone"
    assert said == [], "the browser has refused something of its own page"
    page.context.close()


def test_an_owner_sets_a_limit_by_keyboard_alone(chromium: Browser, surveyed: PagedDoor) -> None:
    page = signed_in(chromium, surveyed, "olga")
    tab_to(page, "#set-limit > summary")
    page.keyboard.press("Enter")
    tab_to(page, "#l-name")
    page.keyboard.type("green")
    tab_to(page, "#l-part")
    page.keyboard.type("120")
    page.keyboard.press("Enter")
    page.wait_for_selector("#l-part-error")
    assert page.locator("#l-part").input_value() == "120"
    assert page.locator("#l-name").input_value() == "green"
    page.locator("#l-part").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    page.wait_for_selector("#told")
    assert "Team green may use 12 % of the budget" in page.locator("#told").inner_text()
    assert page.locator(".level", has_text="Team green").is_visible()
    page.context.close()


def test_an_owner_changes_and_removes_a_member(chromium: Browser, surveyed: PagedDoor) -> None:
    page = signed_in(chromium, surveyed, "olga")
    page.get_by_role("link", name="Change ben").click()
    page.get_by_label("auditor").check()
    page.get_by_role("button", name="Save").last.click()
    assert "ben is analyst and auditor in team red" in page.locator("#told").inner_text()
    page.get_by_role("link", name="Change ben").click()
    page.get_by_role("button", name="Remove ben").click()
    assert "ben is no member any more" in page.locator("#told").inner_text()
    assert page.get_by_role("link", name="Change ben").count() == 0
    page.context.close()


def test_a_form_that_is_sent_twice_is_one_record(chromium: Browser, surveyed: PagedDoor) -> None:
    page = signed_in(chromium, surveyed, "olga")
    page.locator("#set-member > summary").click()
    page.get_by_label("Name").last.fill("opie")
    page.get_by_role("button", name="Set the member").dblclick()
    page.wait_for_selector("#told")
    assert "opie is analyst" in page.locator("#told").inner_text()
    seen = surveyed.see("olga", "/datasets/survey/requests", limit=1_000).json()["decisions"]
    assert [each["outcome"] for each in seen if each.get("member", {}).get("member") == "opie"] == [
        "member_set"
    ]
    page.context.close()


def test_an_analyst_learns_in_one_look_and_by_keyboard(
    chromium: Browser, surveyed_once: PagedDoor
) -> None:
    page = signed_in(chromium, surveyed_once, "ana")
    first = page.locator(".mine").inner_text()
    for said in ("You may still use 0.6 %", "the pace of team red", "More comes in 24 hours"):
        assert said in first
    assert page.locator(".refused .fits").first.inner_text() == "What would fit: pure:0.006"
    tab_to(page, "#kind-pure")
    page.keyboard.press("Tab")
    page.keyboard.type("0.002")
    page.keyboard.press("Enter")
    page.wait_for_selector("#fits ~ .message")
    assert "It would be granted" in page.locator("#fits ~ .message").inner_text()
    page.context.close()


def test_only_the_fields_of_the_chosen_claim_are_shown(
    chromium: Browser, surveyed_once: PagedDoor
) -> None:
    page = signed_in(chromium, surveyed_once, "ana")
    assert page.locator("#p-pure-epsilon").is_visible()
    assert not page.locator("#p-gaussian-sigma").is_visible()
    page.get_by_label("Gaussian noise").check()
    assert page.locator("#p-gaussian-sigma").is_visible()
    assert not page.locator("#p-pure-epsilon").is_visible()
    page.context.close()


def test_it_works_without_scripts(chromium: Browser, surveyed: PagedDoor) -> None:
    page = signed_in(chromium, surveyed, "olga", EDITING, java_script_enabled=False)
    page.locator("#l-part").fill("10")
    page.get_by_role("button", name="Save").first.click()
    assert "Team red may use 10 % of the budget" in page.locator("#told").inner_text()
    page.context.close()


@pytest.mark.parametrize(
    ("picture", "name", "query", "how"),
    [
        ("page-dataset-analyst", "ana", PREVIEW, {}),
        ("page-dataset-owner", "olga", "", {}),
        ("page-dataset-owner-dark", "olga", EDITING, {"color_scheme": "dark"}),
        ("page-dataset-phone", "ana", "", {"viewport": PHONE, "device_scale_factor": 2}),
    ],
)
def test_pictures_are_drawn_anew(
    chromium: Browser, surveyed_once: PagedDoor, picture: str, name: str, query: str, how: Any
) -> None:
    page = signed_in(chromium, surveyed_once, name, query, **how)
    path = PICTURES / f"{picture}.png"
    page.screenshot(path=path, full_page=True)
    assert path.stat().st_size > 20_000
    page.context.close()
