"""The budget that a reservation may return: settling below its maximum, and voiding.

A reservation is a grant that is charged its maximum until it is settled, voided or expires.
Only two kinds of claims settle below their maximum, `ex_post` and `brownian`. All others settle
in full: a cost that depends on the outcome would over-spend (docs/theory.md section 3). Only a
reservation that never read the data may be voided: voiding after a look at the data would reveal
the result without charge.

All functions are pure.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

import msgspec

from accountant.amounts import INFINITE, Units, exact_cost
from accountant.claims import Brownian, CheckedClaim, Claim, ExPost
from accountant.claims.price import Price, amount, price
from accountant.claims.promises import Promise, promise
from accountant.filters.base import Filter
from accountant.filters.beside import ENDED, EPSILON, WITHOUT

_PAID_EX_POST: Final = frozenset(
    {"epsilon", "ex_post_only", "ex_post_epsilon", "loss_epsilon", "loss_ex_post"}
)
"""The sums that charge an ex-post claim its own cost."""

_STATE: Final = "mu_squared"
"""The sum of gdp_residue whose charges depend on what was spent before."""

Parts = tuple[tuple[Promise, int], ...]


def settled_ex_post(*, settles_ex_post: bool, beside: bool) -> frozenset[str]:
    """Return the names of the totals that an ex-post claim's settlement lowers.

    Args:
        settles_ex_post: as of the filter.
        beside: basic composition stands beside the filter.
    """
    settled = _PAID_EX_POST if settles_ex_post else frozenset[str]()
    return settled | {EPSILON} if beside else settled


def returned_by_payment(
    sums: tuple[str, ...], maximum: Fraction, paid: Fraction, settled: frozenset[str]
) -> tuple[Units, ...]:
    """Return what an ex-post claim that paid less than its maximum gives back of each sum.

    Its delta is never returned. Source: Rogers 2023 Lemma 5.2; docs/theory.md section 3 and P13.

    Args:
        maximum, paid: the bound, and E(y) <= it as the ledger computes it, in nats.
        settled: as `settled_ex_post`, of the filter that the sums belong to.
    """
    # Neither is rounded down, so the remaining charge is not below the paid cost. The smaller
    # one, rounded to 20 digits, may exceed the larger one, which is held exactly: return 0.
    refund = max(0, exact_cost(maximum) - exact_cost(paid))
    return tuple([refund if name in settled else 0 for name in sums])


def _unshown(sums: tuple[str, ...], reserved: Brownian, shown: str) -> tuple[Units, ...]:
    """Return what the answers that were never shown would have added to each total.

    The session is a sequence of Gaussians: it returns rho_max - rho_T, and under gdp_residue
    mu_max^2 - mu_T^2, whatever the state is. Source: docs/theory.md section 3 and P4.
    """
    settled = msgspec.structs.replace(reserved, variance=shown)
    # The variance shown may be larger than a request may ask for, so `checked` would refuse it.
    before, after = (_in(sums, ((promise(claim), 1),)) for claim in (reserved, settled))
    return tuple(map(_less, before, after))


def returned_by_session(
    sums: tuple[str, ...], claim: Claim, shown: str, settled: frozenset[str]
) -> tuple[Units, ...]:
    """Return what a session that ended at the last level it showed gives back of each sum.

    Args:
        claim: a session, see `is_session` of the claim.
        shown: the variance, or the scale, of its last answer, within the session's levels.
        settled: as `settled_ex_post`, of the filter that the sums belong to.
    """
    if isinstance(claim, Brownian):
        return _unshown(sums, claim, shown)
    assert isinstance(claim, ExPost)
    sensitivity = Fraction(str(claim.sensitivity))
    paid = noise_reduction_cost(sensitivity=sensitivity, scale=Fraction(shown))
    return returned_by_payment(sums, Fraction(claim.epsilon), paid, settled)


def returned_by_voiding(
    sums: tuple[str, ...], claim: CheckedClaim, charged: tuple[Units, ...], *, same_state: bool
) -> tuple[Units, ...]:
    """Return what a reservation that never began gives back of each sum: what it was charged.

    Args:
        charged: what its grant added to each sum, exactly.
        same_state: the filter's state is exactly the one that the grant left. Otherwise a cost
            that depended on the state stays charged (docs/theory.md section 3).
    """
    returned = []
    for name, own in zip(sums, charged, strict=True):
        by_state = name == _STATE and not same_state and own != voidable_mu_squared(claim)
        stays = own == INFINITE or name == ENDED or by_state
        returned.append(0 if stays else own)
    return tuple(returned)


def voidable_mu_squared(claim: CheckedClaim) -> Units:
    """Return what a claim takes off the state of gdp_residue where it may be voided."""
    asked = price(claim, (_STATE, "pure_epsilon"))
    return _in((_STATE,), tuple([(_as_gaussian(worth), n) for worth, n in asked.parts]))[0]


def voidable_price(kind: Filter, sums: tuple[str, ...], claim: CheckedClaim) -> Price:
    """Return the price of a reservation that may be voided, in some sums.

    Under gdp_residue a pure mechanism is priced as the Gaussian that dominates it, of
    mu(epsilon) = 2 Phi^-1(e^epsilon / (1 + e^epsilon)); other filters use the claim's own price.
    """
    asked = price(claim, sums)
    if kind.adds_up:
        return asked
    parts = tuple([(_as_gaussian(worth), times) for worth, times in asked.parts])
    return replace(asked, amounts=_in(sums, parts), parts=parts)


def noise_reduction_cost(*, sensitivity: Fraction, scale: Fraction) -> Fraction:
    """Return E(y) of Laplace noise reduction: l1 sensitivity / the last scale shown, in nats.

    Source: docs/theory.md section 5; Rogers 2023 section 4.
    """
    return sensitivity / scale


def _as_gaussian(worth: Promise) -> Promise:
    # Never by the state, also where that would be less.
    return replace(worth, mu_squared=worth.dominating, pure_epsilon=None)


def _in(sums: tuple[str, ...], parts: Parts) -> tuple[Units, ...]:
    def each(name: str, worth: Promise) -> Units:
        if name in (WITHOUT, ENDED):
            return 0
        return amount(name, worth)

    return tuple([sum(each(name, worth) * n for worth, n in parts) for name in sums])


def _less(before: Units, after: Units) -> Units:
    # As in `returned_by_payment`, the smaller one may exceed the larger one after rounding.
    return 0 if before == INFINITE else max(0, before - after)
