"""Amounts and percentages for people: what is spent is rounded up, what is left down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import takewhile
from typing import Final, Literal, NamedTuple

from accountant.filters.base import DELTAS
from accountant.filters.beside import ENDED, EPSILON, WITHOUT

Texts = Mapping[str, str]
"""Exact amounts by the name of their sum."""

Tone = Literal["calm", "near", "full"]

_SYMBOLS: Final = {"epsilon": "ε", "rho": "ρ", "delta": "δ", "mu": "μ", "eta": "η"}
_DIGITS: Final = 4  # of an amount
_WHOLE: Final = 1_000  # tenths of a percent
_RATIO_DIGITS: Final = 14
_NEAR: Final = 0.8
_EXACT: Final = Context(prec=100)  # more digits than a ratio, or two amounts, may have
_TIME: Final = "epsilon_squared"
_MEAN: Final = "kl_mean"  # a sum of advanced_2016, whose rule ties the two together
_NO_BOUND: Final = "no bound"


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


def counted(count: int, thing: str) -> str:
    """Return a number of things: `1 dataset`, `2,000 datasets`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def symbol(name: str) -> str:
    """Return the sign of a sum, its name in words where it has none."""
    return _SYMBOLS.get(name) or name.replace("_", " ")


def spent_amount(amount: str | float | Decimal) -> str:
    """Return an amount that is spent, or a cost, with four digits, rounded up."""
    return _short(amount, ROUND_CEILING)


def remaining_amount(amount: str | float | Decimal) -> str:
    """Return an amount that is left, or a budget, with four digits, rounded down."""
    return _short(amount, ROUND_FLOOR)


def _short(amount: str | float | Decimal, rounding: str) -> str:
    value = Decimal(str(amount))
    if not value.is_finite():
        return "∞"
    if not value:
        return "0"
    value = Context(prec=_DIGITS, rounding=rounding).plus(value).normalize()
    return f"{value:f}" if -4 <= value.adjusted() <= 6 else f"{value:e}".replace("e+", "e")


def spent_amounts(texts: Texts | None) -> tuple[Amount, ...]:
    """Return amounts that are spent, by sum."""
    found = (texts or {}).items()
    return tuple(Amount(symbol(name), spent_amount(text), text) for name, text in found)


def counting_amounts(
    remaining: Texts | None,
    totals: Mapping[str, str | int] | None = None,
    budget: Texts | None = None,
) -> Texts:
    """Return the amounts of the sums that the filter still counts.

    Where basic composition stands beside a filter, one of the two may have ended: its sums have
    nothing left and limit nothing. A Renyi order that a claim has used up is infinite. A sum may
    also have no budget at all, such as delta under a pure budget. None of these is shown, unless
    nothing else is there.

    Args:
        remaining: in the order of the filter's sums.
        totals: of the same decision or view; without them, a half with nothing left has ended,
            unless the other has nothing left, too.
        budget: of the dataset, where it is known.
    """
    found, after = remaining or {}, totals or {}
    ended = {name for name in found if after.get(name) == "inf"}
    for name, text in found.items():
        unused = text == "0" and str(after.get(name, "")) == "0"
        if unused or (budget or {}).get(name) == "0":
            ended.add(name)
    own = [*takewhile(lambda name: name != EPSILON, found)] if EPSILON in found else []
    own = [name for name in own if name not in DELTAS]
    if own:  # basic composition counts beside the filter
        if totals:
            without = str(after.get(WITHOUT, "0")) != "0"
            filter_ended = str(after.get(ENDED, "0")) != "0"
        else:
            # Where nothing is left of either, neither shows which one has ended.
            is_filter_over = all(found[name] == "0" for name in own)
            without = found[EPSILON] == "0" and not is_filter_over
            filter_ended = found[EPSILON] != "0" and is_filter_over
        ended |= {*own} if filter_ended else set()
        ended |= {EPSILON} if without else set()
    kept = {name: text for name, text in found.items() if name not in ended}
    return kept or dict([*found.items()][:1])


def counting_cost(
    cost: Texts | None,
    remaining: Texts | None,
    totals: Mapping[str, str | int] | None = None,
    budget: Texts | None = None,
) -> Texts:
    """Return a cost in the sums that the filter counts, without those that it does not move.

    Args:
        remaining, totals, budget: as of `counting_amounts`; without `remaining`, every sum that
            it moves.
    """
    whole = cost or {}
    names = counting_amounts(remaining, totals, budget) if remaining else whole
    shown = {
        name: text
        for name, text in whole.items()
        if (name in names or (name in DELTAS and name in (remaining or whole)))
        and text not in {"0", "inf"}
    }
    first = {name: whole[name] for name in list(names)[:1] if name in whole}
    return shown or {name: text for name, text in first.items() if text != "inf"}


def remaining_ratio(
    remaining: Texts | None, totals: Mapping[str, str | int] | None
) -> Decimal | None:
    """Return about which part of the budget a grant leaves, None where its amounts do not say.

    A view has the exact part, as `spent_ratio`. This one is never above it.

    Args:
        remaining, totals: of a decision.
    """
    after = totals or {}
    wholes = {
        name: _EXACT.add(Decimal(text), Decimal(str(after[name])))
        for name, text in counting_amounts(remaining, after).items()
        if name in after and name not in DELTAS
    }
    ratios = {
        name: part_of((remaining or {})[name], whole) for name, whole in wholes.items() if whole
    }
    if not ratios:
        return None
    if is_tied(ratios):
        own = {name: ratio for name, ratio in ratios.items() if name not in {_TIME, _MEAN}}
        ratios = own | {_TIME: _advanced_2016_ratio(wholes, after)}
    return max(min(ratios[name] for name in names) for names in sufficient_sums(ratios))


def sufficient_sums(names: Iterable[str]) -> list[list[str]]:
    """Return the groups of sums of which one with room for a request is enough, without deltas.

    A group has room where each of its sums has. Of Renyi orders each is a group, and so is basic
    composition beside a filter.
    """
    own = [name for name in names if name not in DELTAS]
    of_filter = [name for name in own if name != EPSILON]
    orders = all(name.startswith("renyi_") for name in of_filter)
    groups = [[name] for name in of_filter] if orders else [of_filter]
    return [*groups, [EPSILON]] if EPSILON in own else groups


def is_tied(names: Iterable[str]) -> bool:
    """Tell whether one rule ties some sums together: the amount of each alone says too little."""
    return _MEAN in names


def _advanced_2016_ratio(wholes: Mapping[str, Decimal], after: Mapping[str, str | int]) -> Decimal:
    """Return the part that is left where one rule ties two sums: see the filter's `progress`."""
    time, mean = Decimal(str(after[_TIME])), Decimal(str(after[_MEAN]))
    above_least = max(Decimal(0), _EXACT.subtract(_EXACT.add(mean, mean), time))
    part, twice = _EXACT.divide(time, wholes[_TIME]), _EXACT.add(wholes[_MEAN], wholes[_MEAN])
    spent = _EXACT.add(part, _EXACT.divide(above_least, twice))
    return max(Decimal(0), _EXACT.subtract(Decimal(1), spent))


def remaining_headline(remaining: Texts | None, totals: Mapping[str, str | int] | None) -> str:
    """Return the one number that leads after a grant: `94.9 % left`; "" where it is not known."""
    ratio = remaining_ratio(remaining, totals)
    return "" if ratio is None else f"{remaining_percent(ratio)} left"


def remaining_amounts(texts: Texts | None) -> tuple[Amount, ...]:
    """Return amounts that are left, by sum."""
    found = (texts or {}).items()
    return tuple(Amount(symbol(name), remaining_amount(text), text) for name, text in found)


def odometer_amounts(readings: Texts) -> tuple[Amount, ...]:
    """Return readings of odometers, each by its name, in nats; "no bound" for an infinite one."""
    return tuple(
        Amount(name, _NO_BOUND if text == "inf" else spent_amount(text), text)
        for name, text in readings.items()
    )


def line(amounts: Iterable[Amount]) -> str:
    """Return amounts in a line: `ρ 0.0123, δ 1e-7`."""
    return ", ".join(map(str, amounts))


def spent_line(texts: Texts | None) -> str:
    """Return a cost in a line; of sums behind the first one those that it moves."""
    return line(nonzero_amounts(spent_amounts(texts)))


def nonzero_amounts(amounts: Iterable[Amount]) -> tuple[Amount, ...]:
    """Return the first amount, and of those behind it those that are not 0."""
    return tuple(each for i, each in enumerate(amounts) if not i or each.text != "0")


def remaining_line(texts: Texts | None) -> str:
    """Return what is left in a line."""
    return line(remaining_amounts(texts))


def sufficient_line(texts: Texts, *, deltas: bool = True) -> str:
    """Return what a request may take in a line; `or` joins what is enough alone.

    Args:
        deltas: also the deltas, which count in any case.
    """
    ways = [{name: texts[name] for name in names} for names in sufficient_sums(texts)]
    own = " or ".join(remaining_line(each) for each in ways if each)
    rest = {name: text for name, text in texts.items() if deltas and name in DELTAS}
    return ", ".join(filter(None, (own, remaining_line(rest))))


def counting_line(remaining: Texts | None, budget: Texts | None) -> str:
    """Return what is left of a budget in a line, of the sums that the filter still counts."""
    return remaining_line(counting_amounts(remaining, budget=budget))


def part_of(amount: str | Decimal, whole: str | Decimal) -> Decimal:
    """Return which part of a whole an amount is, in [0, 1]; of a whole of nothing, 1."""
    total, value = Decimal(whole), Decimal(amount)
    if not total or not value.is_finite():
        return Decimal(1)
    return min(Decimal(1), max(Decimal(0), _EXACT.divide(value, total)))


def counted_words(spent_ratio: float, unit: str, spent: str, budget: str) -> str:
    """Return what a percentage of one sum is a part of: the budget, or the sum alone.

    Where basic composition stands beside the filter, or several sums decide, one sum alone does
    not say how much of the budget is spent.

    Args:
        spent_ratio: the spent part of the budget.
        unit, spent, budget: the sum.
    """
    alone = spent_percent(part_of(spent, budget)) == spent_percent(spent_ratio)
    return "the budget" if alone else symbol(unit)


def spent_percent(ratio: float | Decimal) -> str:
    """Return the spent part of a whole, rounded up to a tenth: `12.4 %`."""
    return _percent(ratio, _tenths(ratio, ROUND_CEILING))


def remaining_percent(ratio: float | Decimal) -> str:
    """Return the part of a whole that is left, rounded down to a tenth: `12.3 %`."""
    return _percent(ratio, _tenths(ratio, ROUND_FLOOR))


def unspent_percent(ratio: float | Decimal) -> str:
    """Return the part that is left where another part is spent, rounded down to a tenth."""
    return _percent(1 - ratio, _WHOLE - _tenths(ratio, ROUND_CEILING))


def _tenths(ratio: float | Decimal, rounding: str) -> int:
    """Return a ratio in tenths of a percent."""
    # Floats and costs are a little off, which must not become a tenth of a percent.
    near = round(Decimal(str(ratio)), _RATIO_DIGITS)
    return int((near * _WHOLE).to_integral_value(rounding))


def _percent(ratio: float | Decimal, tenths: int) -> str:
    """Return a percentage; 0 % and 100 % are said of nothing and of all alone."""
    if ratio <= 0:
        return "0 %"
    if ratio >= 1:
        return "100 %"
    if tenths <= 0:
        return "under 0.1 %"
    if tenths >= _WHOLE:
        return "over 99.9 %"
    return exact_percent(str(Decimal(tenths) / _WHOLE))


def tone(ratio: float | Decimal) -> Tone:
    """Return how a bar is drawn: `near` from four fifths on, `full` where nothing is left."""
    if ratio >= 1:
        return "full"
    return "near" if ratio >= _NEAR else "calm"


def exact_percent(ratio: str) -> str:
    """Return an owner's ratio as a percentage with all its digits: `0.00125` is `0.125 %`."""
    return f"{percent_digits(ratio)} %"


def percents(ratios: Iterable[str]) -> str:
    """Return an owner's ratios in a line: `50 %, 90 %`."""
    return ", ".join(map(exact_percent, ratios))


def percent_digits(ratio: str) -> str:
    """Return an owner's ratio as somebody types a percentage: `0.2` is `20`."""
    return f"{_EXACT.multiply(Decimal(ratio), Decimal(100)).normalize(_EXACT):f}"
