"""What a run took, as tables for the terminal and for the page about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.durations.record import merged, processes
from tests.durations.recorder import Sum

MOST_ADDED_S: Final = 60
"""The CPU seconds that the new tests of one issue may take in `make test`."""

_DEEP: Final = ("tests/accountant", "tests/streams")


@dataclass(frozen=True)
class Run:
    """The sums of a run.

    Attributes:
        tests: by test function.
        fixtures: by directory and name.
        collection, session, total: CPU seconds of all processes: before the first test, of the
            session's fixtures at the end, and of everything.
    """

    tests: dict[str, Sum]
    fixtures: dict[str, Sum]
    collection: float
    session: float
    total: float

    @classmethod
    def read(cls, directory: Path) -> Run:
        """Read the records of a run.

        Raises: FileNotFoundError: the directory has none.
        """
        all_of_them = list(processes(directory))
        return cls(
            merged(each.tests for each in all_of_them),
            merged(each.fixtures for each in all_of_them),
            sum(each.collection for each in all_of_them),
            sum(each.end for each in all_of_them),
            sum(each.total for each in all_of_them),
        )

    def by_directory(self) -> dict[str, Sum]:
        """Return the sums by directory, the longest first."""
        directories: dict[str, dict[str, Sum]] = defaultdict(dict)
        for name, spent in self.tests.items():
            directories[directory_of(name)][name] = spent
        sums = {name: _sum(spent.values()) for name, spent in directories.items()}
        return dict(sorted(sums.items(), key=lambda each: -each[1].cpu))

    def added(self, known: Container[str]) -> dict[str, Sum]:
        """Return the tests that a record lacks."""
        return {name: spent for name, spent in self.tests.items() if name not in known}


def directory_of(test: str) -> str:
    """Return the directory of a test function: two names of it below the largest ones."""
    parts = Path(test.partition("::")[0]).parent.parts
    deep = "/".join(parts[:2]) in _DEEP
    return "/".join(parts[: 3 if deep else 2])


def _sum(sums: Iterable[Sum]) -> Sum:
    return merged({"": each} for each in sums).get("", Sum())


def directories_table(run: Run) -> list[Sequence[str]]:
    """Return the rows of the table by directory: name, tests, CPU seconds, seconds."""
    rows: list[Sequence[str]] = [
        (name, f"{spent.items:,}", f"{spent.cpu:,.1f}", f"{spent.wall:,.1f}")
        for name, spent in run.by_directory().items()
    ]
    tests = _sum(run.tests.values())
    rest = run.total - tests.cpu - run.collection - run.session
    rows += [
        ("collection", "", f"{run.collection:,.1f}", ""),
        ("end of the session's fixtures", "", f"{run.session:,.1f}", ""),
        ("between tests", "", f"{rest:,.1f}", ""),
        ("all", f"{tests.items:,}", f"{run.total:,.1f}", f"{tests.wall:,.1f}"),
    ]
    return rows


def slowest_table(sums: Mapping[str, Sum], count: int) -> list[Sequence[str]]:
    """Return the rows of those that took most CPU: name, items, CPU seconds, seconds, longest."""
    slowest = sorted(sums.items(), key=lambda each: -each[1].cpu)[:count]
    return [
        (
            name,
            f"{spent.items:,}",
            f"{spent.cpu:,.1f}",
            f"{spent.wall:,.1f}",
            f"{spent.longest:.1f}",
        )
        for name, spent in slowest
    ]


def printed(run: Run, known: Container[str]) -> str:
    """Return what `make test` prints at its end.

    Args:
        known: the tests of the committed record.
    """
    rows = directories_table(run)
    width = max(len(row[0]) for row in rows)
    lines = [f"{'directory':{width}} {'tests':>7} {'CPU s':>9} {'s':>9}"]
    lines += [f"{name:{width}} {tests:>7} {cpu:>9} {wall:>9}" for name, tests, cpu, wall in rows]
    added = run.added(known)
    cpu = _sum(added.values()).cpu
    lines.append(
        f"New tests, which tests/durations/recorded.json lacks: {len(added)} functions, "
        f"{cpu:.1f} CPU s; an issue may add {MOST_ADDED_S}."
    )
    if cpu > MOST_ADDED_S:
        lines += [f"  {row[2]:>7} CPU s {row[0]}" for row in slowest_table(added, 10)]
    return "\n".join(lines)
