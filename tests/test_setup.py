"""`make setup` shows its progress, and ends where pip does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

OPENS = ("scripts/setup.sh", "scripts/pip_progress.sh", "requirements/*.txt")
STARTS = ()

ROOT = Path(__file__).resolve().parents[1]
SETUP = ROOT / "scripts" / "setup.sh"


def entries(count: int) -> str:
    """Return the first locked packages, with their hashes."""
    text = (ROOT / "requirements" / "build.txt").read_text()
    found = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    return "".join([each for each in found if "==" in each][:count])


def progress(all_packages: int, printed: str) -> list[str]:
    done = subprocess.run(
        ["sh", ROOT / "scripts" / "pip_progress.sh", str(all_packages)],
        input=printed,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_log_gets_a_line_for_every_25_packages(tmp_path: Path) -> None:
    (tmp_path / "locked.txt").write_text(entries(1))
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--require-hashes", "-r"]
    done = subprocess.run(
        [*command, "locked.txt"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    # One package as pip itself names it, sixty times.
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("Requirement already")]
    assert progress(60, f"{line}\n" * 60) == [
        "  25 of 60 packages are here",
        "  50 of 60 packages are here",
    ]
    last = "Installing collected packages: a, b\n"
    assert progress(25, f"{line}\n" * 25 + last) == [
        "  all packages are here; unpacking them takes a minute"
    ]


def test_a_refusal_of_pip_ends_the_setup(tmp_path: Path) -> None:
    (tmp_path / "without-hash.txt").write_text("packaging==26.0\n")
    done = subprocess.run(
        ["sh", SETUP, sys.prefix, "without-hash.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Installing 1 locked packages" in done.stdout
    assert "hash" in done.stderr.lower()
    # Neither the project of this directory, which has none, nor the environment is gone on with.
    assert "--editable" not in done.stderr
    assert "pyproject.toml" not in done.stderr
    assert "is ready" not in done.stdout
