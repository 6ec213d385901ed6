"""The loss of tools and models of diffprivlib 0.6, as a multiple of their epsilon.

diffprivlib does not say which neighbours an epsilon is for. The table follows from its noise, and
`tests/streams/engines/test_diffprivlib_noise.py` measures it. This file also finds arguments that
reveal more of the data than the tool's epsilon covers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any, Final, NamedTuple

import numpy as np

from accountant.policy import Neighbours


class Loss(NamedTuple):
    """The loss of a tool as a multiple of its epsilon, by relation; None if unknown."""

    add_remove: int | None
    replace: int | None

    def under(self, neighbours: Neighbours) -> int | None:
        """Return the multiple for one relation."""
        return self.replace if neighbours == "replace" else self.add_remove


_BY_ROWS: Final = Loss(None, 1)  # noise scale or bounds depend on the number of rows
_BINS: Final = Loss(1, 2)  # a replaced row leaves one bin and enters another
_EITHER: Final = Loss(1, 1)
_UNBOUNDED: Final = Loss(None, None)  # the classes in the data are shown without noise
LOSSES: Final[Mapping[str, Loss]] = {
    **dict.fromkeys(("mean", "var", "std", "sum", "count_nonzero"), _BY_ROWS),
    **dict.fromkeys(("histogram", "histogram2d", "histogramdd"), _BINS),
    **dict.fromkeys(("quantile", "percentile", "median"), _EITHER),
    "DecisionTreeClassifier": _BINS,
    **dict.fromkeys(("GaussianNB", "LogisticRegression"), _UNBOUNDED),
}
_PACKAGE: Final = "diffprivlib."


class RunningTool(NamedTuple):
    """A running tool or model of diffprivlib; its name is "" if none is running."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def accountant(self) -> Any:
        """The accountant of a model; None for a tool."""
        return self.arguments.get("accountant") if self.name[:1].isupper() else None


def running_tool() -> RunningTool:
    """Return the tool or model of diffprivlib that the user called, and its arguments."""
    found: FrameType | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            found = frame  # the outermost one was called by the user
        frame = frame.f_back
    if found is None:
        return RunningTool("", {})
    model = found.f_locals.get("self")
    if model is None:
        return RunningTool(found.f_code.co_name, found.f_locals)
    return RunningTool(type(model).__name__, vars(model))


def revealing_argument(tool: RunningTool) -> str:
    """Return the argument that reveals more than the tool's epsilon covers, and why; "" if none."""
    arguments = tool.arguments
    state = arguments.get("random_state")
    # A tool replaces None by numpy's own generator before it calls `check`.
    if state is not None and state is not np.random.mtrand._rand:
        return "random_state: a known seed reveals the noise. Leave it out"
    if arguments.get("weights") is not None:
        return "weights: the noise is scaled for rows that count once. Leave them out"
    if tool.name in {"histogram", "histogram2d", "histogramdd"}:
        return _bins_fault(arguments) or _values_fault(
            arguments.get("sample"), tool.name == "histogram"
        )
    if tool.name in LOSSES and "array" in arguments:
        return _number_fault(tool.name, arguments)
    return ""


def _bins_fault(arguments: Mapping[str, Any]) -> str:
    bins, ranges = arguments.get("bins"), arguments.get("range")
    parts = bins if isinstance(bins, list | tuple) else (bins,)
    if any(isinstance(each, str | bytes) for each in parts):
        return "bins as text: their number is read from the data. Pass a number, or the edges"
    if isinstance(ranges, Iterable) and any(each is None for each in ranges):
        return "None in range: the edges are read from the data. Pass (lowest, highest) for each"
    return ""


def _number_fault(name: str, arguments: Mapping[str, Any]) -> str:
    dtypes = (float, int) if name == "sum" else (float,)
    if np.dtype(arguments.get("dtype")) not in [np.dtype(each) for each in dtypes]:
        return "dtype: it rounds or wraps by more than the noise covers. Leave it out"
    axis = arguments.get("axis")
    if axis is not None and axis not in (0, (0,)):
        return "axis: each row has a result of its own. Pass axis=0"
    return _values_fault(arguments["array"], axis is None)


def _values_fault(array: Any, flattened: bool) -> str:
    """Return what is wrong with rows of several values, as far as the array's type shows it."""
    shape = getattr(array, "shape", None)
    if shape is not None:
        several = any(each != 1 for each in shape[1:])
    else:
        several = isinstance(array, list | tuple) and any(
            isinstance(each, list | tuple | np.ndarray) for each in array[:1]
        )
    if flattened and several:
        return "several values in a row: the noise covers one. Pass axis=0, or ravel() it"
    return ""
