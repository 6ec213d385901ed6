"""A claim together with what it holds for."""

from __future__ import annotations

from typing import NamedTuple

from accountant.claims import Claim
from accountant.policy import Neighbours


class StatedClaim(NamedTuple):
    """A claim with the unit and the neighbouring relation that it holds for, as engines state it.

    Attributes:
        unit: of privacy, such as `person`.
    """

    claim: Claim
    unit: str
    neighbours: Neighbours
