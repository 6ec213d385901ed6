"""Which sums of a budget people see: those that the filter still counts.

A half of a filter that has ended has 0 left for ever, and a claim may have an infinite cost in
it. Neither number helps a reader, so both are left out.
"""

from __future__ import annotations

from accountant.display.numbers import Texts
from accountant.filters.base import DELTAS
from accountant.filters.beside import EPSILON


def counted_left(left: Texts, budget: Texts | None = None) -> dict[str, str]:
    """Return what is left, without the sums that no longer count.

    Args:
        budget: also leaves out the sums of which it has nothing.
    """
    names = list(left)
    shown = [name for name in names if budget is None or budget.get(name, "0") != "0"]
    own = [name for name in names if name not in DELTAS]
    if len(own) > 1 and own[-1] == EPSILON:  # basic composition counts beside the filter
        filters_own = own[:-1]
        if left[EPSILON] == "0":
            shown = [name for name in shown if name != EPSILON]
        elif all(left[name] == "0" for name in filters_own):
            shown = [name for name in shown if name not in filters_own]
    return {name: left[name] for name in shown or names[:1]}


def counted_cost(cost: Texts, left: Texts, budget: Texts | None = None) -> dict[str, str]:
    """Return a cost in the sums that count, without those that it does not move."""
    counted = counted_left(left, budget)
    shown = {
        name: text
        for name, text in cost.items()
        if (name in counted or name in DELTAS) and text not in {"0", "inf"}
    }
    return shown or {name: cost[name] for name in list(counted)[:1] if name in cost}
