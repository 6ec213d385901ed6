"""Tests that run only when asked for are sound: other runs do not even import them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MARKERS = ("browser", "observability", "provider", "sources")


@pytest.mark.slow
def test_every_test_that_only_runs_when_asked_for_can_be_collected() -> None:
    directories = [f"tests/{marker}" for marker in MARKERS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only"]
    command += ["-m", " or ".join(MARKERS), *directories]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    for directory in directories:
        for file in (ROOT / directory).glob("test_*.py"):
            assert f"{directory}/{file.name}::" in done.stdout
