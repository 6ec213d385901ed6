"""Reservations: random records with a clock that jumps, each predicted by the oracle."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

import pytest

from tests.accountant.judged_life import Life
from tests.accountant.reservations.loads import Load
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.reservations import Reservation
from tests.nightly import rounds

RECORDS: Final = rounds(2_500, 500_000)
EACH: Final = 2_500
"""Records of one test, so that it takes less than a minute of a slow core."""
LIFE: Final = 1_250


class ReservationsLife(Life):
    """A life that counts what comes back of reservations, and where to."""

    def judged(self, value: bytes) -> Fields:
        body = json.loads(value).get("request", {})
        row = self._row_of(body) if isinstance(body, dict) else None
        shares = _uses_of_shares(row)
        said = super().judged(value)
        if said["outcome"] in {"settled", "voided"}:
            levels = said.get("levels", [])
            self.met[f"{said['outcome']} at {len(levels)} limits"] += 1
            self.met["settled lower"] += "shown" in body
            returned = {name for each in levels for name in each}
            self.met.update(f"returned {name}" for name in returned & {"totals", "paced", "used"})
            is_back = "returned" in said["reservation"] and bool(shares)
            self.met["a share's refund is everybody's"] += is_back and shares == _uses_of_shares(
                row
            )
        if said["outcome"] in {"granted", "reserved"} and '"continues"' in json.dumps(body):
            self.met["continued"] += 1
        if said.get("reason") == "beyond_maximum":
            is_broken = said["reservation"].get("stage") == "broken"
            self.met["broken" if is_broken else "not broken by a former member"] += 1
        return said

    def _row_of(self, body: Fields) -> Reservation | None:
        dataset = self.judge.datasets.get(str(body.get("dataset")))
        return None if dataset is None else dataset.reservations.rows.get(str(body.get("grant")))

    def commit(self) -> None:
        super().commit()
        for dataset in self.judge.datasets.values():
            withheld = dataset.division.all_withheld()
            for name, most in dataset.division.meter.whole.items():
                assert dataset.totals[name] + withheld[name] <= most, (dataset.name, name)


def _uses_of_shares(row: Reservation | None) -> list[Fields]:
    """Return the use of each share that a reservation was charged to and that counts still."""
    return [
        dict(charge.limit.use.used[1])
        for charge in ([] if row is None else row.charges)
        if charge.used is not None
        and any(charge.used.values())
        and charge.limit.share is not None
        and charge.limit.use.used[0] == charge.shared == charge.limit.shared_since
    ]


def lived(seed: int, records: int) -> ReservationsLife:
    """Return a life of so many records."""
    life = ReservationsLife(seed)
    load = Load(life.chance, life.judge, datasets=5)
    batch = 1
    for _ in range(records):
        sent = load.next()
        clock = sent.at + life.chance.choice([0, 0, 0, 7_000, 86_400_000])
        life.decide(sent, clock)
        batch -= 1
        if batch <= 0:
            life.commit()
            batch = life.chance.choice([1, 1, 2, 5])
        if life.chance.random() < 0.008:
            life.kill()
        if life.chance.random() < 0.003:
            life.reset_clock(load.set_back())
    life.finish()
    return life


@pytest.mark.slow
@pytest.mark.parametrize("part", range(RECORDS // EACH))
def test_the_oracle_predicts_every_record_about_reservations(part: int) -> None:
    met = Counter[str]()
    for seed in range(part * 1000 + 1, part * 1000 + 1 + EACH // LIFE):
        met += lived(seed, LIFE).met
    missing = (OFTEN if part else OFTEN | RARE) - met.keys()
    assert not missing, (missing, met)


OFTEN: Final = {
    *("reserved", "begun", "settled", "settled lower", "voided", "granted"),
    *("not_open", "lapsed", "not_begun", "already_begun", "not_permitted"),
    *("continued", "not_settled"),
    *("paused", "exhausted", "claim_not_accepted", "log", "rows"),
}
RARE: Final = {
    *("broken", "not broken by a former member", "suspended", "resolved", "beyond_maximum"),
    *("settles_in_full", "above_first", "closed", "repeated", "expired"),
    *(
        "a share's refund is everybody's",
        *("returned totals", "returned paced", "returned used", "voided at 1 limits"),
        "voided at 2 limits",
        "settled at 1 limits",
        "clock_reset",
    ),
    *("limit_set", "limit_removed", "member_removed", "over_reserved"),
}
