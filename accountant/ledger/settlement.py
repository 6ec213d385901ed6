"""What may come back of a reservation: settling below its maximum, and voiding.

A reservation is a grant that is charged its maximum until it is settled, voided or expires.
Only two kinds of claims settle below their maximum, `ex_post` and `brownian`; everything else
settles in full, for a cost that depends on the outcome otherwise over-spends (docs/theory.md
section 3). Only what never read the data may be voided: a reservation that is voided after a
look tells what was seen for nothing. Records do not use these rules yet.

All of it is pure. What is returned is to be taken off the totals, in the order of `plan.sums`.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Final

import msgspec

from accountant.amounts import INFINITE, Units, cost_up, parse
from accountant.claims import Brownian, CheckedClaim, ExPost
from accountant.claims.price import Price, amount, price
from accountant.claims.promises import Promise, promise
from accountant.conversions.gdp import mu_of_pure
from accountant.filters.summed import SummedFilter
from accountant.policy.compiled import CompiledPolicy

_PAID_EX_POST: Final = frozenset(
    {"epsilon", "ex_post_only", "ex_post_epsilon", "loss_epsilon", "loss_ex_post"}
)
"""Sums in which an ex-post claim stands with what it has cost."""

Parts = tuple[tuple[Promise, int], ...]


class Ruling(StrEnum):
    """What becomes of a reservation."""

    SETTLED = "settled"
    VOIDED = "voided"
    REFUSED = "refused"
    """It stays as it is, at its maximum."""
    CLOSE = "close"
    """It stays at its maximum, and the dataset is to be closed with an alarm."""


class Settlement(msgspec.Struct, frozen=True):
    """A ruling on a reservation.

    Attributes:
        returned: what each total shrinks by, in units of 1e-40, rounded down.
        why: of a refusal, for people.
    """

    ruling: Ruling
    returned: tuple[Units, ...]
    why: str | None = None


def settle_ex_post(
    plan: CompiledPolicy, reserved: ExPost, *, paid: Decimal | Fraction, begun: bool
) -> Settlement:
    """Return the ruling on an ex-post reservation that is settled at E(y).

    Args:
        paid: E(y) in nats, >= 0, computed by the ledger from what was released, such as
            `noise_reduction_cost`; a number that a runner reports is never a cost.
        begun: that the mechanism began was recorded before it read the data.
    The delta of the claim is never returned. Filters that do not settle ex-post claims have
    charged it as a pure claim, and return nothing. Source: Rogers 2023 Lemma 5.2;
    docs/theory.md section 3.
    """
    if not begun:
        return _refused(plan, "that it began must be recorded before it reads the data")
    most, cost = Fraction(reserved.epsilon), Fraction(paid)
    if not 0 <= cost <= most:
        return _beyond(plan, f"it has paid {float(cost):.6g}, its maximum is {reserved.epsilon}")
    if not plan.kind.settles_ex_post:
        return Settlement(Ruling.SETTLED, _nothing(plan))
    # Both are rounded up, so what stays charged is not below what was paid. To 20 digits the
    # smaller may come out above the larger, which the grid holds exactly: nothing is returned.
    refund = max(0, cost_up(most) - cost_up(cost))
    returned = tuple([refund if name in _PAID_EX_POST else 0 for name in plan.sums])
    return Settlement(Ruling.SETTLED, returned)


def settle_brownian(
    plan: CompiledPolicy, reserved: Brownian, *, shown: str, begun: bool
) -> Settlement:
    """Return the ruling on a Brownian reservation that ended at a variance above its own.

    Args:
        shown: the last variance shown, in squared query units. Every variance of the session,
            and that it ended, must be functions of released values only.
        begun: that the session began was recorded before it read the data.
    Returns rho_max - rho_T, and alike for every sum that a Gaussian has; under gdp_residue
    mu_max^2 - mu_T^2. Source: docs/theory.md section 3 and P4: the session is a sequence of
    Gaussians, of which those that never ran are returned.
    Raises: RequestInvalid: the variance is no amount above 0.
    """
    if not begun:
        return _refused(plan, "that it began must be recorded before it reads the data")
    last = parse(shown, field="shown")
    if last < Decimal(reserved.variance):
        return _beyond(plan, f"it has shown variance {shown}, below {reserved.variance}")
    if isinstance(reserved.previous, str) and last >= Decimal(reserved.previous):
        return _refused(plan, f"variance {shown} was shown before the session began")
    settled = msgspec.structs.replace(reserved, variance=shown)
    # Not as a checked claim: little may have been shown, less than a request may ask for.
    before, after = (_in_sums(plan, ((promise(claim), 1),)) for claim in (reserved, settled))
    return Settlement(Ruling.SETTLED, tuple(map(_less, before, after)))


def settle_in_full(plan: CompiledPolicy) -> Settlement:
    """Return the ruling on any other reservation that has run, and on each that expired."""
    return Settlement(Ruling.SETTLED, _nothing(plan))


def void(
    plan: CompiledPolicy, reserved: CheckedClaim, charged: tuple[Units, ...], *, begun: bool
) -> Settlement:
    """Return the ruling on a reservation that is taken back before it ran.

    Args:
        charged: what the totals grew by when it was granted.
        begun: it may have read the data, for that it began was recorded.
    A filter whose totals are sums returns what it charged. Under gdp_residue that holds only
    of what was charged as Gaussians, `voidable_price`: the cost of a pure mechanism out of
    one state, returned to another, over-spends (docs/theory.md section 3).
    """
    if begun:
        return _refused(plan, "what has begun may have read the data: it can only be settled")
    if not isinstance(plan.kind, SummedFilter):
        fixed = _in_sums(plan, voidable_price(plan, reserved).parts)
        if charged != fixed:
            return _refused(plan, "it was charged by the state it found, which is never returned")
    return Settlement(Ruling.VOIDED, tuple([0 if a == INFINITE else a for a in charged]))


def voidable_price(plan: CompiledPolicy, claim: CheckedClaim) -> Price:
    """Return the price of a reservation that may be voided.

    Under gdp_residue a pure mechanism is priced as the Gaussian that dominates it, of
    mu(epsilon) = 2 Phi^-1(e^epsilon / (1 + e^epsilon)); elsewhere it is the claim's own.
    """
    asked = price(claim, plan.priced)
    if isinstance(plan.kind, SummedFilter):
        return asked
    parts = tuple([(_dominated(worth), times) for worth, times in asked.parts])
    amounts = [sum(amount(name, worth) * n for worth, n in parts) for name in plan.priced]
    return replace(asked, amounts=tuple(amounts), parts=parts)


def noise_reduction_cost(*, sensitivity: Fraction, scale: Fraction) -> Fraction:
    """Return E(y) of Laplace noise reduction: l1 sensitivity / the last scale shown, in nats.

    Source: docs/theory.md section 5; Rogers 2023 section 4.
    """
    return sensitivity / scale


def _dominated(worth: Promise) -> Promise:
    if worth.mu_squared is not None or worth.pure_epsilon is None:
        return worth
    mu = Fraction(mu_of_pure(worth.pure_epsilon))
    return replace(worth, mu_squared=mu**2, pure_epsilon=None)


def _in_sums(plan: CompiledPolicy, parts: Parts) -> tuple[Units, ...]:
    """Return what mechanisms add to each total; under gdp_residue, Gaussian mechanisms.

    A Gaussian takes mu^2 off that filter's state wherever it stands.
    """
    return tuple([sum(amount(name, worth) * n for worth, n in parts) for name in plan.sums])


def _less(before: Units, after: Units) -> Units:
    # As in `settle_ex_post`, rounding may put the smaller one above.
    return 0 if before == INFINITE else max(0, before - after)


def _nothing(plan: CompiledPolicy) -> tuple[Units, ...]:
    return (0,) * len(plan.sums)


def _refused(plan: CompiledPolicy, why: str) -> Settlement:
    return Settlement(Ruling.REFUSED, _nothing(plan), why)


def _beyond(plan: CompiledPolicy, why: str) -> Settlement:
    return Settlement(Ruling.CLOSE, _nothing(plan), why)
