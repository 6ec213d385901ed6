"""The wheel contains both packages, the demo's data, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def built(tree: Path, into: Path, *, umask: int = -1) -> Path:
    """Return the wheel of a tree."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--wheel-dir", str(into), str(tree)]
    subprocess.run(command, check=True, cwd=into, umask=umask)
    (wheel,) = into.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_a_wheel_builds_twice_to_the_same_bytes(tmp_path: Path) -> None:
    wheels = []
    for number, umask in enumerate((0o022, 0o077)):
        tree, into = tmp_path / f"tree{number}", tmp_path / f"wheel{number}"
        into.mkdir()
        tracked = ["git", "checkout-index", "--all", f"--prefix={tree}/"]
        subprocess.run(tracked, check=True, cwd=ROOT, umask=umask)
        for path in tree.rglob("*"):
            os.utime(path, (number * 1_000_000_000 + 1, number * 1_000_000_000 + 1))
        wheels.append(built(tree, into, umask=umask))
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


@pytest.mark.slow
def test_the_wheel_contains_both_packages_and_nothing_else(tmp_path: Path) -> None:
    wheel = built(ROOT, tmp_path)
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
    assert not [
        name
        for name in shipped
        if not name.endswith((".py", ".json", "py.typed", ".html", ".css", ".svg"))
    ]


# Imports every module of a directory, while none is to be found that the wheel does not hold.
EVERY_MODULE = """
import importlib, pkgutil, sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"research", "tests", "benchmarks"}:
            raise AssertionError(f"a module of the wheel imports {name}")

sys.meta_path.insert(0, NotInstalled())
sys.path.insert(0, sys.argv[1])
count = 0
for package in ("accountant", "streams"):
    loaded = importlib.import_module(package)
    assert loaded.__file__.startswith(sys.argv[1]), loaded.__file__
    for module in pkgutil.walk_packages(loaded.__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
            count += 1
print(count)
"""


@pytest.mark.slow
def test_no_module_of_the_wheel_imports_a_module_outside_it(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    zipfile.ZipFile(built(ROOT, tmp_path)).extractall(installed)
    command = [sys.executable, "-c", EVERY_MODULE, str(installed)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 400
