"""What each law of noise states: its forms, its claim, how it is drawn, and its intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

from accountant.claims import Claim
from accountant.noise import RandomBits
from accountant.questions.accuracy_first import Level
from accountant.questions.draw import Draw
from accountant.questions.noise import Noise, NoiseForm, NoiseLaw, out_of_range
from accountant.questions.sensitivity import VectorStatistic
from accountant.questions.sums_of_noise import NoiseTerm


class Law(ABC):
    """A law of the noise that numbers get.

    A spread is the scale or the variance of the noise, whichever the law has.

    Attributes:
        name: on the wire.
        forms: of noise that it may have.
        default_of: those of which it is the default law.
    """

    name: ClassVar[NoiseLaw]
    forms: ClassVar[tuple[NoiseForm, ...]]
    default_of: ClassVar[tuple[NoiseForm, ...]] = ()

    @abstractmethod
    def derive(self, statistic: VectorStatistic, noise: Noise, share: Fraction) -> Draw:
        """Return the noise of a statistic with its claim.

        Args:
            share: the part of an epsilon or a rho that the statistic gets, 1 of the only one.

        Raises: RequestInvalid: the statistic cannot have this noise.
        """

    @abstractmethod
    def half_width(self, spread: Fraction, *, confidence: Decimal, grid: Fraction) -> Fraction:
        """Return the error that each number keeps with a confidence, rounded up."""


class OneAnswerLaw(Law):
    """A law of noise that is added once.

    Attributes:
        claim_type: of each of its claims.
    """

    claim_type: ClassVar[type[Claim]]

    @abstractmethod
    def add(self, steps: int, spread: Fraction, *, grid: Fraction, bits: RandomBits) -> int:
        """Return one number with its noise, both in steps of the grid."""

    @abstractmethod
    def sum_half_width(self, terms: Sequence[NoiseTerm], *, confidence: Decimal) -> Fraction:
        """Return the error that a sum of such noises keeps with a confidence, rounded up."""


class SessionLaw(Law):
    """A law of sessions, which show one answer with less and less noise.

    Attributes:
        digits_of_a_level: how many digits each level adds to a number.
    """

    digits_of_a_level: ClassVar[int] = 0

    def derive(self, statistic: VectorStatistic, noise: Noise, share: Fraction) -> Draw:
        """Return the session of a statistic, which is the only one of its question."""
        assert share == 1, "`derive` refuses sessions of more"
        session = self.session(statistic, noise)
        if session is None:
            raise out_of_range(noise)
        return session

    @abstractmethod
    def session(self, statistic: VectorStatistic, noise: Noise) -> Draw | None:
        """Return a session whose finest answer has the noise wanted, None where there is none.

        Raises: RequestInvalid: the first level does not fit the finest one.
        """

    @abstractmethod
    def levels(self, claim: Claim, unit: int) -> tuple[Level, ...]:
        """Return the levels of a session's claim, whose numbers are in units of `unit`."""

    @abstractmethod
    def samplers(
        self, steps: Sequence[int], levels: Sequence[Level], *, grid: Fraction, bits: RandomBits
    ) -> Sequence[Callable[[Fraction], Fraction]]:
        """Return for each number, in steps of the grid, what shows it at a spread."""

    def on_grid(
        self, spread: Fraction, value: Fraction, before: tuple[Fraction, Fraction] | None
    ) -> Fraction:
        """Return what was drawn for a value shown, which is a multiple of the grid.

        Args:
            before: the spread and the value of the level before, None of the first one.
        """
        return value

    @abstractmethod
    def fixed_cost(
        self, statistic: VectorStatistic, *, error: Fraction, confidence: Decimal
    ) -> Fraction | None:
        """Return what one answer costs whose noise is fixed in advance and keeps an error.

        Returns: in nats, of noise with six digits; None where no noise is so small.
        """
