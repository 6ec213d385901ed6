"""A filter that keeps a library from filling the log while a broker is away."""

from __future__ import annotations

import logging
import time
from typing import Final

_A_MESSAGE_EACH_S: Final = 10.0


class RateLimit(logging.Filter):
    """Let one record of each of a library's messages through in ten seconds.

    To be added to a handler: filters of a logger do not see what its children log.
    """

    def __init__(self, library: str) -> None:
        super().__init__()
        self._library = library
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is to be logged."""
        if not record.name.startswith(self._library):
            return True
        now = time.monotonic()
        template = str(record.msg)[:200]
        if now - self._last.get(template, -_A_MESSAGE_EACH_S) < _A_MESSAGE_EACH_S:
            return False
        if len(self._last) > 1000:
            self._last.clear()
        self._last[template] = now
        return True
