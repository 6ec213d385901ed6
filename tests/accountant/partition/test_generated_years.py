"""Approvals, pauses, leads, ends, asks, reservations, raises, records, renewals in one run.

The oracle predicts each record, and a replay from anywhere comes to the same.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.accountant.partition.year_loads import Load
from tests.accountant.reservations.test_generated_reservations import ReservationsLife
from tests.faults.oracle.expected import Fields
from tests.nightly import rounds

LIFE: Final = rounds(1_500, 20_000)
"""Records of one run."""
LIVES: Final = rounds(1, 25)


class YearLife(ReservationsLife):
    """A life that counts who has answered, and whose record a lead's is."""

    def judged(self, value: bytes) -> Fields:
        said = super().judged(value)
        code = said.get("reason") or said["outcome"]
        if "approval" in said:
            self.met[f"approved: {code}"] += 1
        if "answers" in said:
            self.met[f"answers: {code}"] += 1
        record = said.get("request") or {}
        if record.get("by") in {"lea", "lou"} and record["type"] in {"member", "limit"}:
            self.met[f"lead: {code}"] += 1
        if record.get("type") == "limit" and record.get("until") and code == "limit_set":
            self.met["a limit with an end"] += 1
        return said


def lived(seed: int, records: int) -> YearLife:
    """Return a life of so many records."""
    life = YearLife(seed)
    load = Load(life.chance, life.judge, datasets=5)
    batch = 1
    for _ in range(records):
        sent = load.next()
        life.decide(sent, sent.at + life.chance.choice([0, 0, 0, 7_000, 86_400_000]))
        batch -= 1
        if batch <= 0:
            life.commit()
            batch = life.chance.choice([1, 1, 2, 5])
        if life.chance.random() < 0.004:
            life.kill()
        if life.chance.random() < 0.001:
            life.reset_clock(load.set_back())
    life.finish()
    return life


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(LIVES))
def test_the_oracle_predicts_every_record_of_a_year(seed: int) -> None:
    met: Counter[str] = lived(seed, LIFE).met
    missing = set() if seed else EVERY - met.keys()
    assert not missing, (missing, met)


EVERY: Final[set[str]] = {
    *("pending", "approved: granted", "approved: reserved", "approved: denied", "denied", "lapsed"),
    *("own_request", "not_pending", "member_paused", "member_resumed", "person_paused"),
    *("lead: limit_set", "lead: limit_removed", "lead: beyond_team", "lead: not_permitted"),
    *("a limit with an end", "end_in_past", "more_asked", "more_declined", "other_ask"),
    *(f"answers: {each}" for each in ("member_set", "limit_set", "budget_set", "more_declined")),
    *("reserved", "begun", "settled", "settled lower", "voided", "granted", "exhausted"),
    *("opened", "budget_set", "above_ceiling", "recorded", "remarked", "renewed", "no_lifetime"),
    *("repeated", "expired", "clock_reset", "log", "rows"),
}
