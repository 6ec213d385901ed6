"""Members decided by the processor's own path, killed and refolded anywhere, against a model."""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from typing import Any, Final

import pytest

from accountant.partition import Partition
from accountant.partition.decide import decide, decide_internal_error
from accountant.partition.draft import Draft, genesis_decision
from accountant.records import Genesis
from accountant.records.inputs import Input
from accountant.replay.audit import audit
from accountant.replay.replay import Replay, StateMismatch, state_rows
from tests.accountant.partition.member_loads import Load, Sent
from tests.accountant.partition.members_model import Fields, Model, time_of
from tests.nightly import rounds

RECORDS: Final = rounds(4_000, 500_000)
EACH: Final = min(RECORDS, 10_000)
LIFE: Final = 500
WINDOW: Final = 3_600_000
SKEW: Final = 300_000
START: Final = 1_795_255_200_000
GENESIS: Final = Genesis("test", 0, 1, WINDOW, SKEW)
OWN: Final = b'{"partition":0}'
COUNTED: Final = ("owners", "members", "granted_at", "closed_at", "paused")
REPORTED: Final = ("outcome", "reason", "sequence", "owners", "member", "administrator")


class Life:
    """A partition and the model beside it; what was not committed is lost when it is killed.

    Attributes:
        log, rows: what a journal holds: committed decisions, and rows of `state`.
        seen: how often each outcome or reason was decided, and each way of a refold gone.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.model = Model(START, WINDOW, SKEW)
        first = genesis_decision(GENESIS, START)
        self.log = [first.value]
        self.rows: dict[bytes, bytes] = {}
        self.seen = Counter[str]()
        self.state = self.from_the_log()
        self.draft = Draft(self.state)
        self._new: list[bytes] = []

    def from_the_log(self, *, instead_of: Replay | None = None) -> Partition:
        refold = Replay(GENESIS, instead_of=instead_of)
        for value in self.log:
            refold.take_decision(value)
        return refold.finish()

    def from_rows(self, refold: Replay, rows: dict[bytes, bytes]) -> Partition:
        """Return the state of some rows and the end of the log that they need."""
        for key, value in self.shuffled(list(rows.items())):
            refold.take_row(key, value)
        start = refold.start
        for value in self.log:
            if start is None or time_of(json.loads(value)["decided_at"]) >= start:
                refold.take_decision(value)
        return refold.finish()

    def shuffled(self, rows: list[Any]) -> list[Any]:
        return self.chance.sample(rows, len(rows))

    def decide(self, sent: Sent) -> None:
        """Decide an input and compare; now and then undo it first, or have it fail."""
        source, at = sent.source, sent.at
        record = Input(source, self.draft.next[source], b"key", sent.value, at)
        draw = self.chance.random()
        if draw < 0.03:
            mark = self.draft.mark()
            decide(self.draft, record, at)
            self.draft.rewind(mark)
        if draw < 0.01:
            encoded, expected = decide_internal_error(self.draft, record, at), self.model.fail(at)
        else:
            encoded = decide(self.draft, record, at)
            expected = self.model.decide(source, sent.body, sent.value, sent.issued, at)
        said = json.loads(encoded.value)
        found = {name: said[name] for name in REPORTED if name in said}
        assert found == expected, (sent.body, said)
        assert time_of(said["decided_at"]) == self.model.at
        check_refusal(said)
        self._new.append(encoded.value)
        self.seen[said.get("reason", said["outcome"])] += 1

    def commit(self) -> None:
        """Write what was decided into the journal, and compare every row of a member."""
        for key, value in self.draft.rows():
            if value is None:
                self.rows.pop(key, None)  # one who came and went at once never had a row
            else:
                self.rows[key] = value
        self.draft.absorb()
        self.log += self._new
        self._new.clear()
        self.model.commit()
        self.draft = Draft(self.state)
        self.check_rows()

    def check_rows(self) -> None:
        rows = {key.decode(): json.loads(value) for key, value in self.rows.items()}
        own = rows.pop(OWN.decode())
        members = {key: row for key, row in rows.items() if key.startswith("{")}
        assert members == self.model.rows()
        datasets = rows.keys() - members.keys()
        assert datasets == self.model.datasets.keys()
        for name in datasets:
            counts = {field: value for field, value in rows[name].items() if field in COUNTED}
            assert counts == self.model.counts(name), name
        assert own.get("members", 0) == len(members)
        assert ("members" in own) == bool(members)
        assert own["datasets"] == len(datasets)
        total = sum(zlib.crc32(value) for key, value in self.rows.items() if key != OWN)
        assert own["checksum"] == f"{total % 2**64:016x}"

    def kill(self) -> None:
        """Lose what is not committed, and refold in one of the ways that there are."""
        before = state_rows(self.state)
        self._new.clear()
        self.model.drop()
        way = self.chance.choice(["log", "rows", "tampered"])
        if way == "tampered" and self.rows:
            name, rows = self.tampered()
            refold = Replay(GENESIS)
            with pytest.raises(StateMismatch):
                self.from_rows(refold, rows)
            self.state, way = self.from_the_log(instead_of=refold), f"tampered: {name}"
        elif way == "rows":
            self.state = self.from_rows(Replay(GENESIS), self.rows)
        else:
            self.state = self.from_the_log()
        self.seen[way] += 1
        assert state_rows(self.state) == before
        assert not self.rows or dict(before) == self.rows
        self.draft = Draft(self.state)

    def tampered(self) -> tuple[str, dict[bytes, bytes]]:
        """Return rows that were tampered with, or that a journal has lost some of."""
        rows = dict(self.rows)
        members = [key for key in rows if key.startswith(b'{"dataset"')]
        if not members:
            return "a partition's row lost", {k: v for k, v in rows.items() if k != OWN} or {
                b"d0": b'{"version":2}'
            }
        key = self.chance.choice(members)
        row: Fields = json.loads(rows[key])
        own: Fields = json.loads(rows[OWN])
        way = self.chance.choice(["lost", "back", "role", "until", "unread", "count", "key"])
        if way == "lost":
            del rows[key]
        elif way == "back":
            other = key.replace(b'"member":"', b'"member":"x')
            rows[other] = _tight({**row, "member": "x" + row["member"]})
        elif way == "role":
            rows[key] = _tight({**row, "roles": ["owner", "engine", "auditor"]})
        elif way == "until":
            rows[key] = _tight({**row, "until": row.get("until", 0) + 10**12})
        elif way == "unread":
            rows[key] = rows[key][:-1]
        elif way == "count":
            rows[OWN] = _tight({**own, "members": own["members"] + 1})
        else:
            rows[key.replace(b'"member":"', b'"member":"x')] = rows.pop(key)
        return way, rows


def _tight(row: Fields) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()


def check_refusal(said: Fields) -> None:
    """Check that a missing role is refused before a price is computed."""
    if said.get("reason") == "not_permitted":
        assert {"totals", "left", "odometers", "sequence", "request"} <= said.keys()
        assert not {"asked", "fits", "ends", "cost", "crossed", "member", "policy"} & said.keys()
    if said["outcome"] in {"member_set", "member_removed"}:
        assert {"totals", "left", "odometers", "sequence", "member"} <= said.keys()
        assert not {"policy", "budget", "cost", "asked", "crossed", "owners"} & said.keys()


def lived(seed: int, records: int) -> Life:
    """Return a life of so many records."""
    life = Life(seed)
    load = Load(life.chance, life.model)
    batch = 1
    for _ in range(records):
        life.decide(load.next())
        batch -= 1
        if batch <= 0:
            life.commit()
            batch = life.chance.choice([1, 1, 2, 5, 20])
        if life.chance.random() < 0.04:
            life.kill()
    life.commit()
    report = audit(life.log, genesis=GENESIS)
    assert report.ok, report.first_disagreement
    assert state_rows(life.from_the_log()) == state_rows(life.state)
    return life


@pytest.mark.slow
@pytest.mark.parametrize("part", range(RECORDS // EACH))
def test_no_record_is_decided_otherwise_than_by_the_model(part: int) -> None:
    seen = Counter[str]()
    for seed in range(EACH // LIFE):
        seen += lived(seed + part * 1000, LIFE).seen
    decided = {name: count for name, count in seen.items() if name in EVERY}
    assert sum(decided.values()) == EACH
    assert decided.keys() == EVERY, EVERY - decided.keys()
    assert min(decided.values()) >= EACH / 2_000, decided
    assert min(decided[name] for name in OFTEN) > EACH / 50, decided
    ways = {name for name in seen if name not in EVERY}
    assert ways >= {"log", "rows", *(f"tampered: {way}" for way in TAMPERED)}, ways


EVERY: Final = {
    *("opened", "amended", "closed", "member_set", "member_removed", "granted"),
    *("paused", "resumed", "already_paused", "not_paused"),
    *("repeated", "conflict", "expired", "invalid_field", "issued_in_future", "internal_error"),
    *("unknown_dataset", "already_opened", "not_permitted", "out_of_date", "unknown_member"),
    *("last_owner", "already_granted", "not_lower", "halted", "unit_mismatch"),
    *("claim_not_accepted", "above_cap", "exhausted"),
}
OFTEN: Final = ("member_set", "member_removed", "granted", "not_permitted")
TAMPERED: Final = ("lost", "back", "role", "until", "unread", "count", "key")
