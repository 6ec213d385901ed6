"""Several datasets in one decision: random records, each predicted by the oracle."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.accountant.judged_life import Life
from tests.accountant.partition.several_loads import Load
from tests.faults.oracle.expected import Fields
from tests.nightly import NIGHTLY

RECORDS: Final = 120_000
LIFE: Final = 600


class SeveralLife(Life):
    """A life that counts what decisions about one dataset and about several say."""

    def judged(self, value: bytes) -> Fields:
        said = super().judged(value)
        body = said.get("request")
        if not isinstance(body, dict) or "source" not in said or said["source"]["topic"] == "admin":
            return said
        several = "several" if "parts" in said or "other_datasets" in body else "one"
        step = "" if body["type"] == "request" else f"{body['type']} "
        self.met[f"{several} {step}{said.get('reason', said['outcome'])}"] += 1
        if "refused_by" in said and "parts" in said:
            names = [part["dataset"] for part in said["parts"]]
            self.met[f"refused by number {names.index(said['refused_by'])}"] += 1
        if "continues" in body.get("claim", {}):
            self.met[f"{several} continued {said.get('reason', said['outcome'])}"] += 1
        return said


def lived(seed: int, records: int) -> SeveralLife:
    """Return a life of so many records."""
    life = SeveralLife(seed)
    load = Load(life.chance, life.judge)
    for _ in range(records):
        life.decide(load.next())
        if life.chance.random() < 0.4:
            life.commit()
        if life.chance.random() < 0.01:
            life.kill()
        if life.chance.random() < 0.005:
            life.reset_clock(load.set_back())
    life.finish()
    return life


OFTEN: Final = {
    *("several granted", "several exhausted", "several paused", "several repeated"),
    *("several unknown_dataset", "several halted", "several conflict", "one granted"),
    *("refused by number 0", "refused by number 1", "refused by number 2", "rows", "log"),
    *("several reserved", "several suspended", "one expired", "clock_reset", "resolved"),
    *("several begin begun", "several settle settled", "several void voided"),
    *("several begin lapsed", "several begin paused"),
    *("several begin already_begun", "several void already_begun", "several settle not_begun"),
    *("several settle beyond_maximum", "several settle settles_in_full", "several settle lapsed"),
    *("one void not_open", "several continued reserved", "one continued not_settled"),
    *("one begin not_first_dataset", "several begin not_permitted", "one begin begun"),
}


@pytest.mark.slow
def test_the_oracle_predicts_every_record_over_several_datasets() -> None:
    met = Counter[str]()
    # These few meet everything in `OFTEN`.
    for seed in range(RECORDS // LIFE) if NIGHTLY else (3, 4, 5):
        met += lived(seed, LIFE).met
    assert not OFTEN - met.keys(), (OFTEN - met.keys(), met)
