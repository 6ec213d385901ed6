"""Pages for people, without scripts: the list of datasets, a dataset's page, and signing in."""

from __future__ import annotations

from streams.pages.csrf import form_token, read_form
from streams.pages.render import render_page
from streams.pages.routes import PAGES

__all__ = ["PAGES", "form_token", "read_form", "render_page"]
