"""The pages of owners in a real browser: their datasets, an opening, a report, and the forms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.conftest import Opens
from tests.browser.page_checks import overflow, picture, sign_in, violations
from tests.streams.pages.dataset.pages_server import PagesServer

OPENS = ()

DESK, PHONE = 1_100, 390
DRAFT = "?dataset=trial-2027&epsilon=1&delta=1e-6&unit=person&kind=gaussian&ceiling=2"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesServer]:
    """A server for tests that write nothing."""
    with PagesServer(tmp_path_factory.mktemp("owners")) as made:
        made.furnish()
        for number in (1, 2, 3):
            made.open_for_olga(f"calm-{number}", epsilon="9")
        yield made


@pytest.mark.parametrize(
    ("who", "path", "name"),
    [
        ("olga", "/pages/owned", "owned"),
        ("opie", f"/pages/open{DRAFT}", "opening"),
        ("opie", "/pages/open?dataset=no spaces&epsilon=x", ""),
        ("olga", "/pages/datasets/survey/report", "report"),
    ],
)
def test_the_pages_of_owners_pass_axe_in_every_scheme_and_width(
    opens: Opens, office: PagesServer, who: str, path: str, name: str
) -> None:
    page = opens(office.url, width=DESK)
    sign_in(page, office.tokens[who])
    page.get_by_role("button", name="Sign out").wait_for()
    page.goto(path)
    if name:
        picture(page, f"{name}-light")
    for width, scheme in ((DESK, "light"), (PHONE, "dark"), (PHONE, "light"), (DESK, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert not violations(page)
        assert overflow(page) == 0
        if name and (width, scheme) == (PHONE, "dark"):
            picture(page, f"{name}-dark-phone")


def test_a_closing_is_typed_by_keyboard(opens: Opens, office: PagesServer) -> None:
    page = opens(office.url, width=DESK)
    sign_in(page, office.tokens["olga"])
    page.get_by_role("button", name="Sign out").wait_for()
    page.goto("/pages/datasets/calm-3")
    page.locator("#close > summary").press("Enter")
    page.locator("#close-name").fill("calm-2")
    page.locator("#close-name").press("Enter")
    page.wait_for_selector("#close-name-error")
    assert page.locator("#close-name").input_value() == "calm-2"
    page.locator("#close-name").fill("calm-3")
    page.locator("#close-name").press("Enter")
    page.wait_for_selector("#flash.message-done")
    assert "The dataset is closed" in page.locator("#flash").inner_text()
