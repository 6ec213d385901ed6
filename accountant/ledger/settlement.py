"""The budget that a reservation may return: settling below its maximum, and voiding.

A reservation is a grant that is charged its maximum until it is settled, voided or expires.
Only two kinds of claims settle below their maximum, `ex_post` and `brownian`. All others settle
in full: a cost that depends on the outcome would over-spend (docs/theory.md section 3). Only a
reservation that never read the data may be voided: voiding after a look at the data would reveal
the result without charge. Records do not use these rules yet.

All functions are pure. A caller subtracts `returned` from the totals, in the order of `plan.sums`;
limits get theirs back by `accountant.limits.charge.refund`.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Final

import msgspec

from accountant.amounts import INFINITE, UNIT, Units, exact_cost, parse
from accountant.claims import Brownian, CheckedClaim, ExPost
from accountant.claims.price import Price, amount, price
from accountant.claims.promises import Promise, promise
from accountant.conversions.gdp import mu_of_pure
from accountant.filters.beside import ENDED, EPSILON, WITHOUT, BesideBasic
from accountant.fractional import parts_of
from accountant.policy.compiled_policy import CompiledPolicy

_PAID_EX_POST: Final = frozenset(
    {"epsilon", "ex_post_only", "ex_post_epsilon", "loss_epsilon", "loss_ex_post"}
)
"""The sums that charge an ex-post claim its own cost."""

Parts = tuple[tuple[Promise, int], ...]


class Ruling(StrEnum):
    """The possible ends of a reservation."""

    SETTLED = "settled"
    VOIDED = "voided"
    REFUSED = "refused"
    """The reservation stays at its maximum."""
    CLOSE = "close"
    """The reservation stays at its maximum; the caller closes the dataset and raises an alarm."""


class Settlement(msgspec.Struct, frozen=True):
    """A ruling on a reservation.

    Attributes:
        returned: the amount to subtract from each total, in units of 1e-40, never too much.
        why: the cause of a refusal, for people.
    """

    ruling: Ruling
    returned: tuple[Units, ...]
    why: str | None = None


def settle_ex_post(
    plan: CompiledPolicy,
    reserved: ExPost,
    *,
    paid: Decimal | Fraction,
    has_begun: bool,
    by_basic_alone: bool = False,
) -> Settlement:
    """Return the ruling on an ex-post reservation that is settled at E(y).

    Args:
        paid: E(y) in nats, >= 0. The ledger computes it from the released values, as
            `noise_reduction_cost` does; a number that a runner reports is never a cost.
        has_begun: whether the mechanism's start was recorded before it read the data.
        by_basic_alone: basic composition has let it in, beside a filter that was not charged.
    The delta of the claim is never returned. A filter that does not settle ex-post claims has
    charged a pure claim, and returns nothing; basic composition beside it settles them. Source:
    Rogers 2023 Lemma 5.2; docs/theory.md section 3 and P13.
    """
    if not has_begun:
        return _refuse(plan, "that it began must be recorded before it reads the data")
    maximum, cost = Fraction(reserved.epsilon), Fraction(paid)
    if not 0 <= cost <= maximum:
        return _beyond(plan, f"it has paid {float(cost):.6g}, its maximum is {reserved.epsilon}")
    settled = _settled_ex_post(plan, by_basic_alone)
    # Neither is rounded down, so the remaining charge is not below the paid cost. The smaller
    # one, rounded to 20 digits, may exceed the larger one, which is held exactly: return 0.
    refund = max(0, exact_cost(maximum) - exact_cost(cost))
    returned = tuple([refund if name in settled else 0 for name in plan.sums])
    return Settlement(Ruling.SETTLED, returned)


def _settled_ex_post(plan: CompiledPolicy, by_basic_alone: bool) -> frozenset[str]:
    """Return the names of the totals that an ex-post claim's settlement lowers."""
    kind = plan.kind
    settled = _PAID_EX_POST if kind.settles_ex_post else frozenset[str]()
    if not isinstance(kind, BesideBasic):
        return settled
    uncharged = kind.limited_by_filter if by_basic_alone else ()
    return settled.difference(uncharged) | {EPSILON}


def settle_brownian(
    plan: CompiledPolicy, reserved: Brownian, *, shown: str, has_begun: bool
) -> Settlement:
    """Return the ruling on a Brownian reservation that ended at a variance above its own.

    Args:
        shown: the last variance shown, in squared query units. Every variance of the session,
            and its end, must be functions of released values only.
        has_begun: whether the session's start was recorded before it read the data.
    Returns rho_max - rho_T, and the same difference for every sum that a Gaussian has; under
    gdp_residue mu_max^2 - mu_T^2. Source: docs/theory.md section 3 and P4: the session is a
    sequence of Gaussians, and the ruling returns the cost of those that never ran.
    Raises: RequestInvalid: the variance is no amount above 0.
    """
    if not has_begun:
        return _refuse(plan, "that it began must be recorded before it reads the data")
    last = parse(shown, field="shown")
    if last < Decimal(reserved.variance):
        return _beyond(plan, f"it has shown variance {shown}, below {reserved.variance}")
    if isinstance(reserved.previous, str) and last >= Decimal(reserved.previous):
        return _refuse(plan, f"variance {shown} was shown before the session began")
    settled = msgspec.structs.replace(reserved, variance=shown)
    # The variance shown may be larger than a request may ask for, so `checked` would refuse it.
    before, after = (_in_sums(plan, ((promise(claim), 1),)) for claim in (reserved, settled))
    return Settlement(Ruling.SETTLED, tuple(map(_less, before, after)))


def settle_in_full(plan: CompiledPolicy) -> Settlement:
    """Return the ruling on any other reservation that has run, and on any that has expired."""
    return Settlement(Ruling.SETTLED, _nothing(plan))


def void(
    plan: CompiledPolicy, reserved: CheckedClaim, charged: tuple[Units, ...], *, has_begun: bool
) -> Settlement:
    """Return the ruling on a reservation that its analyst takes back before it ran.

    Args:
        charged: the amounts that its grant added to the totals.
        has_begun: whether its start was recorded, so that it may have read the data.
    A filter whose totals are sums returns the amounts it charged, and no more than the claim's
    price: a decision's `cost` may exceed that by part of a unit, since it is what the totals
    rounded up have grown by. Under gdp_residue that is right only for charges as Gaussians,
    `voidable_price`: the cost of a pure mechanism depends on the state, and returning it to
    another state over-spends (docs/theory.md section 3). A filter that has ended because basic
    composition alone has let the claim in stays ended (P13).
    """
    if has_begun:
        return _refuse(plan, "what has begun may have read the data: it can only be settled")
    kind = plan.kind
    maximum = dict(zip(plan.priced, voidable_price(plan, reserved).amounts, strict=True))
    by_state = () if kind.adds_up else kind.sums
    if isinstance(kind, BesideBasic):
        maximum |= {WITHOUT: UNIT, ENDED: 0}
        by_state = () if kind.adds_up else kind.limited_by_filter
    returned = []
    for name, own in zip(plan.sums, charged, strict=True):
        if name in by_state and own and own != maximum[name]:
            return _refuse(plan, "it was charged by the state it found, which is never returned")
        returned.append(0 if own == INFINITE else _smaller(own, maximum[name]))
    return Settlement(Ruling.VOIDED, tuple(returned))


def voidable_price(plan: CompiledPolicy, claim: CheckedClaim) -> Price:
    """Return the price of a reservation that may be voided.

    Under gdp_residue a pure mechanism is priced as the Gaussian that dominates it, of
    mu(epsilon) = 2 Phi^-1(e^epsilon / (1 + e^epsilon)); other filters use the claim's own price.
    """
    asked = price(claim, plan.priced)
    if plan.kind.adds_up:
        return asked
    parts = tuple([(_as_gaussian(worth), times) for worth, times in asked.parts])
    return replace(asked, amounts=_in(plan, plan.priced, parts), parts=parts)


def noise_reduction_cost(*, sensitivity: Fraction, scale: Fraction) -> Fraction:
    """Return E(y) of Laplace noise reduction: l1 sensitivity / the last scale shown, in nats.

    Source: docs/theory.md section 5; Rogers 2023 section 4.
    """
    return sensitivity / scale


def _as_gaussian(worth: Promise) -> Promise:
    if worth.mu_squared is not None or worth.pure_epsilon is None:
        return worth
    mu = Fraction(mu_of_pure(worth.pure_epsilon))
    return replace(worth, mu_squared=mu**2, pure_epsilon=None)


def _in_sums(plan: CompiledPolicy, parts: Parts) -> tuple[Units, ...]:
    """Return the amount that mechanisms add to each total; under gdp_residue, Gaussian ones.

    A Gaussian takes mu^2 off that filter's state, whatever the state is.
    """
    return _in(plan, plan.sums, parts)


def _in(plan: CompiledPolicy, sums: tuple[str, ...], parts: Parts) -> tuple[Units, ...]:
    def each(name: str, worth: Promise) -> Units:
        if name in (WITHOUT, ENDED):
            return 0
        return amount(name, worth)

    return tuple([sum(each(name, worth) * n for worth, n in parts) for name in sums])


def _smaller(one: Units, other: Units) -> Units:
    # `min` would compare what is rounded up.
    if isinstance(one, float) or isinstance(other, float):
        return min(one, other)
    return one if parts_of(one) <= parts_of(other) else other


def _less(before: Units, after: Units) -> Units:
    # As in `settle_ex_post`, the smaller one may exceed the larger one after rounding.
    return 0 if before == INFINITE else max(0, before - after)


def _nothing(plan: CompiledPolicy) -> tuple[Units, ...]:
    return (0,) * len(plan.sums)


def _refuse(plan: CompiledPolicy, why: str) -> Settlement:
    return Settlement(Ruling.REFUSED, _nothing(plan), why)


def _beyond(plan: CompiledPolicy, why: str) -> Settlement:
    return Settlement(Ruling.CLOSE, _nothing(plan), why)
