"""The cost in a decision, where the ledger may round."""

from __future__ import annotations

import math
from typing import Any

from tests.faults.oracle import filters, halves
from tests.faults.oracle.amounts import INFINITE, Range, units, whole_up
from tests.faults.oracle.expected import Fields


def is_priced(policy: Fields) -> bool:
    """Return whether a grant always adds a claim's price: `cost` then has its infinite amounts."""
    return not filters.is_by_state(policy) and not halves.is_beside(policy)


def plus(one: float, other: float) -> float:
    # Python cannot add a large integer to a float that is infinite.
    return INFINITE if INFINITE in (one, other) else one + other


def exact(written: Any, before: Any, least: Any) -> Any:
    """Return the cost that a total's growth means: whole units more than the least one."""
    if INFINITE in (written, before, least):
        return written
    return least + math.floor(written + whole_up(before) - before - least)


def taken(said: Fields, name: str, spent: Any, span: Range) -> Any:
    """Return the ledger's cost if it is a permitted one, otherwise the least."""
    cost, asked = said.get("cost") or {}, said.get("asked") or {}
    if name in cost:
        amount = exact(units(cost[name]), spent, span[0])
    elif name in asked:
        amount = exact(units(asked[name]), 0, span[0])
    else:
        amount = span[0]
    return amount if span[0] <= amount <= span[1] else span[0]
