"""The rule by which one name is nearly another: probably the same one, misspelt.

A misspelt name of a dataset, a population, a team or a source begins a second budget, and one of a
result (`once`) a second draw. Whoever takes a new name is asked whether they meant the old one.

Two names are alike if they differ in nothing but

- upper and lower case,
- separators: spaces, dashes, underscores, slashes, `.`, `,`, `:` and `@`, except between digits,
- characters that look alike, such as O and 0, l, I and 1, vv and w, rn and m, cl and d, two kinds
  of quotation marks, or a Cyrillic letter and a Latin one (`accountant.look_alikes`),
- typing errors, where they count: one from five letters on, two from nine on, counted in the longer
  name. A letter is added, left out, replaced, or swapped with the next one. Of four letters only a
  swap counts, and a letter typed twice: `bleu` is `blue`, and `anna` is `ana`.

Names whose digits differ are two names, since `census-2026` and `census-2027` are two years, except
where a digit looks like a letter. A digit is never a typing error. Nor is a minus sign: a dash
directly before a digit, and after neither a digit nor a letter, as in `x=-1`. In `wave--1` the
second dash is one where programs make names, and typed twice where people do. Nor is one letter for
another where each is a whole part between separators: `team-a` and `team-b` are two.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from accountant.foreign_text import HIDDEN
from accountant.look_alikes import latin

_MAX_KNOWN: Final = 10_000
"""Among more names, typing errors are not looked for: a person waits for the answer."""
_ONE_SWAP: Final = 4
_ONE_ERROR: Final = 5
_TWO_ERRORS: Final = 9
"""The letters from which on a name may have so many typing errors, or one swap of letters."""
_SEPARATORS: Final = frozenset(".,:@/\\")
_DASH: Final = "-"
_MINUS_SIGN: Final = "\u2212"
_SIGN: Final = "\1"
"""What stands for a minus sign: a dash that is no separator."""
_MINUS: Final = re.compile(r"(?<![^\W_])-(?=[0-9])")
_TYPED_TWICE: Final = re.compile(r"[-._@:]+-")
_ROW: Final = re.compile(r"(.)\1+")
"""A letter that is repeated."""
_LETTERS_LIKE: Final = {"0": "o", "1": "li", "2": "z", "5": "s", "8": "b"}
_I_OR_L: Final = "Il"
"""What I and l are both drawn as; i and L are not."""
_LETTERS_LIKE_DIGITS: Final = frozenset("".join(_LETTERS_LIKE.values()))
_TWO_LIKE_ONE: Final = {"vv": "w", "VV": "w", "Vv": "w", "vV": "w", "rn": "m", "cl": "d"}
_DOT: Final = "\u0307"
"""Above i, which has a dot already: what folding the case of a Turkish I leaves."""
_SEPARATOR: Final = "\0"
"""What stands for separators, and stays between digits: 1.5 is not 15, and 1-11 is not 11-1."""


def most_alike(name: str, known: Iterable[str], *, edits: bool = True) -> str:
    """Return the known name that a name is probably a misspelling of.

    Args:
        edits: typing errors count: people type such names.
    Returns: "" if the name itself is known, or none is nearly it.
    """
    names = list(known)
    if name in names:
        return ""
    form_of = _typed_form if edits else _form
    form, edits = form_of(name), edits and len(names) <= _MAX_KNOWN
    near = [
        (errors, each)
        for each in names
        if (errors := _errors(form, form_of(each), edits=edits)) is not None
    ]
    return min(near)[1] if near else ""


def typing_errors(one: str, other: str, most: int) -> int:
    """Return how many letters were added, left out, replaced or swapped; `most` + 1 for more.

    Letters that look alike are equal, and no digit is added, left out or replaced.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    never = most + 1
    before, last = list[int](), [0]
    for b in other:
        last.append(never if _is_fixed(b) else last[-1] + 1)
    for i, a in enumerate(one):
        fixed = _is_fixed(a)
        row = [never if fixed else last[0] + 1]
        for j, b in enumerate(other):
            is_letter = not fixed and not _is_fixed(b)
            cost = last[j] if _looks_like(a, b) else last[j] + 1 if is_letter else never
            if not fixed:
                cost = min(cost, last[j + 1] + 1)
            if not _is_fixed(b):
                cost = min(cost, row[j] + 1)
            if i and j and _are_swapped(one[i - 1], a, other[j - 1], b):
                cost = min(cost, before[j - 1] + 1)
            row.append(min(cost, never))
        if min(row) > most:
            return never
        before, last = last, row
    return last[-1]


def _are_swapped(a: str, b: str, x: str, y: str) -> bool:
    """Tell whether `ab` is `yx`; two digits are never swapped."""
    return _looks_like(a, y) and _looks_like(b, x) and not (_is_fixed(a) and _is_fixed(b))


def _errors(one: _Form, other: _Form, *, edits: bool) -> int | None:
    """Return the typing errors that set two forms apart, None for two names."""
    if _are_drawn_alike(one.letters, other.letters):
        return 0
    longer = max(len(one.text), len(other.text))
    most = 0 if not edits or longer < _ONE_SWAP else 1 if longer < _TWO_ERRORS else 2
    if longer < _ONE_ERROR and not _are_swapped_or_doubled(one.text, other.text):
        return None
    if not most or _differ_in_a_letter_of_its_own(one.parts, other.parts):
        return None
    errors = typing_errors(one.text, other.text, most)
    return errors if errors <= most else None


def _are_swapped_or_doubled(one: str, other: str) -> bool:
    """Tell whether two texts have the same letters, or the same ones but for repeats in a row."""
    return sorted(one) == sorted(other) or _ROW.sub(r"\1", one) == _ROW.sub(r"\1", other)


def _are_drawn_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Tell whether two names are drawn as one, letter by letter, or two letters for one."""
    i = j = 0
    while i < len(one) and j < len(other):
        if _looks_like(one[i], other[j]):
            i, j = i + 1, j + 1
        elif _is_drawn_as(one[i : i + 2], other[j]):
            i, j = i + 2, j + 1
        elif _is_drawn_as(other[j : j + 2], one[i]):
            i, j = i + 1, j + 2
        else:
            return False
    return i == len(one) and j == len(other)


def _is_drawn_as(two: Sequence[str], one: str) -> bool:
    single = _TWO_LIKE_ONE.get("".join(map(latin, two)))
    return single is not None and _looks_like(single, one)


def _differ_in_a_letter_of_its_own(one: Sequence[str], other: Sequence[str]) -> bool:
    """Tell whether a part of each name is one letter, and another one: `team-a`, `team-b`."""
    if len(one) != len(other):
        return False
    return any(
        len(a) == len(b) == 1 and not _looks_like(a, b) for a, b in zip(one, other, strict=True)
    )


def _looks_like(a: str, b: str) -> bool:
    return a == b or not _looks(a).isdisjoint(_looks(b))


@lru_cache(maxsize=4096)
def _looks(letter: str) -> frozenset[str]:
    """Return what a letter is drawn as, and itself, in either case.

    Two letters alike have one in common: a small nu is drawn as a v, and the capital one as an N.
    """
    looks = {letter.casefold(), latin(letter).casefold()}
    if latin(letter) in _I_OR_L:
        looks.add(_I_OR_L)
    return frozenset(looks.union(*(_LETTERS_LIKE.get(each, "") for each in looks)))


def _is_fixed(character: str) -> bool:
    return character in {_SEPARATOR, _SIGN} or "0" <= character <= "9"


class _Form(NamedTuple):
    """A name without what two spellings of it may differ in, but for case and looks.

    Attributes:
        parts: what separators part.
        text: the parts, joined.
        letters: its letters and marks.
    """

    parts: Sequence[str]
    text: str
    letters: Sequence[str]


@lru_cache(maxsize=65_536)
def _form(name: str) -> _Form:
    text = unicodedata.normalize("NFKC", HIDDEN.sub("", name))
    plain = "".join(_DASH if _is_dash(each) else _plain_digit(each) for each in text)
    characters = _MINUS.sub(_SIGN, plain)
    words = "".join(_SEPARATOR if _separates(each) else each for each in characters).split(
        _SEPARATOR
    )
    words = [word for word in words if word]
    form = "".join(words[:1])
    for before, word in pairwise(words):
        joint = _SEPARATOR if _ends_in_digit(before) and _ends_in_digit(word[::-1]) else ""
        form += joint + word
    return _Form(words, form, _letters(form))


def _typed_form(name: str) -> _Form:
    return _form(_TYPED_TWICE.sub(_DASH, name))


def _letters(form: str) -> Sequence[str]:
    """Return the letters and marks of a form, each of them one character."""
    # A letter whose other case is two letters, such as a sharp s, is those.
    folded = "".join(each if len(each.casefold()) == 1 else each.casefold() for each in form)
    letters = list[str]()
    for each in unicodedata.normalize("NFKD", folded):
        if each != _DOT or letters[-1:] not in (["i"], ["I"]):
            letters.append(each)
    return tuple(letters)


def _is_dash(character: str) -> bool:
    return character == _MINUS_SIGN or unicodedata.category(character) == "Pd"


def _separates(character: str) -> bool:
    return latin(character) in _SEPARATORS or unicodedata.category(character) in {"Zs", "Pd", "Pc"}


def _plain_digit(character: str) -> str:
    return str(unicodedata.decimal(character)) if character.isdecimal() else character


def _ends_in_digit(word: str) -> bool:
    """Tell whether a word ends in a digit, or in a letter that stands for one beside others."""
    last = latin(word[-1]).casefold()
    is_digit = any(map(str.isdecimal, word)) and last in _LETTERS_LIKE_DIGITS
    return last.isdecimal() or is_digit
