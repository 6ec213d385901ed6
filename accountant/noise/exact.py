"""Numbers of a program as exact fractions."""

from __future__ import annotations

from fractions import Fraction
from numbers import Rational


def exact_fraction(value: str | Rational | int) -> Fraction:
    """Return the exact value of text, an integer or a fraction, also one of numpy's.

    An integer of a fixed width would overflow without a word in the samplers' large products.
    Raises: TypeError: it is a float, or no number. The message leaves the value out: it may be
        data. ValueError: the text is no number.
    """
    if isinstance(value, str):
        return Fraction(value)
    if not isinstance(value, Rational):
        raise TypeError(
            f"numbers must be exact: an integer or a Fraction, not {type(value).__name__}"
        )
    return Fraction(int(value.numerator), int(value.denominator))
