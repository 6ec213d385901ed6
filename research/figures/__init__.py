"""The figures of the documentation, as numbers; `drawing` draws them with matplotlib.

Every value comes from the functions that decide: filters, odometers, comparators.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from research.figures import (
    accuracy_first,
    admitted,
    experiment,
    filters,
    lecture,
    odometers,
    residue,
)
from research.figures.picture import Picture

PICTURES: Final[MappingProxyType[str, Callable[[], Picture]]] = MappingProxyType(
    {
        "filters": filters.filters,
        "odometers": odometers.odometers,
        "odometers_2016": odometers.odometers_2016,
        "lecture": lecture.lecture,
        "admitted": admitted.admitted_by_filter,
        "residue": residue.residue,
        "experiment": experiment.experiment,
        "accuracy_first": accuracy_first.accuracy_first,
    }
)
"""Every figure by its name, which is also its file's."""

__all__ = ["PICTURES", "Picture"]
