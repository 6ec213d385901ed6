"""Compositions of parameters fixed in advance, and exact laws of the loss: to compare with.

None of them bounds a sequence whose parameters, or whose end, depend on what was seen
(docs/theory.md, "Not valid, and not done"). So no filter and no odometer is made of them:
nothing that decides a request may import this package, and a test holds that.
"""

from __future__ import annotations

from accountant.comparators.advanced_2010 import advanced_2010_epsilon
from accountant.comparators.basic import basic_epsilon
from accountant.comparators.loss_laws import (
    GaussianLoss,
    LaplaceLoss,
    LossLaw,
    NameAndShameLoss,
    RandomizedResponseLoss,
)
from accountant.comparators.optimal import optimal_count, optimal_delta, optimal_epsilon
from accountant.comparators.quoted_2016 import quoted_2016_epsilon
from accountant.comparators.runs import Runs
from accountant.comparators.strong import strong_delta, strong_epsilon

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
