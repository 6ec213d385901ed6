"""What counts of a required error cost: the exact expectation, and what live ledgers charged."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from research.accuracy_first import MAIN_METHODS, Measured, Method, shares, shares_if_known
from research.figures.picture import Curve, Panel, Picture

RECORD: Final = Path(__file__).with_name("live_runs.json")
"""Of `python -m research.live_experiment --seed 1 --out research/figures/live_runs.json`."""

_KEYS: Final = ("zcdp_tight", "doubling", "ex_post")
_KNOWN: Final = MAIN_METHODS["Brownian, zcdp_tight"]


def live_runs() -> tuple[Measured, ...]:
    """Return what the recorded runs through live ledgers measured."""
    return msgspec.json.decode(RECORD.read_bytes(), type=tuple[Measured, ...])


def _up_to_budget(values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return 0, 1, ... counts and their shares, as far as these are at most 1."""
    fits = tuple(values[values <= 1].tolist())
    return tuple(float(j) for j in range(len(fits) + 1)), (0.0, *fits)


def _curve(trial: str, key: str, method: Method, every: int) -> Curve:
    (measured,) = [
        one.shares for one in live_runs() if (one.trial, one.method) == (trial, method.name)
    ]
    x, y = _up_to_budget(shares(trial, method))
    points = enumerate(measured, start=1)
    return Curve(
        key=key,
        label=method.name,
        x=x,
        y=y,
        measured=tuple((float(j), share) for j, share in points if j % every == 0),
    )


def _panel(title: str, trial: str, every: int) -> Panel:
    curves = [
        _curve(trial, key, method, every)
        for key, method in zip(_KEYS, MAIN_METHODS.values(), strict=True)
    ]
    x, y = _up_to_budget(shares_if_known(trial, _KNOWN))
    label = "Gaussian noise fixed for each count, if they were known"
    known = Curve(key="known", label=label, x=x, y=y, adaptive=False)
    return Panel(
        title=title,
        x_label="counts asked, the largest first",
        y_label="share of the budget (1, 1e-6) spent, mean",
        curves=(*curves, known),
        y_range=(0, 1.03),
    )


def accuracy_first() -> Picture:
    """Return the mean share of a budget that counts of relative error 0.1 cost."""
    return Picture(
        name="accuracy_first",
        title="What a relative error of 0.1 costs: exact (lines), live ledgers (circles)",
        source="after Rogers 2023 section 7; digits of scikit-learn; theory section 5",
        panels=(
            _panel("the paper's counts, 30000 and less", "paper", 10),
            _panel("dark pixels of 1797 digits, 1538 and less", "digits", 3),
        ),
    )
