"""Planted bugs: read the header of each patch, and run tests on a copy that has the bug.

A patch starts with lines of the form `name: text`:

    what: the bug, in one sentence
    breaks: the guarantee that the bug breaks
    caught-by: a test that must fail, as pytest names it; once for each
    fails-with: an error of the product with which such a test may fail before any assertion
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
MOST_S: Final = 240
_SOURCES: Final = "tests/sources/"
_PARTS: Final = ("accountant", "streams", "research", "tests")
# What tests read beside them, and no bug is planted in.
_READ: Final = (
    *("docs", "deploy", "examples"),
    *("README.md", "SECURITY.md", "Makefile", "docker-compose.yml"),
)
_HEADER: Final = re.compile(r"(what|breaks|caught-by|fails-with): (.+)")
# No other plugin: schemathesis alone takes four times as long to import as most of these tests run.
_PLUGINS: Final = ("pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
_PYTEST: Final = ("-m", "pytest", "-q", *(f"-p{name}" for name in ("no:cacheprovider", *_PLUGINS)))
_SETTINGS: Final = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
# In the messages of tests that have waited in vain.
_WAITED: Final = re.compile(r"takes longer than|still not:|did not come about|TimeoutError")


@dataclass(frozen=True)
class Planted:
    """One planted bug.

    Attributes:
        path: of its patch.
        what, breaks: see above.
        caught_by: the tests that must fail.
        fails_with: names of the errors that they may fail with, besides an assertion's.
    """

    path: Path
    what: str
    breaks: str
    caught_by: tuple[str, ...]
    fails_with: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def needs_broker(self) -> bool:
        return any("kafka" in test for test in self.caught_by)

    @property
    def needs_postgresql(self) -> bool:
        return any(test.startswith(_SOURCES) for test in self.caught_by)

    @classmethod
    def read(cls, path: Path) -> Planted:
        """Read the header of a patch.

        Raises: ValueError: a line of the header is missing or malformed.
        """
        head = path.read_text("utf-8").partition("diff --git ")[0]
        header: dict[str, list[str]] = {}
        for line in filter(None, head.splitlines()):
            found = _HEADER.fullmatch(line)
            if found is None:
                raise ValueError(f"{path.name}: {line!r} is not a header line")
            header.setdefault(found[1], []).append(found[2])
        missing = {"what", "breaks", "caught-by"} - header.keys()
        if missing or len(header["what"]) != 1 or len(header["breaks"]) != 1:
            raise ValueError(
                f"{path.name}: the header needs one `what`, one `breaks`, and a `caught-by`"
            )
        (what,), (breaks,) = header["what"], header["breaks"]
        tests, errors = header["caught-by"], header.get("fails-with", [])
        return cls(path, what, breaks, tuple(tests), tuple(errors))


def all_planted() -> list[Planted]:
    """Return every planted bug, by name."""
    return [Planted.read(path) for path in sorted(HERE.glob("*.patch"))]


def apply(patch: Path, *options: str, at: Path) -> None:
    """Apply a patch to the files in a directory, even if it is in another repository."""
    env = os.environ | {"GIT_CEILING_DIRECTORIES": str(at.parent)}
    command = ["git", "apply", *options, str(patch)]
    done = subprocess.run(command, cwd=at, env=env, capture_output=True, text=True)
    assert done.returncode == 0, (
        f"{patch.name} does not apply: {done.stderr}The code that it changes has changed; plant "
        "the bug again, as docs/explanation/testing.md says"
    )


def copied(directory: Path) -> Path:
    """Return a copy of the tree, without files that other processes are writing."""
    root = directory / "copy"
    for part in _PARTS:
        # Copy compiled files, too: Python compares them with the time and size of their sources.
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("*.pyc.*"))
    for other in _READ:
        (root / other).symlink_to(ROOT / other)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


@dataclass(frozen=True)
class Failure:
    """One test that has failed.

    Attributes:
        test: its file and name, as in `caught-by`, without its parameters.
        message: the error.
        in_test: whether the test itself has failed, and not its fixtures or its collection.
    """

    test: str
    message: str
    in_test: bool

    def is_of(self, test: str) -> bool:
        """Return whether this is a failure of a test that `caught-by` names."""
        return self.test == test.partition("[")[0]

    def is_caught(self, bug: Planted) -> bool:
        """Return whether the test has found the bug, rather than failed to run."""
        if not self.in_test or _WAITED.search(self.message):
            return False
        first = self.message.lstrip()
        # pytest omits the name of the error if it explains an `assert` of the test.
        asserted = re.match(r"AssertionError|assert\b|Failed: DID NOT RAISE", first)
        named = (re.match(rf"([\w.]+\.)?{re.escape(name)}\b", first) for name in bug.fails_with)
        return asserted is not None or any(named)


@dataclass(frozen=True)
class Run:
    """The result of a run of pytest.

    Attributes:
        code: its exit code: 0 all passed, 1 some failed, others: it could not run.
        output: the end of its output.
    """

    code: int
    failures: tuple[Failure, ...]
    output: str


def run(tests: Iterable[str], *, at: Path, within: float = MOST_S) -> Run:
    """Run tests on a copy of the tree, as often as `make test` repeats them."""
    report, tests = at / "report.xml", list(tests)
    marked = ("-m", "sources") if any(test.startswith(_SOURCES) for test in tests) else ()
    unset = {"NIGHTLY", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"}
    environment = {k: v for k, v in os.environ.items() if k not in unset}
    done = subprocess.run(
        [sys.executable, *_PYTEST, f"--junitxml={report}", *marked, *tests],
        cwd=at,
        env=environment | _SETTINGS | {"PYTHONPATH": str(at)},
        capture_output=True,
        text=True,
        timeout=within,
    )
    failures = tuple(_failures(report)) if report.exists() else ()
    return Run(done.returncode, failures, (done.stdout + done.stderr)[-6000:])


def assert_caught(bug: Planted, *, within: Path) -> None:
    """Plant a bug in a copy of the tree, and run the tests that must find it.

    Raises: AssertionError: not all of them fail, or one fails otherwise.
    """
    root = copied(within)
    apply(bug.path, at=root)
    ran = run(bug.caught_by, at=root)
    assert ran.code != 0, (
        f"{bug.name} survives: {bug.what}, and no test that {bug.path.name} names fails. Fix "
        f"them, or write one that fails and name it there.\n{ran.output}"
    )
    assert ran.code == 1, f"the tests that {bug.path.name} names cannot be run:\n{ran.output}"
    by_accident = [each for each in ran.failures if not each.is_caught(bug)]
    assert not by_accident, (
        f"{bug.name} makes these tests fail, but not by an assertion: {by_accident}. Name tests "
        f"that assert what it breaks: {bug.breaks}.\n{ran.output}"
    )
    for test in bug.caught_by:
        assert any(each.is_of(test) for each in ran.failures), (
            f"{test} passes with {bug.name}: {bug.what}. Fix it, or remove it from "
            f"{bug.path.name}.\n{ran.output}"
        )


def _failures(report: Path) -> Iterable[Failure]:
    for case in ET.parse(report).iter("testcase"):
        for kind in ("failure", "error"):
            for found in case.iter(kind):
                file, name = case.get("classname", ""), case.get("name", "").partition("[")[0]
                message = found.get("message", "") or (found.text or "")[-300:]
                yield Failure(_node(file, name), message, kind == "failure")


def _node(dotted: str, name: str) -> str:
    """Return pytest's name of a test from `tests.kafka.test_acks.TestClass` and its name."""
    parts = dotted.split(".")
    last = next((i for i, part in enumerate(parts) if part.startswith("test_")), len(parts) - 1)
    return "::".join(["/".join(parts[: last + 1]) + ".py", *parts[last + 1 :], name])
