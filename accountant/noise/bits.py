"""Uniform numbers from random bits, drawn only as far as a comparison needs them."""

from __future__ import annotations

from collections.abc import Callable

RandomBits = Callable[[int], int]
"""Returns a number of n independent fair bits, 0 to 2^n - 1, for each n above 0."""


def uniform_below(n: int, bits: RandomBits) -> int:
    """Return one of 0, ..., n - 1, each with the same probability."""
    length = (n - 1).bit_length()
    while True:
        drawn = bits(length) if length else 0
        if drawn < n:
            return drawn


class Uniform:
    """A number between 0 and 1, whose binary digits are drawn when they matter.

    It stands for its infinitely many digits. A comparison draws until no further digit can change
    its result, so the result is the one that all digits would give. Later comparisons use the
    same digits. Two numbers are equal with probability 0.

    Attributes:
        length: how many digits are drawn.
        digits: they, as an integer: digits <= number * 2^length <= digits + 1.
    """

    __slots__ = ("_bits", "digits", "length")

    def __init__(self, bits: RandomBits) -> None:
        self._bits = bits
        self.digits = 0
        self.length = 0

    def extend(self, length: int) -> None:
        """Draw digits until there are `length`."""
        more = length - self.length
        if more > 0:
            self.digits = self.digits << more | self._bits(more)
            self.length = length

    def is_below(self, other: Uniform) -> bool:
        """Compare two independent numbers."""
        common = 1
        while True:
            self.extend(common)
            other.extend(common)
            common = min(self.length, other.length)
            mine = self.digits >> (self.length - common)
            others = other.digits >> (other.length - common)
            if mine != others:
                return mine < others
            common += 1

    def is_below_ratio(self, numerator: int, denominator: int) -> bool:
        """Compare with a ratio, whose denominator is above 0."""
        while True:
            scaled = numerator << self.length
            if (self.digits + 1) * denominator <= scaled:
                return True
            if self.digits * denominator >= scaled:
                return False
            self.extend(self.length + 1)
