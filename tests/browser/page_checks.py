"""How a page is looked at: by axe, by its width, and as a picture."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

OPENS = ("docs/pictures/*",)

ROOT = Path(__file__).resolve().parents[2]
PICTURES = Path(os.environ.get("PICTURES", ROOT / "docs" / "pictures"))
_MOST_BYTES = 200_000


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


def picture(page: Page, name: str) -> None:
    """Draw the window to docs/pictures."""
    path = PICTURES / f"page-{name}.png"
    page.screenshot(path=path, animations="disabled")
    assert path.stat().st_size <= _MOST_BYTES, f"{path} is too large to be committed"


def sign_in(page: Page, token: str) -> None:
    """Sign in by the form, as a person does."""
    page.goto("/sign-in")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
