"""Where `faust -A streams.app` finds the worker's app."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Build `app` when it is asked for, not when the module is imported."""
    from streams.worker import app

    return getattr(app, name)
