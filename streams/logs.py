"""Structured logs to standard error. Bodies of requests are never logged.

Loggers pass structlog's events through the standard library's `logging`. Until `configure` is
called, as commands do, no global configuration of structlog or `logging` is touched: a program
that uses this package as a library sees its warnings on stderr, as those of any library, and
nothing on its standard output.
"""

from __future__ import annotations

import io
import logging.config
import os
import sys
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

import structlog

from accountant.foreign_text import escaped, escaped_lines
from streams.clock import steady
from streams.errors import Refused
from streams.settings import Settings, unknown_now

_NEVER: Final = frozenset({"authorization", "body", "cookie", "password", "request", "value"})
_A_MESSAGE_EACH_S: Final = 10.0
# They log whole addresses, and those hold who asked for what; Kafka's client, when it debugs, also
# records and what proves a password, from which a weak one can be guessed.
_CHATTY: Final = ("httpx", "httpcore", "uvicorn.access", "aiokafka.conn")
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


def without_controls(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Write control characters as escapes: an event is one line, and acts nowhere."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = escaped(value)
    return event


def _plain_traceback(out: TextIO, error: Any) -> None:
    """Write a traceback, whose messages may repeat what others wrote."""
    lines = io.StringIO()
    structlog.dev.plain_traceback(lines, error)
    out.write(escaped_lines(lines.getvalue()))


def without_known_traceback(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Drop the traceback of a refused start: its message names the reason and what to run."""
    found = event.get("exc_info")
    error = found[1] if isinstance(found, tuple) else sys.exc_info()[1] if found else None
    if isinstance(error, Refused):
        event.pop("exc_info")
    return event


def base_processors() -> list[Any]:
    """Return the processors that each event goes through first, whatever shows it."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        without_secrets,
        without_controls,
        without_known_traceback,
    ]


def pass_events_on() -> None:
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
        processors=[structlog.stdlib.filter_by_level, *base_processors(), _hand_over],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


_log = get_logger(__name__)


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
        now = steady()
        template = str(record.msg)[:200]
        if now - self._last.get(template, -_A_MESSAGE_EACH_S) < _A_MESSAGE_EACH_S:
            return False
        if len(self._last) > 1000:
            self._last.clear()
        self._last[template] = now
        return True


def logging_config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of `logging`: every library's messages in our format."""
    last = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"),
            # Rich's would show every frame's variables: hundreds of lines for one error.
            exception_formatter=_plain_traceback,
        )
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "ours": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [structlog.stdlib.add_logger_name, *base_processors()],
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *([structlog.processors.format_exc_info] * (settings.log_format == "json")),
                    last,
                ],
            }
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "stream": "ext://sys.stderr",
                "formatter": "ours",
                "filters": ["away", "strangers"],
            }
        },
        # While a broker is away its client logs some twenty errors a second.
        # What is no HTTP, or asks for another protocol, it says line by line of whoever sends it.
        "filters": {
            "away": {"()": RateLimit, "library": "aiokafka"},
            "strangers": {"()": RateLimit, "library": "uvicorn.error"},
        },
        "root": {"level": settings.log_level.upper(), "handlers": ["stderr"]},
        "loggers": {name: {"level": "WARNING"} for name in _CHATTY},
    }


def configure(settings: Settings) -> None:
    """Send this package's and every library's messages to standard error, one way."""
    logging.config.dictConfig(logging_config(settings))
    pass_events_on()
    structlog.configure(
        processors=[*base_processors(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def configure_server(settings: Settings) -> None:
    """Configure the logs of a server, and say which variables it takes no notice of."""
    configure(settings)
    unknown = unknown_now()
    if unknown.links:
        _log.info("service_links_ignored", names=unknown.links)
    for name, meant in unknown.ignored.items():
        _log.warning("setting_unknown", name=name, meant=meant)
