"""The commands of README and docs/start.md, as a newcomer types them in a clone."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVES = {"README.md": 1, "docs/start.md": 2}
PAGES = tuple(SERVES)
BLOCK = re.compile(r"^```\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# All others end with 0.
EXITS = {"ask census gaussian:sigma=20,sensitivity=1 --analyst ana --dry-run": 6, "# refused": 1}
# What a shell keeps for the lines after it.
KEPT = re.compile(r"(?:export|umask) ")
SET = re.compile(r"((?:[A-Z_]+=\S+ )+)")


def commands(page: str) -> list[str]:
    """Return the commands of a page's blocks that are typed in a shell.

    Each with what the lines before it in its block have set.
    """
    blocks = BLOCK.findall((ROOT / page).read_text())
    typed = r"(?:make|curl|export|umask|(?:[A-Z_]+=\S+ )*\.venv/bin/)"
    shells = [block for block in blocks if re.match(typed, block)]
    found = []
    for block in shells:
        kept = ""
        # A command goes on for as long as a quote of it is open.
        for line in re.findall(r"(?:'[^']*'|[^'\n])+", block):
            if KEPT.match(line):
                kept += f"{line}\n"
            else:
                found.append(kept + line)
    return found


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A directory with the environment where `make setup` makes it."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def environment(port: int, clone: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ACCOUNTANT_")}
    answers = str(clone / "answers.db")
    return {**kept, "ACCOUNTANT_PORT": str(port), "ACCOUNTANT_ANSWERS": answers}


@contextmanager
def served(command: str, clone: Path, port: int) -> Iterator[None]:
    """Run `serve` as the page has it, until the block ends."""
    found = SET.match(command)
    given = dict(each.split("=", 1) for each in shlex.split(found[1])) if found else {}
    arguments = shlex.split(command[len(found[1]) :] if found else command, comments=True)
    process = subprocess.Popen(
        arguments,
        cwd=clone,
        env={**environment(port, clone), **given},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield
    finally:
        process.terminate()
        process.wait(30)


def run(command: str, clone: Path, port: int) -> None:
    command = command.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    # Without it `watch` goes on until it is interrupted.
    command = command.replace("accountant watch", "accountant watch --once")
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=clone,
        env=environment(port, clone),
        capture_output=True,
        text=True,
        timeout=60,
    )
    expected = next((code for word, code in EXITS.items() if word in command), 0)
    assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"
    if "curl" in command and "/requests" in command:
        assert '"outcome":"granted"' in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_command_runs_as_it_is_typed(page: str, clone: Path) -> None:
    typed = commands(page)
    assert len(typed) >= 3
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert sum("accountant serve" in command for command in typed) == SERVES[page]
    with ExitStack() as serving:
        for command in typed:
            if "accountant serve" in command:
                serving.close()  # of an earlier section
                serving.enter_context(served(command, clone, port))
            elif command.startswith("make "):
                # The recipe alone: this environment is made already.
                target = shlex.split(command, comments=True)
                subprocess.run([*target, "--dry-run"], cwd=ROOT, check=True, capture_output=True)
            else:
                run(command, clone, port)


def test_no_page_names_a_command_that_is_not_on_the_path() -> None:
    for page in PAGES:
        for block in BLOCK.findall((ROOT / page).read_text()):
            assert not re.search(r"^(?:accountant|python) ", block, re.MULTILINE), block
            assert not re.search(r"\$\((?:accountant|python) ", block), block
