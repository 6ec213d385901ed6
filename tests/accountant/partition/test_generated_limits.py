"""Limits, period limits and reserved shares: random records, each predicted by the oracle."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

import pytest

from tests.accountant.judged_life import OWN, Life, Rows, tight
from tests.accountant.partition.limit_loads import Load
from tests.faults.oracle.expected import Fields
from tests.nightly import rounds

RECORDS: Final = rounds(7_500, 500_000)
EACH: Final = min(RECORDS, 20_000)
LIFE: Final = 2_500


class LimitsLife(Life):
    """A life whose rows of limits are tampered with; it counts what limits do."""

    _over: frozenset[tuple[str, ...]] | set[tuple[str, ...]] = frozenset()

    def judged(self, value: bytes) -> Fields:
        said = super().judged(value)
        before = self._over
        self._over = {
            (name, *key)
            for name, dataset in self.judge.datasets.items()
            for key, limit in dataset.division.limits.items()
            if limit.over
        }
        self.met["a limit ended"] += len(self._over - before)
        record = said.get("request", {})
        if record.get("by", "").startswith("a") and record["type"] == "limit":
            self.met[f"lead: {said.get('reason') or said['outcome']}"] += 1
        if "level" in said:
            level = said["level"]
            self.met[f"{said['reason']} {level['scope']} {level['what']}"] += 1
        for level in said.get("levels", []):
            self.met[f"levels {level['scope']}"] += 1
        if said["outcome"] == "granted":
            members = self.judge.datasets[said["dataset"]].members
            team = members.team(said["request"]["analyst"], self.judge.at)
            named = [each["name"] for each in said.get("levels", []) if each["scope"] == "team"]
            self.met["a share elsewhere"] += named not in ([], [team])
        return said

    def tampered(self) -> tuple[str, Rows]:
        """Return rows that were tampered with, or that a journal has lost some of."""
        rows = dict(self.rows)
        levels = [key for key in rows if b'"scope":' in key]
        if not levels:
            return "a partition's row lost", {k: v for k, v in rows.items() if k != OWN}
        key = self.chance.choice(levels)
        row: Fields = json.loads(rows[key])
        own: Fields = json.loads(rows[OWN])
        way = self.chance.choice(["lost", "back", "version", "unread", "count", "use", "over"])
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
        elif way == "over" and "limit" in row:
            rows[key] = tight({**row, "rule": {**row.get("rule", {}), "over": True}})
            if rows[key] == self.rows[key]:
                return self.tampered()
        elif way == "unread":
            rows[key] = rows[key][:-1]
        else:
            way, rows[OWN] = "count", tight({**own, "levels": own["levels"] + 1})
        return way, rows


def lived(seed: int, records: int) -> LimitsLife:
    """Return a life of so many records."""
    life = LimitsLife(seed)
    load = Load(life.chance, life.judge)
    batch = 1
    for _ in range(records):
        life.decide(load.next())
        batch -= 1
        if batch <= 0:
            life.commit()
            batch = life.chance.choice([1, 1, 2, 5, 20])
        if life.chance.random() < 0.01:
            life.kill()
        if life.chance.random() < 0.004:
            life.reset_clock(load.set_back())
    life.finish()
    return life


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(RECORDS // EACH))
def test_the_oracle_predicts_every_record_about_limits(part: int) -> None:
    met = Counter[str]()
    for seed in range(1, 1 + EACH // LIFE):
        met += lived(seed + part * 1000, LIFE).met
    missing = set() if part else EVERY - met.keys()
    assert not missing, (missing, met)
    assert min(met[name] for name in OFTEN) > EACH / 100, met


EVERY: Final[set[str]] = {
    *("opened", "amended", "closed", "member_set", "member_removed", "granted", "limit_set"),
    *("paused", "resumed"),
    *("limit_removed", "repeated", "expired", "invalid_field", "issued_in_future", "clock_reset"),
    *("unknown_dataset", "not_permitted", "out_of_date", "unknown_member", "already_granted"),
    *("has_limits", "unknown_limit", "limit_not_possible", "over_reserved", "end_in_past"),
    "a limit ended",
    *("lead: limit_set", "lead: limit_removed", "lead: beyond_team", "lead: not_permitted"),
    *("unit_mismatch", "claim_not_accepted", "above_cap", "exhausted", "halted"),
    *(f"exhausted {scope} limit" for scope in ("team", "analyst", "each")),
    *(f"exhausted {scope} pace" for scope in ("dataset", "team", "analyst", "each")),
    *("exhausted dataset reserved", "a share elsewhere", "log", "rows"),
    *(f"claim_not_accepted {scope} limit" for scope in ("team", "analyst", "each")),
    *(f"levels {scope}" for scope in ("dataset", "team", "analyst", "each")),
    *(f"tampered: {way}" for way in ("lost", "back", "version", "unread", "count", "use")),
    "tampered: over",
}
OFTEN: Final = ("granted", "exhausted", "limit_set", "member_set", "levels team", "levels analyst")
