"""Links within the documentation lead somewhere, and what the README says can be run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import typer

from streams.cli.root import app

ROOT = Path(__file__).parents[2]


@cache
def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors that the headings of a page get."""
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def wrong_links(path: Path) -> Iterator[str]:
    """Yield the links of a page to files and headings that do not exist."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        if not linked.exists():
            yield f"{target} leads nowhere"
        elif anchor and linked.suffix == ".md" and anchor not in anchors(linked):
            yield f"{target}: no heading #{anchor}"


def wrong_in_pages(problems: Callable[[Path], Iterable[str]]) -> str:
    """Return what is wrong in the pages, a line each."""
    return "\n".join(
        f"{path.relative_to(ROOT)}: {problem}" for path in pages() for problem in problems(path)
    )


def test_local_links_resolve():
    wrong = wrong_in_pages(wrong_links)
    assert not wrong, wrong


def test_a_link_that_leads_nowhere_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](#two) [b](other.md) [c](#one) [d](page.md#one) [e](https://x.y)")
    assert list(wrong_links(page)) == ["#two: no heading #two", "other.md leads nowhere"]


def test_every_record_of_a_decision_is_in_the_index_in_order():
    linked = re.findall(
        r"\]\(decisions/([^)]+)\)", (ROOT / "docs" / "README.md").read_text("utf-8")
    )
    assert linked == sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))


@cache
def root_command():
    return typer.main.get_command(app)


def code_lines(path: Path) -> list[str]:
    text = path.read_text("utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^ *```(?:sh)?\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [line.strip() for block in blocks for line in block.splitlines()]


def wrong_commands(path: Path) -> Iterator[str]:
    """Yield the lines of code with a command or an option that does not exist."""
    for line in code_lines(path):
        words = shlex.split(line, comments=True) if line.count("'") % 2 == 0 else []
        words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
        if not words or words[0] not in {"accountant", ".venv/bin/accountant"}:
            continue
        command, rest = root_command(), words[1:]
        while rest and hasattr(command, "commands"):
            if rest[0] not in command.commands:
                yield f"no command {rest[0]}: {line}"
                break
            command, rest = command.commands[rest[0]], rest[1:]
        else:
            options = {option for p in command.params for option in p.opts} | {"[OPTIONS]"}
            for word in rest:
                if word.startswith("--") and word.split("=")[0] not in options:
                    yield f"no option {word}: {line}"


def test_commands_in_code_exist_with_their_options():
    wrong = wrong_in_pages(wrong_commands)
    assert not wrong, wrong


def test_a_command_or_an_option_that_does_not_exist_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\naccountant askk census\naccountant ask --analist ana\n```\n")
    assert [each.partition(":")[0] for each in wrong_commands(page)] == [
        "no command askk",
        "no option --analist",
    ]


def test_make_recipes_in_the_readme_exist():
    recipes = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = re.findall(r"make ([a-z-]+)", "\n".join(code_lines(ROOT / "README.md")))
    assert named
    assert set(named) <= recipes
