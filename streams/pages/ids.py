"""The ids of forms' records."""

from __future__ import annotations

import os

from accountant.times import uuid7


def new_id(now: int) -> str:
    """Return the id of a new form's record.

    Args:
        now: milliseconds since 1970.
    """
    return uuid7(now, os.urandom(10))
