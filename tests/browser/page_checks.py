"""How a page is looked at: by axe, by its width, and as a picture."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

OPENS = ("docs/pictures/*",)

ROOT = Path(__file__).resolve().parents[2]
PICTURES = Path(os.environ.get("PICTURES", ROOT / "docs" / "pictures"))
DRAWN = ROOT / "build" / "pictures"


def violations(page: Page) -> list[str]:
    """Return what keeps somebody from using a page, as axe finds it; also its best practices."""
    from axe_playwright_python.sync_playwright import Axe

    # The page's own policy lets no script in, so axe runs in a world of the debugger's.
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for each in found
        for node in each["nodes"]
    ]


def overflow(page: Page) -> int:
    """Return by how many pixels a page is wider than its window."""
    return int(
        page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    )


def picture(page: Page, name: str, *, clip: Locator | None = None) -> None:
    """Draw the window, or a part of the page, to docs/pictures/page-NAME.png.

    A picture that no page of the documentation shows goes to build/pictures.
    """
    path = PICTURES / f"page-{name}.png"
    if not path.exists():
        DRAWN.mkdir(parents=True, exist_ok=True)
        path = DRAWN / path.name
    (clip or page).screenshot(path=path, animations="disabled")


def draw(page: Page, name: str) -> None:
    """Draw a whole page to build/pictures, to be looked at."""
    DRAWN.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=DRAWN / f"{name}.png", full_page=True, animations="disabled")


def unstyled(page: Page) -> list[str]:
    """Return the classes of a page without a rule in the style sheet, and inline styles."""
    found: list[str] = page.evaluate("""() => {
        const text = [...document.styleSheets[0].cssRules].map(each => each.cssText).join(' ');
        const rules = new Set([...text.matchAll(/\\.([a-z][\\w-]*)/g)].map(each => each[1]));
        const used = new Set([...document.querySelectorAll('[class]')]
            .flatMap(each => [...each.classList]).filter(each => !rules.has(each)));
        return [...used, ...document.querySelectorAll('[style]')].map(String);
    }""")
    return found


def sign_in(page: Page, token: str) -> None:
    """Sign in by the form, as a person does."""
    page.goto("/sign-in")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
