"""Compositions for parameters fixed in advance: comparison only, never an adaptive bound."""

from __future__ import annotations

from typing import Final

from tests.accountant.reference.common import Bound, Inverse, total

BOUNDS: Final[dict[str, Bound | Inverse]] = {
    "lecture_fig1_basic": Bound("upper", lambda i: total(i, "epsilon")),
}
