"""The additive sums that filters and odometers read, and the price of a claim.

`SUMS` maps a sum's name to a function of a promise; a filter or odometer lists the names it
needs. A claim that has no finite amount in a sum adds `INFINITE` to it, never zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from accountant.amounts import (
    INFINITE,
    UNIT,
    Units,
    exact_cost,
    format_units,
)
from accountant.claims import CheckedClaim, Claim, SubsampledGaussian, atoms, plain
from accountant.claims.promises import Amount, Promise, promise
from accountant.conversions.mean_loss import mean_loss
from accountant.conversions.renyi_subsampled import terms
from accountant.conversions.residue_step import MAX_EPSILON_IN_DOUBLES
from accountant.fractional import Fractional

Family = Callable[[Promise, str], Units]

MAX_WORK: Final = 1 << 20
"""The most terms of series that the price of one batch may take: about 0.7 s, in which the
partition decides nothing else. A batch beyond it costs `INFINITE`, so that it is refused."""
_EXACT_ROOT: Final = 1 << 17  # terms that a pure mechanism counts for where it needs decimals
_READABLE: Final = 10**250
"""In units. The largest float is 1.8e308; a claim holds at most 1e9 mechanisms."""


def _units(amount: Amount | None) -> Units:
    return INFINITE if amount is None else exact_cost(amount)


def _square(epsilon: Amount | None) -> Amount | None:
    return None if epsilon is None else Fraction(epsilon) ** 2


def _kl_mean(epsilon: Amount | None) -> Amount | None:
    return None if epsilon is None else mean_loss(Fraction(epsilon))


def _loss_epsilon(p: Promise) -> Amount | None:
    return p.loss.epsilon if p.loss else None


def _loss_kl_mean(p: Promise) -> Units:
    # An odometer reads sums as floats; Python cannot convert an integer beyond every float.
    units = _units(_kl_mean(_loss_epsilon(p)))
    return units if units < _READABLE else INFINITE


SUMS: Final[MappingProxyType[str, Callable[[Promise], Units]]] = MappingProxyType(
    {
        # Sums of filters.
        "epsilon": lambda p: _units(p.epsilon),
        "delta": lambda p: _units(p.delta),
        "rho": lambda p: _units(p.rho),
        "intrinsic_time": lambda p: _units(p.intrinsic_time),
        "epsilon_squared": lambda p: _units(_square(p.epsilon)),
        "kl_mean": lambda p: _units(_kl_mean(p.epsilon)),
        "mu_squared": lambda p: _units(p.mu_squared),
        "dominating_mu_squared": lambda p: _units(p.dominating),
        "pure_epsilon": lambda p: _units(p.pure_epsilon),
        # What odometers add up: they bound the loss itself.
        "loss_time": lambda p: _units(p.loss.time if p.loss else None),
        "loss_epsilon": lambda p: _units(_loss_epsilon(p)),
        "loss_epsilon_squared": lambda p: _units(_square(_loss_epsilon(p))),
        "loss_kl_mean": _loss_kl_mean,
        "loss_delta": lambda p: _units(p.loss.delta if p.loss else None),
        "loss_shift": lambda p: _units(p.loss.shift if p.loss else None),
        # What ex-post claims add up apart from the others.
        "ex_post_epsilon": lambda p: _units(p.epsilon) if p.ex_post else 0,
        "ex_post_delta": lambda p: _units(p.delta) if p.ex_post else 0,
        "ex_post_only": lambda p: _units(p.epsilon if p.ex_post else None),
        "loss_ex_post": lambda p: _units(p.epsilon) if p.ex_post else 0,
        "loss_ex_post_delta": lambda p: _units(p.delta) if p.ex_post else 0,
    }
)

"""Each sum's function of a promise, by the sum's name."""


def _renyi(worth: Promise, order: str) -> Units:
    return INFINITE if worth.renyi is None else _units(worth.renyi(Decimal(order)))


def _amount_unless_ex_post(worth: Promise, name: str) -> Units:
    return 0 if worth.ex_post else amount(name, worth)


def _within(worth: Promise, maximum: str) -> Units:
    epsilon = worth.epsilon
    if epsilon is None or Fraction(epsilon) > Fraction(maximum):
        return INFINITE
    return UNIT if epsilon else 0


FAMILIES: Final[MappingProxyType[str, Family]] = MappingProxyType(
    {"renyi": _renyi, "apart": _amount_unless_ex_post, "within": _within}
)
"""Families of sums, by the first part of their names.

`renyi_22` is the Renyi divergence of order 22; `apart_rho` is `rho` of all claims except those
that are settled ex post; `within_0.01` counts mechanisms whose epsilon is at most 0.01.
"""


def amount(name: str, worth: Promise) -> Units:
    """Return the amount that a mechanism's promise adds to a sum, or `INFINITE`.

    Exactly where a unit has parts for it, rounded up otherwise.

    Raises: KeyError: no sum has that name.
    """
    known = SUMS.get(name)
    if known is not None:
        return known(worth)
    family, _, member = name.partition("_")
    return FAMILIES[family](worth, member)


@dataclass(frozen=True, slots=True)
class Price:
    """What one claim adds to each of some sums.

    Attributes:
        mechanisms: how many mechanisms the claim holds.
        amounts: in units of 1e-40, one for each sum.
        wire: the amounts as decimal strings, rounded up, by the sum's name.
        parts: each single mechanism's promise, and how many times it runs, for filters whose
            rule needs more than sums.
        json: `wire` as JSON.
        fractional: some amount is no whole number of units.
    """

    mechanisms: int
    amounts: tuple[Units, ...]
    wire: dict[str, str]
    parts: tuple[tuple[Promise, int], ...] = ()
    json: bytes = b"{}"
    fractional: bool = False


def price(claim: CheckedClaim, sums: tuple[str, ...]) -> Price:
    """Return what a claim adds to `sums`; the same object for the same arguments."""
    known: Price | None = claim.prices.get(sums)
    if known is None:
        known = claim.prices[sums] = _price(claim, sums)
    return known


def is_too_much(claim: CheckedClaim, sums: tuple[str, ...]) -> bool:
    """Tell whether a batch is refused because its price takes too long to compute."""
    if claim.mechanisms == 1:
        return False
    kinds = {atom for atom, _ in atoms(claim.claim)}
    return sum(_work(atom, sums) for atom in kinds) > MAX_WORK


def _work(atom: Claim, sums: tuple[str, ...]) -> int:
    if isinstance(plain(atom), SubsampledGaussian):
        orders = [name.removeprefix("renyi_") for name in sums if name.startswith("renyi_")]
        return sum(terms(Decimal(order)) for order in orders)
    if "pure_epsilon" in sums:
        epsilon = promise(atom).pure_epsilon
        return _EXACT_ROOT if epsilon is not None and epsilon > MAX_EPSILON_IN_DOUBLES else 0
    return 0


def _price(claim: CheckedClaim, sums: tuple[str, ...]) -> Price:
    if is_too_much(claim, sums):
        return _as_price(claim, sums, [INFINITE] * len(sums), [])
    amounts: list[Units] = [0] * len(sums)
    parts: list[tuple[Promise, int]] = []
    for atom, times in atoms(claim.claim):
        # Each mechanism is rounded up by itself, so a batch costs as much as its parts.
        for i, more in enumerate(_amounts(atom, sums)):
            # Python cannot add inf to an integer beyond every float: it raises OverflowError.
            unbounded = INFINITE in (amounts[i], more)
            amounts[i] = INFINITE if unbounded else amounts[i] + more * times
        parts.append((promise(atom), times))
    return _as_price(claim, sums, amounts, parts)


def _as_price(
    claim: CheckedClaim,
    sums: tuple[str, ...],
    amounts: list[Units],
    parts: list[tuple[Promise, int]],
) -> Price:
    wire = dict(zip(sums, map(format_units, amounts), strict=True))
    json = msgspec.json.encode(wire)
    fractional = Fractional in map(type, amounts)
    return Price(claim.mechanisms, tuple(amounts), wire, tuple(parts), json, fractional)


@lru_cache(maxsize=16_384)
def _amounts(atom: Claim, sums: tuple[str, ...]) -> tuple[Units, ...]:
    worth = promise(atom)
    return tuple([amount(name, worth) for name in sums])
