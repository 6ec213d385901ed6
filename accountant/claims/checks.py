"""Claims whose fields obey their rules, and what is worked out of each once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeGuard

from msgspec import UNSET

from accountant.claims.claims import (
    MAX_DEPTH,
    AllOf,
    Brownian,
    Claim,
    Interactive,
    Repeat,
    atoms,
    depth,
    plain,
)
from accountant.errors import RequestInvalid

_MAY_BE_BATCHES: Final = (Repeat, AllOf)  # `Repeat | AllOf` would be built for each claim


class CheckedClaim:
    """A claim whose fields obey their rules, with a cache of its prices.

    Equal claims share one instance while the cache of `check_claim` holds it, so that `price`
    computes their prices once.

    Attributes:
        mechanisms: how many mechanisms it holds.
        keys: how many JSON keys its fields took on the wire.
        refinements: the mechanisms that refine an answer shown before.
        only_for: the one neighbouring relation that the claim is valid for, "" for any.
        prices: its prices by the names of their sums; `price.price` fills them.
    """

    __slots__ = ("claim", "keys", "mechanisms", "only_for", "prices", "refinements")

    def __init__(self, claim: Claim) -> None:
        if depth(claim) > MAX_DEPTH:
            raise RequestInvalid("claim", f"must nest at most {MAX_DEPTH} deep", depth(claim))
        claim.check()
        self.claim = claim
        self.mechanisms = sum(times for _, times in atoms(claim))
        if self.mechanisms > 1_000_000_000:
            raise RequestInvalid("claim", "must hold at most 1e9 mechanisms", self.mechanisms)
        self.keys = _keys(claim)
        self.only_for = max((plain(atom).only_for for atom, _ in atoms(claim)), default="")
        self.refinements = tuple([atom for atom, _ in atoms(claim) if _refines(atom)])
        self.prices: dict[tuple[str, ...], Any] = {}


def _refines(claim: Claim) -> TypeGuard[Brownian]:
    return isinstance(claim, Brownian) and claim.previous is not UNSET


def _keys(claim: Claim) -> int:
    """Return how many JSON keys a claim takes on the wire, without those at their default."""
    if isinstance(claim, Repeat):
        return 3 + _keys(claim.claim)
    if isinstance(claim, Interactive):
        return 2 + _keys(claim.claim)
    if isinstance(claim, AllOf):
        return 2 + sum(map(_keys, claim.claims))
    defaults: tuple[object, ...] = claim.__struct_defaults__
    fields = claim.__struct_fields__
    optional_values = [getattr(claim, field) for field in fields[len(fields) - len(defaults) :]]
    at_default = [
        value for value, default in zip(optional_values, defaults, strict=True) if value == default
    ]
    return 1 + len(fields) - len(at_default)


def check_claim(claim: Claim) -> CheckedClaim:
    """Return the claim with its fields checked.

    Raises: RequestInvalid: a field breaks its rule.
    """
    # A batch may take 64 KiB, so the cache holds no batches; `price` caches their parts' prices.
    if isinstance(claim, _MAY_BE_BATCHES) and _is_batch(claim):
        return CheckedClaim(claim)
    return _check_cached(claim)


@lru_cache(maxsize=16_384)
def _check_cached(claim: Claim) -> CheckedClaim:
    return CheckedClaim(claim)


def _is_batch(claim: Claim) -> bool:
    while isinstance(claim, Repeat):
        claim = claim.claim
    return isinstance(claim, AllOf)
