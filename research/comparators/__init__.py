"""Bounds for comparison: compositions of parameters fixed in advance, and exact loss laws.

None of them bounds a sequence whose parameters or length depend on earlier answers
(docs/theory.md, "Not valid, and not done"). So no filter and no odometer may use them: nothing
that is installed imports this package.
"""

from __future__ import annotations

from research.comparators.advanced_2010 import advanced_2010_epsilon
from research.comparators.basic import basic_epsilon
from research.comparators.loss_laws import (
    GaussianLoss,
    LaplaceLoss,
    LossLaw,
    NameAndShameLoss,
    RandomizedResponseLoss,
)
from research.comparators.optimal import optimal_count, optimal_delta, optimal_epsilon
from research.comparators.quoted_2016 import quoted_2016_epsilon
from research.comparators.runs import Runs
from research.comparators.strong import strong_delta, strong_epsilon

__all__ = [
    "GaussianLoss",
    "LaplaceLoss",
    "LossLaw",
    "NameAndShameLoss",
    "RandomizedResponseLoss",
    "Runs",
    "advanced_2010_epsilon",
    "basic_epsilon",
    "optimal_count",
    "optimal_delta",
    "optimal_epsilon",
    "quoted_2016_epsilon",
    "strong_delta",
    "strong_epsilon",
]
