"""The odometers' readings, each with how to read it."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

from accountant.display.numbers import spent_amount
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
        value: in nats, four digits, rounded up; ∞ where it bounds nothing.
        kind: what sort of odometer it is. `read`: how to read the value.
    """

    name: str
    value: str
    kind: str
    read: str


def readings(view: DatasetView) -> tuple[OdometerRow, ...]:
    """Return the readings of a dataset's odometers."""
    given = {str(each.__struct_config__.tag): each for each in view.policy.odometers or ()}
    return tuple(
        _reading(name, value, given.get(name), view) for name, value in view.odometers.items()
    )


def _reading(name: str, value: str, kept: AnyOdometer | None, view: DatasetView) -> OdometerRow:
    unit, shown = view.policy.unit, spent_amount(value)
    if shown == "∞":
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
            f"Whenever you look, what has leaked so far about any one {unit} is at most {shown} "
            f"nats{but}."
        )
    if shown != "∞" and _stands_above(value, view):
        read += (
            " It may stand above the guarantee's ε and nothing is wrong: an odometer must be right "
            "at every moment, the guarantee only in the end."
        )
    return OdometerRow(name, shown, _KINDS.get(name, ""), read)


def _stands_above(value: str, view: DatasetView) -> bool:
    promised = guarantee_of(view.policy)
    return promised.name == "epsilon" and float(value) > promised.amount
