"""A new command, route or outcome is on its generated page before anybody writes a note on it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from accountant.records.outcomes import Outcome

SCRIPTS = Path(__file__).parents[2] / "scripts" / "reference"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(SCRIPTS)
    return import_module


def test_what_has_no_note_follows_its_predecessor(script: Any) -> None:
    order = script("section_order").section_order
    assert order(["pause", "open"], ["open", "label", "tag", "pause"]) == [
        *("pause", "open", "label", "tag"),
    ]
    assert order(["pause"], ["open", "pause"]) == ["open", "pause"]
    with pytest.raises(AssertionError, match="label"):
        order(["label"], ["open"])


def test_a_command_without_notes_has_its_help_and_options(script: Any) -> None:
    page = script("commands_page")
    made = page.section("dataset pause", dict(page.commands())["dataset pause"], page.Notes(""))
    assert "Pause a dataset: it grants nothing until it is resumed." in made
    assert "| `--as-administrator` |" in made
    assert made.count("```") == 2, "the synopsis alone: there is no example"


def test_an_outcome_without_a_note_is_described_by_its_record(script: Any) -> None:
    row = script("reasons_page").applied
    assert row(Outcome.PAUSED).startswith("| `paused` | The record `pause` was applied. An owner")
    assert "the `cost`" in row(Outcome.RESERVED)
    assert "the `cost`" not in row(Outcome.PAUSED)
