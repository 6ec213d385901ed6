"""Environment variables that no settings object reads; upper and lower case are equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PREFIX: Final = "ACCOUNTANT_"
READ_ELSEWHERE: Final = ("ANALYST", "OWNER", "ANSWERS")
"""Behind the prefix, the variables that are no settings."""


def read_variable(environ: Mapping[str, str], name: str) -> str | None:
    """Return the value of a variable, None if it is not set.

    Args:
        name: in upper case, which comes first.
    """
    if name in environ:
        return environ[name]
    return next((environ[each] for each in sorted(environ) if each.upper() == name), None)


def in_upper_case(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that options of commands read, where they have another case alone."""
    named = (f"{PREFIX}{each}" for each in ("URL", *READ_ELSEWHERE))
    found = {name: read_variable(environ, name) for name in named if name not in environ}
    return {name: value for name, value in found.items() if value is not None}
