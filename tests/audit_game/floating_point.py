"""Mironov's attack as a score: which table's value floating-point noise can have led to.

Source: Mironov 2012.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from accountant.questions import VectorStatistic
from tests.audit_game.auditor import Numbers, Outcome, Score
from tests.audit_game.executor import Asked

_NEAR: Final = 4
_FLOATS: Final = 2**53


def textbook_laplace(scale: Fraction, uniform: int) -> set[int]:
    """Return the sizes of Laplace noise that the logarithm of a float is rounded to."""
    drawn = math.log(uniform / _FLOATS)
    exact, rounded = -scale * Fraction(drawn), -float(scale) * drawn
    return {int(exact), round(exact), int(rounded), round(rounded)}


def attainable(before: int, after: int, scale: Fraction) -> Score:
    """Return a score: 1 where only the neighbour's value, -1 where only the first table's is near.

    It reads the first number of an outcome.

    Args:
        before, after: the exact number on each table, in steps of the grid.
        scale: of the noise, in steps.
    """

    def is_attainable(size: int) -> bool:
        near = round(math.exp(-size / scale) * _FLOATS)
        uniforms = range(max(1, near - _NEAR), min(_FLOATS, near + _NEAR) + 1)
        return any(size in textbook_laplace(scale, each) for each in uniforms)

    def score(table: Sequence[Outcome]) -> Numbers:
        found = [
            is_attainable(abs(int(outcome[0]) - after))
            - is_attainable(abs(int(outcome[0]) - before))
            for outcome in table
        ]
        return np.array(found, dtype=np.float64)

    return score


def attacks(asked: Asked) -> dict[str, Score]:
    """Return the score for a question of one number; none where its noise is not Laplace noise."""
    (draw,) = asked.derivation.draws
    assert isinstance(draw.statistic, VectorStatistic)
    if draw.scale is None:
        return {}
    grid = draw.statistic.grid
    ((before,),), ((after,),) = asked.pair.before, asked.pair.after
    return {"attainable": attainable(int(before / grid), int(after / grid), draw.scale / grid)}
