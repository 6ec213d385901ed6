"""Every cell of the table of reservations as records in order, to be decided by a real ledger.

The pure rules decide each cell by itself. A ledger then decides the records of all of them, mixed,
each cell on a dataset of its own, and must say the same.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from accountant.records import Source
from accountant.times import from_iso, iso
from tests.accountant.reservations.scene import FULL, LOWER, Scene
from tests.accountant.reservations.test_table import (
    BRAKES,
    LEAVES,
    MAY,
    RECORDS,
    STATES,
    WHO,
    braked,
    peopled,
)

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z")
_OF_THE_LOG: Final = {
    *("partition_sequence", "previous", "decided_at", "floor", "request", "source", "dataset"),
}
"""The fields of a decision that say where it is, not what was decided."""


def scenes() -> Iterator[tuple[str, Scene]]:
    """Yield each cell: a dataset of which all records were decided by the pure rules."""
    for state, record in itertools.product(STATES, RECORDS):
        scene = Scene()
        scene.do(*STATES[state])
        kind, fields = RECORDS[record]
        scene.step(kind, **fields)
        scene.step(kind, **fields)  # another record of the same content
        yield f"{state}: {record}", scene
    for brake, record in itertools.product(BRAKES, ["reserve", *RECORDS]):
        before = ("reserve", "begin") if "settle" in record else ("reserve",)
        scene, _ = braked(brake, *before)
        if record == "reserve":
            scene.reserve()
        else:
            kind, fields = RECORDS[record]
            scene.step(kind, **fields)
        yield f"{brake}: {record}", scene
    for who, kind in itertools.product(WHO, MAY):
        scene = peopled(via="engine-1")
        if kind == "settle":
            scene.begin()
        scene.step(kind, **WHO[who])
        yield f"{who}: {kind}", scene
    for way, name in itertools.product(LEAVES, ["settle in full", *_AFTER_LEAVING]):
        scene = peopled()
        if name.startswith("settle"):
            scene.begin()
        LEAVES[way](scene)
        kind, fields = {"reserve": ("reserve", {}), **_AFTER_LEAVING}.get(name, ("settle", FULL))
        scene.reserve() if kind == "reserve" else scene.step(kind, **fields)
        yield f"{way}: {name}", scene


_AFTER_LEAVING: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "reserve": ("reserve", {}),
    "begin": ("begin", {}),
    "void": ("void", {}),
    "void by owner": ("void", {"analyst": "owner"}),
    "settle lower": ("settle", LOWER),
}


class Sent(NamedTuple):
    """One record of one cell.

    Attributes:
        cell, step: its place: which cell, and which record of it.
        at: when it is decided, milliseconds since 1970.
    """

    cell: int
    step: int
    source: Source
    at: int


class Script:
    """The records of all cells in the order of time, and what each must be decided to be.

    Args:
        later: by how much everything happens later than in the cells, milliseconds.
    """

    def __init__(self, later: int = 0) -> None:
        self._later = later
        self.names: list[str] = []
        self._decisions: list[list[dict[str, Any]]] = []
        self._hashes: list[list[str]] = []
        self._grants: dict[tuple[int, str], str] = {}
        sent: list[Sent] = []
        for number, (name, scene) in enumerate(scenes()):
            decided = [json.loads(value) for value in scene.log[1:]]
            self.names.append(name)
            self._decisions.append(decided)
            self._hashes.append([_hash(value) for value in scene.log[1:]])
            sent += [
                Sent(number, i, each["source"]["topic"], from_iso(each["decided_at"]) + later)
                for i, each in enumerate(decided)
            ]
        self._sent = sorted(sent, key=lambda each: (each.at, each.step, each.cell))

    def rounds(self) -> Iterator[list[Sent]]:
        """Yield records that may be decided in any order, each after those before it."""
        for _, group in itertools.groupby(self._sent, key=lambda each: (each.at, each.step)):
            yield list(group)

    def body(self, sent: Sent) -> bytes:
        """Return the record's bytes; reservations have the names that the ledger gave them."""
        body = self._moved(self._decisions[sent.cell][sent.step]["request"], sent.cell)
        issued = int(body["request_id"].replace("-", "")[:12], 16) + self._later
        digits = f"{issued:012x}"
        body["request_id"] = f"{digits[:8]}-{digits[8:]}{body['request_id'][13:]}"
        return json.dumps({**body, "dataset": f"cell-{sent.cell}"}).encode()

    def check(self, sent: Sent, record: bytes) -> None:
        """Compare a decision with that of the pure rules."""
        said, right = json.loads(record), self._decisions[sent.cell][sent.step]
        self._grants[sent.cell, self._hashes[sent.cell][sent.step]] = _hash(record)
        right = self._moved(right, sent.cell)
        for name in (said.keys() | right.keys()) - _OF_THE_LOG:
            place = self.names[sent.cell], sent.step, name
            assert said.get(name) == right.get(name), (*place, said, right)

    def _moved(self, value: Any, cell: int) -> Any:
        if isinstance(value, dict):
            return {name: self._moved(each, cell) for name, each in value.items()}
        if isinstance(value, list):
            return [self._moved(each, cell) for each in value]
        if isinstance(value, str) and _TIME.fullmatch(value):
            return iso(from_iso(value) + self._later)
        return self._grants.get((cell, value), value) if isinstance(value, str) else value


def _hash(record: bytes) -> str:
    return f"sha256:{hashlib.sha256(record).hexdigest()}"
