"""The largest claim of a kind that would still fit, which a refusal offers instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from accountant.amounts import Units
from accountant.claims import AllOf, CheckedClaim, Claim, Interactive, Repeat, check_claim
from accountant.claims.price import Price, price
from accountant.claims.text import claim_text, parse_claim
from accountant.errors import RequestInvalid

# The offered parameter has 4 significant digits, rounded toward the smaller cost.
_SAFER: Final = {
    1: Context(prec=4, rounding=ROUND_FLOOR),
    -1: Context(prec=4, rounding=ROUND_CEILING),
}
_STEPS: Final = 12
_STEPS_BACK: Final = 3
_CLOSE: Final = 1e-6
_NOTHING_FITS: Final = -math.inf
_PER_DECADE: Final = 9000  # decimals of 4 digits, 1000 to 9999, times a power of 10


class AnyBudget(Protocol):
    """What is granted: a filter, one with a cap, or several budgets together."""

    @property
    def needs(self) -> tuple[str, ...]: ...
    @property
    def adds_up(self) -> bool: ...
    def __hash__(self) -> int: ...
    def fits(self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price) -> bool: ...
    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None: ...
    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None: ...


def largest(
    claim: Claim,
    kind: AnyBudget,
    capacity: tuple[Units, ...],
    spent: tuple[Units, ...],
) -> str | None:
    """Return the largest claim like `claim` that fits, as text, None if no such claim fits.

    The result differs from `claim` in its knob alone (epsilon, rho, sigma, times, ...), which has
    4 digits, rounded toward the smaller cost. The filter has confirmed that the result fits.
    """
    if isinstance(claim, AllOf):
        return None
    if isinstance(claim, Interactive):
        # It costs what its claim costs, so the largest one is that of its claim.
        found = largest(claim.claim, kind, capacity, spent)
        return None if found is None else claim_text(Interactive(parse_claim(found)))
    if isinstance(claim, Repeat):
        single = price(check_claim(claim.claim), kind.needs)
        times = kind.count(capacity, spent, single)
        if times and not kind.adds_up:
            # What a batch repeats is charged part by part, which may cost more.
            times = _most_times(claim, kind, capacity, spent, times)
        return claim_text(Repeat(claim.claim, times)) if times else None
    return _search(claim.offered(), kind, capacity, spent)


def _most_times(
    claim: Repeat,
    kind: AnyBudget,
    capacity: tuple[Units, ...],
    spent: tuple[Units, ...],
    maximum: int,
) -> int:
    """Return how many of at most `maximum` claims one request may ask for: each alone is within."""

    def fits(times: int) -> bool:
        asked = price(CheckedClaim(Repeat(claim.claim, times)), kind.needs)
        return kind.fits(capacity, spent, asked)

    if fits(maximum):
        return maximum
    minimum, above = 0, maximum
    while above - minimum > 1:
        middle = (minimum + above) // 2
        minimum, above = (middle, above) if fits(middle) else (minimum, middle)
    return minimum


@lru_cache(maxsize=16_384)
def _search(
    claim: Claim,
    kind: AnyBudget,
    capacity: tuple[Units, ...],
    spent: tuple[Units, ...],
) -> str | None:
    asked = Decimal(getattr(claim, claim.knob))
    if not asked:
        return None

    def claim_at(value: Decimal) -> Claim | None:
        """Return the claim with this value of its knob, None if it does not fit."""
        less = msgspec.structs.replace(claim, **{claim.knob: _plain(value)})
        fits = kind.fits(capacity, spent, price(CheckedClaim(less), kind.needs))
        return less if fits else None

    def excess(x: float) -> float | None:
        text = f"{math.exp(x):.12g}".replace("e+", "e")
        moved = CheckedClaim(msgspec.structs.replace(claim, **{claim.knob: text}))
        return kind.excess(capacity, spent, price(moved, kind.needs))

    try:
        solved = _solve(excess, math.log(float(asked)), claim.knob_sign)
        if solved is _NOTHING_FITS:
            return None
        if solved is not None:
            found = _step_back(math.exp(solved), claim.knob_sign, claim_at)
            if found is not None:
                return claim_text(found)
    except RequestInvalid:  # the budget left is below the smallest claim of this kind
        if claim.knob_is_power:
            return None
    found = _bisect(asked, claim.knob_sign, claim_at)
    return None if found is None else claim_text(found)


def _step_back(
    solved: float, sign: int, claim_at: Callable[[Decimal], Claim | None]
) -> Claim | None:
    """Return the claim at a root, with 4 digits, rounded toward a smaller cost.

    None unless it fits and the next larger claim does not: otherwise `solved` is not the root.
    """
    safer = _SAFER[sign]
    # Begin at a slightly larger cost: a knob that fits exactly (0.25) would else become 0.2499.
    value = safer.create_decimal_from_float(solved * (1 + 2 * _CLOSE * sign))
    for _ in range(_STEPS_BACK):
        found = claim_at(value)
        if found is not None:
            more = safer.next_plus(value) if sign > 0 else safer.next_minus(value)
            return found if claim_at(more) is None else None
        value = safer.next_minus(value) if sign > 0 else safer.next_plus(value)
    return None


def _solve(excess: Callable[[float], float | None], start: float, sign: int) -> float | None:
    """Return the logarithm of the knob at which a filter's excess is 0.

    Costs grow about as a power of the knob, between 1 and 2, so the secant method needs few
    steps. Returns `_NOTHING_FITS` if no value of the knob helps, None if the method fails.
    """
    x, first = start, excess(start)
    if first is None:
        return None
    if first == math.inf:
        return _NOTHING_FITS
    e, slope = first, 1.5 * sign
    for _ in range(_STEPS):
        if abs(e) < _CLOSE:
            return x
        moved = x - e / slope
        try:
            e_moved = excess(moved)
        except (RequestInvalid, OverflowError):  # out of the knob's range: halve the step
            slope *= 2
            continue
        if e_moved is None or not math.isfinite(e_moved):
            return None
        if moved != x and e_moved != e and (e_moved - e) / (moved - x) * sign > 0:
            slope = (e_moved - e) / (moved - x)
        x, e = moved, e_moved
    return _NOTHING_FITS if e == first > 0 else None


def _bisect(asked: Decimal, sign: int, claim_at: Callable[[Decimal], Claim | None]) -> Claim | None:
    """Return the largest claim that fits, by bisection over the decimals of 4 digits.

    It is slower than `_solve`, but cannot fail.
    """
    start = _index_of(asked, sign)

    def fits_at(steps: int) -> bool:
        try:
            return claim_at(_decimal_at(start - steps * sign)) is not None
        except RequestInvalid:  # below the smallest claim of this kind
            return True

    # The claim asked for does not fit, but may fit when its knob is rounded to the smaller cost.
    maximum = 1
    while not fits_at(maximum - 1):
        maximum *= 2
    minimum = maximum // 2 - 1  # does not fit, or -1
    maximum -= 1
    while maximum - minimum > 1:
        middle = (minimum + maximum) // 2
        minimum, maximum = (minimum, middle) if fits_at(middle) else (middle, maximum)
    try:
        return claim_at(_decimal_at(start - maximum * sign))
    except RequestInvalid:
        return None


def _index_of(value: Decimal, sign: int) -> int:
    """Return the index of a value among the decimals of 4 digits, rounded to the smaller cost."""
    rounded = _SAFER[sign].create_decimal(value)
    exponent = rounded.adjusted() - 3
    return exponent * _PER_DECADE + int(rounded.scaleb(-exponent)) - 1000


def _decimal_at(index: int) -> Decimal:
    exponent, digits = divmod(index, _PER_DECADE)
    return Decimal(digits + 1000).scaleb(exponent)


def _plain(value: Decimal) -> str:
    """Return a decimal in the wire's form, without sign or zeros in its exponent."""
    text = f"{value.normalize():f}"
    return text if len(text) < 12 else f"{value.normalize():e}".replace("e+", "e")
