"""Commands in texts, as a page says them: people who have the page alone cannot run them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from accountant.foreign_text import escape_lines
from streams.pages.paths import dataset_page


class _Place(NamedTuple):
    """Where a page does what a command does.

    Attributes:
        words: its name in a sentence. `anchor`: its id.
        form: the name of the form that the page then has, "" where it is no form.
    """

    words: str
    anchor: str
    form: str = ""


_PLACES: Final[Mapping[str, _Place]] = {
    "dataset show": _Place("the dataset's page", "about"),
    "dataset amend": _Place("the form that amends the dataset", "amend", "amendment"),
    "dataset pause": _Place("the form that pauses the dataset", "pause", "pause"),
    "dataset resume": _Place("the form that resumes the dataset", "pause", "pause"),
    "dataset renew": _Place("the form that renews the dataset", "renew", "renewal"),
    "dataset set-budget": _Place("the form that sets the budget", "set-budget", "budget"),
    "limit list": _Place("the list of limits", "limits"),
    "limit set": _Place("the form that sets a limit", "set-limit", "limit"),
    "limit remove": _Place("the form that changes a limit", "set-limit", "limit"),
    "member list": _Place("the list of members", "members"),
    "member set": _Place("the form that sets a member", "set-member", "member"),
    "member remove": _Place("the form that changes a member", "set-member", "member"),
    "member pause": _Place("the form that pauses somebody", "pause-person", "person"),
    "member resume": _Place("the form that resumes somebody", "pause-person", "person"),
    "more ask": _Place("the form that asks the owners for more", "ask-more", "more"),
    "more list": _Place("the asks for more", "asks"),
    "approval list": _Place("the requests that wait", "pending"),
    "reservation list": _Place("the open reservations", "reservations"),
    "reservation void": _Place("the open reservations", "reservations"),
}
"""By the first two words of a command; others are for whoever has a terminal."""
_COMMAND: Final = re.compile(r"`accountant ([a-z]+ [a-z-]+)( [^`\s]+)?[^`]*`")


@pass_context
def with_links(context: Context, text: str) -> Markup:
    """Return a text with links to the forms of the page in place of the commands in it.

    Where the viewer has no such form, words stand there, such as for an analyst who reads what an
    owner may do. A command about another dataset leads to that one's page.
    """
    parts, end = list[Markup](), 0
    for found in _COMMAND.finditer(text):
        place = _PLACES.get(found[1])
        if place is None:
            continue
        parts.append(escape(escape_lines(text[end : found.start()])))
        parts.append(_link(context, place, (found[2] or "").strip()))
        end = found.end()
    parts.append(escape(escape_lines(text[end:])))
    return Markup("").join(parts)


def _link(context: Mapping[str, Any] | Context, place: _Place, dataset: str) -> Markup:
    page, own = context.get("page_url", ""), dataset_page(dataset) if dataset else ""
    if dataset and own != page:
        return Markup('<a href="{}#{}">{}</a>').format(own, place.anchor, place.words)
    if place.form and not context.get(f"{place.form}_form"):
        return Markup("{}").format(place.words)
    return Markup('<a href="#{}">{}</a>').format(place.anchor, place.words)
