"""Families of very many series, with cached text.

The client library makes a `Sample` and a line of text for each series, several microseconds each.
With ten thousand datasets that takes seconds of the CPU that decides requests. A ledger is
immutable, so its lines stay valid as long as it is the same object.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

_SUFFIXES: Final = {"counter": "_total", "info": "_info"}
_TEXT_TYPES: Final = {"info": "gauge"}  # the older format has no type `info`


class TextFamily(Metric):
    """A family with its samples as text.

    Attributes:
        chunks: lines of samples, each with its newline.
    """

    def __init__(self, name: str, documentation: str, typ: str, chunks: Iterable[str]) -> None:
        super().__init__(name, documentation, typ)
        self.chunks = list(chunks)

    @property
    def samples(self) -> list[Sample]:
        """The samples, parsed from the text, for readers other than a scrape."""
        families = text_string_to_metric_families(self.text(openmetrics=False))
        return [sample for family in families for sample in family.samples]

    @samples.setter
    def samples(self, value: Any) -> None:
        assert not value

    def text(self, *, openmetrics: bool) -> str:
        """Return header and samples in one of the two formats, which differ in the header."""
        name, typ = self.name, self.type
        if not openmetrics:
            name += _SUFFIXES.get(typ, "")
            typ = _TEXT_TYPES.get(typ, typ)
        header = f"# HELP {name} {self.documentation}\n# TYPE {name} {typ}\n"
        return header + "".join(self.chunks)


def line(name: str, labels: str, value: float) -> str:
    """Return one sample's line.

    Args:
        labels: as `label` makes them, separated by commas.
    """
    return f"{name}{{{labels}}} {float(value)!r}\n"


def label(name: str, value: str) -> str:
    """Return `name="value"`, escaped."""
    value = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'{name}="{value}"'
