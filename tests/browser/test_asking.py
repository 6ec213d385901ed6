"""A question is asked in a real browser, and its answer read, in every scheme and width."""

from __future__ import annotations

from pathlib import Path

from streams.pages import PAGES
from tests.browser.conftest import Opens
from tests.browser.page_checks import overflow, violations
from tests.streams.auth.answering_roles import AnsweringRoles


def test_an_analyst_asks_by_the_form_and_reads_the_answer(opens: Opens, tmp_path: Path) -> None:
    with AnsweringRoles(tmp_path, pages=PAGES) as server:
        server.furnish()
        page = opens(server.url, width=1_100)
        page.goto("/pages/datasets/closed-own")
        page.get_by_label("Token").fill(server.tokens["ana"])
        page.keyboard.press("Enter")
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.get_by_label("Histogram").check()
        page.get_by_label("Only rows where").fill("age > 30")
        page.get_by_label("Amount").fill("0.5")
        page.get_by_role("button", name="Preview the cost").click()
        assert not violations(page)
        page.get_by_role("button", name="Ask it").click()
        answer = page.locator(".answer")
        answer.wait_for()
        for width, scheme in ((1_100, "light"), (390, "dark"), (390, "light"), (1_100, "dark")):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            assert not violations(page)
            assert overflow(page) == 0
        page.set_viewport_size({"width": 320, "height": 640})
        assert overflow(page) == 0
        assert answer.locator("svg rect").count() == 2
        assert "95 % intervals" in answer.inner_text()
        assert said == [], "the browser has refused something of its own page"
