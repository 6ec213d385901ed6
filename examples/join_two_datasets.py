"""Join two datasets under both budgets: if one refuses, the other is charged nothing.

The claim bounds what one person changes in both datasets together, and each is charged it in
full. The mechanism runs once both sessions have begun.

ACCOUNTANT_URL names the ledger; by default it is a file in this directory.
"""

from __future__ import annotations

import secrets

from accountant.noise import rounded_normal
from streams import Accountant
from streams.client import NotGranted

CLAIM = "gaussian:sigma=50,sensitivity=1"
BUDGETS = {"clinic": "0.002", "registry": "0.0003"}  # rho; one such join costs 0.0002


def count_in_both(month: int) -> int:
    """Read both datasets; only the sessions call this, after both have begun."""
    clinic = {person for person in range(50_000) if person % 7 == month}
    registry = {person for person in range(50_000) if person % 5 == 0}
    return rounded_normal(len(clinic & registry), 50**2, secrets.randbits)


with Accountant(analyst="ana") as ledger:
    for dataset, rho in BUDGETS.items():
        policy = {"filter": "zcdp", "rho": rho, "unit": "patient", "most_per_request": "1"}
        ledger.as_owner("hospital").open(dataset, policy)  # does nothing if it is open
    for month in (5, 6):
        name = f"in both, month {month}"
        try:
            with (
                ledger.reserve("clinic", CLAIM, until="PT10M", once=name) as clinic,
                ledger.reserve("registry", CLAIM, until="PT10M", once=name) as registry,
            ):
                count = clinic.run(lambda month=month: registry.run(lambda: count_in_both(month)))
                print(f"month {month}: about {count} patients are in both")
        except NotGranted as refused:
            print(f"month {month}: {refused.reply.dataset} refused ({refused.reason})")
    for dataset in BUDGETS:
        print(f"{dataset}: spent rho {ledger.dataset(dataset).totals['rho']}")
