"""Threads of this process by name, which tests compare before and after."""

from __future__ import annotations

import threading


def threads_named(prefix: str) -> set[threading.Thread]:
    """Return the running threads; earlier tests of this process may have left some."""
    return {each for each in threading.enumerate() if each.name.startswith(prefix)}
