"""A server with the pages of a survey, and what a browser does with their forms."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from streams.pages import PAGES
from tests.streams.auth.survey_server import SurveyServer


class PagesServer(SurveyServer):
    """A `SurveyServer` with its pages."""

    def __init__(self, directory: Path, **more: Any) -> None:
        super().__init__(directory, pages=PAGES, **more)
        self._form_tokens: dict[str, str] = {}

    def page(
        self, who: str | None, dataset: str = "survey", /, **query: str | int
    ) -> httpx.Response:
        """Return the page of a dataset as somebody sees it."""
        path = f"/pages/datasets/{quote(dataset, safe='')}"
        return self.http.get(path, params=query, headers=self.auth_headers(who))

    def fill(self, who: str | None, kind: str, /, **fields: str) -> httpx.Response:
        """Send a form of the page, with what it holds and what is typed into it."""
        shown = form_of(self.page(who).text, kind)
        return self.post_form(who, kind, {**shown, "action": "set", **fields})

    def post_form(
        self, name: str | None, kind: str, fields: dict[str, str], dataset: str = "survey"
    ) -> httpx.Response:
        """Send a form as a browser does that was on this server's page."""
        path = f"/pages/datasets/{quote(dataset, safe='')}/{kind}"
        headers = {"origin": self.url, "sec-fetch-site": "same-origin", **self.auth_headers(name)}
        return self.http.post(path, data=fields, headers=headers)

    def token_of(self, name: str) -> str:
        """Return what the forms hold that are shown to somebody."""
        if name not in self._form_tokens:
            self.open_for_olga(f"of-{name}")
            self.enrol(f"of-{name}", name, "owner")
            page = self.page(name, f"of-{name}").text
            self._form_tokens[name] = form_of(page, "members")["form_token"]
        return self._form_tokens[name]

    def followed(self, name: str | None, answer: httpx.Response) -> httpx.Response:
        """Return where a browser is sent to, or the page itself of a refused form."""
        if answer.status_code == 409:
            return answer
        assert answer.status_code == 303, answer.text
        return self.http.get(answer.headers["location"], headers=self.auth_headers(name))


class _Forms(HTMLParser):
    """The inputs of each form on a page, by the form's action."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: dict[str, dict[str, str]] = {}
        self._inside: dict[str, str] | None = None
        self._select = ""

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        fields = {name: value or "" for name, value in given}
        if tag == "form":
            self._inside = self.forms[fields.get("action", "")] = {}
        elif self._inside is None:
            return
        elif tag == "input" and "name" in fields:
            if fields.get("type") not in {"radio", "checkbox"} or "checked" in fields:
                self._inside[fields["name"]] = fields.get("value", "")
        elif tag == "select":
            self._select = fields["name"]
        elif tag == "option" and ("selected" in fields or self._select not in self._inside):
            self._inside[self._select] = fields.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = None


def without_ids(page: str) -> str:
    """Return a page without the ids of its forms' records, which are new each time."""
    return re.sub(r'(name="request_id" value=)"[^"]*"', r"\1", page)


def form_of(page: str, kind: str) -> dict[str, str]:
    """Return what a form of a dataset's page would send: `members`, `limits`, `members/pause`."""
    forms = _Forms()
    forms.feed(page)
    sent = {action.split("/", 4)[-1]: each for action, each in forms.forms.items()}
    return sent[kind]
