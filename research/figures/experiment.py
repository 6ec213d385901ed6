"""The experiment on counts: how many answers an error target buys, compared with a budget."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from accountant.mechanisms.relative_error import RelativeError
from accountant.policy import Policy, resolve
from research.experiment import (
    Run,
    Setting,
    with_brownian,
    with_doubling,
    with_laplace_reduction,
)
from research.figures.picture import Curve, Mark, Panel, Picture

RUNS: Final = 20
"""Runs of each point; the mean has a standard error of at most a quarter of a count."""
DELTA: Final = "1e-6"
_SEED: Final = 2023
_EPSILONS: Final = ("0.25", "0.5", "1", "2")
_ERRORS: Final = ("0.05", "0.1", "0.2", "0.3")
_GAUSSIAN: Final = Fraction(2)
_LAPLACE: Final = Fraction("2.9957322735539909934")
"""ln 20: Laplace noise is beyond so many scales with probability 1/20, about as Gaussian noise is
beyond two standard deviations."""


class Way(NamedTuple):
    """A mechanism that refines its answers, and the filter that it pays.

    Attributes:
        c: bound on the error in scales of the noise, as the rule assumes it.
    """

    run: Callable[[Setting, Policy, np.random.Generator], Run]
    filter: str
    label: str
    c: Fraction = _GAUSSIAN


WAYS: Final = {
    "gdp_residue": Way(with_brownian, "gdp_residue", "Brownian, gdp_residue"),
    "zcdp_tight": Way(with_brownian, "zcdp_tight", "Brownian, zcdp_tight"),
    "fully_adaptive": Way(with_brownian, "fully_adaptive", "Brownian, fully_adaptive"),
    "doubling": Way(with_doubling, "zcdp_tight", "doubling, zcdp_tight"),
    "ex_post": Way(with_laplace_reduction, "ex_post", "Laplace noise reduction, ex_post", _LAPLACE),
}
"""By the key of their curve."""


@lru_cache(maxsize=512)
def answered(key: str, epsilon: str, error: str, runs: int = RUNS) -> float:
    """Return the mean number of counts that a budget answers.

    Args:
        key: in `WAYS`.
        epsilon: of the budget, in nats; its delta is `DELTA`.
        error: the relative error that each answer has to keep.
    """
    way = WAYS[key]
    setting = Setting(RelativeError(Fraction(error), way.c))
    policy = resolve(Policy(filter=way.filter, epsilon=epsilon, delta=DELTA, odometers=()))
    generator = np.random.default_rng(_SEED)
    return float(np.mean([len(way.run(setting, policy, generator).answers) for _ in range(runs)]))


def _panel(title: str, x_label: str, points: tuple[tuple[str, str], ...], at: int) -> Panel:
    x = tuple(float(point[at]) for point in points)
    curves = tuple(
        Curve(key=key, label=way.label, x=x, y=tuple(answered(key, *each) for each in points))
        for key, way in WAYS.items()
    )
    return Panel(
        title=title,
        x_label=x_label,
        y_label="counts answered, mean",
        curves=curves,
        marks=(
            Mark(
                x=1 if at == 0 else 0.1,
                y=answered("gdp_residue", "1", "0.1"),
                text=f"{answered('gdp_residue', '1', '0.1'):.0f}",
                dx=-18,
                dy=8,
            ),
        ),
    )


def experiment() -> Picture:
    """Return the mean number of counts answered, over the budget and over the error."""
    return Picture(
        name="experiment",
        title="The analyst fixes the error and pays what it takes",
        source="after Rogers 2023 section 7; theory section 5",
        panels=(
            _panel(
                "relative error 0.1",
                "ε of the budget, δ = 1e-6  (nats)",
                tuple((epsilon, "0.1") for epsilon in _EPSILONS),
                0,
            ),
            _panel(
                "budget (1, 1e-6)",
                "relative error that each answer keeps",
                tuple(("1", error) for error in _ERRORS),
                1,
            ),
        ),
    )
