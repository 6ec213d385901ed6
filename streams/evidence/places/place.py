"""A place that takes signed checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from streams.evidence.note import Checkpoint

Kind = Literal["directory", "topic", "webhook"]


class Place(Protocol):
    """A place that takes checkpoints; one thread at a time calls it, outside of an event loop."""

    @property
    def kind(self) -> Kind:
        """Which adapter this is, for metrics."""
        ...

    @property
    def name(self) -> str:
        """What logs, messages and people are shown of its address: nothing secret."""
        ...

    def put(self, checkpoint: Checkpoint, note: bytes) -> str:
        """Keep a checkpoint; return where it stands. It may be there already.

        Raises: Unavailable, Refused: it is not known to be kept; the message holds no secret.
        """
        ...


class ReadablePlace(Place, Protocol):
    """A place whose checkpoints can be read again."""

    def notes(self) -> Iterable[tuple[str, bytes]]:
        """Return what stands there with a name each, also what is no checkpoint.

        Raises: Unavailable, Refused: it cannot be read whole.
        """
        ...
