"""A partition that decides a load in batches and may be killed; the oracle judges what it wrote."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, NamedTuple

import pytest

from accountant.partition import Partition
from accountant.partition.decide import decide, decide_internal_error
from accountant.partition.draft import Draft, genesis_decision
from accountant.partition.operate import reset_clock
from accountant.records import Genesis, Source
from accountant.records.inputs import Input
from accountant.replay.audit import audit
from accountant.replay.replay import Replay, StateMismatch, state_rows
from tests.faults import oracle
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.rows import check_rows_of, check_state
from tests.faults.oracle.texts import millis
from tests.streams.bodies import request_id

WINDOW: Final = 3_600_000
SKEW: Final = 300_000
LEAD: Final = 300_000
"""By how much the time of a record may be ahead of the clock that decides it."""
START: Final = 1_795_255_200_000
GENESIS: Final = Genesis("test", 0, 1, WINDOW, SKEW)
OWN: Final = b'{"partition":0}'

Body = dict[str, Any]
Rows = dict[bytes, bytes]


class Sent(NamedTuple):
    """One input: its body and its bytes, and when it is taken in."""

    source: Source
    body: Body
    value: bytes
    at: int

    @classmethod
    def made(cls, body: Body, at: int) -> Sent:
        """Return a body as an input."""
        of_requests = body["type"] in {"request", "begin", "settle", "void"}
        return cls("requests" if of_requests else "admin", body, json.dumps(body).encode(), at)


class Ids:
    """The ids of a load, each once."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def new(self, at: int) -> str:
        return request_id(at, next(self._numbers))


class Written(NamedTuple):
    """A decision that is not committed: its bytes, and its input, if it has one."""

    value: bytes
    source: str = ""
    sent: oracle.InputAsSent | None = None
    has_failed: bool = False


class Life:
    """A partition; what was not committed is lost when it is killed.

    Attributes:
        seed: of its chances.
        judge: the oracle's replay of what was committed.
        log, times, rows: what a journal holds: committed decisions, when each was decided, and
            rows of `state`.
        met: how often each outcome or reason was decided, and each way of a replay gone.
        fails: how likely it is that deciding an input fails.
        most_ids: how many ids the partition remembers.
    """

    fails = 0.0
    most_ids = oracle.MOST_IDS

    def __init__(self, seed: int, genesis: Genesis = GENESIS) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.genesis = genesis
        self.inputs: dict[str, list[oracle.InputAsSent]] = {each: [] for each in oracle.INPUTS}
        self.failed: set[tuple[str, int]] = set()
        self.judge = oracle.Partition(0, self.inputs, self.failed, self.most_ids)
        self.log: list[bytes] = []
        self.times: list[int] = []
        self.rows: Rows = {}
        self.met = Counter[str]()
        self._written = [Written(genesis_decision(genesis, START).value)]
        self._take_written()
        self.state = self.from_the_log()
        self.draft = Draft(self.state)

    def from_the_log(self, *, instead_of: Replay | None = None) -> Partition:
        replay = Replay(self.genesis, instead_of=instead_of)
        for value in self.log:
            replay.take_decision(value)
        return replay.finish()

    def from_rows(self, replay: Replay, rows: Rows) -> Partition:
        """Return the state of some rows and the end of the log that they need."""
        items = list(rows.items())
        for key, value in self.chance.sample(items, len(items)):
            replay.take_row(key, value)
        first, start = 0, replay.start
        if start is not None:
            later = (number for number, at in enumerate(self.times) if at >= start)
            first = next(later, len(self.log) - 1)
        for value in self.log[first:]:
            replay.take_decision(value)
        return replay.finish()

    def decide(self, sent: Sent, clock: int | None = None) -> Fields:
        """Decide an input; now and then undo that first, or have it fail.

        Args:
            clock: of the machine that decides, by default the time at which the input came.
        """
        clock = sent.at if clock is None else clock
        undone = self.chance.random() < 0.03
        fails = self.chance.random() < self.fails
        return self.write(sent.source, sent.value, sent.at, clock, undone=undone, fails=fails)

    def write(
        self,
        source: Source,
        value: bytes | None,
        at: int,
        clock: int,
        *,
        undone: bool = False,
        fails: bool = False,
    ) -> Fields:
        """Decide bytes.

        Args:
            undone: they are decided twice, once in vain.
            fails: deciding them fails.
        """
        offset = self.draft.next[source]
        record = Input(source, offset, b"key", value, at)
        if undone:
            mark = self.draft.mark()
            decide(self.draft, record, clock)
            self.draft.rewind(mark)
        made = (decide_internal_error if fails else decide)(self.draft, record, clock)
        taken = min(at, clock + LEAD)
        sent = oracle.InputAsSent(offset, b"key", value, (taken, taken))
        self._written.append(Written(made.value, source, sent, fails))
        said: Fields = json.loads(made.value)
        return said

    def commit(self) -> None:
        """Write what was decided into the journal, and have it and its rows judged."""
        for key, value in self.draft.rows():
            if value is None:
                self.rows.pop(key, None)  # one that came and went at once never had a row
            else:
                self.rows[key] = value
        self.draft.absorb()
        self.draft = Draft(self.state)
        with self.naming_the_life():
            check_rows_of(self.judge, self.rows, self._take_written())

    @contextmanager
    def naming_the_life(self) -> Iterator[None]:
        """Have an error of the oracle say of which life it is."""
        try:
            yield
        except oracle.Disagreement as error:
            raise AssertionError(f"life {self.seed}, {error}") from error

    def _take_written(self) -> set[str]:
        """Have the oracle judge what is committed; return the datasets that it is about."""
        datasets: set[str] = set()
        for value, source, sent, has_failed in self._written:
            if sent is not None:
                self.inputs[source].append(sent)
            if sent is not None and has_failed:
                self.failed.add((source, sent.offset))
            self.log.append(value)
            said = self.judged(value)
            self.times.append(millis(said["decided_at"]))
            parts = said.get("parts", [said])
            datasets |= {part["dataset"] for part in parts if "sequence" in part}
        self._written = []
        return datasets

    def judged(self, value: bytes) -> Fields:
        """Have the oracle judge one decision; count what it says."""
        said = self.judge.take(value)
        self.met[said["reason"] if "reason" in said else said["outcome"]] += 1
        return said

    def reset_clock(self, at: int) -> None:
        self.commit()
        self._written.append(Written(reset_clock(self.draft, at, "it was ahead").value))
        self.commit()

    def lose(self) -> None:
        """Lose what is not committed."""
        self._written = []
        self.draft = Draft(self.state)

    def kill(self) -> None:
        """Lose what is not committed, and replay in one of the ways that there are."""
        self.lose()
        way = self.chance.choice(["log", "rows", "tampered", "tampered"])
        tampered = self.tampered() if way == "tampered" and self.rows else None
        if way == "tampered" and self.rows and tampered is None:
            way = self.chance.choice(["log", "rows"])
        before = self.state
        if tampered is not None:
            name, rows = tampered
            replay = Replay(self.genesis)
            with pytest.raises(StateMismatch):
                self.from_rows(replay, rows)
            self.state, way = self.from_the_log(instead_of=replay), f"tampered: {name}"
        elif way == "rows":
            self.state = self.from_rows(Replay(self.genesis), self.rows)
        else:
            self.state, way = self.from_the_log(), "log"
        self.met[way] += 1
        self._is_as(before)
        self.draft = Draft(self.state)

    def tampered(self) -> tuple[str, Rows] | None:
        """Return rows that were tampered with, or that a journal has lost some of, and how."""
        return None

    def _is_as(self, before: Partition) -> None:
        found = state_rows(self.state)
        assert found == state_rows(before)
        assert not self.rows or dict(found) == self.rows
        with self.naming_the_life():
            check_state(self.judge, self.rows)

    def finish(self) -> None:
        """Commit, and check the whole: audit, replays, every row."""
        self.commit()
        report = audit(self.log, genesis=self.genesis)
        assert report.ok, report.first_disagreement
        before, self.state = self.state, self.from_the_log()
        self._is_as(before)
        self.state = self.from_rows(Replay(self.genesis), self.rows)
        self._is_as(before)
        self.judge.finish()


def tight(row: Fields) -> bytes:
    """Return a row as it is written."""
    return json.dumps(row, separators=(",", ":")).encode()


def hash_of(value: bytes) -> str:
    return f"sha256:{hashlib.sha256(value).hexdigest()}"
