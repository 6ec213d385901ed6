"""What versions before the first release wrote; this one refuses all of it and changes none of it.

ledger.sqlite                  of version 0.1.0, whose rules were the first of five
ledger_of_rules_N.sqlite       of the second to the fifth
archive_of_rules_2.jsonl.gz    the beginning of a log, archived
topics_of_rules_4.jsonl.gz     the records of `decisions` and `state` of one partition
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Final

OPENS = ("tests/before/*",)

HERE: Final = Path(__file__).parent
LEDGERS: Final = ("ledger", *(f"ledger_of_rules_{number}" for number in range(2, 6)))
ARCHIVE: Final = HERE / "archive_of_rules_2.jsonl.gz"
REFUSED: Final = "written by a version before the first release"

Seen = dict[str, tuple[bytes, int]]


def directory_contents(directory: Path) -> Seen:
    """Return every file of a directory by its name: its bytes, and when it was written."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def topics() -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """Return the decisions, and the keys and values of the rows, of the old topics."""
    lines = gzip.decompress((HERE / "topics_of_rules_4.jsonl.gz").read_bytes()).splitlines()
    records = [json.loads(line) for line in lines]
    decisions = [each["value"].encode() for each in records if each["topic"] == "decisions"]
    rows = [
        (each["key"].encode(), each["value"].encode())
        for each in records
        if each["topic"] == "state"
    ]
    return decisions, rows
