"""What the experiment on counts must show: its trials, and the exact expectation of each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np

from accountant.amounts import UNIT
from accountant.mechanisms.relative_error import RelativeError
from accountant.policy import Policy, resolve
from research.experiment import (
    DIGITS,
    Run,
    Setting,
    with_brownian,
    with_doubling,
    with_laplace_reduction,
)
from research.games.ledgers import FilterLedger
from research.stopping_laws import (
    Floats,
    Moments,
    answered_gaussian,
    answered_laplace,
    brownian_law,
    cost,
    doubling_law,
    gaussian_costs,
    laplace_costs,
    laplace_law,
)

DELTA: Final = "1e-6"
_ALPHA: Final = Fraction(1, 10)
_GAUSSIAN: Final = RelativeError(_ALPHA, Fraction(2))
_LAPLACE: Final = RelativeError(_ALPHA, Fraction("2.9957322735539909934"))
"""ln 20: Laplace noise is beyond so many scales with probability 1/20, about as Gaussian noise is
beyond two standard deviations."""
_ADDS_RHO: Final = {"zcdp_tight", "unified_brownian"}
"""Filters that add 1/(2 t) for variance t; other filters of Gaussian noise add 1/t."""

BROWNIAN: Final = "Brownian"
DOUBLING: Final = "doubling"
LAPLACE: Final = "Laplace noise reduction"


class Method(NamedTuple):
    """A mechanism, and the filter that it pays."""

    mechanism: str
    filter: str

    @property
    def name(self) -> str:
        """As tables show it."""
        return f"{self.mechanism}, {self.filter}"

    @property
    def by_functions(self) -> Callable[[Setting, Policy, np.random.Generator], Run]:
        """Return the function that runs the experiment with noise of floats."""
        return {
            BROWNIAN: with_brownian,
            DOUBLING: with_doubling,
            LAPLACE: with_laplace_reduction,
        }[self.mechanism]


METHODS: Final = {
    method.name: method
    for method in (
        Method(BROWNIAN, "gdp_residue"),
        Method(BROWNIAN, "zcdp_tight"),
        Method(BROWNIAN, "unified_brownian"),
        Method(BROWNIAN, "fully_adaptive"),
        Method(DOUBLING, "zcdp_tight"),
        Method(DOUBLING, "fully_adaptive"),
        Method(LAPLACE, "ex_post"),
    )
}
MAIN_METHODS: Final = {
    method.name: method
    for method in (
        Method(BROWNIAN, "zcdp_tight"),
        Method(DOUBLING, "zcdp_tight"),
        Method(LAPLACE, "ex_post"),
    )
}
"""One of each mechanism."""


class Trial(NamedTuple):
    """Counts to ask, and what is measured.

    Attributes:
        setting: its rule is that of Gaussian noise.
        epsilon: of the budget.
        methods: that the trial compares.
    """

    setting: Setting
    epsilon: str
    methods: dict[str, Method]

    def setting_of(self, method: Method) -> Setting:
        """Return the setting, with the rule for the method's noise."""
        return replace(self.setting, rule=_LAPLACE) if method.mechanism == LAPLACE else self.setting

    def policy_of(self, method: Method) -> Policy:
        """Return the policy of a run."""
        policy = Policy(filter=method.filter, epsilon=self.epsilon, delta=DELTA, odometers=())
        return resolve(policy)


_DIGITS: Final = Setting(_GAUSSIAN, counts=DIGITS, first=Decimal(128), levels=24)

TRIALS: Final = {
    "paper": Trial(Setting(_GAUSSIAN), "1", METHODS),
    "digits": Trial(_DIGITS, "1", MAIN_METHODS),
    "every pixel": Trial(replace(_DIGITS, levels=9, every=True), "16", MAIN_METHODS),
}
"""The first two measure how many counts a budget of (1, 1e-6) answers, in decreasing order.

The third asks for all 64 pixels, each with a relative error of 0.1 or noise of deviation (or
scale) 8, whichever comes first, and measures what that costs. Its budget is never used up."""


class Expected(NamedTuple):
    """What a run measures on average.

    Attributes:
        moments: of what one run measures.
        rounding: by how much the rounding of answers can change the mean at most.
    """

    moments: Moments
    rounding: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of a trial by one method measured.

    Attributes:
        trial, method: their names.
        runs: how many.
        expected: the exact expectation of what one run measures.
        deviation: of one run, exactly.
        mean: of the runs: counts answered, or what all counts cost.
        shares: mean share of the budget spent after 1, 2, ... counts, as many as each run answers.
    """

    trial: str
    method: str
    runs: int
    expected: float
    deviation: float
    mean: float
    shares: tuple[float, ...]

    @property
    def difference(self) -> float:
        """Relative difference of the mean from its expectation."""
        return self.mean / self.expected - 1

    @property
    def tolerance(self) -> float:
        """Four deviations of the mean, relative to the expectation."""
        return 4 * self.deviation / math.sqrt(self.runs) / self.expected


def law(trial: str, method: Method, shift: float = 0.0) -> Floats:
    """Return the law of the level at which each count stops: float64[count, level].

    Args:
        shift: as of `brownian_law`; the other laws count the rounding exactly.
    """
    return _law(trial, method.mechanism, shift)


@lru_cache
def _law(trial: str, mechanism: str, shift: float) -> Floats:
    setting = TRIALS[trial].setting_of(Method(mechanism, ""))
    # No run within (1, 1e-6) gets farther: the recursion raises an error if one does.
    setting = replace(setting, counts=setting.counts[: 70 if mechanism == LAPLACE else 160])
    if mechanism == LAPLACE:
        return laplace_law(setting)
    return doubling_law(setting) if mechanism == DOUBLING else brownian_law(setting, shift=shift)


def expected(trial: str, method: Method) -> Expected:
    """Return the exact expectation of a trial: counts answered, or cost of all counts.

    A cost is rho for Gaussian noise and epsilon for Laplace noise, in nats.
    """
    moments = _moments(trial, method)
    if method.mechanism != BROWNIAN:
        return Expected(moments, 0.0)
    shifted = [_moments(trial, method, shift).mean for shift in (-0.5, 0.5)]
    return Expected(moments, max(abs(mean - moments.mean) for mean in shifted))


def capacity(trial: str, method: Method) -> Fraction:
    """Return the budget in the filter's own sum."""
    return Fraction(int(FilterLedger(TRIALS[trial].policy_of(method)).capacity[0]), UNIT)


def shares(trial: str, method: Method) -> Floats:
    """Return the expected share of the budget that the first 1, 2, ... counts cost together."""
    paid = np.cumsum(cost(law(trial, method), _costs(trial, method))[0])
    factor = 1.0 if method.mechanism == LAPLACE or method.filter in _ADDS_RHO else 2.0
    return np.asarray(paid * factor / float(capacity(trial, method)))


def shares_if_known(trial: str, method: Method) -> Floats:
    """Return the same for an analyst who knows each count, and needs noise for its error alone.

    Its deviation is 1/c of the error. Nobody who may not see the counts can choose that noise.
    """
    setting = TRIALS[trial].setting_of(method)
    counts = np.array([count for count in setting.counts if count > 0], dtype=float)
    rho = (float(setting.rule.c / setting.rule.alpha) / counts) ** 2 / 2
    return np.asarray(np.cumsum(rho) / float(capacity(trial, method)))


def fixed_cost(trial: str, method: Method) -> float:
    """Return what all counts cost with noise of the finest level, fixed in advance."""
    setting = TRIALS[trial].setting_of(method)
    if method.mechanism == LAPLACE:
        each = laplace_costs(setting)[-1]
    else:
        each = gaussian_costs(setting, every_round=False)[-1]
    return len(setting.counts) * float(each)


def _costs(trial: str, method: Method) -> Floats:
    setting = TRIALS[trial].setting_of(method)
    if method.mechanism == LAPLACE:
        return laplace_costs(setting)
    return gaussian_costs(setting, every_round=method.mechanism == DOUBLING)


def _moments(trial: str, method: Method, shift: float = 0.0) -> Moments:
    setting, levels = TRIALS[trial].setting, law(trial, method, shift)
    if setting.every:
        mean, variance = cost(levels, _costs(trial, method))
        return Moments(float(mean.sum()), float(variance.sum() ** 0.5))
    total, first = capacity(trial, method), Fraction(setting.first)
    if method.mechanism == LAPLACE:
        return answered_laplace(levels, float(total * first))
    rounds = range(levels.shape[1])
    units = [2 ** (k + 1) - 1 if method.mechanism == DOUBLING else 2**k for k in rounds]
    return answered_gaussian(
        levels, units, int(total * first**2 * (2 if method.filter in _ADDS_RHO else 1))
    )
