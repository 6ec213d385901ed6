"""What decides the partition of a dataset: its whole name, or the group before `::`."""

from __future__ import annotations

from typing import Final, Literal

Placement = Literal["name", "group"]

_END_OF_GROUP: Final = "::"


def group_of(name: str) -> str:
    """Return the group of a dataset or population, "" for none."""
    return name.partition(_END_OF_GROUP)[0] if _END_OF_GROUP in name else ""


def record_key(dataset: str, placement: Placement) -> str:
    """Return the key whose hash is a dataset's partition: the group of a name, or the name."""
    return dataset if placement == "name" else dataset.partition(_END_OF_GROUP)[0]
