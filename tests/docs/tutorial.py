"""Run a tutorial as its reader does: each block of a page, with the output that the page shows.

`sh` blocks are typed in a shell, `python` blocks with a title are saved as that file, and those
without one are cells of a notebook. A `text` block is the output of the block before it.
`WRITE_DOCS=1 pytest tests/docs/test_tutorials.py` writes today's outputs into the pages.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.docs.blocks import ROOT, Block, blocks
from tests.forks import commands
from tests.patience import PATIENCE_S

OPENS = ("README.md", "docs/tutorials/*", "examples/**", "Makefile")
STARTS = ("streams.cli", "streams.serve", "streams.worker.app", "streams.curator.start")

# Programs that run until they are stopped.
SERVES = re.compile(r"accountant (?:serve|worker|gateway)\b|python -m streams\.testing\.broker")
SET = re.compile(r"((?:[A-Z_]+=\S+ )+)")
# A shell remembers these for the lines after them.
REMEMBERED = re.compile(r"(?:export|umask|cd|\.) ")
EXIT = re.compile(r"#.*\bexit code (\d+)")
# What differs from run to run; tables are as wide as their cells.
VARIES = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME"),
    (r"\d{4}-\d\d-\d\d", "DATE"),
    (r"sha256:[0-9a-f]{64}", "HASH"),
    (r"[0-9a-f]{32}", "LEDGER"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"about -?\d+ (people|more|malignant)", r"about N \1"),
    (r"-?[\d.]+ ± [\d.]+", "N"),
    (r"^(quantile\(.+\)): -?[\d.]+$", r"\1: N"),
    (r"-?[\d.]+ \(-?[\d.]+ to -?[\d.]+\)", "N"),
    (r"in \d+ (hours|minutes)", r"in N \1"),
    (r"days \([\d.e-]+ a day", "days (N a day"),
    (r"\bt-[0-9a-f]{12}\b", "TOKEN"),
    (r"─+", "─"),
    (r"[ \t]+", " "),
)


def comparable(output: str) -> list[str]:
    """Return the lines of an output without what differs from run to run."""
    for pattern, word in VARIES:
        output = re.sub(pattern, word, output, flags=re.MULTILINE)
    return [line.strip() for line in output.splitlines() if line.strip()]


def matches(shown: str, output: str) -> bool:
    """Return whether an output is the one shown, where `...` is any lines."""
    lines = [".*" if line == "..." else re.escape(line) for line in comparable(shown)]
    return re.fullmatch("\n".join(lines), "\n".join(comparable(output)), re.DOTALL) is not None


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Reader:
    """Somebody who works through a page in a directory of their own.

    Attributes:
        here: the directory that the shell is in.
    """

    def __init__(self, directory: Path, serving: ExitStack) -> None:
        self.directory = directory
        self.here = directory
        self.serving = serving
        self.ports = {port: str(free_port()) for port in ("8000", "8001", "9092")}
        self.remembered = ""
        self.notebook: dict[str, Any] = {}
        for name, target in (".venv", sys.prefix), ("examples", ROOT / "examples"):
            if not (directory / name).exists():  # it is if another page was followed here before
                (directory / name).symlink_to(target)

    @property
    def environment(self) -> dict[str, str]:
        own = {k: v for k, v in os.environ.items() if not k.startswith("ACCOUNTANT_")}
        return own | {
            "ACCOUNTANT_PORT": self.ports["8000"],
            "ACCOUNTANT_METRICS_PORT": self.ports["8001"],
            "ACCOUNTANT_ANSWERS": str(self.directory / "answers.db"),
            "COLUMNS": "100",
            "PATH": commands.path_of_shell(),
            "PYTHONPATH": str(ROOT),
            "XDG_DATA_HOME": str(self.directory / "data"),
            "XDG_STATE_HOME": str(self.directory / "state"),
        }

    def does(self, block: Block) -> str:
        """Do what a block says, and return what it prints."""
        if block.language == "sh":
            return self._types(block.body)
        if block.title:
            (self.here / block.title).write_text(block.body)
            return ""
        return self._runs_cell(block.body)

    def _types(self, body: str) -> str:
        printed = ""
        for port, own in self.ports.items():
            body = re.sub(rf"(127\.0\.0\.1:|localhost:|--port ){port}\b", rf"\g<1>{own}", body)
        # A command continues while a quote of it is open, or after a backslash.
        for line in re.findall(r"(?:'[^']*'|\\\n|[^'\n])+", body):
            if line.strip().startswith("#") or not line.strip():
                continue
            if REMEMBERED.match(line):
                self.remembered += "" if line.startswith(". ") else f"{line}\n"
                if line.startswith("cd "):
                    self.here /= line.removeprefix("cd ").strip()
            elif line.startswith("make "):
                target = shlex.split(line, comments=True)
                subprocess.run([*target, "--dry-run"], cwd=ROOT, check=True, capture_output=True)
            elif SERVES.search(line):
                printed += self.serving.enter_context(self._served(line))
            else:
                printed += self._runs(line)
        return printed

    def _runs(self, line: str) -> str:
        done = subprocess.run(
            ["sh", "-c", self.remembered + line],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=5 * PATIENCE_S,
        )
        code = EXIT.search(line)
        assert done.returncode == (int(code[1]) if code else 0), f"{line}\n{done.stdout}"
        return done.stdout

    @contextmanager
    def _served(self, line: str) -> Iterator[str]:
        """Run a program as in a shell of its own until the page ends, and return its first line."""
        process = subprocess.Popen(
            ["sh", "-c", f"{self.remembered}exec env {line}"],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            # A worker prints its log alone.
            yield "" if "accountant worker" in line else process.stdout.readline()
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)

    def _runs_cell(self, body: str) -> str:
        """Run a cell, and print its last expression as a notebook does."""
        *before, last = ast.parse(body).body
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), _variables(self.environment, self.here):
            if isinstance(last, ast.Expr):
                exec(compile(ast.Module(before, []), "cell", "exec"), self.notebook)
                value = eval(compile(ast.Expression(last.value), "cell", "eval"), self.notebook)
                if value is not None:
                    print(value)
            else:
                exec(compile(body, "cell", "exec"), self.notebook)
        return printed.getvalue()


@contextmanager
def _variables(environment: dict[str, str], directory: Path) -> Iterator[None]:
    before, started_in = dict(os.environ), Path.cwd()
    os.environ.update(environment)
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(started_in)
        os.environ.clear()
        os.environ.update(before)


def work_through(page: Path, directory: Path, again: str = "") -> None:
    """Do every block of a page, and compare its outputs; or write them, with WRITE_DOCS.

    Args:
        again: the line that the page gives to whoever follows it another time.
    """
    text = page.read_text(encoding="utf-8")
    changed: list[tuple[tuple[int, int], str]] = []
    with ExitStack() as serving:
        reader, output, step = Reader(directory, serving), "", ""
        reader.remembered = f"{again}\n" if again else ""
        for block in blocks(text):
            if block.language != "text":
                output, step = reader.does(block), block.body
            elif not matches(block.body, output):
                assert "WRITE_DOCS" in os.environ, (
                    f"{page.name} shows\n{block.body}\nafter\n{step}\nwhich prints\n{output}"
                )
                for port, own in reader.ports.items():
                    output = output.replace(f"127.0.0.1:{own}", f"127.0.0.1:{port}")
                lines = [line.rstrip() for line in output.splitlines()]
                changed.append((block.span, "\n".join(lines).strip("\n") + "\n"))
    for (start, end), output in reversed(changed):
        text = text[:start] + output + text[end:]
    if changed:
        page.write_text(text, encoding="utf-8")
