"""Members: random records, killed and replayed anywhere, each predicted by the oracle."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

import pytest

from tests.accountant.judged_life import OWN, Life, Rows, tight
from tests.accountant.partition.member_loads import Load
from tests.faults.oracle.dataset import Dataset
from tests.faults.oracle.expected import Fields
from tests.nightly import rounds

RECORDS: Final = rounds(4_000, 500_000)
EACH: Final = min(RECORDS, 10_000)
LIFE: Final = 500


class MembersLife(Life):
    """A life whose rows of members are tampered with; it counts what leads do."""

    fails = 0.01

    def judged(self, value: bytes) -> Fields:
        said = super().judged(value)
        record = said.get("request", {})
        dataset = self.judge.datasets.get(said.get("dataset", ""))
        is_lead = dataset is not None and "lead" in roles_of(dataset, record.get("by"))
        if is_lead and record["type"] == "member":
            self.met[f"lead: {said.get('reason') or said['outcome']}"] += 1
        return said

    def tampered(self) -> tuple[str, Rows]:
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
            rows[other] = tight({**row, "member": "x" + row["member"]})
        elif way == "role":
            rows[key] = tight({**row, "roles": ["owner", "engine", "auditor"]})
        elif way == "until":
            rows[key] = tight({**row, "until": row.get("until", 0) + 10**12})
        elif way == "unread":
            rows[key] = rows[key][:-1]
        elif way == "count":
            rows[OWN] = tight({**own, "members": own["members"] + 1})
        else:
            rows[key.replace(b'"member":"', b'"member":"x')] = rows.pop(key)
        return way, rows


def roles_of(dataset: Dataset, name: str | None) -> tuple[str, ...]:
    found = dataset.members.all.get(name or "")
    return () if found is None else found.roles


def lived(seed: int, records: int) -> MembersLife:
    """Return a life of so many records."""
    life = MembersLife(seed)
    load = Load(life.chance, life.judge)
    batch = 1
    for _ in range(records):
        life.decide(load.next())
        batch -= 1
        if batch <= 0:
            life.commit()
            batch = life.chance.choice([1, 1, 2, 5, 20])
        if life.chance.random() < 0.02:
            life.kill()
    life.finish()
    return life


@pytest.mark.slow
@pytest.mark.parametrize("part", range(RECORDS // EACH))
def test_the_oracle_predicts_every_record_about_members(part: int) -> None:
    met = Counter[str]()
    for seed in range(EACH // LIFE):
        met += lived(seed + part * 1000, LIFE).met
    decided = {name: count for name, count in met.items() if name in EVERY}
    assert decided.keys() == EVERY, EVERY - decided.keys()
    assert min(decided.values()) >= EACH / 4_000, decided
    assert min(decided[name] for name in OFTEN) > EACH / 50, decided
    ways = {name for name in met if name not in EVERY}
    assert ways >= {"log", "rows", *(f"tampered: {way}" for way in TAMPERED)}, ways


EVERY: Final = {
    *("opened", "amended", "closed", "member_set", "member_removed", "granted"),
    *("paused", "resumed", "already_paused", "not_paused"),
    *("repeated", "conflict", "expired", "invalid_field", "issued_in_future", "internal_error"),
    *(
        "unknown_dataset",
        "already_opened",
        "not_permitted",
        "out_of_date",
        "unknown_member",
        "end_in_past",
    ),
    *("last_owner", "already_granted", "not_lower", "halted", "unit_mismatch"),
    *("claim_not_accepted", "above_cap", "exhausted"),
    *("lead: member_set", "lead: member_removed", "lead: not_permitted"),
}
OFTEN: Final = ("member_set", "member_removed", "granted", "not_permitted")
TAMPERED: Final = ("lost", "back", "role", "until", "unread", "count", "key")
