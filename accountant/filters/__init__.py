"""Privacy filters: may this mechanism run?"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from accountant.filters.advanced_2016 import Advanced2016
from accountant.filters.base import Budget, Filter, Guarantee, Parameter
from accountant.filters.basic import Basic
from accountant.filters.beside import BesideBasic
from accountant.filters.ex_post import ExPost
from accountant.filters.fully_adaptive import FullyAdaptive
from accountant.filters.gdp_residue import GdpResidue
from accountant.filters.optimal_homogeneous import OptimalHomogeneous
from accountant.filters.renyi import Renyi
from accountant.filters.renyi_mixture import RenyiMixture
from accountant.filters.renyi_weighted import RenyiWeighted
from accountant.filters.split import Split
from accountant.filters.unified_brownian import UnifiedBrownian
from accountant.filters.zcdp import Zcdp
from accountant.filters.zcdp_tight import ZcdpTight

_ALL: Final[tuple[type[Filter], ...]] = (
    Basic,
    Advanced2016,
    FullyAdaptive,
    Zcdp,
    ZcdpTight,
    ExPost,
    Split,
    UnifiedBrownian,
    Renyi,
    RenyiWeighted,
    RenyiMixture,
    GdpResidue,
    OptimalHomogeneous,
)

_BY_NAME: Final = {kind.name: kind for kind in _ALL}
FILTERS: Final = MappingProxyType(_BY_NAME)
"""Every filter class by its name in a policy; `policy.filter_of` returns a policy's filter."""

__all__ = ["FILTERS", "BesideBasic", "Budget", "Filter", "Guarantee", "Parameter"]
