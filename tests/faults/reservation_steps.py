"""The records of one reservation, and what they must come to, whatever is killed between them."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any, Final, NamedTuple

from tests.streams.bodies import opening, request_id

Body = dict[str, Any]
SESSION: Final[Body] = {
    "type": "ex_post", "epsilon": "0.1", "sensitivity": "1", "first": "100", "least": "10",
}  # fmt: skip
"""At most 0.1; shown at scale 40 it costs 0.025."""
TINY: Final[Body] = {"type": "pure", "epsilon": "0.01"}


class Step(NamedTuple):
    """A step at which a ledger is killed.

    Attributes:
        before: the steps before it.
        kind: of its record; `request` for the one that drops a reservation which is final.
        outcome: what its record is decided to be, once.
        total: of the dataset after it.
        stage: of the reservation after it, None where it has no row.
        minutes: how long after the reservation it comes.
    """

    before: tuple[str, ...]
    kind: str
    outcome: str
    total: str
    stage: str | None
    minutes: int = 0


STEPS: Final = {
    "reserve": Step((), "reserve", "reserved", "0.1", "reserved"),
    "begin": Step(("reserve",), "begin", "begun", "0.1", "begun"),
    "settle": Step(("reserve", "begin"), "settle", "settled", "0.025", None),
    "settle in full": Step(("reserve", "begin"), "settle in full", "settled", "0.1", None),
    "void": Step(("reserve",), "void", "voided", "0", None),
    "lapse after begin": Step(("reserve", "begin"), "request", "granted", "0.11", None, 1),
    "lapse before begin": Step(("reserve",), "request", "granted", "0.11", None, 2),
}


class Records:
    """Makes the records of one dataset; each kind has the same bytes whenever it is sent.

    Args:
        until: when the reservation lapses, as its record says it.
    """

    def __init__(self, dataset: str, *, until: str = "PT1M") -> None:
        self.dataset = dataset
        self._until = until
        self.grant = ""
        self.made: dict[str, bytes] = {}

    def opening(self, at: int) -> bytes:
        """Return the record that opens the dataset, with epsilon 1."""
        return self.made.setdefault("open", opening(self.dataset, at, self._number()))

    def of(self, kind: str, at: int) -> bytes:
        """Return a record, with an id of the time at which it is made first."""
        if kind not in self.made:
            self.made[kind] = json.dumps(self._body(kind, at)).encode()
        return self.made[kind]

    def hear(self, record: bytes) -> Body:
        """Take in a decision: the reservation is named by its own."""
        said: Body = json.loads(record)
        if said["outcome"] == "reserved":
            self.grant = f"sha256:{hashlib.sha256(record).hexdigest()}"
        if said.get("first", {}).get("outcome") == "reserved":
            self.grant = said["first"]["hash"]
        return said

    def _body(self, kind: str, at: int) -> Body:
        body: Body = {"version": 1, "request_id": request_id(at, self._number()), "analyst": "ana"}
        body["dataset"] = self.dataset
        if kind not in {"reserve", "request"}:
            body |= {"type": kind.partition(" ")[0], "grant": self.grant}
            return body | ({"shown": "40"} if kind == "settle" else {})
        body |= {"type": "request", "unit": "person", "neighbours": "add_remove"}
        if kind == "request":
            return body | {"claim": TINY}
        return body | {"claim": SESSION, "reserve": {"until": self._until}}

    def _number(self) -> int:
        return len(self.made) + 1


def check(records: Records, step: Step, said: Body) -> None:
    """Check the decision on a step that was sent again after a kill: it is decided once."""
    found = said.get("first", said)
    assert said["outcome"] in {step.outcome, "repeated"}, (records.dataset, said)
    assert found["outcome"] == step.outcome, (records.dataset, said)


def now() -> int:
    return time.time_ns() // 1_000_000
