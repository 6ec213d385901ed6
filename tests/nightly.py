"""The number of repetitions in tests with random inputs: see docs/explanation/testing.md."""

from __future__ import annotations

import os
from typing import Final

NIGHTLY: Final = os.environ.get("NIGHTLY") == "1"
"""Whether this is `make nightly`. It is read as modules load, since parameters depend on it."""


def examples(many: int) -> int:
    """Return a number of Hypothesis examples: `many` in `make nightly`, a third in `make test`."""
    return rounds(max(10, many // 3), many)


def rounds(few: int, many: int) -> int:
    """Return a number of repetitions: `few` in `make test`, `many` in `make nightly`."""
    return many if NIGHTLY else few
