"""The base of every odometer: an upper bound on the loss so far, valid at all times at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import ClassVar, Final

import msgspec

from accountant.amounts import UNIT, Units, parse, precise
from accountant.claims.fields import check_delta
from accountant.errors import RequestInvalid

Boundary = Callable[..., float]
"""From an odometer's sums, each rounded up, to a bound in nats.

The sums are floats in nats or nats squared; `Units` for an odometer with `exact`.
"""

Read = Callable[[tuple[Units, ...]], float]
"""From the totals of a ledger to a bound in nats, rounded up."""

ULPS_UP = 1 + 1e-14
"""A factor that exceeds the error of a dozen correctly rounded or 1-ulp float operations."""

MIN_PARAMETER: Final = Decimal("1e-25")

_APART = "apart_"


class Odometer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """An odometer as a policy holds it, with its own delta.

    To add one, write a subclass in its own file and name it in `odometers.AnyOdometer`.

    Attributes:
        sums: the sums of `accountant.claims.price` on which the bound depends.
        shifts: the reading grows by -ln(1 - delta) for a claim with a delta, and by the amount
            paid for an ex-post claim (docs/theory.md section 4).
        exact: the boundary takes `Units` instead of floats, since it jumps somewhere.
    """

    sums: ClassVar[tuple[str, ...]] = ("loss_time",)
    shifts: ClassVar[bool] = True
    exact: ClassVar[bool] = False

    def boundary(self) -> Boundary:
        """Return U as a function of the sums alone, each value rounded up.

        Raises: RequestInvalid: a parameter breaks its rule.
        """
        raise NotImplementedError

    def failure(self) -> Decimal:
        """Return delta', a bound on P(U is ever too small) where no claim has a delta."""
        return Decimal(0)

    def most_delta(self) -> Units:
        """Return the odometer's own limit on the sum of the claims' deltas."""
        return UNIT

    def names(self, *, with_deltas: bool, with_ex_post: bool) -> tuple[str, ...]:
        """Return the names of the totals that `read` uses."""
        apart = _APART if with_ex_post else ""
        names = list(self.sums)
        if self.shifts and with_ex_post:
            names = [*[apart + name for name in self.sums], "loss_ex_post"]
        if with_deltas:
            names.append(apart + "loss_delta")
            if with_ex_post:
                names.append("loss_ex_post_delta")
            if self.shifts:
                names.append(apart + "loss_shift")
        return tuple(names)

    def read(self, sums: tuple[str, ...], delta_limit: Units) -> Read:
        """Return the function from totals, named by `sums`, to the odometer's reading.

        Args:
            delta_limit: delta'', the policy's limit on the sum of the claims' deltas.
        """
        with_ex_post = "loss_ex_post" in sums or "loss_ex_post_delta" in sums
        with_deltas = "loss_delta" in sums or "loss_ex_post_delta" in sums
        names = self.names(with_deltas=with_deltas, with_ex_post=with_ex_post)
        places = [sums.index(name) for name in names]
        width = len(self.sums)
        bound = self._bound(places[:width])
        further = dict(zip(names[width:], places[width:], strict=True))
        deltas = [place for name, place in further.items() if name.endswith("_delta")]
        added = [place for place in further.values() if place not in deltas]
        if added:
            bound = _with_added(bound, added)
        if deltas:
            bound = _up_to(bound, deltas, min(delta_limit, self.most_delta()))
        return bound

    def _bound(self, places: list[int]) -> Read:
        boundary = self.boundary()
        if self.exact:
            return lambda totals: boundary(*[totals[i] for i in places])
        if len(places) > 1:
            return lambda totals: boundary(*[to_float(totals[i]) for i in places])
        (only,) = places

        def one_sum(totals: tuple[Units, ...]) -> float:
            # The division rounds to the nearest float, maybe down; the factor covers that too.
            return boundary(totals[only] / UNIT * ULPS_UP)

        return one_sum


def _with_added(bound: Read, places: list[int]) -> Read:
    def shifted(totals: tuple[Units, ...]) -> float:
        reading = bound(totals)
        for i in places:
            amount = totals[i]
            if amount:
                reading = (reading + amount / UNIT) * ULPS_UP
        return reading

    return shifted


def _up_to(bound: Read, places: list[int], limit: Units) -> Read:
    first, *others = places

    def limited(totals: tuple[Units, ...]) -> float:
        return math.inf if totals[first] > limit else bound(totals)

    def limited_together(totals: tuple[Units, ...]) -> float:
        return math.inf if sum([totals[i] for i in places]) > limit else bound(totals)

    return limited_together if others else limited


class Reader:
    """One odometer of one policy, ready to read.

    P(exists n: loss so far > reading) <= delta' + delta'' for each fixed ordered pair of
    neighbours. The reading is infinite once the claims' deltas add up to more than delta''.

    Attributes:
        name: the odometer's type.
        read: from totals to the bound in nats, rounded up; a call of the reader does the same.
    """

    __slots__ = ("name", "read")

    def __init__(self, odometer: Odometer, sums: tuple[str, ...], delta_limit: Units) -> None:
        self.name = str(odometer.__struct_config__.tag)
        self.read = odometer.read(sums, delta_limit)

    def __call__(self, totals: tuple[Units, ...]) -> float:
        return self.read(totals)


def sums_of(
    odometer: Odometer, *, with_deltas: bool = True, with_ex_post: bool = False
) -> tuple[str, ...]:
    """Return the names of the sums that an odometer needs for its reading.

    Args:
        with_deltas: the filter may grant claims with delta > 0.
        with_ex_post: the filter settles ex-post claims, and counts their settlements apart
            from other claims. Otherwise an odometer counts them as claims of pure epsilon.
    """
    return odometer.names(with_deltas=with_deltas, with_ex_post=with_ex_post)


def to_float(units: Units) -> float:
    """Return an amount as a float, rounded up; infinite beyond the range of floats."""
    try:
        return units / UNIT * ULPS_UP
    except OverflowError:
        return math.inf


def log_inverse_delta_up(text: str) -> float:
    """Return L = ln(1/delta), rounded up.

    Raises: RequestInvalid: delta is not in (0, 1).
    """
    with precise():
        return float(-checked_delta(text).ln()) * ULPS_UP


def delta_down(text: str) -> float:
    """Return an odometer's delta' as a float, rounded down.

    Raises: RequestInvalid: it is not in (0, 1).
    """
    return math.nextafter(float(checked_delta(text)), 0)


def checked_delta(text: str, field: str = "delta") -> Decimal:
    """Return an odometer's delta' exactly.

    Raises: RequestInvalid: it is not in (0, 1).
    """
    value = check_delta(text, field)
    if not value:
        raise RequestInvalid(field, "must be greater than 0", text)
    return value


def parameter(text: str, field: str) -> float:
    """Return a free parameter, which needs no rounding: every value > 0 gives a valid bound.

    Raises: RequestInvalid: it is not between 1e-25 and 1e9.
    """
    value = parse(text, field=field)
    if value < MIN_PARAMETER:
        raise RequestInvalid(field, "must be between 1e-25 and 1e9", text)
    return float(value)
