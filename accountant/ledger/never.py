"""Whether a claim like this can ever be granted, however much is left."""

from __future__ import annotations

from collections.abc import Iterator

from accountant.amounts import Units
from accountant.claims import AllOf, CheckedClaim, Claim, Interactive, Repeat
from accountant.claims.price import Price, price
from accountant.filters import Filter


def never_fits(
    kind: Filter, capacity: tuple[Units, ...], claim: CheckedClaim, asked: Price
) -> bool:
    """Tell whether no claim like this one fits, not even a smaller one on an empty budget.

    The filter needs a sum that the claim cannot bound, or a mechanism in it has a delta above all
    that claims may spend: an analyst pays less by another epsilon or sigma, which moves no delta.

    Args:
        asked: what the claim costs there.
    """
    if not kind.accepts(asked):
        return True
    if kind.has_room_for_delta(capacity, asked):
        return False
    return not all(
        kind.has_room_for_delta(capacity, price(CheckedClaim(each), kind.needs))
        for each in _mechanisms(claim.claim)
    )


def _mechanisms(claim: Claim) -> Iterator[Claim]:
    """Yield the claims that a batch is made of; others are their own."""
    if isinstance(claim, AllOf):
        for each in claim.claims:
            yield from _mechanisms(each)
    elif isinstance(claim, Repeat | Interactive):
        yield from _mechanisms(claim.claim)
    else:
        yield claim
