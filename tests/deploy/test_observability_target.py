"""`make test-observability` fails where it cannot run; it never passes without having run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "observability.sh"


def unpack(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=60
    )


def test_without_apt_get_the_target_fails_and_names_the_missing_tools(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    cat = shutil.which("cat")
    assert cat
    (tmp_path / "bin" / "cat").symlink_to(cat)
    done = unpack(PATH=str(tmp_path / "bin"), HOME=str(tmp_path))
    assert done.returncode == 1
    assert "apt-get is not here" in done.stderr
    assert "OBSERVABILITY_BIN=" in done.stderr
    assert done.stdout == ""


def test_a_directory_without_the_programs_is_refused(tmp_path: Path) -> None:
    done = unpack(PATH=os.environ["PATH"], HOME=str(tmp_path), OBSERVABILITY_BIN=str(tmp_path))
    assert done.returncode == 1
    assert "lacks one of the programs" in done.stderr


def collect(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    known = {k: v for k, v in os.environ.items() if k != "OBSERVABILITY_BIN"}
    return subprocess.run(
        command, cwd=ROOT, env=known | environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_its_tests_fail_where_the_programs_are_missing(tmp_path: Path) -> None:
    file = "tests/observability/test_files.py"
    done = collect("-m", "observability", "-k", "alertmanager_accepts", file)
    assert done.returncode == 1, done.stdout
    assert "run `make test-observability`" in done.stdout
    assert "skipped" not in done.stdout
    done = collect(
        "-m", "observability", "-k", "alertmanager_accepts", file, OBSERVABILITY_BIN=str(tmp_path)
    )
    assert done.returncode == 1, done.stdout


@pytest.mark.slow
def test_other_runs_skip_its_tests() -> None:
    for chosen in ((), ("-m", "not kafka and not faults and not slow")):
        done = collect("--collect-only", *chosen, "tests/observability/test_files.py")
        assert done.returncode == 5, done.stdout
        assert "deselected" in done.stdout
