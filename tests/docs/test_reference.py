"""The reference is complete: whatever has a name in the code has it in docs/reference/."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from functools import cache
from inspect import signature
from itertools import chain
from pathlib import Path

import msgspec
import pytest
import typer

from accountant.display.reasons import REASONS
from accountant.records.outcomes import Outcome, Reason
from streams import Accountant, AsyncAccountant
from streams.cli.printing.exit_codes import Exit
from streams.cli.reading.options import DEFAULT_URL
from streams.cli.root import app
from streams.embedded.service import EmbeddedService
from streams.metrics.registry import make_registry
from streams.settings import DEFAULT_URL as SETTINGS_URL
from streams.settings import PREFIX, Settings
from tests.every_case import check_each, check_rows

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


@cache
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


def test_every_command_has_its_section_with_every_option():
    def check(name, command):
        found = [section for section in sections if section.split("\n", 1)[0] == name]
        assert len(found) == 1, "docs/reference/commands.md needs one section"
        shown = [
            parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.name.upper()
            for parameter in command.params
            if parameter.name != "help" and not getattr(parameter, "hidden", False)
        ]
        missing = [each for each in shown if f"`{each}`" not in found[0]]
        assert not missing, "not described"

    sections = re.split(r"^## accountant ", page("commands.md"), flags=re.MULTILINE)
    check_rows(check, commands())


SCRIPTS = ROOT / "scripts" / "reference"
GENERATED = {
    "commands_page.py": ["commands.md"],
    "routes_page.py": ["http/routes.md"],
    "reasons_page.py": ["reasons.md"],
    "made_pages.py": [
        str(each.relative_to(SCRIPTS / "pages")) for each in sorted(SCRIPTS.glob("pages/**/*.md"))
    ],
}


@pytest.mark.parametrize("script", GENERATED)
def test_generated_pages_equal_the_output_of_their_scripts(script):
    made = subprocess.run(
        [sys.executable, SCRIPTS / script, "--print"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    pages = GENERATED[script]
    assert made.stdout == "".join(page(name) for name in pages), "run make reference"


class Explained(msgspec.Struct):
    """A wire type.

    Attributes:
        first, second: two
            numbers.
    """

    first: int
    second: int


class Unexplained(Explained):
    """One with a field more.

    Attributes:
        second: as of `Explained`.
    """

    third: int


class Stray(Explained):
    """One without that field.

    Attributes:
        third: a number.
    """


def test_a_field_without_words_or_words_without_a_field_stop_a_page(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    field_words = importlib.import_module("struct_words").field_words
    assert field_words(Explained, frozenset({"first"})) == [(("second",), "Two numbers.")]
    with pytest.raises(SystemExit, match="Unexplained: explain third"):
        field_words(Unexplained)
    explained = field_words(Unexplained, frozenset({"third"}))
    assert explained == [(("first",), "Two numbers."), (("second",), "Two numbers.")]
    with pytest.raises(SystemExit, match="Stray has not all of the fields third"):
        field_words(Stray)


def test_generated_pages_are_marked_as_such():
    marked = (ROOT / ".gitattributes").read_text(encoding="utf-8")
    for name in chain(*GENERATED.values()):
        assert f"docs/reference/{name} linguist-generated\n" in marked


def test_every_outcome_is_explained():
    for outcome in Outcome:
        assert f"| `{outcome}` |" in page("reasons.md")


def test_every_reason_is_explained_in_the_order_of_precedence():
    reasons = page("reasons.md").split("## Reasons", 1)[1]
    places = [reasons.index(f"\n| `{reason}` |") for reason in Reason]
    assert places == sorted(places)


def test_every_reason_is_explained_in_the_words_that_people_read():
    def check(reason):
        words = REASONS[reason]
        row = re.search(rf"^\| `{reason}` \|.*$", reasons, re.MULTILINE)
        assert row, "has no row"
        _, _, _, meaning, remedy, _ = row[0].split("|")
        assert meaning.strip().startswith(words.meaning)
        assert remedy.strip().startswith(words.remedy)

    reasons = page("reasons.md").split("## Reasons", 1)[1]
    check_each(check, Reason)


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


def test_the_options_of_the_python_client_are_arguments_of_its_constructor():
    page = (ROOT / "docs/reference/python.md").read_text()
    table = page.partition("## Options of the client")[2].partition("\n\nIf ")[0]
    options = re.findall(r"^\| `(\w+)=`", table, re.MULTILINE)
    assert {"analyst", "token", "wait"} <= set(options)
    for client in (Accountant, AsyncAccountant):
        assert set(options) <= set(signature(client).parameters)


def test_the_commands_have_the_default_address_of_the_settings():
    assert DEFAULT_URL == SETTINGS_URL


def test_every_metric_is_described(tmp_path):
    ledger = EmbeddedService.open(tmp_path / "ledger.db", Settings())
    try:
        families = list(make_registry(ledger.live_ledgers).collect())
    finally:
        ledger.close_sync()
    text = "".join(page(f"metrics/{path.name}") for path in (REFERENCE / "metrics").glob("*.md"))
    ours = [family for family in families if family.name.startswith("privacy_")]
    assert len(ours) > 15
    for family in ours:
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        assert f"`{family.name}{suffix}`" in text, f"{family.name}{suffix} is not described"


def test_every_exit_code_is_described():
    guide = (ROOT / "docs" / "how-to" / "refused-start.md").read_text(encoding="utf-8")
    for code in Exit:
        assert f"| {code.value} |" in page("commands.md")
        assert f"| {code.value} |" in guide


def problem_codes():
    """Return status and code of every problem document that the code makes."""
    pattern = re.compile(r"problem\(\s*(\d{3}),\s*\"([a-z_]+)\"")
    for package in ("streams",):
        for path in (ROOT / package).rglob("*.py"):
            yield from pattern.findall(path.read_text(encoding="utf-8"))


def test_every_error_of_http_has_its_row_with_a_remedy():
    text, codes = page("http/errors.md"), set(problem_codes())
    assert len(codes) > 10
    for status, code in codes:
        row = re.search(rf"^\| {status} \| `{code}`[^|]*\|([^|]+)\|([^|]+)\|$", text, re.MULTILINE)
        assert row, f"{status} {code}"


def test_every_route_is_in_the_matrix_of_access():
    text = page("http/access.md")
    routes = re.findall(r"^## ([A-Z]+) (\S+)$", page("http/routes.md"), re.MULTILINE)
    assert len(routes) > 20
    for method, path in routes:
        last = path.removeprefix("/datasets/{dataset}")
        last = "/requests" if last == "/requests/{request_id}" else last
        named = (f"`{method} {path}`", f"`{method} ...{last}`", f"`...{last}`")
        named += (f"`{method} .../{{dataset}}`",) if not last else ()
        assert any(name in text for name in named), (method, path)


def test_the_example_of_an_error_is_a_real_response():
    (example,) = re.findall(
        r"^```json\n(.*?)^```", page("http/errors.md"), re.MULTILINE | re.DOTALL
    )
    example = json.loads(example)
    bodies = re.findall(
        r"^HTTP/1.1 404.*?\n\n(\{.*?)\n```", page("http/routes.md"), re.DOTALL | re.MULTILINE
    )
    assert example in [json.loads(body.replace("\n", " ")) for body in bodies]
