"""`python -m benchmarks`: measure, print the table, write JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import structlog
from rich.console import Console
from rich.table import Table

from benchmarks import (
    adjudication,
    alerts,
    answers,
    audit,
    authentication,
    batch,
    charges,
    decide,
    embedded,
    http_server,
    latency,
    levels,
    pages,
    question_sizes,
    readings,
    reservations,
    restart,
    scrape,
    several,
    why,
    worker,
)
from benchmarks.measure import Row, Scale
from benchmarks.peers import command as peers

_ALL: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "adjudication": adjudication.rows,
    "charges": charges.rows,
    "decide": decide.rows,
    "reservations": reservations.rows,
    "audit": audit.rows,
    "readings": readings.rows,
    "authentication": authentication.rows,
    "restart": restart.rows,
    "levels": levels.rows,
    "embedded": embedded.rows,
    "http": http_server.rows,
    "batch": batch.rows,
    "pages": pages.rows,
    "worker": worker.rows,
    "latency": latency.rows,
    "alerts": alerts.rows,
    "answers": answers.rows,
    "questions": question_sizes.rows,
    "several": several.rows,
    "scrape": scrape.rows,
    "why": why.rows,
}
_RESULTS = Path(__file__).parent / "results" / "latest.json"


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _table(measured: list[Row]) -> Table:
    table = Table(title=_machine())
    for column in ("what", "value", "unit", "wanted", "met", "note"):
        table.add_column(column, justify="right" if column == "value" else "left")
    words = {True: "yes", False: "NO", None: ""}
    for row in measured:
        table.add_row(row.name, _shown(row.value), row.unit, row.wanted, words[row.met], row.note)
    return table


def main() -> int:
    """Run the named benchmarks, or all; return 1 if a figure misses its target."""
    if sys.argv[1:2] == ["peers"]:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
        return peers.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(_ALL)}")
    parser.epilog = "`python -m benchmarks peers` compares with other systems: see its own --help"
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, rough figures")
    options = parser.parse_args()
    if not set(options.names) <= set(_ALL):
        parser.error(f"NAME must be one of {', '.join(_ALL)}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    console = Console(stderr=True)
    measured: list[Row] = []
    for name, rows in _ALL.items():
        if options.names and name not in options.names:
            continue
        with console.status(f"measuring: {name}"):
            for row in rows(Scale(quick=options.quick)):
                measured.append(row)
                console.print(f"{row.name}: {_shown(row.value)} {row.unit}", highlight=False)
    Console(width=max(120, Console().width)).print(_table(measured))
    _RESULTS.parent.mkdir(exist_ok=True)
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "quick": options.quick,
        "rows": [{**asdict(row), "met": row.met} for row in measured],
    }
    _RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if any(row.met is False for row in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
