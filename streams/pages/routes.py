"""What an application needs to have pages: routes, the secret of its forms, its browsers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from litestar import Litestar, Request, Response

from streams.clock import Clock
from streams.pages.assets import dataset_style, icon, style
from streams.pages.dataset_page import show_dataset_page
from streams.pages.form_handlers import post_limit, post_member
from streams.pages.forms import keep_secret
from streams.pages.overview import overview
from streams.pages.paths import is_page, wants_page
from streams.pages.render import problem_page
from streams.pages.session_auth import Browsers, keep_browsers
from streams.pages.sessions import Sessions
from streams.pages.sign_in import sign_in, sign_in_page, sign_out
from streams.settings import Settings

PAGES: Final = [
    *(overview, sign_in_page, sign_in, sign_out),
    *(show_dataset_page, post_member, post_limit),
    *(style, dataset_style, icon),
]

Handler = Callable[[Request[Any, Any, Any], Any], Response[Any]]
Handlers = dict[type[Exception] | int, Handler]


def add_pages(app: Litestar, settings: Settings, clock: Clock) -> Browsers | None:
    """Give an application with `PAGES` what they need; return how it knows browsers, if it does.

    To be called before it answers anything.
    """
    keep_secret(app.state)
    if not settings.authenticates:
        return None
    browsers = Browsers(Sessions(clock.monotonic), is_private=settings.is_private)
    keep_browsers(app.state, browsers)
    return browsers


def told_in_html(handlers: Mapping[type[Exception] | int, Handler]) -> Handlers:
    """Return handlers of errors that tell a browser by a page where it asked for one."""
    return {kind: _either(handler) for kind, handler in handlers.items()}


def _either(handler: Handler) -> Handler:
    def tell(request: Request[Any, Any, Any], error: Any) -> Response[Any]:
        answer = handler(request, error)
        scope = request.scope
        wants = is_page(scope["path"]) and wants_page(scope["headers"])
        return problem_page(request, answer) if wants else answer

    return tell
