"""Renders pages: every value is escaped, and the browser runs no script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import Request, Response
from litestar.datastructures import Cookie

from accountant.display.datasets import joint_words
from accountant.display.numbers import counted
from accountant.display.texts import capital
from accountant.display.times import moment
from accountant.foreign_text import escape_lines
from accountant.records.http_bodies import Problem
from accountant.times import iso
from streams.auth.principal import authenticates, optional_principal
from streams.pages.assets import address_of
from streams.pages.commands import with_links
from streams.pages.csrf import form_token
from streams.pages.login.browser_sessions import session_of
from streams.pages.paths import dataset_page

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: browsers would then send `Origin: null` with this server's own forms.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HEADERS_KEPT: Final = ("Allow", "Retry-After")
_TITLES: Final = {
    403: "Not permitted",
    404: "Page not found",
    503: "Not ready",
}


class _Typed(str):
    """What somebody typed into a form, which sends it again unchanged."""

    __slots__ = ()


def _typed(text: str) -> _Typed:
    """Return a form's text for HTML's own escapes alone: a pasted table has tabs."""
    return _Typed(text.replace("\r\n", "\n"))


def _shown(value: object) -> object:
    """Escape control characters of a value, in addition to HTML's own escapes."""
    return escape_lines(value) if type(value) is str else value


environment: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    finalize=_shown,
    undefined=StrictUndefined,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters |= {
    "capital": capital,
    "counted": counted,
    "joint_words": joint_words,
    "typed": _typed,
    "moment": moment,
    "dataset_page": dataset_page,
    "with_links": with_links,
}
environment.globals |= {
    "style": address_of("page.css"),
    "icon": address_of("icon.svg"),
}

_INVALID: Final = 'aria-invalid="true"'

_decode_problem = msgspec.json.Decoder(Problem).decode


def render_page(
    request: Request[Any, Any, Any],
    template: str,
    *,
    status: int = 200,
    cookies: Sequence[Cookie] = (),
    **values: object,
) -> Response[str]:
    """Return a page.

    Any thread may call it.

    Args:
        template: the name of a file in `templates/`.
        values: the template's variables besides `principal` (None if unauthenticated),
            `authenticates`, `has_session`, `form_token` and `now` (text). A name without a value
            is an error.
    """
    frame = {
        "principal": optional_principal(request),
        "authenticates": authenticates(request),
        "has_session": session_of(request) is not None,
        "form_token": form_token(request),
        "now": iso(request.app.state.context.clock.now()),
    }
    return _answer(template, status, cookies, frame | values)


def problem_page(request: Request[Any, Any, Any] | None, answer: Response[Any]) -> Response[Any]:
    """Return the page for a problem, with the status of the programs' answer.

    Args:
        request: None for an unauthenticated caller.
    """
    problem = _decode_problem(answer.content)
    values: dict[str, Any] = {
        "title": _TITLES.get(problem.status, problem.title),
        "problem": problem,
    }
    if request is None:
        nobody = {"principal": None, "authenticates": True, "has_session": False, "form_token": ""}
        made = _answer("problem.html", problem.status, (), {**nobody, "now": "", **values})
    else:
        made = render_page(request, "problem.html", status=problem.status, **values)
    made.headers.update(
        {name: answer.headers[name] for name in _HEADERS_KEPT if name in answer.headers}
    )
    return made


def _answer(
    template: str, status: int, cookies: Sequence[Cookie], values: dict[str, object]
) -> Response[str]:
    text = environment.get_template(template).render(values)
    # The first field with an error gets the focus. Text of people has no quotes: they are escaped.
    text = text.replace(_INVALID, f"{_INVALID} autofocus", 1)
    headers = dict(HEADERS)
    return Response(
        text, status_code=status, media_type="text/html", headers=headers, cookies=[*cookies]
    )
