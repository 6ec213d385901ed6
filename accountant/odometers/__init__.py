"""Privacy odometers: how much has leaked so far?"""

from __future__ import annotations

from accountant.odometers.base import Boundary, Odometer, Reader, sums_of
from accountant.odometers.basic import Basic
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.stitched import Stitched

AnyOdometer = Basic | Linear | Mixture | OneSidedMixture | Stitched
"""Every odometer that a policy may name."""

__all__ = ["AnyOdometer", "Boundary", "Odometer", "Reader", "sums_of"]
