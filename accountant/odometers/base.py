"""What every odometer is: an upper bound on the loss so far, valid at every time at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import ClassVar

import msgspec

from accountant.amounts import UNIT, Units, parse
from accountant.claims import check_delta
from accountant.errors import RequestInvalid

Boundary = Callable[[float], float]
"""From one sum, in nats or nats squared and not below the true one, to a bound in nats."""

ULPS_UP = 1 + 1e-14
"""Factor above the error of a dozen correctly rounded or 1-ulp float operations."""


class Odometer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """An odometer as a policy writes it, with its own delta.

    To add one, write a subclass in a file of its own and name it in `odometers.AnyOdometer`.

    Attributes:
        sum: the sum in `totals.SUMS` that the bound is a function of.
        shifts: claims' deltas add -ln(1 - delta) to the reading.
    """

    sum: ClassVar[str] = "loss_time"
    shifts: ClassVar[bool] = True

    def boundary(self) -> Boundary:
        """Return U, each value rounded up, with the odometer's parameters worked in.

        Raises: RequestInvalid: a parameter breaks its rule.
        """
        raise NotImplementedError


class Reader:
    """One odometer of one policy, ready to read.

    P(exists n: loss so far > reading) <= delta' + delta'' for each fixed ordered pair of
    neighbours; infinite once the claims' deltas add up to more than delta''.
    """

    __slots__ = ("_boundary", "_delta_limit", "_i", "_i_delta", "_i_shift", "name")

    def __init__(self, odometer: Odometer, sums: tuple[str, ...], delta_limit: Units) -> None:
        self.name = str(odometer.__struct_config__.tag)
        self._boundary = odometer.boundary()
        self._delta_limit = delta_limit
        self._i = sums.index(odometer.sum)
        self._i_delta = sums.index("loss_delta") if "loss_delta" in sums else None
        shifts = odometer.shifts and "loss_shift" in sums
        self._i_shift = sums.index("loss_shift") if shifts else None

    def __call__(self, totals: tuple[Units, ...]) -> float:
        """Return the bound in nats, rounded up, at the given totals."""
        if self._i_delta is not None and totals[self._i_delta] > self._delta_limit:
            return math.inf
        total = totals[self._i]
        # The nearest float of the quotient may lie below it; the factor covers that too.
        reading = self._boundary(total / UNIT * ULPS_UP)
        if self._i_shift is not None:
            shift = totals[self._i_shift]
            if shift:
                reading = (reading + shift / UNIT) * ULPS_UP
        return reading


def sums_of(odometer: Odometer, *, with_deltas: bool = True) -> tuple[str, ...]:
    """Return the names of the sums that reading an odometer takes.

    Args:
        with_deltas: claims with delta > 0 may be granted.
    """
    if not with_deltas:
        return (odometer.sum,)
    return (odometer.sum, "loss_delta", *(["loss_shift"] if odometer.shifts else []))


def log_inverse_delta_up(text: str) -> float:
    """Return L = ln(1/delta), rounded up.

    Raises: RequestInvalid: delta is not in (0, 1).
    """
    return -math.log(delta_down(text)) * ULPS_UP


def delta_down(text: str) -> float:
    """Return an odometer's delta' as a float that is not above it.

    Raises: RequestInvalid: it is not in (0, 1).
    """
    value = check_delta(text, "delta")
    if not value:
        raise RequestInvalid("delta", "must be greater than 0", text)
    return math.nextafter(float(value), 0)


def parameter(text: str, field: str) -> float:
    """Return a free parameter, which may be any number > 0 and so needs no rounding.

    Raises: RequestInvalid: it is not between 1e-25 and 1e9.
    """
    value = parse(text, field=field)
    if value < Decimal("1e-25"):
        raise RequestInvalid(field, "must be between 1e-25 and 1e9", text)
    return float(value)
