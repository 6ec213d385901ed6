"""Waiting for a condition, in tests without an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.patience import PATIENCE_S


def eventually(true: Callable[[], object], *, seconds: float = PATIENCE_S) -> None:
    """Return once a condition holds; give up after long enough for any machine."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)
