"""One fact reads the same on pages and forms, in commands and notebooks, and in the demo."""

from __future__ import annotations

import asyncio
import html
import io
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from rich.console import Console

from accountant.claims import Pure
from accountant.records import Decision
from streams.cli.demo.replay import DecidedRequest
from streams.cli.demo.screen import Screen
from streams.cli.demo.team_limits import TeamLimit, team_limits
from streams.cli.demo.week import DemoRequest
from streams.client import Accountant, AsyncAccountant, NotGranted
from streams.clock import SystemClock
from streams.notebooks import client_html
from streams.pages import PAGES
from tests.every_case import every_case
from tests.streams.cli.conftest import Command
from tests.streams.gateway.local_server import LocalServer
from tests.streams.pages.dataset.pages_server import form_of

BASIC = {"filter": "basic", "access": "anyone", "most_per_request": "1"}
# Of 1, 0.12345 is spent: 12.345 %, and 0.87655 is left. Of 200 nearly nothing is.
BUDGETS = {"census": "1", "vast": "200", "shop": "1", "shut": "1"}


class Rendered(NamedTuple):
    """What each surface shows, in plain words, by its name; and two times as the log has them."""

    shown: dict[str, str]
    opened_at: str
    ends_at: str


def plain(page: str) -> str:
    """Return what a page or a notebook's table says, without its tags."""
    return " ".join(html.unescape(re.sub(r"<(?:style|title).*?</|<[^>]+>", " ", page)).split())


class Ledger:
    """A ledger in a file behind a server, and everything that shows it."""

    def __init__(self, server: LocalServer, command: Command) -> None:
        self.server = server
        self._command = command
        self.shown: dict[str, str] = {}

    def command(self, *arguments: str) -> str:
        """Return what a command prints."""
        return " ".join(self._command(*arguments, "--url", self.server.url).out.split())

    def page(self, path: str, **query: str) -> str:
        """Return what a page says."""
        return plain(self.server.http.get(path, params=query).text)

    def form(self, **typed: str) -> str:
        """Return the page that answers the form of limits of `census`."""
        path = "/pages/datasets/census"
        fields = form_of(self.server.http.get(path).text, "limits")
        headers = {"origin": self.server.url, "sec-fetch-site": "same-origin"}
        sent = {**fields, "action": "set", "by": "olga", **typed}
        answer = self.server.http.post(f"{path}/limits", data=sent, headers=headers)
        if answer.status_code == 303:
            answer = self.server.http.get(answer.headers["location"])
        return plain(answer.text)


@pytest.fixture(scope="module")
def render_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rendered]:
    directory = tmp_path_factory.mktemp("same")
    with LocalServer(directory / "ledger.db", SystemClock(), pages=PAGES) as server:
        yield render(Ledger(server, Command(directory)))


def render(ledger: Ledger) -> Rendered:
    """Make a ledger and render each surface, each by what users call."""
    shown, url = ledger.shown, ledger.server.url
    with Accountant(url) as client:
        for name, epsilon in BUDGETS.items():
            client.as_owner("olga").open(name, {**BASIC, "epsilon": epsilon})
        for name, team in (("ana", "research"), ("ben", "research"), ("dev", "product")):
            for dataset in ("census", "shop"):
                client.as_owner("olga").set_member(dataset, name, roles=("analyst",), team=team)
        limit = client.as_owner("olga").set_limit("census", "team", "research", part="0.2")
        pace = client.as_owner("olga").set_limit("shop", "team", "product", pace=("0.01", "P7D"))
        client.as_owner("olga").close("shut")
        assert client.ask("census", "pure:0.12345", analyst="ben").granted
        assert client.ask("vast", "pure:0.00001", analyst="ben").granted
        reply = client.ask("census", "pure:0.5", analyst="ana")
        too_much = client.as_owner("olga").set_limit("census", "team", "product", reserved="0.9")
        with (
            pytest.raises(NotGranted) as refused,
            client.grant("census", "pure:0.5", analyst="ana"),
        ):
            pass
        shown["error"] = str(refused.value)
        shown["notebook, client"] = plain(client_html(url, client.datasets()))
        for name in BUDGETS:
            view = client.dataset(name)
            assert view is not None
            shown[f"notebook, {name}"] = plain(view._repr_html_())  # type: ignore[attr-defined]
        shown["notebook, reply"] = plain(reply._repr_html_())
        records = {"refusal": reply.decision, "limit": limit, "pace": pace, "reserved": too_much}
        for name, decision in records.items():
            shown[f"notebook, {name}"] = plain(decision._repr_html_())  # type: ignore[attr-defined]
        ends_at = client.limits("shop")[0].pace.ends_at  # type: ignore[union-attr]
        opened_at = client.dataset("census").opened_at  # type: ignore[union-attr]
        shown["demo"] = demo(client, url, reply.decision)
    for name in BUDGETS:
        shown[f"page, {name}"] = ledger.page(f"/pages/datasets/{name}")
        shown[f"show, {name}"] = ledger.command("dataset", "show", name)
        shown[f"why, {name}"] = ledger.command("why", name)
    asked = {"kind": "pure", "pure_epsilon": "0.5", "analyst": "ana"}
    shown["preview"] = ledger.page("/pages/datasets/census", **asked)
    shown["pages"] = ledger.page("/")
    shown["list"] = ledger.command("dataset", "list")
    shown["limits, census"] = ledger.command("limit", "list", "census")
    shown["limits, shop"] = ledger.command("limit", "list", "shop")
    shown["ask"] = ledger.command("ask", "census", "pure:0.5", "--analyst", "ana", "--dry-run")
    reserving = ("census", "--team", "product", "--reserved", "0.9", "--by", "olga")
    shown["limit set"] = ledger.command("limit", "set", *reserving)
    shown["form, wrong"] = ledger.form(scope="team", name="product", part="much")
    shown["form, refused"] = ledger.form(scope="team", name="product", reserved="90")
    shown["form, done"] = ledger.form(scope="team", name="other", part="20")
    return Rendered(shown, opened_at, ends_at)


def demo(client: Accountant, url: str, refusal: Decision) -> str:
    """Return what the demo's screen shows of these datasets."""
    out = io.StringIO()
    screen = Screen(Console(file=out, width=200), 1, verbose=True)
    ask = DemoRequest(
        day=0,
        analyst="ana",
        dataset="census",
        question="",
        claim=Pure(epsilon="0.5"),
        unit="person",
        purpose="",
    )
    screen.show([DecidedRequest(ask, refusal)])
    screen.refusals()
    screen.evening(client.datasets(), 0)
    screen.teams(asyncio.run(limits_at(url)), 0)
    return " ".join(out.getvalue().split())


async def limits_at(url: str) -> list[TeamLimit]:
    async with AsyncAccountant(url) as ledger:
        return await team_limits(ledger, ("census", "shop"))


NO_ROOM = "The limit of team research has too little left"
NO_WAIT = "Waiting will not help: an owner (olga) would have to raise the limit of team research."
OVER = "% of the budget cannot be reserved for team "
CLOSED = "closed: An owner has closed it: nothing more is granted."
EVERYWHERE = ("page, {}", "pages", "show, {}", "list", "notebook, {}", "notebook, client", "demo")

CASES = {
    "a percentage": ("census", "12.4 %", (*EVERYWHERE, "why, {}", "form, wrong")),
    "a percentage that is left": ("census", "87.6 %", ("page, {}", "form, wrong")),
    "nearly nothing": ("vast", "0.1 %", EVERYWHERE),
    "an amount that is spent": ("census", "0.1235", ("page, {}", "show, {}", "why, {}")),
    "an amount that is left": ("census", "0.8765", (*EVERYWHERE, "form, wrong")),
    "no more than there is": ("vast", "199.9", EVERYWHERE),
    "a state": ("shut", "closed", EVERYWHERE),
    "a limit": (
        "census",
        "20 % of the budget",
        ("page, {}", "limits, {}", "show, {}", "notebook, limit", "form, done", "demo"),
    ),
    "a pace": (
        "shop",
        "1 % of the budget every 7 days",
        ("page, {}", "limits, {}", "notebook, pace", "demo"),
    ),
    "a reason": (
        "census",
        NO_ROOM,
        ("page, {}", "preview", "ask", "notebook, reply", "notebook, refusal", "error", "demo"),
    ),
    "when more comes": ("census", NO_WAIT, ("page, {}", "preview", "ask", "error")),
    "what would fit": (
        "census",
        "pure:0.07655",
        ("page, {}", "preview", "ask", "notebook, reply", "notebook, refusal", "error", "demo"),
    ),
    "a reason of an owner's record": (
        "census",
        OVER,
        ("form, refused", "limit set", "notebook, reserved"),
    ),
    "why there is no forecast": (
        "vast",
        "there is less than a day of history",
        ("page, {}", "why, {}"),
    ),
}
FACTS = [
    (fact, text, surface.format(dataset))
    for fact, (dataset, text, surfaces) in CASES.items()
    for surface in surfaces
]


@every_case(("fact", "text", "surface"), FACTS)
def test_a_fact_reads_the_same_wherever_it_is_shown(
    render_page: Rendered, fact: str, text: str, surface: str
) -> None:
    assert text in render_page.shown[surface], f"{fact}: {render_page.shown[surface]}"


@every_case("surface", ["page, census", "form, wrong", "show, census", "notebook, census"])
def test_a_time_reads_the_same_wherever_it_is_shown(render_page: Rendered, surface: str) -> None:
    assert minute(render_page.opened_at) in render_page.shown[surface]


@every_case("surface", ["page, shop", "limits, shop", "demo"])
def test_the_end_of_a_period_reads_the_same_wherever_it_is_shown(
    render_page: Rendered, surface: str
) -> None:
    assert minute(render_page.ends_at) in render_page.shown[surface]


def minute(iso: str) -> str:
    return f"{iso[:10]} {iso[11:16]} UTC"


def test_the_meaning_of_a_state_reads_the_same_wherever_it_is_shown(render_page: Rendered) -> None:
    for surface in ("page, shut", "show, shut"):
        assert CLOSED.partition(": ")[2] in render_page.shown[surface]


def test_a_percentage_has_one_spelling(render_page: Rendered) -> None:
    for surface, text in render_page.shown.items():
        assert "100.00%" not in text, surface
        assert not re.search(r"[0-9]%", text), f"{surface}: a percentage without its space"
