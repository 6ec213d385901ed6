"""Count with less and less Laplace noise, and pay for the last answer alone.

All noise is drawn at the start, from the finest scale up, and shown in reverse order. To use
another mechanism, replace `read_visits`: it reads the data and returns a function of the scale,
and all answers together must reveal no more than the last one.

ACCOUNTANT_URL names the ledger; by default it is a file in this directory.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from fractions import Fraction

from accountant.noise import LaplaceReduction
from streams import Accountant

SCALES = ("400", "200", "100", "50", "20")
CLAIM = f"ex_post:epsilon=0.05,sensitivity=1,first={SCALES[0]},least={SCALES[-1]}"
POLICY = {"filter": "basic", "epsilon": "1", "unit": "patient"}


def read_visits() -> Callable[[str], Fraction]:
    """Read the data: only `session.run` calls this, after the ledger has answered."""
    visits = sum(1 for patient in range(60_000) if patient % 23 == 0)
    return LaplaceReduction(visits, SCALES, secrets.randbits).draw


with Accountant(analyst="ana") as ledger:
    ledger.as_owner("hospital").open("visits", POLICY)  # does nothing if it is open
    with ledger.reserve("visits", CLAIM, until="PT30M", once="visits") as session:
        session.run(read_visits)
        for scale in SCALES:
            count = session.show(scale)
            print(f"scale {scale}: about {count} visits")
            if count >= 20 * int(scale):  # decided by a released answer alone
                break
    spent = ledger.dataset("visits").totals["epsilon"]
print(f"spent: epsilon {spent}; the whole session would have been 0.05")
