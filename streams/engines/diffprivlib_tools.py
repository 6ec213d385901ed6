"""What tools and models of diffprivlib 0.6 lose between neighbours, as a multiple of their epsilon.

diffprivlib does not say which neighbours an epsilon is for. This is read off its noise, and
`tests/streams/engines/test_diffprivlib_noise.py` measures it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Final, NamedTuple

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
LOSSES: Final[Mapping[str, Loss]] = {
    **dict.fromkeys(("mean", "var", "std", "sum", "count_nonzero"), _BY_ROWS),
    **dict.fromkeys(("histogram", "histogram2d", "histogramdd"), _BINS),
    **dict.fromkeys(("quantile", "percentile", "median"), _EITHER),
    **dict.fromkeys(("LogisticRegression", "StandardScaler"), _BY_ROWS),
    "DecisionTreeClassifier": _BINS,
}
_PACKAGE: Final = "diffprivlib."


def running_tool() -> tuple[str, bool]:
    """Return the tool or model of diffprivlib that is running, and whether it weighs rows.

    Returns: "" where the caller is no part of diffprivlib.
    """
    found: FrameType | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            found = frame  # the outermost is what the user has called
        frame = frame.f_back
    if found is None:
        return "", False
    model = found.f_locals.get("self")
    name = found.f_code.co_name if model is None else type(model).__name__
    return name, found.f_locals.get("weights") is not None
