"""Pages for people: rendered here, without a script; who signs in by which token is known."""

from __future__ import annotations

from streams.pages.forms import checked_form, form_token
from streams.pages.render import rendered
from streams.pages.routes import PAGES, add_pages, told_in_html

__all__ = ["PAGES", "add_pages", "checked_form", "form_token", "rendered", "told_in_html"]
