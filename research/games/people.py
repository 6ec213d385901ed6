"""People around a budget as the moves of a game: every record goes through the live ledger.

An adversary is everybody at once: analysts ask, leads divide, owners approve, pause, raise, record
and renew, each after having seen all answers, and the clock runs and is set back. What the ledger
refuses changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from accountant.dataset_ledger import DatasetLedger
from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft, genesis_decision
from accountant.partition.operate import reset_clock
from accountant.records import Decision, Genesis, Source
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.records.outcomes import Outcome, Reason
from accountant.records.pending_rows import PendingRow
from accountant.replay.replay import Replay, state_rows
from accountant.times import uuid7
from research.games.optimal_stopping import SILENT, Move
from research.games.pairs import Pair

DAY: Final = 86_400_000
START: Final = 1_795_255_200_000
"""The time at which a game starts, milliseconds since 1970."""
_GENESIS: Final = Genesis("game", 0, 1, 3_600_000, 300_000)
_NOT_OF_THE_STATE: Final = {
    *("sequence", "partition_sequence", "pending_at", "changed_at", "decided_at", "floor"),
    *("head", "checksum", "next", "request_id", "body", "body_hash", "pending", "since", "first"),
    *("version", "counted_since", "shared_since", "set_by"),
}
"""Fields of rows that number and time decisions: what may be granted does not depend on them."""

Body = dict[str, Any]


class PossibleRecord(NamedTuple):
    """A record that somebody sends, or a step of the clock.

    Attributes:
        name: for readers of a strategy.
        body: returns its fields in a state; None where there is nothing to send.
        later: milliseconds that pass before it; below 0 an operator sets the clock back, and
            nothing is sent.
    """

    name: str
    body: Callable[[PeopleState], Body | None]
    later: int = 0


@dataclass(frozen=True)
class PeopleState:
    """A state of a partition; two are equal where the rows are, but for numbers and times.

    Attributes:
        partition: what the log comes to.
        log: the decisions that led to it, of several courses one.
        now: the time, milliseconds since the game's start.
    """

    key: Hashable
    now: int
    partition: Partition = field(compare=False, repr=False)
    log: tuple[bytes, ...] = field(compare=False, repr=False)

    def ledger(self, dataset: str) -> DatasetLedger:
        """Return the ledger of a dataset."""
        return self.partition.ledgers[dataset]

    def waiting(self) -> list[PendingRow]:
        """Return the requests that nobody has answered, those that have lapsed too."""
        return [row for row in self.partition.pending if row.is_open]


class PeopleRules:
    """The rules of a live ledger for a few people.

    A check of every decision overrides `check`.

    Args:
        setting: records that come first: datasets, members, limits.
        records: what anybody may send.
        laws: of each mechanism, by its claim's JSON.
    """

    def __init__(
        self, setting: Sequence[Body], records: Sequence[PossibleRecord], laws: dict[str, Pair]
    ) -> None:
        self.records = tuple(records)
        self._laws = {_text_of(json.loads(claim)): pair for claim, pair in laws.items()}
        self.start = _state_of((genesis_decision(_GENESIS, START).value,), 0)
        for body in setting:
            self.start = self.after(self.start, body)

    def decided(self, state: PeopleState, body: Body, later: int = 0) -> EncodedDecision:
        """Decide a record; nothing is committed."""
        draft, at = Draft(state.partition), START + state.now + later
        source: Source = "requests" if body["type"] in _OF_ANALYSTS else "admin"
        issued = max(at, draft.floor + 1)  # after the clock was set back
        head = {"version": 1, "request_id": _id_at(issued, len(state.log))}
        value = json.dumps({**head, **body}).encode()
        return decide(draft, Input(source, draft.next[source], b"key", value, at), at)

    def after(self, state: PeopleState, body: Body) -> PeopleState:
        """Return the state after a record that is applied.

        Raises: ValueError: it is refused.
        """
        made = self.decided(state, body)
        if not _changes(made.decision):
            raise ValueError(f"refused: {made.value!r}")
        return _state_of((*state.log, made.value), state.now)

    def moves(self, state: PeopleState) -> list[Move[PeopleState]]:
        """Return every record that changes something, as a move.

        What is granted runs at once, and what is recorded has run: such a move shows its answer.
        """
        found = []
        for record in self.records:
            now = state.now + record.later
            if record.later < 0:
                made = reset_clock(Draft(state.partition), START + now, "it was ahead")
                now += 1  # an id is of a later time than the reset
            else:
                body = record.body(state)
                if body is None:
                    continue
                made = self.decided(state, body, record.later)
                self.check(state, body, made, now)
            if not _changes(made.decision):
                continue
            after = _state_of((*state.log, made.value), now)
            pair = self._law(made.decision)
            if pair is not SILENT or after != state:
                found.append(Move(record.name, pair, (after,) * len(pair.p)))
        return found

    def check(self, state: PeopleState, body: Body, made: EncodedDecision, now: int) -> None:
        """Check a decision; here nothing."""

    def _law(self, decision: Decision) -> Pair:
        if decision.outcome not in {Outcome.GRANTED, Outcome.RECORDED}:
            return SILENT
        return self._laws[_text_of(json.loads(bytes(decision.request))["claim"])]


def _state_of(log: tuple[bytes, ...], now: int) -> PeopleState:
    replay = Replay(_GENESIS)
    for value in log:
        replay.take_decision(value)
    partition = replay.finish()
    rows = [_row_of_state(json.loads(value)) for _, value in state_rows(partition)]
    return PeopleState(json.dumps([now, rows, partition.resets.number]), now, partition, log)


_OF_ANALYSTS: Final = {"request", "begin", "settle", "void"}


def _changes(decision: Decision) -> bool:
    """Tell whether a decision changes what may be granted: a denial ends what waits."""
    is_refusal = decision.outcome.value in {"refused", "invalid", "repeated", "conflict", "expired"}
    return not is_refusal or decision.reason is Reason.DENIED


def _id_at(at: int, number: int) -> str:
    return uuid7(at, b"\0" + number.to_bytes(8) + b"\0")


def _text_of(claim: Body) -> str:
    return json.dumps(claim, sort_keys=True)


def _row_of_state(row: Any) -> Any:
    """Return a row without what numbers and times decisions; of a request that waits, its claim."""
    if isinstance(row, list):
        return [_row_of_state(each) for each in row]
    if not isinstance(row, dict):
        return row
    found = {
        name: _row_of_state(each) for name, each in row.items() if name not in _NOT_OF_THE_STATE
    }
    return found | ({"claim": row["body"]["claim"]} if "body" in row else {})
