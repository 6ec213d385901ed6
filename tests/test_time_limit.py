"""A test that hangs fails under its name, and later tests still run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HANGING = """
import asyncio
import time

import pytest


async def test_waits_for_ever():
    await asyncio.Event().wait()


async def test_a_task_takes_the_first_blow():
    async def spin():
        while True:
            time.sleep(0.01)
            await asyncio.sleep(0)

    spinning = asyncio.create_task(spin())
    await asyncio.Event().wait()
    spinning.cancel()


@pytest.fixture
def stubborn():
    yield
    time.sleep(600)


def test_passes_and_hangs_behind_it(stubborn):
    pass


class SlowToPrint(Exception):
    def __str__(self):
        time.sleep(1.5)
        return "slow to print"


def test_fails_and_takes_long_to_report():
    raise SlowToPrint


def test_runs_all_the_same():
    pass
"""


@pytest.mark.slow
def test_a_hanging_test_is_named_and_the_others_run(tmp_path: Path) -> None:
    file = tmp_path / "test_hanging.py"
    file.write_text(HANGING)
    # This project's settings and hooks, with a limit of one second.
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", "--rootdir", "."]
    command += ["-p", "tests.conftest", "-p", "no:cacheprovider", "--timeout", "1", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stdout + done.stderr
    limited = set(re.findall(r"TimeLimit: \S*::(\w+) takes longer than 1 s", done.stdout))
    assert limited == {
        "test_waits_for_ever",
        "test_a_task_takes_the_first_blow",
        "test_passes_and_hangs_behind_it",
    }
    assert re.search(r"3 failed, 2 passed, 1 error in", done.stdout), done.stdout


def test_every_test_has_a_limit(pytestconfig: pytest.Config) -> None:
    assert 0 < float(pytestconfig.getini("timeout")) <= 600
