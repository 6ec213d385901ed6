"""Privacy filters: may this mechanism run?"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from accountant.filters.base import Budget, Filter, Guarantee
from accountant.filters.basic import Basic
from accountant.filters.fully_adaptive import FullyAdaptive
from accountant.filters.zcdp import Zcdp
from accountant.filters.zcdp_tight import ZcdpTight

_ALL: Final[tuple[type[Filter], ...]] = (Basic, FullyAdaptive, Zcdp, ZcdpTight)

FILTERS: Final = MappingProxyType({kind.name: kind for kind in _ALL})
"""Every filter by the name that a policy uses; `policy.filter_of` makes the policy's own."""

__all__ = ["FILTERS", "Budget", "Filter", "Guarantee"]
