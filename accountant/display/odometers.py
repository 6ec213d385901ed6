"""Odometers for people: a reading that says nothing, or ignores sampling, is not a bare number."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from accountant.display.numbers import Amount, odometer_amounts, spent_amount
from accountant.policy import Policy, guarantee_of
from accountant.views.datasets import DatasetView

SAMPLING: Final = "odometers do not count sampling"
COUNT_SAMPLING: Final = frozenset({"renyi", "renyi_weighted", "renyi_mixture"})
"""Filters that charge a sampled claim less."""


def odometers_of(view: DatasetView) -> tuple[Amount, ...]:
    """Return the readings of a dataset's odometers, in nats."""
    return tuple(
        each._replace(text=f"above {spent_amount(promised)} ({SAMPLING})")
        if (promised := _exceeded_guarantee(each.exact, view.policy)) is not None
        else each
        for each in odometer_amounts(view.odometers)
    )


def ignores_sampling(reading: str, policy: Policy) -> bool:
    """Tell whether a reading is above the guarantee, under a filter that counts sampling."""
    return _exceeded_guarantee(reading, policy) is not None


def _exceeded_guarantee(reading: str, policy: Policy) -> Decimal | None:
    # Only Renyi filters charge a sampled claim less. An odometer charges it as if the mechanism
    # had read all the data, so its reading soon exceeds the guarantee and says nothing more.
    if policy.filter not in COUNT_SAMPLING:
        return None
    promised = guarantee_of(policy)
    value = Decimal(reading)
    above = promised.name == "epsilon" and value.is_finite() and value > promised.amount
    return promised.amount if above else None
