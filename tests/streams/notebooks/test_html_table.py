"""Notebook tables of decisions and datasets are escaped and load nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec

from accountant.records import Decision, FieldError
from accountant.views.datasets import DatasetView, view_of_ledger
from streams.notebooks.display import dataset_html, decision_html
from streams.notebooks.html_table import grid, table
from tests.accountant.world import World, opened

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=y>"


class Cells(HTMLParser):
    """Reads the cells of a table back, and notes every tag and attribute."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self._in_cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._in_cell = tag in {"th", "td"}
        if self._in_cell:
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.cells[-1] += data

    @property
    def rows(self) -> dict[str, str]:
        return dict(zip(self.cells[::2], self.cells[1::2], strict=True))


PLAIN = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def table_rows(record: Decision | DatasetView) -> dict[str, str]:
    html = decision_html(record) if isinstance(record, Decision) else dataset_html(record)
    read = Cells(html)
    assert read.tags <= PLAIN
    assert read.attributes <= {"scope"}
    return read.rows


def test_a_grant_shows_its_cost_and_the_remaining_budget() -> None:
    rows = table_rows(opened(filter="basic", epsilon="1").ask("pure:0.1"))
    assert rows["outcome"] == "granted"
    assert rows["dataset"] == "census"
    assert rows["cost"] == "ε 0.1"
    assert rows["left"] == "90 % left (ε 0.9)"
    assert "reason" not in rows


def test_a_refusal_shows_what_would_fit() -> None:
    rows = table_rows(opened(filter="basic", epsilon="1").ask("pure:2"))
    assert (rows["outcome"], rows["reason"], rows["fits"]) == ("refused", "exhausted", "pure:1")
    assert rows["asked"] == "ε 2"


def test_a_repeat_shows_the_first_decision() -> None:
    world = opened(filter="basic", epsilon="1")
    body = world.request("pure:0.1")
    world.send("requests", body)
    rows = table_rows(world.send("requests", body))
    assert rows["outcome"] == "repeated"
    assert rows["first"].startswith("granted at 2026-")


def test_a_dataset_shows_its_policy_and_remaining_budget() -> None:
    world = opened(filter="basic", epsilon="1")
    world.ask("pure:0.5")
    rows = table_rows(view_of_ledger(world.ledger()))
    assert rows["dataset"] == "census"
    assert "filter basic, epsilon 1" in rows["policy"]
    assert (rows["left"], rows["spent"]) == ("50 % left (ε 0.5)", "50 %")
    assert (rows["thresholds reached"], rows["state"]) == ("50 %", "open")


def test_text_of_senders_is_escaped() -> None:
    decision = World().ask(dataset=HOSTILE)
    html = decision_html(decision)
    assert "<script" not in html
    assert "<img" not in html
    assert HOSTILE in table_rows(decision)["error"]
    wrong = FieldError(HOSTILE, HOSTILE, HOSTILE)
    everywhere = msgspec.structs.replace(
        decision,
        error=wrong,
        dataset=HOSTILE,
        fits=HOSTILE,
        note=HOSTILE,
        owners=(HOSTILE,),
        cost={HOSTILE: "1"},
    )
    assert HOSTILE in table_rows(everywhere)["dataset"]
    for made in (
        table(HOSTILE, [(HOSTILE, HOSTILE)]),
        grid(HOSTILE, [HOSTILE], [[HOSTILE]]),
        decision_html(everywhere),
    ):
        read = Cells(made)
        assert read.tags <= PLAIN
        assert HOSTILE in read.cells
        assert not re.search("<(?!/?(table|caption|thead|tbody|tr|th|td)[ >])", made)


def test_the_repr_of_a_decision_omits_empty_fields() -> None:
    text = repr(opened().ask("pure:0.1"))
    assert "GRANTED" in text
    assert "None" not in text
