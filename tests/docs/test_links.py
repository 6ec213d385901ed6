"""Links within the documentation lead somewhere, and what the README says can be run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from streams.cli.root import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(text: str) -> set[str]:
    """Return the anchors that headings get."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_local_links_resolve(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), f"{target} leads nowhere"
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked.read_text(encoding="utf-8")), f"no heading #{anchor}"


def test_every_record_of_a_decision_is_in_the_index_in_order():
    linked = re.findall(
        r"\]\(decisions/([^)]+)\)", (ROOT / "docs" / "README.md").read_text("utf-8")
    )
    assert linked == sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))


def code_lines(path: Path) -> list[str]:
    text = path.read_text("utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^ *```(?:sh)?\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [line.strip() for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_code_exist_with_their_options(path):
    for line in code_lines(path):
        words = shlex.split(line, comments=True) if line.count("'") % 2 == 0 else []
        words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
        if not words or words[0] not in {"accountant", ".venv/bin/accountant"}:
            continue
        command, rest = typer.main.get_command(app), words[1:]
        while rest and hasattr(command, "commands"):
            assert rest[0] in command.commands, line
            command, rest = command.commands[rest[0]], rest[1:]
        options = {option for p in command.params for option in p.opts} | {"[OPTIONS]"}
        for word in rest:
            if word.startswith("--"):
                assert word.split("=")[0] in options, line


def test_make_recipes_in_the_readme_exist():
    recipes = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = re.findall(r"make ([a-z-]+)", "\n".join(code_lines(ROOT / "README.md")))
    assert named
    assert set(named) <= recipes
