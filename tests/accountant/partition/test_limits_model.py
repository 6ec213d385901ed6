"""Limits, paces and shares by the processor's own path, killed anywhere, against a model."""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from typing import Final

import pytest

from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft, genesis_decision
from accountant.partition.operate import reset_clock
from accountant.records import Genesis
from accountant.records.inputs import Input
from accountant.replay.audit import audit
from accountant.replay.replay import Replay, StateMismatch, state_rows
from tests.accountant.partition.limit_loads import Load, Sent
from tests.accountant.partition.limits_model import Model
from tests.accountant.partition.limits_rows import level_rows, normal, since_of, tight
from tests.accountant.partition.members_model import time_of
from tests.faults.oracle.expected import Fields
from tests.nightly import rounds

RECORDS: Final = rounds(20_000, 500_000)
EACH: Final = 20_000
LIFE: Final = 2_500
WINDOW: Final = 3_600_000
SKEW: Final = 300_000
START: Final = 1_795_255_200_000
GENESIS: Final = Genesis("test", 0, 1, WINDOW, SKEW)
OWN: Final = b'{"partition":0}'
REPORTED: Final = (
    *("outcome", "reason", "sequence", "limit", "level", "levels", "left_at", "fits"),
    *("reached", "more_reached"),
)


class Life:
    """A partition and the model beside it; what was not committed is lost when it is killed.

    Attributes:
        log, rows: what a journal holds: committed decisions, and rows of `state`.
        seen: how often each outcome or reason was decided, each level refused, and each way of a
            refold gone.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.model = Model(START, WINDOW, SKEW)
        self.log = [genesis_decision(GENESIS, START).value]
        self.times = [START]
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
        items = list(rows.items())
        for key, value in self.chance.sample(items, len(items)):
            refold.take_row(key, value)
        start = refold.start
        first = 0
        if start is not None:
            later = (n for n, at in enumerate(self.times) if at >= start)
            first = next(later, len(self.log) - 1)
        for value in self.log[first:]:
            refold.take_decision(value)
        return refold.finish()

    def decide(self, sent: Sent) -> None:
        """Decide an input and compare; now and then undo it first."""
        source, at = sent.source, sent.at
        record = Input(source, self.draft.next[source], b"key", sent.value, at)
        if self.chance.random() < 0.03:
            mark = self.draft.mark()
            decide(self.draft, record, at)
            self.draft.rewind(mark)
        value = decide(self.draft, record, at).value
        said = json.loads(value)
        expected = self.model.decide(source, sent.body, sent.value, sent.issued, at, said)
        if "fits" not in expected:
            expected["fits"] = None
        for name in REPORTED:
            # Asked in this order: it is the model that knows what it takes for `fits`.
            right = expected.get(name) == said.get(name)
            assert right, (name, said.get(name), expected.get(name), sent.body, said)
        assert time_of(said["decided_at"]) == self.model.clock.at
        self._new.append(value)
        self.see(said)

    def see(self, said: Fields) -> None:
        self.seen[said["reason"] if "reason" in said else said["outcome"]] += 1
        if "level" in said:
            level = said["level"]
            self.seen[f"{said['reason']} {level['scope']} {level['what']}"] += 1
        for level in said.get("levels", []):
            self.seen[f"levels {level['scope']}"] += 1
        if said["outcome"] == "granted":
            dataset, analyst = self.model.datasets[said["dataset"]], said["request"]["analyst"]
            team = dataset.member(analyst, self.model.clock.at).get("team")
            named = [each["name"] for each in said.get("levels", []) if each["scope"] == "team"]
            self.seen["a share elsewhere"] += named not in ([], [team])

    def commit(self) -> None:
        """Write what was decided into the journal, and compare every row."""
        for key, value in self.draft.rows():
            if value is None:
                self.rows.pop(key, None)  # one who came and went at once never had a row
            else:
                self.rows[key] = value
        self.draft.absorb()
        self.log += self._new
        self.times += [time_of(json.loads(value)["decided_at"]) for value in self._new]
        self._new.clear()
        touched = self.model.touched()
        self.model.commit()
        self.draft = Draft(self.state)
        self.check_rows(touched)

    def check_rows(self, touched: set[str]) -> None:
        own = json.loads(self.rows[OWN])
        for name in touched:
            limits = self.model.datasets[name].division.limits
            expected = level_rows(name, limits)
            for key, row in expected.items():
                found = normal(json.loads(self.rows[key]), row, since_of(row, limits))
                assert found == row, (found, row)
            row = json.loads(self.rows[name.encode()])
            in_force = sum(limit.in_force for limit in limits.values())
            assert row.get("limits", 0) == in_force
            assert row.get("levels", 0) == len(expected)
            assert ("limits" in row) == bool(in_force)
            assert ("levels" in row) == bool(expected)
        counts = sum(key.startswith(b'{"dataset":') and b'"scope":' in key for key in self.rows)
        clock = self.model.clock
        reported = {n: own[n] for n in ("levels", "resets", "reset_at") if n in own}
        right = {"levels": counts, "resets": clock.resets, "reset_at": clock.reset_at}
        assert reported == {name: count for name, count in right.items() if count}
        total = sum(zlib.crc32(value) for key, value in self.rows.items() if key != OWN)
        if clock.resets:
            total += zlib.crc32(b"[%d,%d]" % (clock.resets, clock.reset_at))
        assert own["checksum"] == f"{total % 2**64:016x}"

    def reset_clock(self, at: int) -> None:
        self.commit()
        self._new.append(reset_clock(self.draft, at, "it was ahead").value)
        self.model.reset_clock(at)
        self.seen["clock_reset"] += 1
        self.commit()

    def kill(self) -> None:
        """Lose what is not committed, and refold in one of the ways that there are."""
        before = state_rows(self.state)
        self._new.clear()
        self.model.drop()
        way = self.chance.choice(["log", "rows", "rows", "tampered"])
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
        levels = [key for key in rows if b'"scope":' in key]
        if not levels:
            return "a partition's row lost", {k: v for k, v in rows.items() if k != OWN}
        key = self.chance.choice(levels)
        row: Fields = json.loads(rows[key])
        own: Fields = json.loads(rows[OWN])
        way = self.chance.choice(["lost", "back", "version", "unread", "count", "use"])
        if way == "lost":
            del rows[key]
        elif way == "back":
            other = key.replace(b'"name":"', b'"name":"x')
            rows[other] = tight({**row, "name": "x" + row["name"]})
        elif way == "version" and "limit" in row:
            version = row["limit"]["version"] + 1
            rows[key] = tight({**row, "limit": {**row["limit"], "version": version}})
        elif way == "use" and "counted" in row:
            counted: Fields = row["counted"]
            name = next(iter(counted["totals"]))
            totals = {**counted["totals"], name: "0.000001"}
            rows[key] = tight({**row, "counted": {**counted, "totals": totals}})
        elif way == "unread":
            rows[key] = rows[key][:-1]
        else:
            way, rows[OWN] = "count", tight({**own, "levels": own["levels"] + 1})
        return way, rows


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
            batch = life.chance.choice([1, 1, 2, 5, 20, 60])
        if life.chance.random() < 0.01:
            life.kill()
        if life.chance.random() < 0.004:
            life.reset_clock(load.set_back())
    life.commit()
    report = audit(life.log, genesis=GENESIS)
    assert report.ok, report.first_disagreement
    assert state_rows(life.from_the_log()) == state_rows(life.state)
    return life


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(RECORDS // EACH))
def test_no_record_is_decided_otherwise_than_by_the_model(part: int) -> None:
    seen = Counter[str]()
    for seed in range(EACH // LIFE):
        seen += lived(seed + part * 1000, LIFE).seen
    missing = EVERY - seen.keys()
    assert not missing, (missing, seen)
    assert min(seen[name] for name in OFTEN) > EACH / 100, seen


EVERY: Final[set[str]] = {
    *("opened", "amended", "closed", "member_set", "member_removed", "granted", "limit_set"),
    *("paused", "resumed"),
    *("limit_removed", "repeated", "expired", "invalid_field", "issued_in_future", "clock_reset"),
    *("unknown_dataset", "not_permitted", "out_of_date", "unknown_member", "already_granted"),
    *("has_limits", "unknown_limit", "limit_not_possible", "over_reserved"),
    *("unit_mismatch", "claim_not_accepted", "above_cap", "exhausted", "halted"),
    *(f"exhausted {scope} limit" for scope in ("team", "analyst", "each")),
    *(f"exhausted {scope} pace" for scope in ("dataset", "team", "analyst", "each")),
    *("exhausted dataset reserved", "a share elsewhere", "log", "rows"),
    *(f"claim_not_accepted {scope} limit" for scope in ("team", "analyst", "each")),
    *(f"levels {scope}" for scope in ("dataset", "team", "analyst", "each")),
    *(f"tampered: {way}" for way in ("lost", "back", "version", "unread", "count", "use")),
}
OFTEN: Final = ("granted", "exhausted", "limit_set", "member_set", "levels team", "levels analyst")
