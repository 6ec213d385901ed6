"""The page of a dataset in a real browser: read, typed into by keyboard alone, and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import Opens
from tests.browser.page_checks import overflow, picture, violations
from tests.streams.gateway.records import request
from tests.streams.pages.dataset.pages_server import PagesServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

DESK, PHONE, SMALLEST = 1_100, 390, 320
EDITING = "?member=ana&scope=team&name=red"
PREVIEW = "?kind=pure&pure_epsilon=0.05"


@pytest.fixture
def survey(tmp_path: Path) -> Iterator[PagesServer]:
    """A server for one test, which may write."""
    with PagesServer(tmp_path) as made:
        made.furnish()
        yield made


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesServer]:
    """A server for tests that write nothing."""
    with PagesServer(tmp_path_factory.mktemp("survey")) as made:
        made.furnish()
        yield made


def open_dataset_page(
    opens: Opens, server: PagesServer, name: str, query: str = "", **options: Any
) -> Page:
    """Return the page of the dataset, of somebody who signs in by the form that comes first."""
    page = opens(server.url, **{"width": DESK, **options})
    page.goto(f"/pages/datasets/survey{query}")
    page.get_by_label("Token").fill(server.tokens[name])
    page.keyboard.press("Enter")
    page.wait_for_selector(".dataset")
    return page


def tab_to(page: Page, selector: str, maximum: int = 150) -> None:
    """Reach something by the key that moves on, as who has no pointer does."""
    for _ in range(maximum):
        page.keyboard.press("Tab")
        if page.evaluate("chosen => document.activeElement.matches(chosen)", selector):
            return
    pytest.fail(f"{selector} is not reached by {maximum} times Tab")


@pytest.mark.parametrize(("name", "query"), [("olga", EDITING), ("ana", PREVIEW), ("root", "")])
def test_the_dataset_page_passes_axe_in_every_scheme_and_width(
    opens: Opens, read_only: PagesServer, name: str, query: str
) -> None:
    page = open_dataset_page(opens, read_only, name, query)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.reload()
    closed = page.locator("details:not([open]) > summary")
    while closed.count():
        closed.first.click()
    for width, scheme in ((DESK, "light"), (PHONE, "dark"), (PHONE, "light"), (DESK, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert not violations(page)
        assert overflow(page) == 0
    page.set_viewport_size({"width": SMALLEST, "height": 640})
    assert overflow(page) == 0
    assert said == [], "the browser has refused something of its own page"


def test_an_owner_sets_a_limit_by_keyboard_alone(opens: Opens, survey: PagesServer) -> None:
    page = open_dataset_page(opens, survey, "olga")
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
    page.keyboard.press("Control+A")  # the field with the error has the focus
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    page.wait_for_selector("#flash.message-done")
    assert "Team green may use 12 % of the budget" in page.locator("#flash").inner_text()
    assert page.locator(".level", has_text="Team green").is_visible()


def test_an_owner_changes_and_removes_a_member(opens: Opens, survey: PagesServer) -> None:
    page = open_dataset_page(opens, survey, "olga")
    page.get_by_role("link", name="Change ben").click()
    page.locator("#m-role-auditor").check()
    page.get_by_role("button", name="Save").last.click()
    page.wait_for_selector("#flash")
    assert "ben is analyst and auditor in team red" in page.locator("#flash").inner_text()
    page.get_by_role("link", name="Change ben").click()
    page.get_by_role("button", name="Remove ben").click()
    page.get_by_text("ben is no member any more").wait_for()
    assert page.get_by_role("link", name="Change ben").count() == 0


def test_a_double_click_writes_one_record(opens: Opens, survey: PagesServer) -> None:
    page = open_dataset_page(opens, survey, "olga")
    page.locator("#set-member > summary").click()
    page.locator("#m-member").fill("opie")
    page.get_by_role("button", name="Set the member").dblclick()
    page.wait_for_selector("#flash")
    assert "opie is analyst" in page.locator("#flash").inner_text()
    all_decisions = survey.see("olga", "/datasets/survey/requests", limit=1_000).json()["decisions"]
    of_opie = [each for each in all_decisions if each.get("member", {}).get("member") == "opie"]
    assert [each["outcome"] for each in of_opie] == ["member_set"]


def test_an_analyst_reads_the_budget_first_and_previews_by_keyboard(
    opens: Opens, read_only: PagesServer
) -> None:
    page = open_dataset_page(opens, read_only, "ana")
    first = page.locator(".mine").inner_text()
    for said in (
        "You may still use 0.6 %",
        "the period limit of team red",
        "More is available in 24 hours",
    ):
        assert said in first
    assert page.locator(".refused .fits").first.inner_text() == "Would fit: pure:0.006"
    tab_to(page, "#kind-pure")
    page.keyboard.press("Tab")
    page.keyboard.type("0.002")
    page.keyboard.press("Enter")
    page.wait_for_selector("#fits ~ .message")
    assert "It would be granted" in page.locator("#fits ~ .message").inner_text()


def test_only_the_fields_of_the_chosen_claim_are_shown(
    opens: Opens, read_only: PagesServer
) -> None:
    page = open_dataset_page(opens, read_only, "ana")
    assert page.locator("#p-pure-epsilon").is_visible()
    assert not page.locator("#p-gaussian-sigma").is_visible()
    page.get_by_label("Gaussian noise").check()
    assert page.locator("#p-gaussian-sigma").is_visible()
    assert not page.locator("#p-pure-epsilon").is_visible()


def test_the_dataset_page_works_without_scripts(opens: Opens, survey: PagesServer) -> None:
    page = open_dataset_page(opens, survey, "olga", EDITING, java_script_enabled=False)
    page.locator("#l-part").fill("10")
    page.get_by_role("button", name="Save").first.click()
    page.get_by_text("Team red may use 10 % of the budget").wait_for()


@pytest.mark.parametrize(
    ("name", "caller", "query", "options"),
    [
        ("analyst-light", "ana", "", {"height": 1_060}),
        ("analyst-dark-phone", "ana", "", {"width": PHONE, "height": 1_500, "scheme": "dark"}),
        ("owner-dark", "olga", "", {"height": 1_500, "scheme": "dark"}),
    ],
)
def test_pictures_of_the_dataset_page_are_taken(
    opens: Opens, read_only: PagesServer, name: str, caller: str, query: str, options: Any
) -> None:
    page = open_dataset_page(opens, read_only, caller, query, **options)
    picture(page, f"dataset-{name}")


def test_a_picture_of_the_limit_form_is_taken(opens: Opens, read_only: PagesServer) -> None:
    page = open_dataset_page(opens, read_only, "olga", EDITING, height=1_250)
    page.locator("#limits").scroll_into_view_if_needed()
    page.evaluate("document.getElementById('limits').scrollIntoView()")
    picture(page, "dataset-limits-light")


def reserve(server: PagesServer) -> None:
    """Leave zoe a reservation that waits and one that has begun, and ana one under limits."""
    claim = {"type": "pure", "epsilon": "0.04"}
    server.reserved("survey", "zoe", claim=claim, purpose="a count that stops early")
    begun = server.reserved("survey", "zoe", claim=claim, purpose="age by district")
    assert server.step("begin", begun).json()["outcome"] == "begun"
    server.reserved("survey", "ana", claim={"type": "pure", "epsilon": "0.004"})


@pytest.mark.parametrize("name", ["olga", "zoe"])
def test_reservations_pass_axe_in_every_scheme_and_width(
    opens: Opens, survey: PagesServer, name: str
) -> None:
    reserve(survey)
    page = open_dataset_page(opens, survey, name)
    for width, scheme in ((DESK, "light"), (PHONE, "dark"), (SMALLEST, "light"), (DESK, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert not violations(page)
        assert overflow(page) == 0
    bar = page.get_by_role("img", name="The budget: 31.4 % used, 8.4 % reserved")
    assert bar.locator(".bar-reserved").bounding_box()["width"] > 20  # type: ignore[index]


def test_an_owner_voids_a_reservation_by_keyboard_alone(opens: Opens, survey: PagesServer) -> None:
    reserve(survey)
    page = open_dataset_page(opens, survey, "olga")
    buttons = page.locator("button[name=grant]")
    assert buttons.count() == 2  # what has begun cannot be voided
    tab_to(page, "button[name=grant]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#flash.message-done")
    assert (
        "The reservation of zoe is voided: ε 0.04 is left again"
        in page.locator("#flash").inner_text()
    )
    assert buttons.count() == 1


def test_an_owner_answers_what_waits_by_keyboard_on_a_card_that_passes_axe(
    opens: Opens, survey: PagesServer
) -> None:
    survey.open_for_olga("plans", approve_above="0.1", filter="basic", epsilon="1")
    for name in ("ana", "ben"):
        claim = {"type": "pure", "epsilon": "0.3"}
        asked = request(survey.clock, dataset="plans", analyst=name, claim=claim)
        assert survey.send(name, "/requests", asked | {"purpose": "table 4"}).status_code == 202
    page = open_dataset_page(opens, survey, "olga")
    page.goto("/pages/datasets/plans")
    for width, scheme in ((DESK, "light"), (PHONE, "dark"), (PHONE, "light"), (DESK, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert not violations(page)
        assert overflow(page) == 0
    card = page.locator("section", has=page.locator("#pending"))
    tab_to(page, "button[value=deny]")
    page.keyboard.press("Enter")
    page.get_by_text("Must be set to deny a request").wait_for()
    assert not violations(page)
    page.keyboard.type("see table 4")  # into the field with the error
    tab_to(page, "button[value=deny]")
    page.keyboard.press("Enter")
    page.get_by_text("Done. Olga has denied the request of ana").wait_for()
    assert "table 4" in card.inner_text()
    tab_to(page, "button[value=approve]")
    page.keyboard.press("Enter")
    page.get_by_text("Done. Olga has approved the request of ben: ε 0.3 is charged").wait_for()
    assert card.count() == 0
