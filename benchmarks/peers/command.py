"""`python -m benchmarks peers`: measure this project's worker beside other systems.

Each program answers the same requests on one broker: it looks up the running sum of the request's
dataset, updates it or refuses the request, and writes an answer of about 900 bytes, exactly once.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.peers.rounds import STARTS, WORKER, Round, run
from streams.testing.broker_settings import BrokerError
from streams.testing.kafka_install import KafkaUnavailable

_COLUMNS = ("program", "ratio", "warm", "with broker", "rate", "note")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command, the worker first among its programs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    others = [name for name in STARTS if name != WORKER]
    # Not `choices`: argparse would also apply them to the empty list.
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(others)}")
    parser.add_argument("--requests", type=_positive, default=200_000, help="default 200,000")
    parser.add_argument("--rounds", type=_positive, default=1, help="default 1; ratios are medians")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.programs) - set(others))
    if unknown:
        parser.error(f"{', '.join(unknown)}: PROGRAM must be one of {', '.join(others)}")
    options.programs = [WORKER, *(name for name in others if name in (options.programs or others))]
    return options


def _positive(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def summary(names: Sequence[str], rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """Return a row for each program: medians of its ratios to the worker, or why there are none."""
    return [_row(name, rounds) for name in names]


def _row(name: str, rounds: Sequence[Round]) -> dict[str, Any]:
    pairs = [
        (each.costs[name], each.costs[WORKER])
        for each in rounds
        if name in each.costs and WORKER in each.costs
    ]
    reasons = [
        each.reasons[key] for key in (name, WORKER) for each in rounds if key in each.reasons
    ]
    if not pairs:
        return {"program": name, "reason": reasons[0] if reasons else "the worker was not measured"}
    ratios = [peer.program / worker.program for peer, worker in pairs]
    return {
        "program": name,
        "ratio": statistics.median(ratios),
        "warm": statistics.median(peer.warm / worker.warm for peer, worker in pairs),
        "with_broker": statistics.median(
            (peer.program + peer.broker) / (worker.program + worker.broker)
            for peer, worker in pairs
        ),
        "rate": statistics.median(peer.rate / worker.rate for peer, worker in pairs),
        "ratios": ratios,
        "microseconds": [asdict(peer) for peer, _ in pairs],
        "note": reasons[0] if reasons else "",
    }


def table(rows: Sequence[dict[str, Any]], title: str) -> Table:
    """Return the rows as a table of ratios to the worker."""
    shown = Table(title=title)
    for column in _COLUMNS:
        shown.add_column(column, justify="left" if column in {"program", "note"} else "right")
    for row in rows:
        if "reason" in row:
            shown.add_row(row["program"], "", "", "", "", f"not measured: {row['reason']}")
            continue
        figures = [f"{row[key]:.2f}" for key in ("ratio", "warm", "with_broker", "rate")]
        several = ", ".join(f"{ratio:.2f}" for ratio in row["ratios"])
        notes = [f"rounds: {several}"] if len(row["ratios"]) > 1 else []
        notes += [f"a round was not measured: {row['note']}"] if row["note"] else []
        shown.add_row(row["program"], *figures, "; ".join(notes))
    return shown


def main(
    arguments: Sequence[str],
    measure: Callable[..., list[Round]] = run,
    console: Console | None = None,
) -> int:
    """Measure, print the table and write the figures; return 1 if there is no broker."""
    options = parse(arguments)
    progress = Console(stderr=True)
    try:
        rounds = measure(options.programs, options.requests, options.rounds, progress.print)
    except (KafkaUnavailable, BrokerError) as error:
        progress.print(f"nothing was measured: {error}")
        return 1
    rows = summary(options.programs, rounds)
    title = f"processor time a record / the worker's; {options.requests:,} requests"
    (console or Console(width=max(120, Console().width))).print(table(rows, title))
    if options.json is not None:
        result = {"requests": options.requests, "rounds": options.rounds, "programs": rows}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0
