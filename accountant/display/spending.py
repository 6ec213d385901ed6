"""What is spent, reserved and left of a budget, in words: apart, and alike everywhere."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from accountant.amounts import INFINITE, format_units, parse_units, ratio_between
from accountant.display.numbers import (
    Amount,
    counted,
    counting_amounts,
    remaining_amount,
    remaining_amounts,
    spent_amount,
    spent_amounts,
    spent_percent,
    symbol,
    unspent_percent,
)
from accountant.filters.beside import ENDED, EPSILON
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import held_ratio_of


class SpendingWords(NamedTuple):
    """How much of a budget is spent, reserved and left, as percentages.

    Attributes:
        spent: without what open reservations hold. `reserved`: what they hold, "" for nothing.
    """

    spent: str
    reserved: str
    left: str

    @property
    def spent_and_reserved(self) -> str:
        """Both in a few words: `20 %`, or `20 %, 10 % reserved`."""
        return f"{self.spent}, {self.reserved} reserved" if self.reserved else self.spent


def spending(spent_ratio: float | Decimal, reserved_ratio: float | None = None) -> SpendingWords:
    """Return what is spent, reserved and left.

    Args:
        spent_ratio: the part of a budget that is spent or reserved.
        reserved_ratio: the part of the budget that open reservations hold; None for nothing.
    """
    reserved = spent_percent(reserved_ratio) if reserved_ratio else ""
    spent = spent_percent(ratio_for_good(spent_ratio, reserved_ratio))
    return SpendingWords(spent, reserved, unspent_percent(spent_ratio))


def ratio_for_good(spent_ratio: float | Decimal, reserved_ratio: float | None) -> float | Decimal:
    """Return the part of a budget that is spent for good."""
    return ratio_between(reserved_ratio, float(spent_ratio)) if reserved_ratio else spent_ratio


def spending_of(view: DatasetView) -> SpendingWords:
    """Return what is spent, reserved and left of a dataset."""
    return spending(view.spent_ratio, held_ratio_of(view))


def reserved_words(view: DatasetView) -> str:
    """Return what open reservations hold of a dataset's budget, "" for none."""
    count = view.open_reservations
    if not count:
        return ""
    return f"{spending_of(view).reserved or '0 %'} by {counted(count, 'open reservation')}"


def beside_words(view: DatasetView) -> str:
    """Return what is spent of epsilon alone, which sums of the filter's own unit do not have.

    "" while every grant costs something in that unit.
    """
    if view.totals.get(ENDED, "0") == "0":
        return ""
    unit = symbol(next(iter(view.budget)))
    spent = settled_amount(view.totals[EPSILON], view.reserved.get(EPSILON, "0"))
    held = view.reserved.get(EPSILON, "0")
    whole = amounts_words(spent, held, remaining_amount(view.budget[EPSILON]))
    what = "is spent and reserved" if held != "0" else "is spent"
    return (
        f"{view.policy.filter} has ended: since then grants cost ε alone, and the rows count "
        f"{unit}; of ε {whole} {what} in all"
    )


class SumSpending(NamedTuple):
    """What of one sum of a budget is spent, reserved and left.

    Attributes:
        reserved: None where no reservation is open.
    """

    budget: Amount
    spent: Amount
    reserved: Amount | None
    left: Amount

    @property
    def sentence(self) -> str:
        """In words: `0.2 of 1 spent, 0.1 reserved, 0.7 left`."""
        reserved = "" if self.reserved is None else f", {self.reserved.text} reserved"
        return f"{self.spent.text} of {self.budget.text} spent{reserved}, {self.left.text} left"


def sums_of(view: DatasetView) -> tuple[SumSpending, ...]:
    """Return what is spent, reserved and left of each sum that counts."""
    # A half of the budget that has ended is no longer counted.
    left = counting_amounts(view.left, view.totals, view.budget)
    held = {name: view.reserved.get(name, "0") for name in left}
    spent = spent_amounts({name: settled_amount(view.totals[name], held[name]) for name in left})
    reserved = spent_amounts(held) if view.open_reservations else (None,) * len(left)
    budget = remaining_amounts({name: view.budget[name] for name in left})
    return tuple(map(SumSpending, budget, spent, reserved, remaining_amounts(left)))


def without_elsewhere(what: str, unit: str, elsewhere: str) -> str:
    """Return that some rows do not count releases made elsewhere, "" where there are none.

    Args:
        what: the rows. `elsewhere`: what these releases have cost, in `unit`.
    """
    if elsewhere == "0":
        return ""
    amount = f"{symbol(unit)} {spent_amount(elsewhere)}"
    return f"{what} count requests alone: {amount} of releases made elsewhere is spent as well"


def settled_amount(total: str | int, reserved: str) -> str:
    """Return what of a total is spent for good: all but what open reservations hold."""
    whole, held = parse_units(str(total)), parse_units(reserved)
    return str(total) if INFINITE in (whole, held) else format_units(max(0, whole - held))


def amounts_words(spent: str, reserved: str, budget: str) -> str:
    """Return what is spent and reserved of one sum: `0.2 of 1`, or `0.2 and 0.1 of 1`.

    Args:
        spent: all but what is reserved.
        budget: as it is shown.
    """
    held = f" and {spent_amount(reserved)}" if reserved != "0" else ""
    return f"{spent_amount(spent)}{held} of {budget}"
