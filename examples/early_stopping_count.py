"""Count with less and less Gaussian noise, and stop as soon as the count is precise enough.

The ledger charges the finest level before the data is read. What the count did not need comes
back when the session settles. To use another mechanism, replace `read_cases`: it returns a function
of the variance, whose new noise is independent of the data and of the earlier noise.

ACCOUNTANT_URL names the ledger; by default it is a file in this directory.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from accountant.noise import GaussianRefinement
from streams import Accountant

VARIANCES = ("4000000", "1000000", "250000", "62500", "15625", "2500")
CLAIM = f"brownian:variance={VARIANCES[-1]},sensitivity=1,first={VARIANCES[0]}"
POLICY = {"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6", "unit": "patient"}


def read_cases() -> Callable[[str], Fraction]:
    """Read the data: only `session.run` calls this, after the ledger has answered."""
    patients = [{"id": number, "flu": number % 14 == 0} for number in range(60_000)]
    cases = sum(patient["flu"] for patient in patients)
    return GaussianRefinement(cases, secrets.randbits).draw


def is_precise(count: Fraction, variance: str) -> bool:
    """Tell whether a released count is at least ten times its standard deviation."""
    least = count - Fraction(1, 2)  # rounding moves an answer by at most a half
    return least > 0 and least**2 >= 100 * Fraction(variance)


with Accountant(analyst="ana") as ledger:
    ledger.as_owner("hospital").open("flu", POLICY)  # does nothing if it is open
    with ledger.reserve("flu", CLAIM, until="PT30M", once="cases") as session:
        session.run(read_cases)
        for variance in VARIANCES:
            count = session.show(variance)
            print(f"variance {variance}: about {round(count)} cases")
            if is_precise(count, variance):
                break
    spent = ledger.dataset("flu").totals["rho"]
print(f"spent: rho {spent}; the whole session would have been {1 / (2 * Decimal(VARIANCES[-1]))}")
