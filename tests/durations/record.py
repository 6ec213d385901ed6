"""The committed record: the processor seconds and the seconds of each test function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from tests.durations.recorder import Process, Sum

# Which tests are fast, and their order, follow from the record, and no test's result.
OPENS = ()

ROOT: Final = Path(__file__).parents[2]
RECORD: Final = Path(__file__).with_name("recorded.json")
SLOW_CPU_S: Final = 0.1
SLOW_S: Final = 0.5
"""`make test-fast` leaves out a test function that took longer: the rest takes it a minute."""


def processes(directory: Path) -> Iterator[Process]:
    """Return the records of a run: one for each process of each call of pytest.

    Raises: FileNotFoundError: the directory has none.
    """
    files = sorted(directory.rglob("*.json"))
    if not files:
        raise FileNotFoundError(f"{directory} has no record of a run: run `make test`")
    for file in files:
        yield msgspec.json.decode(file.read_bytes(), type=Process)


def merged(sums: Iterable[Mapping[str, Sum]]) -> dict[str, Sum]:
    """Add the sums of several processes."""
    total: dict[str, Sum] = defaultdict(Sum)
    for each in sums:
        for name, spent in each.items():
            total[name].items += spent.items
            total[name].cpu += spent.cpu
            total[name].wall += spent.wall
            total[name].longest = max(total[name].longest, spent.longest)
    return dict(total)


def recorded(file: Path = RECORD) -> dict[str, tuple[float, float]]:
    """Return the committed CPU seconds and seconds by test function; empty if there are none."""
    if not file.exists():
        return {}
    files = msgspec.json.decode(file.read_bytes(), type=dict[str, dict[str, tuple[float, float]]])
    return {
        f"{name}::{test}": took for name, tests in files.items() for test, took in tests.items()
    }


def slow_tests(took: Mapping[str, tuple[float, float]]) -> frozenset[str]:
    """Return the test functions of a record that took more than SLOW_CPU_S or waited long."""
    return frozenset(
        name for name, (cpu, wall) in took.items() if cpu > SLOW_CPU_S or wall > SLOW_S
    )


def write(tests: Mapping[str, Sum], record: Path = RECORD) -> None:
    """Write the committed record: a line for each file, so that a change of one is one line."""
    files: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for name, spent in sorted(tests.items()):
        file, _, test = name.partition("::")
        files[file][test] = (round(spent.cpu, 2), round(spent.wall, 2))
    lines = (
        f"{msgspec.json.encode(file).decode()}: {msgspec.json.encode(took).decode()}"
        for file, took in files.items()
    )
    record.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
