"""Record the processor time and the duration of each test and each fixture of a run.

`make test` names a directory in DURATIONS. Each process of pytest writes one file there, a
`Process`: the sums by test function and by fixture, in seconds.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.durations.other_processes import seconds_elsewhere

DIRECTORY: Final = "DURATIONS"
"""The environment variable that names the directory of records; without it nothing is recorded."""


class Sum(msgspec.Struct):
    """What all items of one test function took, or all set-ups of one fixture.

    Attributes:
        items: their number.
        cpu: processor seconds of this process, and of the children that ended meanwhile.
        wall: seconds; of a test with its fixtures.
        longest: seconds of the longest item.
    """

    items: int = 0
    cpu: float = 0.0
    wall: float = 0.0
    longest: float = 0.0

    def add(self, cpu: float, wall: float) -> None:
        self.items += 1
        self.cpu += cpu
        self.wall += wall
        self.longest = max(self.longest, wall)


class Process(msgspec.Struct, kw_only=True):
    """The record of one process of pytest.

    Attributes:
        tests: by the name of the test function, without parameters.
        fixtures: by directory and name. A test's sums include its fixtures' sums.
        collection: processor seconds until the first test.
        end: processor seconds that the fixtures of the session take at its end.
        total: processor seconds of the process and its children.
    """

    tests: dict[str, Sum]
    fixtures: dict[str, Sum]
    collection: float
    end: float
    total: float


def cpu_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    times = os.times()
    spent = times.user + times.system + times.children_user + times.children_system
    return spent + seconds_elsewhere()


class Recorder:
    """A plugin of pytest: writes a `Process` when the session ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._tests: dict[str, Sum] = defaultdict(Sum)
        self._fixtures: dict[str, Sum] = defaultdict(Sum)
        self._collection = 0.0
        self._end = 0.0

    @contextmanager
    def _measured(self, add: Any) -> Iterator[None]:
        cpu, wall = cpu_seconds(), time.monotonic()
        try:
            yield
        finally:
            add(cpu_seconds() - cpu, time.monotonic() - wall)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure a test with its fixtures."""
        self._collection = self._collection or cpu_seconds()
        left_out = self._end
        spent = self._tests[item.nodeid.partition("[")[0]]

        def add(cpu: float, wall: float) -> None:
            spent.add(cpu - (self._end - left_out), wall)

        with self._measured(add):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Leave the end of the session's fixtures out of the last test."""
        if nextitem is not None:
            return (yield)

        def add(cpu: float, _wall: float) -> None:
            self._end += cpu

        with self._measured(add):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        """Measure one set-up of a fixture, without those that it requests."""
        name = f"{fixturedef.baseid or 'pytest'}::{fixturedef.argname}"
        with self._measured(self._fixtures[name].add):
            return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the record. The controller of several workers runs no test, and has none."""
        if session.config.pluginmanager.has_plugin("dsession"):
            return
        total = cpu_seconds()
        record = Process(
            tests=self._tests,
            fixtures=self._fixtures,
            collection=self._collection or total,
            end=self._end,
            total=total,
        )
        self._directory.mkdir(parents=True, exist_ok=True)
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        (self._directory / f"{name}.json").write_bytes(msgspec.json.encode(record))
