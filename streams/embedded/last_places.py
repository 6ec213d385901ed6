"""Finds the last decisions of datasets in a ledger's file, with the help of its index."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw

from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS, decode_decision
from accountant.records.parts import about
from streams.embedded.ledger_file import numbered_decisions
from streams.files.immutable_sqlite import open_shared

_LAST: Final = """
SELECT sequence, place FROM places WHERE dataset = (SELECT number FROM datasets WHERE name = ?)
ORDER BY sequence DESC LIMIT 1
"""


def last_places(index: Path, log: apsw.Connection, datasets: Iterable[str]) -> list[int]:
    """Return the numbers of the last decisions of datasets that the index knows.

    The index is only a hint. Entries of another log, or of decisions that a rollback accepted as
    lost, are left out, and so is an index that cannot be read.
    """
    try:
        with closing(open_shared(index)) as db:
            first = dict(numbered_decisions(log, limit=1)).get(0)
            of_log: Any = db.execute("SELECT log FROM reached WHERE partition = 0").get
            if first is None or of_log != hash_of(first):
                return []
            found = {name: db.execute(_LAST, (name,)).fetchone() for name in datasets}
    except apsw.Error:
        return []
    return [
        int(there[1])
        for name, there in found.items()
        if there is not None and _stands(log, int(there[1]), name, int(there[0]))
    ]


def _stands(log: apsw.Connection, place: int, dataset: str, sequence: int) -> bool:
    for _, value in numbered_decisions(log, first=place, limit=1):
        try:
            decision = about(decode_decision(value), dataset)
        except DECODE_ERRORS:
            return False
        return (decision.dataset, decision.sequence) == (dataset, sequence)
    return False
