"""`ScopedClaim`: a claim with what it is for, as the adapters of engines return it."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

from accountant.claims import Claim, check_claim
from accountant.errors import RequestInvalid
from accountant.policy import Neighbours


class ScopedClaim(NamedTuple):
    """A claim of an engine, with its unit of privacy and its neighbouring relation.

    Attributes:
        unit: of privacy, such as `person`.
    """

    claim: Claim
    unit: str
    neighbours: Neighbours


def scoped_claim(claim: Claim, *, unit: Any, neighbours: Any) -> ScopedClaim:
    """Return a claim with its unit and neighbours, all checked; none has a default.

    Raises: RequestInvalid: a field breaks its rule.
    """
    if not isinstance(unit, str) or not unit:
        raise RequestInvalid("unit", "must be text such as person", unit)
    if neighbours not in get_args(Neighbours):
        rule = f"must be one of {', '.join(get_args(Neighbours))}"
        raise RequestInvalid("neighbours", rule, neighbours)
    try:
        only_for = check_claim(claim).only_for
    except RequestInvalid as error:
        raise error.under("claim") from None
    if only_for and only_for != neighbours:
        raise RequestInvalid("neighbours", f"must be {only_for} for this claim", neighbours)
    return ScopedClaim(claim, unit, neighbours)
