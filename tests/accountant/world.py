"""A partition to ask things of, as the processor would, with its log kept."""

from __future__ import annotations

import itertools
import json

import msgspec

from accountant.claims.text import parse_claim
from accountant.dataset_ledger import DatasetLedger
from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft, genesis_decision
from accountant.records import Decision, Genesis, Source
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.records.placement import Placement
from accountant.replay.replay import Replay, state_rows
from accountant.times import uuid7

START = 1_795_255_200_000  # 2026-11-21T10:00:00Z
WINDOW, SKEW = 3_600_000, 300_000


def code(decision: Decision) -> str:
    """Return the reason where there is one, else the outcome."""
    return str(decision.reason or decision.outcome)


class World:
    """One partition. Each input is a transaction of its own, unless `batch` is larger."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        partition: int = 0,
        most_ids: int | None = None,
        batch: int = 1,
        window: int = WINDOW,
        placement: Placement = "name",
    ) -> None:
        self.genesis = Genesis("test", partition, partitions, window, SKEW, placement=placement)
        self.now = START
        self.most_ids = most_ids
        self.batch = batch
        first = genesis_decision(self.genesis, START)
        self.encoded = [first]
        self.log = [first.value]
        self.decisions = [first.decision]
        self.state = self.replayed()
        self.draft = Draft(self.state)
        self._ids = itertools.count(1)
        self._open = 0

    def replayed(self) -> Partition:
        """Return the state that the whole log comes down to."""
        refold = Replay(self.genesis, most_ids=self.most_ids)
        for value in self.log:
            refold.take_decision(value)
        return refold.finish()

    def rows(self) -> list[tuple[bytes, bytes]]:
        """Return the rows of the live state, everything committed."""
        self.commit()
        return state_rows(self.state)

    def commit(self) -> None:
        self.draft.absorb()
        self.draft = Draft(self.state)
        self._open = 0

    def new_id(self, at: int | None = None) -> str:
        return uuid7(self.now if at is None else at, b"\0" + next(self._ids).to_bytes(8) + b"\0")

    def send(
        self, source: Source, raw: bytes | None, *, append_time: int | None = None
    ) -> Decision:
        """Decide one record of an input."""
        at = self.now if append_time is None else append_time
        record = Input(source, self.draft.next[source], b"key", raw, at)
        return self.took(decide(self.draft, record, self.now))

    def took(self, encoded: EncodedDecision) -> Decision:
        self.encoded.append(encoded)
        self.log.append(encoded.value)
        self.decisions.append(encoded.decision)
        self._open += 1
        if self._open >= self.batch:
            self.commit()
        return encoded.decision

    def request(self, claim: str | dict[str, object] = "pure:0.01", **fields: object) -> bytes:
        """Return the bytes of a request, its fields overridden."""
        if isinstance(claim, str):
            claim = msgspec.to_builtins(parse_claim(claim))
        body: dict[str, object] = {
            "version": 1,
            "type": "request",
            "request_id": fields.pop("request_id", None) or self.new_id(),
            "analyst": "ana",
            "dataset": "census",
            "claim": claim,
            "unit": "person",
            "neighbours": "add_remove",
        }
        return json.dumps(body | fields).encode()

    def ask(self, claim: str | dict[str, object] = "pure:0.01", **fields: object) -> Decision:
        return self.send("requests", self.request(claim, **fields))

    def admin(self, kind: str, **fields: object) -> bytes:
        """Return the bytes of an owner's record."""
        body: dict[str, object] = {
            "version": 1,
            "type": kind,
            "request_id": fields.pop("request_id", None) or self.new_id(),
            "dataset": "census",
            "by": "owner",
        }
        return json.dumps(body | fields).encode()

    def open(self, dataset: str = "census", **policy: object) -> Decision:
        return self.send("admin", self.admin("open", dataset=dataset, policy=policy))

    def amend(self, **fields: object) -> Decision:
        return self.send("admin", self.admin("amend", **fields))

    def close(self, dataset: str = "census") -> Decision:
        return self.send("admin", self.admin("close", dataset=dataset))

    def ledger(self, dataset: str = "census") -> DatasetLedger:
        ledger = self.draft.ledger(dataset)
        assert ledger is not None
        return ledger


def opened(**policy: object) -> World:
    """Return a world with `census` open, under a policy of epsilon 1 by default."""
    world = World()
    given = policy or {"epsilon": "1", "delta": "1e-6"}
    decision = world.open(**given)
    assert code(decision) == "opened", decision
    return world
