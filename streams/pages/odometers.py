"""The odometers' readings, each with how to read it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final, NamedTuple

from accountant.display.numbers import Amount, spent_amount
from accountant.display.odometers import ignores_sampling, odometers_of
from accountant.odometers import AnyOdometer
from accountant.policy import guarantee_of
from accountant.views.datasets import DatasetView

_KINDS: Final = {
    "basic": "the sum of the epsilons of all that was granted",
    "advanced_2016": "the first published odometer, for claims with an epsilon",
    "advanced_2016_n": "the first published odometer, without a guess of how much there will be",
    "linear": "tightest near one amount of use that was chosen before",
    "mixture": "a mixture that holds for any amount of use",
    "one_sided_mixture": "the default, tuned to this budget",
    "one_sided_mixture_exact": "as the default, computed more closely",
    "stitched": "grows most slowly over very long use",
    "combined": "the smallest of several, which share their delta",
}


class OdometerRow(NamedTuple):
    """One odometer.

    Attributes:
        value: in nats, four digits, rounded up; or in words, where a number would say nothing.
        kind: what sort of odometer it is. `read`: how to read the value.
    """

    name: str
    value: str
    kind: str
    read: str

    @property
    def is_number(self) -> bool:
        """Whether the value is a number of nats."""
        return self.value[0].isdigit()


def readings(view: DatasetView) -> tuple[OdometerRow, ...]:
    """Return the readings of a dataset's odometers."""
    given = {str(each.__struct_config__.tag): each for each in view.policy.odometers or ()}
    return tuple(_reading(each, given.get(each.name), view) for each in odometers_of(view))


def _reading(reading: Amount, kept: AnyOdometer | None, view: DatasetView) -> OdometerRow:
    unit, name, value = view.policy.unit, reading.name, reading.exact
    if value == "inf":
        read = (
            "A claim was granted that bounds no loss, such as one with a delta, so this odometer "
            "says nothing more. The guarantee above holds all the same."
        )
    else:
        fails = Decimal(0) if kept is None else kept.failure()
        # What the claims may spend of delta is lost beside the odometer's own.
        fails += Decimal(view.policy.delta_for_claims or 0)
        but = f", except with probability {spent_amount(fails)} over the whole history"
        but = but if fails else ""
        read = (
            f"Whenever you look, what has leaked so far about any one {unit} is at most "
            f"{spent_amount(value)} nats{but}."
        )
    if ignores_sampling(value, view.policy):
        read += (
            " It does not count sampling, which this filter does: the guarantee above is smaller, "
            "and it holds."
        )
    elif _is_above(value, view):
        read += (
            " It may be above the guarantee's ε and nothing is wrong: an odometer must be right "
            "at every moment, the guarantee only in the end."
        )
    return OdometerRow(name, reading.text, _KINDS.get(name, ""), read)


def _is_above(value: str, view: DatasetView) -> bool:
    promised = guarantee_of(view.policy)
    return promised.name == "epsilon" and math.inf > float(value) > promised.amount
