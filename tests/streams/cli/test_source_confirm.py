"""`accountant source confirm` shows how a source differs, and confirms it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams.sources.confirmed_facts import confirmed_path
from tests.streams.cli.conftest import Command
from tests.streams.gateway.asking import data_settings

SECRET = "4711"
"""A cell of the data, which no output has."""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    data_settings(tmp_path, rows=3)
    data = tmp_path / "people.csv"
    data.write_text(f"{data.read_text()}{SECRET},north\n")
    return tmp_path / "sources.json"


def header(sources: Path, names: str) -> None:
    data = sources.with_name("people.csv")
    _, _, rows = data.read_text().partition("\n")
    data.write_text(f"{names}\n{rows}")


def test_it_shows_what_differs_and_confirms_it(accountant: Command, sources: Path) -> None:
    run = ["source", "confirm", "people", "--data-sources", str(sources)]
    first = accountant(*run)
    assert first.code == 0
    assert "nothing was confirmed of people before" in first.out
    assert "age  text" in first.out
    assert "confirmed 2 columns of people" in first.out
    assert "the names and types that were confirmed before" in accountant(*run).out
    header(sources, "age,area")
    changed = accountant(*run)
    assert "`region` is gone, and was of type text" in changed.out
    assert "`area` is new, of type text" in changed.out
    content = json.loads(confirmed_path(sources).read_bytes())
    assert content["people"]["by"] == "owner"
    assert [each["name"] for each in content["people"]["columns"]] == ["age", "area"]
    header(sources, "age")
    found = accountant(*run, "--json").json
    assert found == {
        "source": "people",
        "first": False,
        "changes": [{"column": "area", "before": "text", "now": ""}],
    }
    assert SECRET not in first.out + changed.out + confirmed_path(sources).read_text()


def test_it_confirms_nothing_that_it_cannot_read(accountant: Command, sources: Path) -> None:
    misspelt = accountant("source", "confirm", "peple", "--data-sources", str(sources))
    assert misspelt.code == 2
    assert "did you mean people?" in misspelt.err
    sources.with_name("people.csv").write_bytes(b"PAR1")
    wrong = accountant("source", "confirm", "people", "--data-sources", str(sources))
    assert wrong.code == 4
    assert "cannot be read" in wrong.err
    assert "Nothing changed" in wrong.err
    assert not confirmed_path(sources).exists()
    data_settings(sources.parent)
    confirmed_path(sources).write_text("{}")
    confirmed_path(sources).chmod(0o644)
    exposed = accountant("source", "confirm", "people", "--data-sources", str(sources))
    assert exposed.code == 4
    assert f"chmod 600 {confirmed_path(sources)}" in exposed.err
