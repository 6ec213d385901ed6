"""Write docs/reference/http/routes.md from the OpenAPI document and real responses.

    make reference
    python scripts/reference/routes_page.py --print

Statuses come from the document, prose and requests from routes_notes.md beside this file. A route
without a note has the document's description. The requests run against two ledgers in files, one
with and one without authentication, whose clocks stand still; only hashes and ids of ledgers are
replaced.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from litestar.testing import TestClient
from print_or_write import print_or_write
from section_order import section_order

from accountant.times import uuid7
from streams.auth import token_file
from streams.embedded.service import EmbeddedService
from streams.server.app import create_app
from streams.settings import Settings
from streams.testing.doubles import ManualClock

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "http" / "routes.md"
NOTES = HERE / "routes_notes.md"
NOON = 1_795_262_400_000  # 2026-11-21T12:00:00Z
WIDTH = 110
MOST_LINES = 24
SHOWN_HEADERS = ("Content-Location", "Location", "Retry-After", "WWW-Authenticate")
SHOWN_HEADERS += ("Preference-Applied", "Privacy-Replayed")
# The index of usage may lag behind the log.
TRIES = 100
LAGS = re.compile(r'"trouble":"[^"]')
# Said once for all routes: any of them may answer these.
OF_EVERY_ROUTE = ("401", "403", "421", "429", "500", "503")

HEAD = HERE / "routes_head.md"


class Example(NamedTuple):
    """A request to send.

    Attributes:
        caller: whose token it has: None for the server without authentication.
        title: what is shown above it; None: it is not shown.
    """

    caller: str | None
    title: str | None
    method: str
    target: str
    headers: dict[str, str]
    body: str


class Section(NamedTuple):
    """A route's prose and requests."""

    method: str
    path: str
    prose: str
    examples: list[Example]


def _example(first: str, lines: list[str]) -> Example:
    found = re.fullmatch(r"(?:setup|send)(?: as (\w+))?:\s*(.*)", first)
    assert found is not None, first
    method, target = lines[0].split(" ", 1)
    headers = dict(line.split(": ", 1) for line in lines[1:] if re.match(r"[A-Z][\w-]+: ", line))
    body = "\n".join(line for line in lines[1:] if not re.match(r"[A-Z][\w-]+: ", line))
    return Example(found[1], found[2] or None, method, target, headers, body)


def sections() -> Iterator[Section]:
    """Yield the sections of the notes, in the order of the page."""
    for text in NOTES.read_text("utf-8").split("\n## ")[1:]:
        title, _, rest = text.partition("\n")
        method, path = title.split(" ", 1)
        prose, examples = [], []
        for block in rest.strip().split("\n\n"):
            first, *lines = block.splitlines()
            if re.match(r"(setup|send)( as \w+)?:", first):
                examples.append(_example(first, lines))
            else:
                prose.append(block)
        yield Section(method, path, "\n\n".join(prose), examples)


class Servers:
    """A server without authentication and one with it."""

    def __init__(self, directory: Path) -> None:
        tokens = directory / "tokens.json"
        self._tokens = {
            name: token_file.create(tokens, name, now=NOON).token for name in ("ana", "olga")
        }
        clock = ManualClock(NOON)
        off = {"checkpoints": "off", "port": 0}
        known = Settings(**off, tokens=tokens, administrators="olga")
        self._services, self.clients = [], []
        self._hash = ""
        for name, settings in (("open", Settings(**off)), ("known", known)):
            service = EmbeddedService.open(directory / f"{name}.db", settings, clock=clock)
            app = create_app(service, settings, clock=clock)
            self._services.append(service)
            self.clients.append(TestClient(app, base_url="http://127.0.0.1:8000"))

    def close(self) -> None:
        """Close both ledgers."""
        for service in self._services:
            service.close_sync()

    def fill(self, text: str) -> str:
        """Return a text with its ids, and with the hash of the last decision `reserved`."""

        def made(found: re.Match[str]) -> str:
            random = sha256(found[1].encode()).digest()[:10]
            return uuid7(NOON, random)

        return re.sub(r"\{id:(\w+)\}", made, text.replace("{hash}", self._hash))

    def send(self, example: Example) -> str:
        """Send a request; return it and its response, as the page shows them."""
        client = self.clients[example.caller is not None]
        headers = {"Content-Type": "application/json"} if example.body else {}
        headers |= example.headers
        sent = dict(headers)
        if example.caller in self._tokens:
            sent["Authorization"] = f"Bearer {self._tokens[example.caller]}"
            headers["Authorization"] = "Bearer acct_..."
        target, body = self.fill(example.target), self.fill(example.body)
        for _ in range(TRIES):
            answer = client.request(example.method, target, headers=sent, content=body.encode())
            if answer.status_code != 503 and not LAGS.search(answer.text):
                break
            time.sleep(0.1)
        if '"outcome":"reserved"' in answer.text:
            self._hash = answer.json()["hash"]
        lines = [f"{example.method} {target}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["", *_wrapped(steady(body))] if body else []
        lines += ["", f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}"]
        shown = [name for name in SHOWN_HEADERS if name in answer.headers]
        lines += [f"{name}: {answer.headers[name]}" for name in shown]
        lines += ["", *_cut(_wrapped(steady(answer.text)))]
        return "\n".join(lines)


def steady(text: str) -> str:
    """Replace what differs from run to run."""
    text = re.sub(r"sha256:(?!0{64})[0-9a-f]{64}", "sha256:8f3a0c2b...", text)
    text = re.sub(r"sha256:0{64}", "sha256:0000...", text)
    return re.sub(r'("ledger":")[0-9a-f]{32}', r"\g<1>5d0c7a91...", text)


def _wrapped(text: str) -> list[str]:
    """Return JSON in lines, with a space behind each comma and colon; other text as it is."""
    try:
        text = json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text.strip().splitlines()
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."]


def _statuses(operation: dict[str, Any]) -> str:
    rows = [
        f"| {status} | {response['description'].split(chr(10))[0]} |"
        for status, response in operation["responses"].items()
        if status not in OF_EVERY_ROUTE
    ]
    return "\n".join(["| status | when |", "|---|---|", *rows])


@contextmanager
def running() -> Iterator[Servers]:
    """Run both servers in a directory of their own."""
    with tempfile.TemporaryDirectory() as directory:
        servers = Servers(Path(directory))
        try:
            with servers.clients[0], servers.clients[1]:
                yield servers
        finally:
            servers.close()


def page() -> str:
    """Return the page as it must be."""
    logging.disable(logging.CRITICAL)
    parts = [HEAD.read_text("utf-8")]
    with running() as servers:
        document = servers.clients[0].get("/schema/openapi.json").json()["paths"]
        noted = {(section.method, section.path): section for section in sections()}
        routes = [(method.upper(), path) for path in document for method in document[path]]
        for method, path in section_order(noted, routes):
            operation = document[path][method.lower()]
            section = noted.get((method, path))
            section = section or Section(method, path, operation["description"], [])
            parts.append(f"## {method} {path}\n")
            parts.append(section.prose + "\n")
            parts.append(_statuses(operation) + "\n")
            for example in section.examples:
                shown = servers.send(example)
                if example.title is not None:
                    parts.append(f"**{example.title}**\n\n```http\n{shown}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print_or_write(page(), PAGE)
