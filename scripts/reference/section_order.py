"""The order of a page's sections: that of its notes; what has no note follows its predecessor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

Key = TypeVar("Key")


def section_order(noted: Iterable[Key], found: Sequence[Key]) -> list[Key]:
    """Return all that a program has, in the order of the notes.

    Args:
        noted: what has a note.
        found: all of it, in the program's order.
    """
    order = list(noted)
    unknown = set(order) - set(found)
    assert not unknown, f"there are notes on what is not there: {unknown}"
    for i, each in enumerate(found):
        if each not in order:
            order.insert(order.index(found[i - 1]) + 1 if i else 0, each)
    return order
