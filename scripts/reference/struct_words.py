"""What docstrings of wire types say of their fields, in the section `Attributes`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Container, Iterator
from typing import Final

import msgspec

_SECTION: Final = re.compile(r"^Attributes:\n((?: .*(?:\n|$)|\n)*)", re.MULTILINE)
_ENTRY: Final = re.compile(r"^ {4}(\w+(?:, \w+)*):\s+", re.MULTILINE)
_OF_ANOTHER: Final = re.compile(r"as of `(\w+)`\.?")


def _entries(struct: type) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield names and text of each entry in the docstring of one class."""
    section = _SECTION.search(inspect.cleandoc(vars(struct).get("__doc__") or ""))
    if section is not None:
        _, *parts = _ENTRY.split(section[1])
        for names, text in zip(parts[::2], parts[1::2], strict=True):
            yield tuple(names.split(", ")), " ".join(text.split())


def _text_of(struct: type, name: str) -> str:
    found = [text for each in struct.__mro__ for names, text in _entries(each) if name in names]
    if not found:
        raise SystemExit(f"the docstring of {struct.__name__} says nothing of {name}")
    return found[0]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def field_words(
    struct: type, known: frozenset[str] = frozenset()
) -> list[tuple[tuple[str, ...], str]]:
    """Return names on the wire of the fields of a type, with the sentence about them.

    They come in the order of the docstrings, those of inherited fields first. `as of X` is what
    the docstring of X says of the field.

    Args:
        known: fields that are explained elsewhere; they are left out.

    Raises: SystemExit: nothing explains a field, or its own docstring explains one that it has not.
    """
    wire = {each.name: each.encode_name for each in msgspec.structs.fields(struct)}
    found: list[tuple[tuple[str, ...], str]] = []
    for each in reversed(struct.__mro__):
        for names, text in _entries(each):
            if each is struct and not wire.keys() >= set(names):
                raise SystemExit(f"{struct.__name__} has not all of the fields {', '.join(names)}")
            other = _OF_ANOTHER.fullmatch(text)
            source = other and vars(sys.modules[struct.__module__])[other[1]]
            own = tuple(wire[name] for name in names if name in wire)
            found = _without(found, own)  # what is said last of a field holds
            found.append((own, _sentence(_text_of(source, names[0]) if source else text)))
    unexplained = set(wire.values()) - known.union(*(names for names, _ in found))
    if unexplained:
        raise SystemExit(
            f"{struct.__name__}: explain {', '.join(sorted(unexplained))} in the section "
            "Attributes of its docstring"
        )
    return _without(found, known)


def _without(
    found: list[tuple[tuple[str, ...], str]], names: Container[str]
) -> list[tuple[tuple[str, ...], str]]:
    left = [(tuple(name for name in entry if name not in names), text) for entry, text in found]
    return [(entry, text) for entry, text in left if entry]
