"""Adds the pages to an application: routes, the CSRF secret, and session authentication."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from litestar import Litestar, Request, Response
from litestar.handlers import HTTPRouteHandler

from streams.auth.authenticator import Authenticator
from streams.auth.sign_in_client import sign_in_client
from streams.clock import Clock
from streams.pages.assets import icon, style
from streams.pages.csrf import set_form_secret
from streams.pages.dataset.ask import post_question
from streams.pages.dataset.dataset_page import show_dataset_page
from streams.pages.dataset.form_handlers import POST_FORMS
from streams.pages.dataset.report import report_export, report_page
from streams.pages.login.browser_sessions import BrowserSessions
from streams.pages.login.provider_client import ProviderClient
from streams.pages.login.session_auth import SessionAuth, set_session_auth
from streams.pages.login.session_refresh import SessionRefresh
from streams.pages.login.sign_in import sign_in, sign_in_page, sign_out
from streams.pages.login.sign_in_at_provider import finish_at_provider, start_at_provider
from streams.pages.opening.opening_page import open_by_form, opening_page
from streams.pages.overview import overview
from streams.pages.owned import owned_datasets
from streams.pages.paths import is_page, wants_page
from streams.pages.render import problem_page
from streams.settings import Settings

Handler = Callable[[Request[Any, Any, Any], Any], Response[Any]]
Handlers = dict[type[Exception] | int, Handler]


class HtmlPages:
    """The pages, as the server's application takes them.

    Attributes:
        routes: their handlers.
    """

    routes: Final[Sequence[HTTPRouteHandler]] = (
        *(overview, sign_in_page, sign_in, sign_out),
        *(start_at_provider, finish_at_provider),
        *(owned_datasets, opening_page, open_by_form),
        *(show_dataset_page, *POST_FORMS, post_question),
        *(report_page, report_export),
        *(style, icon),
    )

    def prepare(
        self, app: Litestar, settings: Settings, clock: Clock, authenticator: Authenticator | None
    ) -> SessionAuth | None:
        """Prepare an application for `routes`; return its session authentication, if it has any.

        Call it before the application serves requests.
        """
        set_form_secret(app.state)
        if authenticator is None:
            return None
        sessions, found = BrowserSessions(clock.monotonic), sign_in_client(settings)
        client = None if found is None else ProviderClient(found, clock.monotonic)
        refresh = (
            None
            if client is None
            else SessionRefresh(sessions, client, authenticator, clock.monotonic)
        )
        browsers = SessionAuth(sessions, is_private=settings.is_private, refresh=refresh)
        set_session_auth(app.state, browsers, client)
        return browsers

    def error_handlers(self, handlers: Mapping[type[Exception] | int, Handler]) -> Handlers:
        """Return error handlers that answer browsers with a page instead of JSON."""
        return {kind: _either(handler) for kind, handler in handlers.items()}


PAGES: Final = HtmlPages()


def _either(handler: Handler) -> Handler:
    def handle(request: Request[Any, Any, Any], error: Any) -> Response[Any]:
        answer = handler(request, error)
        scope = request.scope
        wants = is_page(scope["path"]) and wants_page(scope["headers"])
        return problem_page(request, answer) if wants else answer

    return handle
