"""When questions are tried again whose source could not be opened, or was replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from accountant.questions import Schema
from streams.clock import steady

_FIRST_S: Final = 0.25
_LONGEST_S: Final = 5.0


@dataclass(slots=True)
class _TryPause:
    seconds: float
    until: float


class SourceRetries:
    """The pauses between two tries, for each schema.

    A thousand questions that wait for one source are no thousand tries: after each pause one of
    them has its try, until one succeeds. Then all may.
    """

    def __init__(self) -> None:
        self._pauses = dict[Schema, _TryPause]()

    def note_away(self, schema: Schema) -> None:
        """Note that a source could not be opened."""
        self._pauses.setdefault(schema, _TryPause(_FIRST_S, steady() + _FIRST_S))

    def note_there(self, schema: Schema) -> None:
        """Note that a source was opened."""
        self._pauses.pop(schema, None)

    def seconds_left(self, schema: Schema) -> float:
        """Return how long the pause still is; 0 gives the caller a try, and begins another pause.

        That pause is longer, up to 5 s.
        """
        pause, now = self._pauses.get(schema), steady()
        if pause is None:
            return 0
        if pause.until > now:
            return pause.until - now
        pause.seconds = min(2 * pause.seconds, _LONGEST_S)
        pause.until = now + pause.seconds
        return 0
