"""The reference is complete: whatever has a name in the code has it in docs/reference/."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from accountant.display.reasons import REASONS
from accountant.records.outcomes import Outcome, Reason
from streams.cli.printing.exits import Exit
from streams.cli.reading.options import DEFAULT_URL
from streams.cli.root import app
from streams.embedded.service import EmbeddedService
from streams.metrics.registry import make_registry
from streams.settings import DEFAULT_URL as SETTINGS_URL
from streams.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def commands(command=None, path=()):
    command = typer.main.get_command(app) if command is None else command
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path), command
        return
    for name, child in children.items():
        yield from commands(child, (*path, name))


COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_section_with_every_option(name):
    sections = re.split(r"^## accountant ", page("commands.md"), flags=re.MULTILINE)
    found = [section for section in sections if section.split("\n", 1)[0] == name]
    assert len(found) == 1, f"docs/reference/commands.md needs one section for {name}"
    for parameter in COMMANDS[name].params:
        if parameter.name != "help":
            shown = parameter.opts[0]
            shown = shown if shown.startswith("-") else parameter.name.upper()
            assert f"`{shown}`" in found[0], f"{name} {shown} is not described"


def test_the_page_of_commands_is_what_the_program_and_its_notes_make():
    script = ROOT / "scripts" / "reference" / "commands_page.py"
    made = subprocess.run(
        [sys.executable, script, "--print"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout == page("commands.md"), "run make reference"


def test_every_outcome_is_explained():
    for outcome in Outcome:
        assert f"| `{outcome}` |" in page("reasons.md")


def test_every_reason_is_explained_in_the_order_of_precedence():
    reasons = page("reasons.md").split("## Reasons", 1)[1]
    places = [reasons.index(f"\n| `{reason}` |") for reason in Reason]
    assert places == sorted(places)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained_in_the_words_that_people_read(reason):
    words, reasons = REASONS[reason], page("reasons.md").split("## Reasons", 1)[1]
    row = re.search(rf"^\| `{reason}` \|.*$", reasons, re.MULTILINE)
    assert row
    _, _, _, meaning, remedy, _ = row[0].split("|")
    assert meaning.strip().startswith(words.meaning)
    assert remedy.strip().startswith(words.remedy)


def allowed(schema):
    """Return what a setting's column says of its range or its values."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "boolean":
        return "`true`, `false`"
    above = "exclusiveMinimum" in schema
    low = schema["exclusiveMinimum"] if above else schema.get("minimum")
    if low is None:
        return ""
    return f"{'above ' if above else ''}{low:,} to {schema['maximum']:,}"


def test_every_setting_is_described_with_its_default_and_range():
    text = page("settings.md")
    schemas = Settings.model_json_schema()["properties"]
    for name, field in Settings.model_fields.items():
        row = re.search(rf"^\| `{PREFIX}{name.upper()}` \|(.*)$", text, re.MULTILINE)
        assert row, f"{PREFIX}{name.upper()} is not in docs/reference/settings.md"
        cells = [cell.strip() for cell in row[1].split("|")]
        default = "" if field.default in (None, "") else f"`{field.default}`"
        assert cells[0] in {default, "``" if default == "" else default}
        assert cells[1] == allowed(schemas[name])


@pytest.mark.parametrize("variable", ["ACCOUNTANT_ANALYST", "ACCOUNTANT_OWNER"])
def test_every_command_that_reads_a_variable_of_its_own_is_named(variable):
    reading = [
        f"`{name} {parameter.opts[0]}`"
        for name, command in COMMANDS.items()
        for parameter in command.params
        if parameter.envvar == variable
    ]
    named = re.search(rf"`{variable}` \(([^)]*)\)", page("settings.md"))
    assert named
    assert sorted(named[1].split(", ")) == sorted(reading)


def test_the_commands_have_the_default_address_of_the_settings():
    assert DEFAULT_URL == SETTINGS_URL


def test_every_metric_is_described(tmp_path):
    ledger = EmbeddedService.open(tmp_path / "ledger.db", Settings())
    try:
        families = list(make_registry(ledger.live_ledgers).collect())
    finally:
        ledger.close_sync()
    text = page("metrics.md")
    ours = [family for family in families if family.name.startswith("privacy_")]
    assert len(ours) > 15
    for family in ours:
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        assert f"`{family.name}{suffix}`" in text, f"{family.name}{suffix} is not described"


def test_every_exit_code_is_described():
    for code in Exit:
        assert f"| {code.value} |" in page("commands.md")
        assert f"| {code.value} |" in (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
