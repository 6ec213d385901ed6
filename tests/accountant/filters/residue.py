"""What the tests of the residue filter share: its limits, and what a claim costs it."""

from __future__ import annotations

from decimal import Decimal

from accountant import claims as c
from accountant.amounts import Units
from accountant.claims import check_claim
from accountant.claims.price import Price, price
from accountant.filters.gdp_residue import GdpResidueFilter
from accountant.policy import ParsedBudget

KIND = GdpResidueFilter()


def capacity(epsilon: str = "1", own: str = "1e-6", claims: str = "0") -> tuple[Units, ...]:
    return KIND.capacity(
        ParsedBudget(
            epsilon=Decimal(epsilon),
            rho=None,
            delta_for_claims=Decimal(claims),
            delta_for_filter=Decimal(own),
        )
    )


def price_of(claim: c.Claim) -> Price:
    return price(check_claim(claim), KIND.needs)
