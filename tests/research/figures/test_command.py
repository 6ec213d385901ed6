"""`make figures`, by the program that it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

OPENS = ("research/**",)
STARTS = ("research.figures",)

ROOT = Path(__file__).parents[3]


def run_figures(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "research.figures", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_command_writes_each_figure_to_a_file_of_its_name(
    tmp_path: Path, kind: str, start: bytes
) -> None:
    out = tmp_path / "drawn"
    done = run_figures("--out", str(out), "--only", "odometers_2016", "--format", kind)
    assert (done.returncode, done.stdout) == (0, f"{out}/odometers_2016.{kind}\n"), done.stderr
    assert (out / f"odometers_2016.{kind}").read_bytes().startswith(start)


@pytest.mark.parametrize("wrong", [("--format", "gif"), ("--only", "magic")])
def test_wrong_values_are_named(tmp_path: Path, wrong: tuple[str, str]) -> None:
    done = run_figures("--out", str(tmp_path), *wrong)
    assert done.returncode == 2
    assert wrong[0] in done.stderr
    assert wrong[1] in done.stderr
