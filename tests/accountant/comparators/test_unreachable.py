"""Bounds for parameters fixed in advance decide nothing: no filter or odometer is made of them."""

from __future__ import annotations

import typing
from functools import cache
from pathlib import Path

from accountant import comparators
from accountant.filters import FILTERS
from accountant.odometers import AnyOdometer, Odometer
from tests.test_imports import ROOT, imported, modules

FORBIDDEN = "accountant.comparators"
# What decides, keeps and shows: whatever else there is may compare.
DECIDING = (
    "accountant/filters",
    "accountant/odometers",
    "accountant/policy/policy.py",
    "accountant/policy/compiled.py",
    "accountant/ledger/adjudicate.py",
    "accountant/partition/decide.py",
    "accountant/partition/partition.py",
    "accountant/replay/refold.py",
    "accountant/replay/audit.py",
    "accountant/views/datasets.py",
    "streams/processing/processor.py",
    "streams/worker/partitions.py",
    "streams/embedded/service.py",
    "streams/processing",
    "streams/gateway",
    "streams/metrics",
)


@cache
def names_in(file: Path) -> tuple[str, ...]:
    return tuple(imported(file))


@cache
def files_of(name: str) -> tuple[Path, ...]:
    """Return the file of a module, and those of the packages that it is in."""
    parts = name.split(".")
    paths = [ROOT.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]
    files = [file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py")]
    return tuple(file for file in files if file.is_file())


def reached_from(start: str) -> dict[Path, Path | None]:
    """Return every file that importing `start` may load, each with the one that imports it."""
    path = ROOT / start
    todo: list[Path] = modules(start) if path.is_dir() else [path]
    assert todo, f"{start} is no module"
    via: dict[Path, Path | None] = dict.fromkeys(todo)
    while todo:
        file = todo.pop()
        for name in names_in(file):
            if name.split(".")[0] in ("accountant", "streams"):
                for found in files_of(name):
                    if found not in via:
                        via[found] = file
                        todo.append(found)
    return via


def test_nothing_that_decides_reaches_a_comparator() -> None:
    package = ROOT / "accountant" / "comparators"
    for start in DECIDING:
        for file, importer in reached_from(start).items():
            assert package not in file.parents, f"{start} reaches {file} through {importer}"


def test_the_walk_finds_what_is_reached() -> None:
    # It would pass for ever if it followed nothing.
    assert ROOT / "accountant" / "amounts.py" in reached_from("streams/processing/processor.py")
    assert ROOT / "accountant" / "odometers" / "linear.py" in reached_from(
        "accountant/policy/compiled.py"
    )
    inside = reached_from("accountant/comparators")
    assert ROOT / "accountant" / "comparators" / "optimal.py" in inside


def test_no_filter_and_no_odometer_is_a_comparator() -> None:
    odometers = typing.get_args(AnyOdometer)
    assert all(issubclass(odometer, Odometer) for odometer in odometers)
    for kind in (*FILTERS.values(), *odometers):
        assert not kind.__module__.startswith(FORBIDDEN)
    tags = {odometer.__struct_config__.tag for odometer in odometers}
    # Their names neither; `basic` is valid as all three.
    names = {name.partition("_epsilon")[0] for name in comparators.__all__} - {"basic"}
    assert {"strong", "advanced_2010", "quoted_2016"} <= names
    assert names.isdisjoint({*FILTERS, *tags})
