"""Suggestions for unknown words; whether a new name is nearly another is `likeness`.

Errors compute them when they are shown, and no record has them: comparing words takes far longer
than deciding, and what `decide` writes must not change with a vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final

_LONGEST: Final = 40
_MAX_KNOWN: Final = 1000
"""More words, or longer ones, are not compared: a person waits for the error."""


def closest(word: object, known: Iterable[str]) -> str:
    """Return the most similar known word, "" if none is similar."""
    if not isinstance(word, str) or not 0 < len(word) <= _LONGEST:
        return ""
    by_form: dict[str, str] = {}
    for name in known:
        by_form.setdefault(_form(name), name)
    if len(by_form) > _MAX_KNOWN:
        return ""
    near = get_close_matches(_form(word), by_form, n=1)
    return by_form[near[0]] if near and by_form[near[0]] != word else ""


def did_you_mean(word: object, known: Iterable[str]) -> Callable[[], str]:
    """Return a function that computes `did you mean X?`, or "", for the `hint` of an error."""

    def hint() -> str:
        meant = closest(word, known)
        return f"did you mean {meant}?" if meant else ""

    return hint


def _form(word: str) -> str:
    """Return a word in one spelling: `add-remove` is `add_remove`."""
    return word.strip().lower().replace("-", "_").replace(" ", "_")
