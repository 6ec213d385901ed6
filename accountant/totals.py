"""The additive sums that filters and odometers are functions of, and the price of a claim.

A sum is a name here and a function of a promise; a filter or odometer lists the names it
needs. A claim that a sum cannot take costs it `INFINITE`, never zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, cast

from accountant.amounts import INFINITE, Units, cost_up, format_units
from accountant.claims import CheckedClaim, Claim, atoms
from accountant.promises import Amount, Promise, promise


def _units(amount: Amount | None) -> Units:
    return INFINITE if amount is None else cost_up(amount)


SUMS: Final[MappingProxyType[str, Callable[[Promise], Units]]] = MappingProxyType(
    {
        # What filters add up.
        "epsilon": lambda p: _units(p.epsilon),
        "delta": lambda p: _units(p.delta),
        "rho": lambda p: _units(p.rho),
        "intrinsic_time": lambda p: _units(p.intrinsic_time),
        # What odometers add up: they bound the loss itself.
        "loss_time": lambda p: _units(p.loss.time if p.loss else None),
        "loss_epsilon": lambda p: _units(p.loss.epsilon if p.loss else None),
        "loss_delta": lambda p: _units(p.loss.delta if p.loss else None),
        "loss_shift": lambda p: _units(p.loss.shift if p.loss else None),
    }
)


@dataclass(frozen=True, slots=True)
class Price:
    """What one claim adds to each of some sums.

    Attributes:
        mechanisms: how many mechanisms the claim holds.
        amounts: in units of 1e-40, one for each sum that was asked for.
        wire: the same by name, as decimal strings.
    """

    mechanisms: int
    amounts: tuple[Units, ...]
    wire: dict[str, str]


def price(claim: CheckedClaim, sums: tuple[str, ...]) -> Price:
    """Return what a claim adds to `sums`; the same object for the same claim and sums."""
    known = claim.prices.get(sums)
    if known is None:
        known = claim.prices[sums] = _price(claim, sums)
    return cast("Price", known)


def _price(claim: CheckedClaim, sums: tuple[str, ...]) -> Price:
    amounts: list[Units] = [0] * len(sums)
    for atom, times in atoms(claim.claim):
        # Each mechanism is rounded up on its own, so a batch costs what its parts cost.
        for i, amount in enumerate(_amounts(atom, sums)):
            amounts[i] += amount * times
    wire = {name: format_units(amount) for name, amount in zip(sums, amounts, strict=True)}
    return Price(mechanisms=claim.mechanisms, amounts=tuple(amounts), wire=wire)


@lru_cache(maxsize=16_384)
def _amounts(atom: Claim, sums: tuple[str, ...]) -> tuple[Units, ...]:
    worth = promise(atom)
    return tuple([SUMS[name](worth) for name in sums])
