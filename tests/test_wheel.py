"""The wheel holds both packages, the demo's data, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_wheel_holds_both_packages_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("streaming_privacy_accountant-")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"accountant", "streams"}
    shipped = {name for name in names if name.startswith(("accountant/", "streams/"))}
    tracked = subprocess.run(
        ["git", "ls-files", "accountant", "streams"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert set(tracked) <= shipped
    assert {"accountant/py.typed", "streams/py.typed", "streams/cli/demo/__init__.py"} <= shipped
    assert not [name for name in shipped if not name.endswith((".py", ".json", "py.typed"))]
