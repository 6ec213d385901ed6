"""Amounts that are exact, and print with four digits, as everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import Any, Final, TypeVar, cast

import msgspec

from accountant.display.numbers import remaining_amount, spent_amount
from accountant.views.overview import UsageSum
from accountant.views.usage import UsageRow, UsageView
from accountant.views.why.report import LargestGrant, Spending, Why

T = TypeVar("T")
V = TypeVar("V")

_ROUNDED_DOWN: Final = frozenset({"left", "pace_left", "budget"})
_ROUNDED_UP: Final = frozenset(
    {"totals", "cost", "asked", "used", "spent", "held", "reserved", "odometers"}
)
"""The fields of views that have amounts; of the first ones less is the safe side."""


class SpentAmounts(dict[str, V]):
    """Costs or sums by name. The values are exact; `repr` and `str` round them up."""

    def __repr__(self) -> str:
        return _amounts_text(self, spent_amount)


class RemainingAmounts(dict[str, V]):
    """Budgets or remaining amounts, by name. `repr` and `str` round the exact values down."""

    def __repr__(self) -> str:
        return _amounts_text(self, remaining_amount)


def _amounts_text(amounts: Mapping[str, Any], short: Callable[[Any], str]) -> str:
    texts = {
        name: f"{amount:,}" if isinstance(amount, int) else short(amount)
        for name, amount in amounts.items()
    }
    return "{" + ", ".join(f"{name!r}: {text}" for name, text in texts.items()) + "}"


def with_shown_amounts(view: T) -> T:
    """Return what a service has read, with amounts that are equal and print short."""
    if isinstance(view, list | tuple):
        shown_all = [with_shown_amounts(each) for each in view]
        same = all(map(is_, shown_all, view))
        return view if same else cast(T, type(view)(shown_all))
    if not isinstance(view, msgspec.Struct):
        return view
    changed = {}
    for name in view.__struct_fields__:
        value = getattr(view, name)
        if isinstance(value, msgspec.Struct | tuple | list):
            shown: object = with_shown_amounts(value)
        elif isinstance(value, dict) and name in _ROUNDED_DOWN:
            shown = RemainingAmounts(value)
        elif isinstance(value, dict) and name in _ROUNDED_UP:
            shown = SpentAmounts(value)
        else:
            continue
        if shown is not value:
            changed[name] = shown
    return msgspec.structs.replace(view, **changed) if changed else view


def _repr(view: msgspec.Struct) -> str:
    """Return the repr of a view whose amounts are texts. They are exact, and written short."""
    fields = []
    for name in view.__struct_fields__:
        value = getattr(view, name)
        if isinstance(value, str) and value and name in _ROUNDED_DOWN | _ROUNDED_UP:
            shown = remaining_amount(value) if name in _ROUNDED_DOWN else spent_amount(value)
        else:
            shown = repr(value)
        fields.append(f"{name}={shown}")
    return f"{type(view).__name__}({', '.join(fields)})"


# The core defines these classes, and displays nothing.
for _kind in (UsageRow, UsageSum, UsageView, Why, Spending, LargestGrant):
    _kind.__repr__ = _repr  # type: ignore[assignment]
