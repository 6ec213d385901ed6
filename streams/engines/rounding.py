"""Converts numbers of engines to those of claims, rounded so that the claim never costs less."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import inf, nextafter
from numbers import Integral
from operator import index
from typing import Any, Final

from accountant.amounts import LARGEST, budget_down, cost_up, format_units
from accountant.claims import Approximate, Claim, Pure
from accountant.claims.fields import MIN_EPSILON
from accountant.errors import RequestInvalid

_LARGEST: Final = Fraction(LARGEST) - 1  # the wire takes it in plain digits


def text_up(value: Any, field: str, *, least: Decimal = Decimal(0)) -> str:
    """Return an engine's number as text for the wire, rounded up.

    Rounding adds at most 1e-19 of the number, or 1e-40. A number between 0 and `least` becomes
    `least`.

    Raises: RequestInvalid: not a number, not finite, below 0 or above 1e9.
    """
    exact = _exact(value, field)
    if exact > _LARGEST:
        raise RequestInvalid(field, "must be less than 1e9", value)
    return format_units(cost_up(max(exact, Fraction(least)) if exact else exact))


def text_down(value: Any, field: str) -> str:
    """Return an engine's amount of noise as text for the wire, rounded down, at most 999999999.

    Raises: RequestInvalid: not a number, not finite, or less than 1e-40.
    """
    units = budget_down(min(_exact(value, field), _LARGEST))
    if not units:
        raise RequestInvalid(field, "must be greater than 0", value)
    return format_units(units)


def rate_up(value: Any, field: str) -> str:
    """Return a sampling probability as text for the wire, rounded up, at least 1e-12.

    A rate of 0 protects everything, but a claim's rate cannot be 0.
    Raises: RequestInvalid: as `text_up`.
    """
    rate = text_up(value, field, least=MIN_EPSILON)
    return text_up(MIN_EPSILON, field) if rate == "0" else rate


def float_down(value: Decimal) -> float:
    """Return the largest float not above a value."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= Fraction(value) else nextafter(nearest, -inf)


def pure_or_approximate(epsilon: Any, delta: Any) -> Claim:
    """Return the claim of (epsilon, delta)-DP; it is pure if delta is 0."""
    epsilon_text = text_up(epsilon, "epsilon", least=MIN_EPSILON)
    delta_text = text_up(delta, "delta")
    return Pure(epsilon_text) if delta_text == "0" else Approximate(epsilon_text, delta_text)


def _exact(value: Any, field: str) -> Fraction:
    if isinstance(value, bool):
        raise RequestInvalid(field, "must be a number", value)
    try:
        if isinstance(value, Integral):
            exact = Fraction(int(value))
        elif isinstance(value, float):
            exact = Fraction(*float.as_integer_ratio(value))
        else:  # a Decimal, a Fraction, or a numpy scalar of any width
            numerator, denominator = value.as_integer_ratio()
            exact = Fraction(int(numerator), int(denominator))
    except (OverflowError, ValueError):
        raise RequestInvalid(field, "must be finite", value) from None
    except AttributeError:
        raise RequestInvalid(field, "must be a number", value) from None
    if exact < 0:
        raise RequestInvalid(field, "must be 0 or greater", value)
    return exact


def integer(value: Any, field: str) -> int:
    """Return an engine's integer. A float such as 1.0 and a truth value are refused.

    Raises: RequestInvalid: it is no integer.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        return index(value)
    except TypeError:
        raise RequestInvalid(field, "must be a whole number", value) from None
