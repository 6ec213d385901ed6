"""The odometers' readings, each with an explanation."""

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
    "basic": "the sum of all granted epsilons",
    "advanced_2016": "the first published odometer, for claims with an epsilon",
    "advanced_2016_n": "the first published odometer, without a guess at the total use",
    "linear": "tightest near an amount of use chosen in advance",
    "mixture": "a mixture, good for any amount of use",
    "one_sided_mixture": "the default, tuned to this budget",
    "one_sided_mixture_exact": "like the default, computed more tightly",
    "stitched": "grows slowest over very long use",
    "combined": "the smallest of several that share one delta",
}


class OdometerRow(NamedTuple):
    """One odometer.

    Attributes:
        value: in nats, four digits, rounded up; or words where a number would mean nothing.
        kind: a description of the odometer. `read`: the meaning of the value.
    """

    name: str
    value: str
    kind: str
    read: str

    @property
    def is_number(self) -> bool:
        """Whether the value is a number of nats."""
        return self.value[0].isdigit()


def odometer_rows(view: DatasetView) -> tuple[OdometerRow, ...]:
    """Return the readings of a dataset's odometers."""
    configured = {str(each.__struct_config__.tag): each for each in view.policy.odometers or ()}
    return tuple(_reading(each, configured.get(each.name), view) for each in odometers_of(view))


def _reading(reading: Amount, odometer: AnyOdometer | None, view: DatasetView) -> OdometerRow:
    unit, name, value = view.policy.unit, reading.name, reading.exact
    if value == "inf":
        read = (
            "A granted claim has no loss bound, such as one with a delta, so this odometer gives "
            "no bound any more. The guarantee above still holds."
        )
    else:
        fails = Decimal(0) if odometer is None else odometer.failure()
        # The claims' deltas add to the odometer's own probability of failure.
        fails += Decimal(view.policy.delta_for_claims or 0)
        but = f", except with probability {spent_amount(fails)} over the whole history"
        but = but if fails else ""
        read = (
            f"At any time, the privacy loss so far for any one {unit} is at most "
            f"{spent_amount(value)} nats{but}."
        )
    if ignores_sampling(value, view.policy):
        read += (
            " It does not count sampling, which this filter does. The guarantee above is smaller, "
            "and it holds."
        )
    elif _is_above(value, view):
        read += (
            " It may exceed the guarantee's ε without any violation: an odometer must hold at "
            "every moment, the guarantee only for the total."
        )
    return OdometerRow(name, reading.text, _KINDS.get(name, ""), read)


def _is_above(value: str, view: DatasetView) -> bool:
    promised = guarantee_of(view.policy)
    return promised.name == "epsilon" and math.inf > float(value) > promised.amount
