"""Privacy filters: may this mechanism run?"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from accountant.filters.advanced_2016 import Advanced2016Filter
from accountant.filters.base import Budget, Filter, Guarantee, Parameter
from accountant.filters.basic import BasicFilter
from accountant.filters.beside import BesideBasic
from accountant.filters.ex_post import ExPostFilter
from accountant.filters.fully_adaptive import FullyAdaptiveFilter
from accountant.filters.gdp_residue import GdpResidueFilter
from accountant.filters.optimal_homogeneous import OptimalHomogeneousFilter
from accountant.filters.renyi import RenyiFilter
from accountant.filters.renyi_mixture import RenyiMixtureFilter
from accountant.filters.renyi_weighted import RenyiWeightedFilter
from accountant.filters.split import SplitFilter
from accountant.filters.unified_brownian import UnifiedBrownianFilter
from accountant.filters.zcdp import ZcdpFilter
from accountant.filters.zcdp_tight import ZcdpTightFilter

_ALL: Final[tuple[type[Filter], ...]] = (
    BasicFilter,
    Advanced2016Filter,
    FullyAdaptiveFilter,
    ZcdpFilter,
    ZcdpTightFilter,
    ExPostFilter,
    SplitFilter,
    UnifiedBrownianFilter,
    RenyiFilter,
    RenyiWeightedFilter,
    RenyiMixtureFilter,
    GdpResidueFilter,
    OptimalHomogeneousFilter,
)

_BY_NAME: Final = {kind.name: kind for kind in _ALL}
FILTERS: Final = MappingProxyType(_BY_NAME)
"""Every filter class by its name in a policy; `policy.filter_of` returns a policy's filter."""

__all__ = ["FILTERS", "BesideBasic", "Budget", "Filter", "Guarantee", "Parameter"]
