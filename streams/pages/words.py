"""Amounts, parts and times as a page tells them: short, and rounded to the safe side."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_UP,
    Context,
    Decimal,
    localcontext,
)
from typing import Final, NamedTuple

from accountant.advice import refused
from accountant.limits.wire import Scope
from accountant.times import from_iso

_SYMBOLS: Final = {"epsilon": "ε", "rho": "ρ", "delta": "δ", "mu": "μ", "eta": "η"}
_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"
_DIGITS: Final = 4
_RATIO_DIGITS: Final = 12
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_LONGEST: Final = 300
_EXACT: Final = Context(prec=100)  # more digits than a ratio may have


class Moment(NamedTuple):
    """A time of the log.

    Attributes:
        iso: as the log has it. `text`: as people read it, in UTC.
    """

    iso: str
    text: str


class Amount(NamedTuple):
    """An amount of one sum.

    Attributes:
        name: the sum's symbol, or its name.
        text: four digits. `exact`: all of them.
    """

    name: str
    text: str
    exact: str

    def __str__(self) -> str:
        return f"{self.name} {self.text}"


def symbol(name: str) -> str:
    """Return the sign of a sum, its name in words where it has none."""
    return _SYMBOLS.get(name) or name.replace("_", " ")


def short(text: str, *, up: bool) -> str:
    """Return a wire decimal with four digits, rounded up or down."""
    value = Decimal(text)
    if not value.is_finite():
        return "∞"
    if not value:
        return "0"
    with localcontext() as context:
        context.prec = _DIGITS
        context.rounding = ROUND_UP if up else ROUND_DOWN
        value = (+value).normalize(context)
    return f"{value:f}" if -4 <= value.adjusted() <= 6 else f"{value:e}".replace("e+", "e")


def amounts(texts: Mapping[str, str] | None, *, up: bool) -> tuple[Amount, ...]:
    """Return amounts by sum: what is used rounds up, what is left rounds down."""
    found = (texts or {}).items()
    return tuple(Amount(symbol(name), short(text, up=up), text) for name, text in found)


def joined(texts: Mapping[str, str] | None, *, up: bool) -> str:
    """Return amounts in a line, such as `ρ 0.0123, δ 1e-7`."""
    return ", ".join(str(each) for each in amounts(texts, up=up))


def charged(texts: Mapping[str, str] | None) -> str:
    """Return a cost in a line, rounded up; of sums behind the first those that it moves."""
    found = amounts(texts, up=True)
    return ", ".join(str(each) for i, each in enumerate(found) if not i or each.text != "0")


def part_of(amount: str, whole: str) -> float:
    """Return how much of a whole an amount is, in [0, 1]; of a whole of nothing, 1."""
    total, value = Decimal(whole), Decimal(amount)
    if not total or not value.is_finite():
        return 1.0
    return min(1.0, max(0.0, float(value / total)))


def used_percent(ratio: float | Decimal) -> str:
    """Return a used part, rounded up; 100 % is told only where nothing is left."""
    return _percent(ratio, ROUND_CEILING)


def left_percent(ratio: float | Decimal) -> str:
    """Return a part that is left, rounded down."""
    return _percent(ratio, ROUND_FLOOR)


def _percent(ratio: float | Decimal, rounding: str) -> str:
    if ratio <= 0:
        return "0 %"
    if ratio >= 1:
        return "100 %"
    # A ratio in floats is a little off, which must not be a tenth of a percent more.
    near = round(Decimal(str(ratio)), _RATIO_DIGITS)
    value = (near * 100).quantize(Decimal("0.1"), rounding=rounding)
    if not value:
        return "less than 0.1 %"
    if value >= 100:
        return "over 99.9 %"
    return f"{value.normalize():f} %"


def ratio_text(text: str) -> str:
    """Return an owner's ratio as a percentage, exactly: `0.2` is `20 %`."""
    return f"{_EXACT.multiply(Decimal(text), Decimal(100)).normalize(_EXACT):f} %"


def moment(iso: str) -> Moment:
    """Return a time of the log as people read it: `24 Nov 2026, 14:00 UTC`."""
    return Moment(iso, f"{day(iso)}, {iso[11:16]} UTC")


def day(iso: str) -> str:
    """Return the day of a time, or a day, as people read it: `24 Nov 2026`."""
    month = 3 * int(iso[5:7]) - 3
    return f"{int(iso[8:10])} {_MONTHS[month : month + 3]} {iso[:4]}"


def from_now(iso: str, now: int) -> str:
    """Return how long it is until a time, rounded up: `in 5 hours`; "" once it has come.

    Args:
        now: milliseconds since 1970.
    """
    left = from_iso(iso) - now
    if left <= 0:
        return ""
    unit, name = next(
        (unit, name)
        for unit, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"))
        if left > 2 * unit or unit == _MINUTE
    )
    count = -(-left // unit)
    return f"in {count:,} {name}{'s' * (count != 1)}"


def period(text: str) -> str:
    """Return a period in words: `P1D` is `day`, `P30D` is `30 days`."""
    days = int(text[1:-1])
    return "day" if days == 1 else f"{days:,} days"


def whose(scope: Scope, name: str | None, *, inside: bool = False) -> str:
    """Return whom a limit holds for.

    Args:
        inside: within a sentence, and not at its beginning.
    """
    said = refused.whose(scope, name)
    return said if inside else said[0].upper() + said[1:]


def cut(text: str, most: int = _LONGEST) -> str:
    """Return a text that is not longer than a table bears."""
    return text if len(text) <= most else f"{text[:most]}…"
