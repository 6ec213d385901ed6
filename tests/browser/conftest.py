"""Pages in a real browser: `make test-browser`.

They are left out of every run that does not ask for them by `-m browser`; asked for, they fail
where a browser or what drives it is missing, and never skip. Each test makes the pictures of what
it has looked at; those of `PICTURES` are committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.opt_in import is_left_out, mark_ours

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.streams.auth.roles_server import RolesServer

OPENS = ()

_HERE = Path(__file__).parent
_LIMIT_S = 120


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: drives a real browser; only when asked for")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(config, collection_path, "browser")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_ours(config, items, _HERE, "browser", _LIMIT_S)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    from tests.rendering.pictures import Missing, program

    for needed in ("playwright", "axe_playwright_python"):
        if find_spec(needed) is None:
            pytest.fail(f"{needed} is not installed here: run `make test-browser`")
    try:
        found = program("chromium", "chromium-browser", "google-chrome", package="chromium")
    except Missing:
        pytest.fail("the tests of pages need Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # A container's user may have no namespaces of its own, and these pages are ours.
        made = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RolesServer]:
    """A server with authentication, and a few datasets in use."""
    from streams.pages import PAGES
    from tests.browser.example_server import furnish
    from tests.streams.auth.roles_server import RolesServer

    with RolesServer(tmp_path, pages=PAGES) as made:
        furnish(made)
        yield made


Opens = Callable[..., "Page"]


@pytest.fixture
def opens(browser: Browser) -> Iterator[Opens]:
    """Opens a browser's window of its own: `opens(url, width=320, scheme="dark")`."""
    contexts = []

    def open_(
        url: str, *, width: int = 1280, height: int = 800, scheme: Any = "light", **more: Any
    ) -> Page:
        context = browser.new_context(
            base_url=url, viewport={"width": width, "height": height}, color_scheme=scheme, **more
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        return context.new_page()

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture
def evil() -> Iterator[str]:
    """Another origin, whose page has a form that is sent to the address in its query."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            target = self.path.partition("?")[2]
            text = f"<form method=post action='{target}'><input name=form_token value=x>"
            body = f"<!doctype html>{text}<button>Win</button></form>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
