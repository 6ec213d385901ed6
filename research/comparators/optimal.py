"""The exact, best possible composition of mechanisms with one pure epsilon, fixed in advance."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from accountant.amounts import above, precise
from accountant.conversions.optimal_composition import composed_delta, most_composed

MAX_MECHANISMS: Final = 1_000_000
# A million products lose 7 of 60 digits.
_PRODUCTS: Final = Decimal("1e-50")
_DIGITS: Final = 20


def optimal_delta(*, mechanisms: int, epsilon: Decimal, target: Decimal) -> Decimal:
    """Return the least delta at which k mechanisms of pure epsilon are (target, delta)-DP.

    sum_j C(k,j) p^j (1-p)^(k-j) (1 - e^(target - (2j-k) epsilon))_+, p = e^epsilon/(1 + e^epsilon),
    the hockey-stick of k times randomized response, rounded up.

    Args:
        mechanisms: k, 0 to 1,000,000.
        epsilon: of each mechanism, in nats, >= 0.
        target: epsilon of the composition, in nats, >= 0.
    Raises: ValueError: an argument is out of range.
    Source: Kairouz, Oh and Viswanath 2015 Thm 3.3.
    """
    _check(mechanisms, epsilon, target)
    return composed_delta(mechanisms=mechanisms, epsilon=epsilon, target=target)


def optimal_epsilon(*, mechanisms: int, epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return the least target, in nats, at which k mechanisms are (target, delta)-DP.

    Rounded up; 0 if they are (0, delta)-DP. Arguments and errors as for `optimal_delta`.

    Source: Kairouz, Oh and Viswanath 2015 Thm 3.3: between two losses the hockey-stick is
        P - e^target Q, with the probabilities P, Q of a larger loss under either data set.
    """
    _check(mechanisms, epsilon)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta}")
    with precise():
        here = there = Decimal(0)
        for mass, loss in _tail(mechanisms, epsilon):
            if loss <= 0:
                break
            if here > delta and ((here - delta) / there).ln() >= loss:
                break
            here += mass
            there += mass * (-loss).exp()
        if here <= delta:
            return Decimal(0)
        # The margins come before the difference of `here` and delta, which may cancel.
        larger, smaller = here * (1 + _PRODUCTS), there * (1 - _PRODUCTS)
        return max(Decimal(0), above(((larger - delta) / smaller).ln(), digits=_DIGITS))


def optimal_count(*, epsilon: Decimal, target: Decimal, delta: Decimal) -> int:
    """Return the most mechanisms of pure epsilon that are (target, delta)-DP together.

    Never too many, since each delta is rounded up. 562 for epsilon = 0.01 under (1, 1e-6).

    Raises: ValueError: an argument is out of range, or there are more than 1,000,000.
    """
    _check(0, epsilon, target)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta}")
    found = (
        most_composed(epsilon=epsilon, target=target, delta=delta, maximum=MAX_MECHANISMS)
        if epsilon
        else None
    )
    if found is None:
        raise ValueError(f"epsilon {epsilon} fits more than {MAX_MECHANISMS:,} times")
    return found


def _check(mechanisms: int, epsilon: Decimal, target: Decimal = Decimal(0)) -> None:
    if not 0 <= mechanisms <= MAX_MECHANISMS:
        raise ValueError(f"mechanisms must be between 0 and {MAX_MECHANISMS:,}, got {mechanisms}")
    if epsilon < 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon}")
    if target < 0:
        raise ValueError(f"target must be at least 0, got {target}")


def _tail(mechanisms: int, epsilon: Decimal) -> Iterator[tuple[Decimal, Decimal]]:
    """Yield (probability, loss) of k times randomized response, from the largest loss down.

    Each probability is a product with the one before it, so nothing cancels or underflows.
    """
    down = (-epsilon).exp()
    mass = (1 / (1 + down)) ** mechanisms
    for fewer in range(mechanisms + 1):
        yield mass, (mechanisms - 2 * fewer) * epsilon
        mass = mass * (mechanisms - fewer) / (fewer + 1) * down
