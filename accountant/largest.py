"""The largest claim of a kind that would still fit: what a refusal offers instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Final

import msgspec

from accountant.amounts import Units
from accountant.claim_text import claim_text
from accountant.claims import AllOf, CheckedClaim, Claim, Repeat, checked
from accountant.errors import RequestInvalid
from accountant.filters import Filter
from accountant.filters.additive import AdditiveFilter
from accountant.totals import price

# The offered parameter has 4 significant digits, rounded toward the smaller cost.
_SAFER: Final = {
    1: Context(prec=4, rounding=ROUND_FLOOR),
    -1: Context(prec=4, rounding=ROUND_CEILING),
}
_STEPS: Final = 12
_STEPS_BACK: Final = 3
_CLOSE: Final = 1e-6
_PER_DECADE: Final = 9000  # decimals of 4 digits, 1000 to 9999, times a power of 10


def largest(
    claim: Claim, kind: Filter, capacity: tuple[Units, ...], spent: tuple[Units, ...]
) -> str | None:
    """Return the largest claim like `claim` that fits, as text; None if none does.

    The claim's one knob (epsilon, rho, sigma, times, ...) is turned, to 4 digits and in the
    safe direction; everything else stays. What is returned was checked to fit.
    """
    if isinstance(claim, AllOf):
        return None
    if isinstance(claim, Repeat):
        single = price(checked(claim.claim), kind.needs)
        times = kind.count(capacity, spent, single)
        return claim_text(Repeat(claim.claim, times)) if times else None
    return _search(claim, kind, capacity, spent)


@lru_cache(maxsize=16_384)
def _search(
    claim: Claim, kind: Filter, capacity: tuple[Units, ...], spent: tuple[Units, ...]
) -> str | None:
    asked = Decimal(getattr(claim, claim.knob))
    if not asked:
        return None

    def turned(value: Decimal) -> Claim | None:
        """Return the claim with its knob there if that fits, None if it does not."""
        less = msgspec.structs.replace(claim, **{claim.knob: _plain(value)})
        fits = kind.fits(capacity, spent, price(CheckedClaim(less), kind.needs))
        return less if fits else None

    if isinstance(kind, AdditiveFilter) and claim.knob_is_power:
        return _solved(claim, kind, kind.left(capacity, spent)[0], turned)
    return _bisected(asked, claim.knob_sign, turned)


def _solved(
    claim: Claim, kind: Filter, room: Units, turned: Callable[[Decimal], Claim | None]
) -> str | None:
    """Solve log(cost) = log(what is left) in the logarithm of the knob.

    Costs grow about as a power of the knob, between 1 and 2, so a secant is there in a few
    steps; the result is rounded toward a smaller cost, and checked.
    """
    knob = claim.knob
    if room <= 0:
        return None

    def excess(x: float) -> float:
        text = f"{math.exp(x):.12g}".replace("e+", "e")
        moved = CheckedClaim(msgspec.structs.replace(claim, **{knob: text}))
        cost = price(moved, kind.needs).amounts[0]
        return math.log(cost / room) if cost else -math.inf

    try:
        start = math.log(float(getattr(claim, knob)))
        solved = math.exp(_solve(excess, start, claim.knob_sign))
        safer = _SAFER[claim.knob_sign]
        # A little too much first: what fits exactly (0.25) is then not rounded past (0.2499).
        value = safer.create_decimal_from_float(solved * (1 + 2 * _CLOSE * claim.knob_sign))
        for _ in range(_STEPS_BACK):
            found = turned(value)
            if found is not None:
                return claim_text(found)
            value = safer.next_minus(value) if claim.knob_sign > 0 else safer.next_plus(value)
    except RequestInvalid:  # what is left is below the smallest claim of this kind
        return None
    return None


def _solve(excess: Callable[[float], float], start: float, sign: int) -> float:
    x, e = start, excess(start)
    slope = 1.5 * sign
    for _ in range(_STEPS):
        if abs(e) < _CLOSE:
            break
        moved = x - e / slope
        try:
            e_moved = excess(moved)
        except (RequestInvalid, OverflowError):  # beyond the range of the knob: half as far
            slope *= 2
            continue
        if moved != x and e_moved != e and (e_moved - e) / (moved - x) * sign > 0:
            slope = (e_moved - e) / (moved - x)
        x, e = moved, e_moved
    return x


def _bisected(asked: Decimal, sign: int, turned: Callable[[Decimal], Claim | None]) -> str | None:
    """Search the decimals of 4 digits, for rules that are more than one sum."""
    start = _place(asked, sign)

    def enough(steps: int) -> bool:
        try:
            return turned(_at(start - steps * sign)) is not None
        except RequestInvalid:  # below the smallest claim of this kind
            return True

    # What was asked for does not fit, but rounded to the smaller cost it may.
    most = 1
    while not enough(most - 1):
        most *= 2
    least = most // 2 - 1  # does not fit, or -1
    most -= 1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    try:
        found = turned(_at(start - most * sign))
    except RequestInvalid:
        return None
    return None if found is None else claim_text(found)


def _place(value: Decimal, sign: int) -> int:
    """Return the number of a decimal among those of 4 digits, on the side of a smaller cost."""
    rounded = _SAFER[sign].create_decimal(value)
    exponent = rounded.adjusted() - 3
    return exponent * _PER_DECADE + int(rounded.scaleb(-exponent)) - 1000


def _at(place: int) -> Decimal:
    exponent, digits = divmod(place, _PER_DECADE)
    return Decimal(digits + 1000).scaleb(exponent)


def _plain(value: Decimal) -> str:
    """Return a decimal in the wire's form, without sign or zeros in its exponent."""
    text = f"{value.normalize():f}"
    return text if len(text) < 12 else f"{value.normalize():e}".replace("e+", "e")
