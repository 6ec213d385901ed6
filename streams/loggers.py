"""This package's loggers: structlog's events through the standard library's `logging`.

Nothing of structlog's or `logging`'s global configuration is touched: a program that uses
this package as a library sees our warnings on stderr, as those of any library, and nothing
on its standard output. `streams.logs.configure` is what commands call.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

from streams.errors import Refused

_NEVER: Final = frozenset({"authorization", "body", "cookie", "password", "request", "value"})
_as_text = structlog.processors.KeyValueRenderer(key_order=["event"])


class _Style:
    structured = False


def without_secrets(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Drop what must never be in a log, whoever passes it."""
    for name in _NEVER & event.keys():
        event[name] = "(left out)"
    return event


def without_known_traceback(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Drop the traceback of a refused start: its message names the reason and what to run."""
    found = event.get("exc_info")
    error = found[1] if isinstance(found, tuple) else sys.exc_info()[1] if found else None
    if isinstance(error, Refused):
        event.pop("exc_info")
    return event


def first_steps() -> list[Any]:
    """Return the processors that each event goes through first, whatever shows it."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        without_secrets,
        without_known_traceback,
    ]


def hand_over_structured() -> None:
    """Have events reach `logging` as they are: its handlers format them."""
    _Style.structured = True


def _hand_over(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
    if _Style.structured:
        return structlog.stdlib.ProcessorFormatter.wrap_for_formatter(logger, method, event)
    for known in ("timestamp", "level"):  # `logging` has them
        event.pop(known, None)
    error = event.pop("exc_info", None)
    return (_as_text(logger, method, event),), {"exc_info": error} if error else {}


def get_logger(name: str) -> Any:
    """Return the logger of a module."""
    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, *first_steps(), _hand_over],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
