"""The rows that a folder of evidence has of a log's datasets, from the log alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from accountant.records import decode_decision
from accountant.replay.replay import Replay
from accountant.views.datasets import view_of_ledger
from accountant.views.population import with_joint


def rows_of(log: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the rows of `datasets.jsonl` after the last decision of a log of one partition."""
    genesis = decode_decision(log[0]).genesis
    assert genesis is not None
    replay = Replay(genesis)
    for value in log:
        replay.take_decision(value)
    views = [view_of_ledger(ledger) for ledger in replay.finish().ledgers.values()]
    shown = with_joint(views, views, ordered=None)
    rows = [json.loads(msgspec.json.encode(each)) for each in shown]
    return [row | {"partition_sequence": len(log) - 1} for row in rows]


def write_rows(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as `datasets.jsonl` of a folder."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    (folder / "datasets.jsonl").write_text("".join(lines))
