"""How often a test repeats what it repeats for confidence: see docs/explanation/testing.md."""

from __future__ import annotations

import os
from typing import Final

NIGHTLY: Final = os.environ.get("NIGHTLY") == "1"
"""Whether this is `make nightly`. It is read as modules load, since parameters depend on it."""


def rounds(few: int, many: int) -> int:
    """Return how often to repeat something: `few` times in `make test`, `many` in the night."""
    return many if NIGHTLY else few
