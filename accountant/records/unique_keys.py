"""JSON whose objects have each key once.

Of a key that stands twice a decoder takes the last one, and another reader the first.
"""

from __future__ import annotations


def without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON: an `object_pairs_hook`.

    Raises: ValueError: it has a key twice.
    """
    value = dict(pairs)
    if len(value) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise ValueError(f"key {name[:80]!r} stands twice in one object")
            names.add(name)
    return value
