"""Basic composition, read at any time."""

from __future__ import annotations

from accountant.odometers.base import Boundary, Odometer


class Basic(Odometer, frozen=True, tag="basic"):
    """U = sum epsilon, for claims that bound the loss by epsilon. Source: Rogers 2016 Thm 3.6."""

    sums = ("loss_epsilon",)
    shifts = False

    def boundary(self) -> Boundary:
        return float
