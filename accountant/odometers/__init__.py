"""Privacy odometers: how much has leaked so far?"""

from __future__ import annotations

from accountant.odometers.base import Boundary, Odometer, Reader, sums_of
from accountant.odometers.combined import Combined, SingleOdometer

AnyOdometer = SingleOdometer | Combined
"""Every odometer that a policy may hold."""

__all__ = ["AnyOdometer", "Boundary", "Odometer", "Reader", "sums_of"]
