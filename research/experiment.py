"""The experiment on counts: how many of them a budget answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from accountant.amounts import Units, precise
from accountant.claims import Brownian
from accountant.filters.settlement import returned_by_payment, settled_ex_post
from accountant.mechanisms import laplace_reduction
from accountant.mechanisms.brownian import BrownianSession
from accountant.mechanisms.doubling import DoublingSession
from accountant.mechanisms.laplace_reduction import LaplaceSession
from accountant.mechanisms.relative_error import RelativeError, deviation
from accountant.policy import Policy
from accountant.policy.compiled_policy import open_plan
from research.games.ledgers import FilterLedger

COUNTS: Final = tuple(math.isqrt(math.isqrt(30000**4 // j**3)) for j in range(1, 401))
"""floor(30000 / j^0.75), j = 1, 2, ...: exact, and more counts than any budget here answers."""

DIGITS: Final = (
    *(
        1538,
        1536,
        1524,
        1512,
        1468,
        1290,
        1272,
        1269,
        1219,
        1213,
        1173,
        1136,
        1095,
        1087,
        1078,
        1076,
    ),
    *(1062, 1040, 989, 976, 929, 916, 911, 894, 878, 828, 827, 810, 800, 659, 588, 557),
    *(417, 382, 328, 259, 224, 221, 202, 179, 174, 156, 128, 124, 108, 38, 25, 13),
    *(8, 7, 4, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
)
"""In how many of 1797 images of handwritten digits each of 64 pixels is at least half dark.

The images are those that scikit-learn ships as `load_digits`. A test counts them again.
"""

_LEVELS: Final = 36
"""Steps of a ladder: a budget of epsilon = 1 reaches 24 of ratio 2, and all fit 40 decimals."""


@dataclass(frozen=True)
class Setting:
    """The questions and their required accuracy (Rogers 2023 section 7).

    An analyst asks for one count after another and refines each along the same ladder until the
    rule passes. The run ends at the first claim that the filter refuses, or at the end of the
    ladder: the last count stays without an answer, but its earlier refinements stay paid. With
    `every`, a count that does not pass does not end the run.

    Attributes:
        rule: the required relative error, in standard deviations of Gaussian noise and in
            scales of Laplace noise alike.
        first: standard deviation of the first Gaussian noise, scale of the first Laplace noise.
        ratio: the factor of the precision 1/t, or 1/b^2, from step to step, 2 to 10.
        sensitivity: of a count.
        levels: steps of the ladder.
        every: ask every count.
    """

    rule: RelativeError
    counts: tuple[int, ...] = COUNTS
    first: Decimal = Decimal(3000)
    ratio: int = 2
    sensitivity: str = "1"
    levels: int = _LEVELS
    every: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.ratio <= 10:
            raise ValueError(f"the ratio must be between 2 and 10, got {self.ratio}")

    @cached_property
    def variances(self) -> tuple[str, ...]:
        """The ladder of Gaussian noise, as wire decimals, exact for ratio 2."""
        with precise() as context:
            context.rounding = ROUND_CEILING
            squares = [self.first**2 / self.ratio**k for k in range(self.levels)]
            return tuple(_wire(t) for t in squares)

    @cached_property
    def scales(self) -> tuple[Fraction, ...]:
        """The ladder of Laplace noise: first / ratio^(k/2), rounded up to 30 decimals."""
        with precise() as context:
            context.rounding = ROUND_CEILING
            fine = Decimal("1e-30")
            ladder = [self.first / Decimal(self.ratio**k).sqrt() for k in range(self.levels)]
            return tuple(Fraction(b.quantize(fine)) for b in ladder)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the experiment.

    Attributes:
        answers: those that passed the rule, in the order of their counts.
        spent: the filter's totals at the end, in units of 1e-40.
        paid: the filter's first total after each count, in units of 1e-40.
    """

    answers: tuple[float, ...]
    spent: tuple[Units, ...]
    paid: tuple[Units, ...]


class ExperimentSession(Protocol):
    """A mechanism that shows an answer at decreasing variances, each with its own claim."""

    def claim(self, variance: str) -> Brownian: ...
    def show(self, variance: str) -> NDArray[np.float64]: ...


def with_brownian(setting: Setting, policy: Policy, generator: np.random.Generator) -> Run:
    """Run the experiment with Brownian mechanisms: a refinement pays for its added precision.

    Args:
        policy: with a filter that accepts `brownian` claims.
    """

    def opened(count: int) -> ExperimentSession:
        return BrownianSession(count, sensitivity=setting.sensitivity, generator=generator)

    return _refined(setting, FilterLedger(policy), opened)


def with_doubling(setting: Setting, policy: Policy, generator: np.random.Generator) -> Run:
    """Run the experiment with the doubling baseline: every round pays in full."""

    def opened(count: int) -> ExperimentSession:
        return DoublingSession(count, sensitivity=setting.sensitivity, generator=generator)

    return _refined(setting, FilterLedger(policy), opened)


def with_laplace_reduction(setting: Setting, policy: Policy, generator: np.random.Generator) -> Run:
    """Run the experiment with Laplace noise reduction and a filter that settles ex-post claims.

    A session reserves the finest scale whose loss fits the budget left, shows answers until the
    rule passes, and settles at the loss of its last answer. The run ends at a session that
    never passes, or where not even the first scale fits.

    Args:
        policy: without odometers, since the totals here hold only the filter's sums.
    """
    plan = open_plan(policy)
    settled = settled_ex_post(settles_ex_post=plan.kind.settles_ex_post, beside=False)
    ledger = FilterLedger(policy)
    ladder = [
        laplace_reduction.claim(sensitivity=setting.sensitivity, scale=scale)
        for scale in setting.scales
    ]
    spent, answers, paid = ledger.start, [], []
    for count in setting.counts:
        rung = ledger.maximum(spent, ladder)
        if rung is None:
            break
        reserved = ledger.charge(spent, ladder[rung])
        if reserved is None:
            raise ValueError("what was found to fit does not")
        scales = setting.scales[: rung + 1]
        session = LaplaceSession(
            count, sensitivity=setting.sensitivity, scales=scales, generator=generator
        )
        passed = None
        for scale in scales:
            answer = float(session.show())
            if setting.rule.passes(answer, scale):
                passed = answer
                break
        maximum = Fraction(ladder[rung].epsilon)
        returned = returned_by_payment(plan.sums, maximum, session.paid, settled)
        spent = tuple(a - b for a, b in zip(reserved, returned, strict=True))
        paid.append(spent[0])
        if passed is not None:
            answers.append(passed)
        elif not setting.every:
            break
    return Run(tuple(answers), spent, tuple(paid))


def _refined(
    setting: Setting, ledger: FilterLedger, opened: Callable[[int], ExperimentSession]
) -> Run:
    spent, answers, paid = ledger.start, [], []
    for count in setting.counts:
        session = opened(count)
        passed = None
        for variance in setting.variances:
            after = ledger.charge(spent, session.claim(variance))
            if after is None:
                break
            spent = after
            answer = float(session.show(variance))
            if setting.rule.passes(answer, deviation(Fraction(variance))):
                passed = answer
                break
        paid.append(spent[0])
        if passed is not None:
            answers.append(passed)
        elif not setting.every:
            break
    return Run(tuple(answers), spent, tuple(paid))


def _wire(value: Decimal) -> str:
    return f"{value.quantize(Decimal('1e-32')).normalize():f}"
