"""A server that answers questions: settings, a CSV file, a schema, and requests with questions."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streams.clock import Clock
from tests.streams.gateway.records import new_id, opening

if TYPE_CHECKING:
    import pytest

PEOPLE: Final = 200
SCHEMA: Final[dict[str, Any]] = {
    "source": {"kind": "csv", "name": "people"},
    "columns": [
        {"type": "number", "name": "age", "lower": "0", "upper": "120"},
        {"type": "category", "name": "region", "categories": ["north", "south"]},
    ],
    "neighbours": "add_remove",
}


def data_settings(
    directory: Path, *, rows: int = PEOPLE, datasets: Sequence[str] | None = None, **more: Any
) -> dict[str, Any]:
    """Write a CSV file of so many people, half of them in the north; return the settings.

    Args:
        datasets: those that the file of sources names for it; None leaves the field out.
    """
    data = directory / "people.csv"
    lines = [f"{20 + i % 60},{'north' if i % 2 else 'south'}" for i in range(rows)]
    data.write_text("age,region\n" + "\n".join(lines) + "\n")
    sources = directory / "sources.json"
    named = {} if datasets is None else {"datasets": datasets}
    sources.write_text(json.dumps({"people": {"kind": "csv", "path": str(data), **named}}))
    sources.chmod(0o600)
    return {"data_sources": sources, "curator_tick_seconds": 0.1, **more}


def make_unreadable(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next version of the CSV file of `data_settings` answer nobody, and write it.

    No cell of a CSV file keeps DuckDB from reading it. Servers notice once it was read.
    """

    def fail(*_: object) -> None:
        raise ValueError("a cell cannot be read")

    monkeypatch.setattr("streams.sources.first_reading.read_in_full", fail)
    os.utime(directory / "people.csv", (1, 1))


def opening_with_schema(clock: Clock, dataset: str, **policy: Any) -> dict[str, Any]:
    """Return the opening of a dataset with `SCHEMA`."""
    return opening(clock, dataset, **policy) | {"schema": SCHEMA}


def asking(
    clock: Clock, dataset: str, analyst: str = "ana", *, epsilon: str = "1", **more: Any
) -> dict[str, Any]:
    """Return a request with a question: by default a count of all rows."""
    return {
        "version": 1,
        "type": "request",
        "request_id": new_id(clock),
        "analyst": analyst,
        "dataset": dataset,
        "question": {"ask": "count"},
        "noise": {"epsilon": epsilon},
        **more,
    }
