"""Write docs/reference/commands.md from the program.

    make reference
    python scripts/reference/commands_page.py --print

Synopsis, help and options come from the commands themselves; notes, exit codes and examples, where
a command has any, from commands_notes.md beside this file. Examples run in a directory of their
own, so their output is real. Its random and dated parts are replaced, so that the page changes only
with the program.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import typer
from print_or_write import print_or_write
from section_order import section_order
from typer.testing import CliRunner

from streams.cli.root import app

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "commands.md"
NOTES = HERE / "commands_notes.md"
WIDTH = 100

HEAD = HERE / "commands_head.md"

_FIXED = (
    (
        r"sha256:[0-9a-f]{64}",
        "sha256:8f3a0c2b9d11e4575c6d20a94e7b13f86a5d0c9e2b7f41638d9a0e5c4b2f1a70",
    ),
    (
        r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        "01a1fd8c-6900-7d4c-8e1f-5f3c2b1a0d9e",
    ),
    (r"acct_[A-Za-z0-9_-]+", "acct_EXAMPLE-TOKEN-DO-NOT-USE"),
    (r"\bt-[0-9a-f]{12}\b", "t-3588b8496f38"),
    (
        r"\+[0-9a-f]{8}\+[A-Za-z0-9+/=]{40,}",
        "+6d2c1f0a+AQ7e5pW0v3kT1m9Zc8XbYdLq2RfUhJgNsKoPiEwAyMxB",
    ),
    (r"ledger [0-9a-f]{32}", "ledger 5d0c7a91e2b84f36a1c09d7e5b3f4f80"),
    (r"2026-W\d\d|20\d\d-W\d\d", "2026-W48"),
    (r"\b20\d\d-\d\d-\d\d([T ])\d\d:\d\d:\d\d\.\d{3}", r"2026-11-21\g<1>10:00:00.012"),
    (r"\b20[2-8]\d-\d\d-\d\d([T ])\d\d:\d\d", r"2026-11-21\g<1>10:00"),
    (r"\b20[2-8]\d-\d\d-\d\d\b", "2026-11-21"),
    (r"\b20[2-8]\d-\d\d (\(not ended\))", r"2026-11 \g<1>"),
)


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, with its name."""
    if command is None:
        command = typer.main.get_command(app)
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path), command
        return
    for name, child in children.items():
        yield from commands(child, (*path, name))


class Notes:
    """The notes on one command: prose, exit codes and examples."""

    def __init__(self, text: str) -> None:
        self.prose: list[str] = []
        self.exits: list[tuple[str, str]] = []
        self.setup: list[str] = []
        self.files: dict[str, str] = {}
        self.examples: list[str] = []
        self.shown: list[str] = []
        for line in text.strip().splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "exit":
                code, _, meaning = rest.partition(": ")
                self.exits.append((code, meaning))
            elif kind == "setup$":
                self.setup.append(rest)
            elif kind == "shown$":
                self.shown.append(rest)
            elif kind == "file":
                name, _, content = rest.partition(": ")
                self.files[name] = f"{self.files.get(name, '')}{content}\n"
            elif kind == "$":
                self.examples.append(rest)
            else:
                self.prose.append(line)


def notes() -> dict[str, Notes]:
    """Return the notes on each command, in the order of the page."""
    sections = NOTES.read_text("utf-8").split("\n## ")[1:]
    return {name: Notes(text) for name, _, text in (s.partition("\n") for s in sections)}


def run(line: str, *, expected: tuple[int, ...] = (0,)) -> str:
    """Run a command in the current directory, and return what a terminal would show."""
    words, stdin, target = shlex.split(line), b"", None
    assert words.pop(0) == "accountant", line
    if ">" in words:
        target = words.pop(words.index(">") + 1)
        words.remove(">")
    if "<" in words:
        stdin = Path(words.pop(words.index("<") + 1)).read_bytes()
        words.remove("<")
    result = CliRunner().invoke(app, words, input=stdin)
    assert result.exit_code in expected, f"{line}: {result.exit_code} {result.output}"
    if target is None:
        return result.output
    Path(target).write_bytes(result.stdout_bytes)
    return result.stderr


def steady(text: str) -> str:
    """Replace whatever differs from run to run."""
    for pattern, fixed in _FIXED:
        text = re.sub(pattern, fixed, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def example(of: Notes) -> str:
    """Return a block with the examples' commands and their output."""
    if not of.examples:
        return "\n".join(["```", *of.shown, "```"])
    kept = {name: value for name, value in os.environ.items() if name.startswith("ACCOUNTANT_")}
    for name in kept:
        del os.environ[name]
    try:
        with tempfile.TemporaryDirectory() as directory, chdir(directory):
            os.environ.update(
                XDG_STATE_HOME=directory, ACCOUNTANT_CHECKPOINTS="off", COLUMNS=str(WIDTH)
            )
            for name, content in of.files.items():
                Path(name).write_text(content, "utf-8")
            for line in of.setup:
                run(line)
            lines: list[str] = []
            for name, content in of.files.items():
                lines += [f"$ cat {name}", *content.splitlines()]
            for line in of.examples:
                lines += [f"$ {line}", *steady(run(line)).splitlines()]
    finally:
        for name in ("XDG_STATE_HOME", "ACCOUNTANT_CHECKPOINTS", "COLUMNS"):
            os.environ.pop(name, None)
        os.environ.update(kept)
    return "\n".join(["```console", *lines, "```"])


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def row(parameter: Any) -> str:
    """Return the row of an argument or option."""
    named = [o if o.startswith("-") else parameter.name.upper() for o in parameter.opts]
    if parameter.param_type_name == "argument":
        named = [parameter.name.upper()]
    default = parameter.default
    if callable(default) or default in (None, False, (), []) or "Unset" in repr(default):
        shown = "required" if parameter.required else ""
    else:
        shown = f"`{default}`"
    said = parameter.help or ""
    if parameter.envvar:
        said += f" (`{parameter.envvar}`)"
    names = ", ".join(f"`{name}`" for name in named)
    return f"| {names} | {shown} | {cell(said)} |"


def synopsis(name: str, command: Any) -> str:
    """Return how a command is typed: what it needs, then [OPTIONS]."""
    words = ["accountant", name]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            metavar = parameter.name.upper()
            words.append(metavar if parameter.required else f"[{metavar}]")
        elif parameter.required:
            words.append(f"{parameter.opts[0]} {parameter.opts[0].lstrip('-').upper()}")
    return " ".join([*words, "[OPTIONS]"])


def help_of(command: Any) -> str:
    """Return a command's help, each paragraph in one line."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", (command.help or "").strip())


def section(name: str, command: Any, of: Notes) -> str:
    """Return the section of one command."""
    parts = [f"## accountant {name}", f"```\n{synopsis(name, command)}\n```"]
    first, _, rest = help_of(command).partition("\n\n")
    # Notes say what the rest of the help says, and more.
    prose = "\n".join(of.prose).strip() or rest
    parts += [first, prose] if prose else [first]
    shown = [p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)]
    rows = [row(p) for p in shown]
    if rows:
        parts.append(
            "\n".join(["| argument or option | default | meaning |", "|---|---|---|", *rows])
        )
    if of.exits:
        exits = [f"| {code} | {meaning} |" for code, meaning in of.exits]
        parts.append("\n".join(["| exit code | when |", "|---|---|", *exits]))
    if of.examples or of.shown:
        parts.append(example(of))
    return "\n\n".join(parts) + "\n"


def page() -> str:
    """Return the page as it must be."""
    known, found = notes(), dict(commands())
    order = section_order(known, list(found))
    rows = []
    for name in order:
        first = help_of(found[name]).partition("\n")[0].partition(". ")[0].rstrip(".")
        rows.append(f"| [`{name}`](#accountant-{name.replace(' ', '-')}) | {cell(first)} |")
    index = "\n".join(["## All commands\n", "| command | what it does |", "|---|---|", *rows, ""])
    return "\n".join(
        [
            HEAD.read_text("utf-8"),
            index,
            *(section(name, found[name], known.get(name, Notes(""))) for name in order),
        ]
    )


if __name__ == "__main__":
    print_or_write(page(), PAGE)
