"""The largest claim of a kind that would still fit: what a refusal offers instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Final

import msgspec

from accountant.amounts import Units
from accountant.claims import AllOf, CheckedClaim, Claim, Repeat, checked
from accountant.claims.price import price
from accountant.claims.text import claim_text
from accountant.errors import RequestInvalid
from accountant.filters import Filter

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

    def excess(x: float) -> float | None:
        text = f"{math.exp(x):.12g}".replace("e+", "e")
        moved = CheckedClaim(msgspec.structs.replace(claim, **{claim.knob: text}))
        return kind.excess(capacity, spent, price(moved, kind.needs))

    try:
        solved = _solve(excess, math.log(float(asked)), claim.knob_sign)
        if solved is _NOTHING_FITS:
            return None
        if solved is not None:
            found = _step_back(math.exp(solved), claim.knob_sign, turned)
            if found is not None:
                return claim_text(found)
    except RequestInvalid:  # what is left is below the smallest claim of this kind
        if claim.knob_is_power:
            return None
    found = _bisected(asked, claim.knob_sign, turned)
    return None if found is None else claim_text(found)


def _step_back(solved: float, sign: int, turned: Callable[[Decimal], Claim | None]) -> Claim | None:
    """Return the claim at 4 digits of a root, rounded toward a smaller cost.

    None unless it fits and the next larger one does not: then the root is none.
    """
    safer = _SAFER[sign]
    # A little too much first: what fits exactly (0.25) is then not rounded past (0.2499).
    value = safer.create_decimal_from_float(solved * (1 + 2 * _CLOSE * sign))
    for _ in range(_STEPS_BACK):
        found = turned(value)
        if found is not None:
            more = safer.next_plus(value) if sign > 0 else safer.next_minus(value)
            return found if turned(more) is None else None
        value = safer.next_minus(value) if sign > 0 else safer.next_plus(value)
    return None


def _solve(excess: Callable[[float], float | None], start: float, sign: int) -> float | None:
    """Return where a filter's excess is 0, in the logarithm of the knob.

    Costs grow about as a power of the knob, between 1 and 2, so a secant is there in a few
    steps. `_NOTHING_FITS` where turning the knob does not help; None where it is not found.
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
        except (RequestInvalid, OverflowError):  # beyond the range of the knob: half as far
            slope *= 2
            continue
        if e_moved is None or not math.isfinite(e_moved):
            return None
        if moved != x and e_moved != e and (e_moved - e) / (moved - x) * sign > 0:
            slope = (e_moved - e) / (moved - x)
        x, e = moved, e_moved
    return _NOTHING_FITS if e == first > 0 else None


def _bisected(asked: Decimal, sign: int, turned: Callable[[Decimal], Claim | None]) -> Claim | None:
    """Search the decimals of 4 digits: slow, and never wrong."""
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
        return turned(_at(start - most * sign))
    except RequestInvalid:
        return None


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
