"""What tools and models of diffprivlib 0.6 lose between neighbours, as a multiple of their epsilon.

diffprivlib does not say which neighbours an epsilon is for. This is read off its noise, and
`tests/streams/engines/test_diffprivlib_noise.py` measures it. Arguments are here too by which a
tool shows more of its data than its epsilon says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any, Final, NamedTuple

import numpy as np

from accountant.policy import Neighbours


class Loss(NamedTuple):
    """How many times its epsilon a tool loses under each relation; None where nobody can say."""

    add_remove: int | None
    replace: int | None

    def under(self, neighbours: Neighbours) -> int | None:
        """Return the multiple under one relation."""
        return self.replace if neighbours == "replace" else self.add_remove


_BY_ROWS: Final = Loss(None, 1)  # noise is scaled, or the answer bounded, by the number of rows
_BINS: Final = Loss(1, 2)  # a replaced row leaves one bin, and comes into another
_EITHER: Final = Loss(1, 1)
_UNBOUNDED: Final = Loss(None, None)  # the classes of a data set are shown without noise
LOSSES: Final[Mapping[str, Loss]] = {
    **dict.fromkeys(("mean", "var", "std", "sum", "count_nonzero"), _BY_ROWS),
    **dict.fromkeys(("histogram", "histogram2d", "histogramdd"), _BINS),
    **dict.fromkeys(("quantile", "percentile", "median"), _EITHER),
    "DecisionTreeClassifier": _BINS,
    **dict.fromkeys(("GaussianNB", "LogisticRegression"), _UNBOUNDED),
}
_PACKAGE: Final = "diffprivlib."


class RunningTool(NamedTuple):
    """A tool or model of diffprivlib that is running; its name is "" where there is none."""

    name: str
    given: Mapping[str, Any]

    @property
    def accountant(self) -> Any:
        """What a model charges; None for a tool."""
        return self.given.get("accountant") if self.name[:1].isupper() else None


def running_tool() -> RunningTool:
    """Return the tool or model of diffprivlib that the user has called, and what it was given."""
    found: FrameType | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            found = frame  # the outermost is what the user has called
        frame = frame.f_back
    if found is None:
        return RunningTool("", {})
    model = found.f_locals.get("self")
    if model is None:
        return RunningTool(found.f_code.co_name, found.f_locals)
    return RunningTool(type(model).__name__, vars(model))


def revealing_argument(tool: RunningTool) -> str:
    """Return the argument by which a tool shows more than its epsilon, and why; "" without one."""
    given = tool.given
    state = given.get("random_state")
    # A tool that was given None has made numpy's own generator of it by now.
    if state is not None and state is not np.random.mtrand._rand:
        return "random_state: whoever knows it knows the noise. Leave it out"
    if given.get("weights") is not None:
        return "weights: noise is for rows that count once each. Leave them out"
    if tool.name in {"histogram", "histogram2d", "histogramdd"}:
        return _of_bins(given) or _of_values(given.get("sample"), tool.name == "histogram")
    if tool.name in LOSSES and "array" in given:
        return _of_numbers(tool.name, given)
    return ""


def _of_bins(given: Mapping[str, Any]) -> str:
    bins, ranges = given.get("bins"), given.get("range")
    parts = bins if isinstance(bins, list | tuple) else (bins,)
    if any(isinstance(each, str | bytes) for each in parts):
        return "bins as text: their number is read off the data. Give a number, or the edges"
    if isinstance(ranges, Iterable) and any(each is None for each in ranges):
        return "None in range: edges are read off the data. Give (lowest, highest) of each"
    return ""


def _of_numbers(name: str, given: Mapping[str, Any]) -> str:
    dtypes = (float, int) if name == "sum" else (float,)
    if np.dtype(given.get("dtype")) not in [np.dtype(each) for each in dtypes]:
        return "dtype: it rounds or wraps by more than the noise is for. Leave it out"
    axis = given.get("axis")
    if axis is not None and axis not in (0, (0,)):
        return "axis: each row has an answer of its own. Give axis=0"
    return _of_values(given["array"], axis is None)


def _of_values(array: Any, flattened: bool) -> str:
    """Return what is wrong with rows of several values, as far as that is seen without reading."""
    shape = getattr(array, "shape", None)
    if shape is not None:
        several = any(each != 1 for each in shape[1:])
    else:
        several = isinstance(array, list | tuple) and any(
            isinstance(each, list | tuple | np.ndarray) for each in array[:1]
        )
    if flattened and several:
        return "several values in a row: noise is for one. Give axis=0, one column, or ravel() it"
    return ""
