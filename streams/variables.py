"""Names of environment variables, and those that no settings object reads.

Upper and lower case are equal. This imports no settings: a command without a variable of ours is
spared their classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from accountant.likeness import typing_errors

PREFIX: Final = "ACCOUNTANT_"
READ_ELSEWHERE: Final = ("ANALYST", "OWNER", "ANSWERS")
"""Behind the prefix, the variables that are no settings."""
LETTERS: Final = 2
"""A prefix that differs from ours by at most this many letters counts as misspelt."""
_DISTINCT: Final = len(set(PREFIX))


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


@lru_cache(maxsize=1024)  # a command looks three times at each variable of its process
def rest_of_another_prefix(name: str) -> str | None:
    """Return the part after a misspelt prefix, None if the name has no such prefix."""
    letters = set(name[: len(PREFIX) + LETTERS])
    if len(name) <= len(PREFIX) or len(letters.intersection(PREFIX)) < _DISTINCT - LETTERS:
        return None  # at once, since a process has many variables
    ends = range(len(PREFIX) - LETTERS, min(len(PREFIX) + LETTERS + 1, len(name)))
    nearest = min(
        ((typing_errors(name[:end], PREFIX, LETTERS), -end) for end in ends), default=(99, 0)
    )
    return name[-nearest[1] :] if nearest[0] <= LETTERS else None


def may_be_ours(name: str) -> bool:
    """Tell whether a name begins nearly as ours do."""
    upper = name.upper()
    return upper.startswith(PREFIX) or rest_of_another_prefix(upper) is not None
