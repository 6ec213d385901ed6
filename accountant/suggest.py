"""Suggestions for unknown words.

Errors compute them when they are shown, and no record has them: comparing words takes far longer
than deciding, and what `decide` writes must not change with a vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final

_LONGEST: Final = 40
_MAX_KNOWN: Final = 1000
_ONE_ERROR: Final = 5
_TWO_ERRORS: Final = 9
"""More words, or longer ones, are not compared: a person waits for the error. `_ONE_ERROR` and
`_TWO_ERRORS`: the letters from which on a name may have so many typing errors."""


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


def mistyped(word: str, known: Iterable[str]) -> str:
    """Return the known name that a name is probably a typing error of, "" if there is none.

    Names that differ in upper case or in `-`, `_`, `.`, `:` and spaces alone are the same to a
    reader. Of longer names, so are those that one or two typing errors set apart. Other digits
    mean another name: census-2025 and census-2026 belong to two years.
    """
    names, form = list(known), _letters(word)
    if word in names:
        return ""
    same = next((name for name in names if _letters(name) == form), "")
    if same or len(names) > _MAX_KNOWN:
        return same
    most = 0 if len(form) < _ONE_ERROR else 1 if len(form) < _TWO_ERRORS else 2
    digits = _digits(word)
    near = [
        (distance, name)
        for name in names
        if _digits(name) == digits
        and (distance := _typing_errors(form, _letters(name), most)) <= most
    ]
    return min(near)[1] if near else ""


def _letters(name: str) -> str:
    return "".join(each for each in name.lower() if each.isalnum())


def _digits(name: str) -> str:
    return "".join(each for each in name if each.isdigit())


def _typing_errors(one: str, other: str, most: int) -> int:
    """Return how many letters were added, left out, replaced or swapped; `most` + 1 for more."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before, last = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return last[-1]


def _form(word: str) -> str:
    """Return a word in one spelling: `add-remove` is `add_remove`."""
    return word.strip().lower().replace("-", "_").replace(" ", "_")
