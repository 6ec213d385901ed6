"""Questions by the size of their data: seconds, memory, what goes to the disk, several at once."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec

from accountant.questions import parse_question
from accountant.questions.schema import DataSource
from benchmarks.answers import CROWDED, SCHEMA, TABLE
from benchmarks.measure import Row, Scale
from streams.sources import DataSources
from streams.sources.source_settings import CsvSource, ParquetSource

_ROWS: Final = (100_000, 1_000_000, 10_000_000)
_AT_ONCE: Final = (1, 2, 4)
_ASKED: Final = ("count where age > 65", "mean(income) by region", "median(age)")
_KIBIBYTE: Final = 1024
_LOOK_S: Final = 0.02


def rows(scale: Scale) -> Iterator[Row]:
    """Measure each size in a process of its own, with rows that are bounded for each unit."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("parquet", "csv"):
            for count in map(scale.of, _ROWS):
                path = _written(folder, kind, count)
                data = f"{count:,} rows of {kind}"
                yield from _sizes(data, _in_a_process("sizes", path))
                if count == scale.of(_ROWS[1]):
                    yield from _together(data, _in_a_process("at_once", path))
        count = scale.of(_ROWS[-1])
        path = _written(folder, "parquet", count, person=CROWDED)
        data = f"{count:,} rows of parquet, half of people with 11"
        yield from _sizes(data, _in_a_process("sizes", path))


def _written(folder: str, kind: str, count: int, person: str = "range") -> Path:
    path = Path(folder) / f"census.{kind}"
    table = TABLE.format(person=person, rows=count)
    duckdb.connect().execute(f"COPY ({table}) TO '{path}' (FORMAT {kind})").fetchall()
    return path


def _sizes(data: str, measured: Mapping[str, Any]) -> Iterator[Row]:
    for text, seconds in measured["seconds"].items():
        yield _row(f"{text}, {data}", seconds)
    yield Row(name=f"memory, {data}", value=measured["memory"] / 1e6, unit="MB")
    yield Row(name=f"on the disk, {data}", value=measured["spill"] / 1e6, unit="MB")


def _together(data: str, measured: Mapping[str, Any]) -> Iterator[Row]:
    for number, seconds in measured["seconds"].items():
        memory = f"{measured['memory'][number] / 1e6:,.0f} MB"
        yield _row(f"{number} of {_ASKED[1]} at once, {data}", seconds, memory)


def _row(name: str, seconds: Sequence[float], *more: str) -> Row:
    taken, processor = seconds
    note = ", ".join((f"{processor:.2f} s of processors", *more))
    return Row(name=name, value=taken, unit="s", note=note)


def _in_a_process(what: str, path: Path) -> Any:
    """Return what a new process has measured, whose highest memory is its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.question_sizes", what, str(path)],
        env={"TMPDIR": str(path.parent)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


class _Spill(threading.Thread):
    """Looks how many bytes the rows that do not fit into memory take."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0

    def run(self) -> None:
        while True:
            files = Path(tempfile.gettempdir()).glob("accountant-spill-*/*")
            self.most = max(self.most, sum(map(_size, files)))
            time.sleep(_LOOK_S)


def _size(file: Path) -> int:
    try:
        return file.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _highest_memory() -> int:
    """Return the highest resident memory of this process since it was asked last, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return int(line.split()[1]) * _KIBIBYTE


def _seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that work takes, and those of all threads on the processors."""
    started, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - used


def _measure(what: str, path: str) -> dict[str, Any]:
    kind: Final = "csv" if path.endswith(".csv") else "parquet"
    source = CsvSource if kind == "csv" else ParquetSource
    settings = source(path=path, seconds=3600)
    schema = msgspec.structs.replace(SCHEMA, source=DataSource(kind=kind, name="census"))
    sources = DataSources({"census": settings})
    spill = _Spill()
    spill.start()

    def ask(text: str) -> None:
        sources.statistics(parse_question(text, schema), key=b"key")

    first = _seconds(lambda: ask(_ASKED[0]))
    if what == "sizes":
        later = {text: _seconds(lambda text=text: ask(text)) for text in _ASKED}
        seconds = {"the first question, with the reading in full": first, **later}
        return {"seconds": seconds, "memory": _highest_memory(), "spill": spill.most}
    measured: dict[str, Any] = {"seconds": {}, "memory": {}}
    for number in _AT_ONCE:
        _highest_memory()
        with ThreadPoolExecutor(number) as threads:
            measured["seconds"][number] = _seconds(
                lambda threads=threads, number=number: list(threads.map(ask, [_ASKED[1]] * number))
            )
        measured["memory"][number] = _highest_memory()
    return measured


if __name__ == "__main__":
    json.dump(_measure(*sys.argv[1:]), sys.stdout)
