"""The sentences on a dataset agree with each other and with the decisions, in every state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from accountant.advice.room import tightest
from accountant.views.limit_views import decode_analyst_budget
from tests.every_case import every_case
from tests.streams.cli.conftest import Command
from tests.streams.cli.states import STATES, DatasetState, StatesServer
from tests.streams.cli.test_same_text import plain

# One test runs commands for many cases.
pytestmark = pytest.mark.timeout(600)

PERCENT = r"((?:under |over )?[\d.]+ %)"
MAY_USE = rf"may (?:still )?use {PERCENT} of the budget(?: \((.*?)\) ?)?(?:[,.:])"


class Surfaces:
    """What the pages and the commands say of `survey` in one state.

    Attributes:
        owner, analyst, home: pages, in plain words.
        mine, show, why, listed, limits: what the commands print.
    """

    def __init__(self, state: DatasetState, server: StatesServer, command: Command) -> None:
        self.state, self.server, self._command = state, server, command
        state.make(server)

    @cached_property
    def owner(self) -> str:
        return self.page("olga")

    @cached_property
    def analyst(self) -> str:
        return self.page("ana")

    @cached_property
    def home(self) -> str:
        return plain(self.server.see("olga", "/").text)

    @cached_property
    def mine(self) -> str:
        return self.run("ana", "mine")

    @cached_property
    def show(self) -> str:
        return self.run("olga", "dataset", "show", "survey")

    @cached_property
    def why(self) -> str:
        return self.run("olga", "why", "survey")

    @cached_property
    def listed(self) -> str:
        return self.run("olga", "dataset", "list")

    @cached_property
    def limits(self) -> str:
        return self.run("olga", "limit", "list", "survey")

    def page(self, name: str, **query: str) -> str:
        """Return somebody's page, without its forms."""
        text = re.sub(r"<form.*?</form>", "", self.server.page(name, **query).text, flags=re.DOTALL)
        return plain(text)

    def run(self, name: str, *arguments: str) -> str:
        """Return what a command prints for somebody."""
        signed_in = {"ACCOUNTANT_TOKEN": self.server.tokens[name], "COLUMNS": "250"}
        done = self._command(*arguments, "--url", self.server.url, **signed_in)
        return " ".join(done.out.split())

    def preview(self, claim: str) -> dict[str, Any]:
        """Return the decision that a claim of ana's would get."""
        from msgspec import to_builtins

        from accountant.claims.text import parse_claim

        body = {
            "claim": to_builtins(parse_claim(claim)),
            "analyst": "ana",
            "unit": "person",
            "neighbours": "add_remove",
        }
        headers = self.server.auth_headers("ana")
        answer = self.server.http.post("/datasets/survey/preview", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def budget(self) -> Any:
        """Return what ana may still use, as the API says it."""
        answer = self.server.see("ana", "/datasets/survey/budgets/ana")
        assert answer.status_code == 200, answer.text
        return decode_analyst_budget(answer.content)


@pytest.fixture(scope="module")
def make_surfaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Surfaces]]:
    made: dict[str, Surfaces] = {}

    def make(name: str, *, fresh: bool = False) -> Surfaces:
        if fresh or name not in made:
            directory: Path = tmp_path_factory.mktemp("state")
            server = StatesServer(directory)
            found = Surfaces(STATES[name], server, Command(directory))
            made[f"{name}, fresh" if fresh else name] = found
        return made[f"{name}, fresh" if fresh else name]

    yield make
    for each in made.values():
        each.server.close()


def only(pattern: str, text: str) -> str:
    """Return the one text that a pattern finds, however often it is there."""
    found = set(re.findall(pattern, text))
    assert len(found) == 1, f"{pattern}: {found} in {text}"
    return str(found.pop())


@every_case("name", STATES)
def test_one_part_is_said_to_be_spent_and_one_to_be_left(
    make_surfaces: Callable[[str], Surfaces], name: str
) -> None:
    said = make_surfaces(name)
    spent = only(rf"{PERCENT} is spent, [^,]* % is left", said.owner)
    left = only(rf"% is spent, {PERCENT} is left", said.owner)
    assert f"{spent} is spent, {left} is left" in said.analyst
    assert only(rf"spent [█░]+ {PERCENT} left", said.show) == spent
    assert only(rf"left {PERCENT} of the budget", said.show) == left
    assert only(rf"{PERCENT} of survey is spent", said.why) == spent
    assert only(rf"survey [^█░]*[█░]+ {PERCENT}", said.listed) == spent
    assert f"survey {spent}" in said.home
    sums = set(re.findall(r"is spent \((\S+ \S+ of \S+)\)", said.why))
    for each in sums:  # a sum in brackets is the percentage before it
        _, used, _, whole = each.split()
        assert abs(Decimal(used) / Decimal(whole) * 100 - Decimal(spent[:-2])) < Decimal("0.2")


@every_case("name", STATES)
def test_what_an_analyst_may_use_is_said_the_same_by_page_and_command(
    make_surfaces: Callable[[str], Surfaces], name: str
) -> None:
    said = make_surfaces(name)
    if said.state.word == "closed":
        assert "survey is closed and grants nothing more" in said.mine
        assert "You may still use 0 % of the budget" in said.analyst
        assert "nothing more is granted: the dataset is closed" in said.analyst
        return
    mine = said.mine[said.mine.index("survey ana") :]
    on_page, by_command = re.search(MAY_USE, said.analyst), re.search(MAY_USE, mine)
    assert on_page is not None
    assert by_command is not None
    assert on_page.groups() == by_command.groups()
    reason = only(r"Reason: (.*?)\. ", said.analyst)
    assert re.search(rf"(, by|:) {re.escape(reason)}", said.mine), said.mine
    paused = said.state.word == "paused"
    assert ("After the pause you may use" in said.analyst) is paused
    assert ("after the pause you may use" in said.mine) is paused
    more = re.search(r"More is available .*?at (\d{4}-\d\d-\d\d \d\d:\d\d UTC)", said.analyst)
    assert ("; more comes at" in said.mine) is (more is not None and "Waiting" not in more.group())


@every_case("name", STATES)
def test_what_an_analyst_may_use_is_granted_and_more_is_refused(
    make_surfaces: Callable[[str], Surfaces], name: str
) -> None:
    said = make_surfaces(name)
    if said.state.word in {"closed", "halted", "paused"}:
        refused = said.preview("pure:0.000001")
        assert refused["reason"] == said.state.word
        return
    room = tightest(said.budget()).room
    if not said.state.claim or room.part == 1:
        return
    claim = said.state.claim
    if room.left:
        assert said.preview(claim.format(f"{room.left:f}"))["granted"]
    more = said.preview(claim.format(f"{room.left + Decimal('0.000001'):f}"))
    assert more["reason"] == "exhausted"
    at = more["level"] and (more["level"]["scope"], more["level"].get("what"))
    expected = {
        "dataset": None,
        "reserved": ("dataset", "reserved"),
        "limit": room.level and (room.level.scope, "limit"),
        "pace": room.level and (room.level.scope, "pace"),
    }
    assert at == expected[room.what]


@every_case("name", STATES)
def test_waiting_helps_exactly_where_the_page_says_so(
    make_surfaces: Callable[..., Surfaces], name: str
) -> None:
    said = make_surfaces(name, fresh=True)
    if said.state.word == "closed":
        return
    before = tightest(said.budget()).room.part
    top = said.analyst.partition("Your latest requests")[0]
    found = re.search(r"More is available .*?at (\d{4}-\d\d-\d\d \d\d:\d\d UTC)", top)
    if found is None:
        assert "Waiting will not help" in top
        said.server.days(300)
        assert tightest(said.budget()).room.part == before
        return
    more_at = tightest(said.budget()).more_at
    assert more_at is not None
    assert f"{more_at[:10]} {more_at[11:16]} UTC" == found.group(1)
    seconds = 60
    while seconds < 8 * 86_400 and tightest(said.budget()).room.part == before:
        said.server.clock.pass_(seconds=seconds)
        seconds *= 2
    assert tightest(said.budget()).room.part > before


@every_case("name", STATES)
def test_the_state_is_one_word_on_all_surfaces(
    make_surfaces: Callable[[str], Surfaces], name: str
) -> None:
    said = make_surfaces(name)
    word = said.state.word
    for page in (said.owner, said.analyst):
        assert f"survey {word} " in page
    assert re.search(rf"survey .*{word}", said.home)
    assert f"state {word}: " in said.show
    assert f", {word}" in said.why
    assert f" {word} " in said.listed
    grants = word in {"open", "exhausted"}
    claimed = "every analyst may use the whole remaining budget"
    assert (claimed in said.owner) is (grants and "no limits" in said.owner)
    assert ("nothing more is granted" in said.analyst) is (word in {"closed", "halted"})


@every_case("name", STATES)
def test_forecasts_agree_and_say_nothing_before_a_day_of_history(
    make_surfaces: Callable[[str], Surfaces], name: str
) -> None:
    said = make_surfaces(name)
    page = said.owner.partition("How long the budget lasts")[2].partition("Usage")[0]
    if said.state.word in {"closed", "halted", "paused"}:
        assert page == ""
        assert "forecast" not in said.why
        return
    young = "there is less than a day of history"
    assert (young in page) is (young in said.why)
    if young in page:
        whole = page.partition("All together")[2]
        assert not re.search(r"\d{4}-\d\d-\d\d", whole)
    found = re.findall(
        r"All together .*? (\d{4}-\d\d-\d\d|used up|not at this rate|not known)", page
    )
    for day in found:
        assert day in said.why
    assert ("used up" in page) is ("used up" in said.why)


@every_case("name", STATES)
def test_no_sum_is_shown_that_cannot_move(
    make_surfaces: Callable[[str], Surfaces], name: str
) -> None:
    said = make_surfaces(name)
    budget = said.budget() if said.state.word != "closed" else None
    texts = {"mine": said.mine, "limits": said.limits, "page": said.analyst}
    for level in () if budget is None else budget.levels:
        if (level.budget or {}).get("delta") == "0":
            assert all("δ 0" not in text for text in texts.values())
    if said.state.ends == "Ends basic composition":
        assert not any(re.search(r", ε 0(?![.\d])", text) for text in texts.values())
    if said.state.ends == "Ends zcdp_tight":
        assert all("ρ 0," not in text and "(ρ 0)" not in text for text in texts.values())


@every_case("name", STATES)
def test_the_use_of_a_limit_is_one_percentage(
    make_surfaces: Callable[[str], Surfaces], name: str
) -> None:
    said = make_surfaces(name)
    if said.state.word == "closed":
        return
    on_page = re.findall(
        rf"(?<!Period )(?:Limit|limit): [^%]*?(?:[\d.]+ %)?[^%]*? {PERCENT} used", said.analyst
    )
    for used in on_page:
        assert used in said.mine


@every_case("name", STATES)
def test_the_request_that_has_ended_something_says_so(
    make_surfaces: Callable[[str], Surfaces], name: str
) -> None:
    said = make_surfaces(name)
    for page in (said.owner, said.analyst):
        assert page.count(" Ends ") == bool(said.state.ends), page
        assert said.state.ends in page


@every_case(
    ("name", "claim", "ends"),
    [
        ("basic composition beside", "gaussian:20,1", "simple addition for good; only the filter"),
        ("basic composition beside", "pure:0.3", "the ρ budget of zcdp_tight for good"),
        ("basic composition ended", "gaussian:20,1", ""),
        ("a request that would halt", "pure:0.9", "the dataset: it grants nothing"),
        ("used", "pure:0.01", ""),
    ],
)
def test_a_preview_says_what_the_request_would_end(
    make_surfaces: Callable[[str], Surfaces], name: str, claim: str, ends: str
) -> None:
    said = make_surfaces(name)
    page = said.page("ana", kind="text", text_claim=claim)
    would = re.search(r"It would be .*? Ends (.*?)\.", page.partition("Limits that apply")[0])
    command = said.run("ana", "ask", "survey", claim, "--dry-run")
    if not ends:
        assert would is None
        assert " ends " not in command
        return
    assert would is not None
    assert would.group(1).startswith(ends)
    assert f" ends {would.group(1)}" in command


@every_case("name", STATES)
def test_a_refusal_reads_the_same_in_row_preview_and_dry_run(
    make_surfaces: Callable[[str], Surfaces], name: str
) -> None:
    said = make_surfaces(name)
    if not said.state.refused:
        return
    claim = said.state.refused
    page = said.page("ana", kind="text", text_claim=claim)
    dry_run = said.run("ana", "ask", "survey", claim, "--dry-run")
    row = re.split(r" refused \S+:", said.analyst, maxsplit=1)[1]
    sentence = row.partition(" would cost ")[2] or row
    why = re.search(r"(The (?:limit|period limit|rest|dataset's|claim) .*?(?:\.(?= )))", sentence)
    assert why is not None, row
    for text in (page.partition("It would be refused")[2], dry_run):
        assert why.group(1) in text, text
    waits = re.search(r"Waiting (?:alone )?will not help: .*?\. ", row)
    if waits is not None:
        assert waits.group().strip() in page
        assert waits.group().strip() in dry_run


@every_case("name", STATES)
def test_the_joint_guarantee_is_one_sentence(
    make_surfaces: Callable[[str], Surfaces], name: str
) -> None:
    said = make_surfaces(name)
    found = re.search(
        r"The people of population city are in .*?\. Together they .*?\. ", said.owner
    )
    if found is None:
        assert "population" not in said.listed
        return
    sentence = found.group().strip()
    for text in (said.analyst, said.show):
        assert "Together they" in text
    assert sentence in said.show
    assert sentence in f"{said.listed} "
