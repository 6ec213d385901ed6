"""Numbers of a program as wire decimals: exactly, or not at all.

A budget that comes out larger than it was meant, or a claim that comes out smaller, is a leak
nobody sees. So nothing is rounded here: what has no exact text is refused, and the error says how
to write it.
"""

from __future__ import annotations

import numbers
from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant.amounts import (
    LARGEST,
    SMALLEST,
    UNIT,
    budget_down,
    cost_up,
    format_units,
    is_wire,
)
from accountant.errors import RequestInvalid

_NUMBER_RULE: Final = 'must be a number or its text, such as "0.1"'
_WHOLE_RULE: Final = "must be a whole number"
_LARGEST: Final = int(LARGEST)


def exact_text(value: object, *, field: str, up: bool) -> str:
    """Return the wire decimal that is a number's exact value; text as it is.

    A float is taken where it is the decimal that it prints as: 0.5 and 3.0 are, 0.1 is not. An
    int, a `Decimal`, a `Fraction` or a scalar of numpy is taken where 40 decimal places hold it.

    Args:
        up: more is the safe side of the field, for what the error proposes.
    Raises: RequestInvalid: no number, not finite, out of range, or not exact.
    """
    if isinstance(value, str):
        return str(value)
    number = _exact(value, field)
    if number < 0:
        raise RequestInvalid(field, "must be 0 or more", value)
    # A Decimal is compared before it is made a fraction: of 1e999999 that takes a million digits.
    minimum = SMALLEST if isinstance(number, Decimal) else Fraction(SMALLEST)
    if number and not minimum <= number <= _LARGEST:
        raise RequestInvalid(field, "must be 0 or between 1e-40 and 1e9", value)
    text = str(value).lower() if isinstance(value, Decimal) else ""
    if is_wire(text):
        return text
    fraction = Fraction(number)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        _check_float(value, fraction, field)
    scaled = fraction * UNIT
    if scaled.denominator == 1:
        text = format_units(scaled.numerator)
        return text if is_wire(text) else "1e9"  # the one amount that has a digit too many
    nearby = format_units(cost_up(fraction) if up else budget_down(fraction))
    rule = f'must be exact in 40 decimal places: write "{nearby}", which is rounded '
    raise RequestInvalid(field, rule + ("up" if up else "down"), value)


def whole_number(value: object, *, field: str) -> int:
    """Return the integer that a number is.

    Raises: RequestInvalid: it is none.
    """
    number = _exact(value, field, rule=_WHOLE_RULE)
    if not -_LARGEST <= number <= _LARGEST or number != int(number):
        raise RequestInvalid(field, _WHOLE_RULE, value)
    return int(number)


def _exact(value: object, field: str, rule: str = _NUMBER_RULE) -> Decimal | Fraction:
    """Return the exact value of a number.

    Raises: RequestInvalid: it is no number, or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, Decimal | numbers.Real):
        raise RequestInvalid(field, rule, value, hint=lambda: _array_hint(value))
    if isinstance(value, Decimal):
        if value.is_finite():
            return value
        raise RequestInvalid(field, "must be finite", value)
    if isinstance(value, numbers.Rational):
        # A width of numpy's must not decide what compares.
        return Fraction(int(value.numerator), int(value.denominator))
    try:
        numerator, denominator = value.as_integer_ratio()  # type: ignore[attr-defined]
    except (OverflowError, ValueError):
        raise RequestInvalid(field, "must be finite", value) from None
    except AttributeError:
        raise RequestInvalid(field, rule, value) from None
    return Fraction(int(numerator), int(denominator))


def _check_float(value: numbers.Real, exact: Fraction, field: str) -> None:
    """Raise RequestInvalid unless a float is the decimal that it prints as."""
    # A scalar of numpy prints the shortest decimal of its own width; repr names its type, too.
    mantissa, e, exponent = str(value).partition("e")
    printed = mantissa.removesuffix(".0") + (f"e{int(exponent)}" if e else "")
    if Fraction(printed) != exact:
        rule = f'must be exact, and this float is not exactly {printed}: write "{printed}" as text'
        raise RequestInvalid(field, rule, value)


def _array_hint(value: object) -> str:
    """Return how to take the number out of an array without dimensions."""
    alone = getattr(value, "shape", None) == () and hasattr(value, "__setitem__")
    return "of an array that holds one number give array.item()" if alone else ""
