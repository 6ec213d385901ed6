"""Structured logs to standard error. Bodies of requests are never logged.

Loggers pass structlog's events to the standard library's `logging`. Servers call
`configure_server`, other commands `configure_command`. Without it, the global configuration of
structlog and `logging` stays as it is: a program that uses this package as a library gets its
warnings on stderr, and nothing on standard output.

structlog imports rich, and both take longer than a short command. Most commands and clients log
nothing, so the first line imports them.
"""

from __future__ import annotations

import io
import logging.config
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, TextIO

from accountant.foreign_text import escape_lines, escape_text
from streams.clock import steady
from streams.errors import Refused
from streams.telemetry.trace_context import current_exchange

if TYPE_CHECKING:
    from streams.settings import Settings

ACCESS_LOGGER: Final = "streams.access"
"""The logger of the access log, whose lines are JSON whatever the format of the other lines."""

_SECRET_FIELDS: Final = frozenset(
    {"authorization", "body", "cookie", "password", "request", "value"}
)
_MESSAGE_INTERVAL_S: Final = 10.0
_OUTAGE_INTERVAL_S: Final = 60.0
# These log whole URLs, which contain names of callers and datasets. At debug level, Kafka's client
# also logs records, and password proofs from which a weak password can be guessed.
_WARNINGS_ONLY: Final = ("httpx", "httpcore", "uvicorn.access", "aiokafka.conn")
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
}


class _Style:
    structured = False


def without_secrets(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace the values of fields that must never be logged."""
    for name in _SECRET_FIELDS & event.keys():
        event[name] = "(left out)"
    return event


def without_controls(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Escape control characters, so that an event is one line and cannot control a terminal."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = escape_text(value)
    return event


def _plain_traceback(out: TextIO, error: Any) -> None:
    """Write a traceback with escaped lines: its messages may repeat text of senders."""
    import structlog

    lines = io.StringIO()
    structlog.dev.plain_traceback(lines, error)
    out.write(escape_lines(lines.getvalue()))


def without_known_traceback(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Drop the traceback of a `Refused`: its message names the reason and the remedy."""
    found = event.get("exc_info")
    error = found[1] if isinstance(found, tuple) else sys.exc_info()[1] if found else None
    if isinstance(error, Refused):
        event.pop("exc_info")
    return event


def with_request_ids(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Add the ids of the HTTP request that an event belongs to."""
    exchange = current_exchange()
    if exchange is not None:
        event.setdefault("http_request_id", exchange.request_id)
        if exchange.trace is not None:
            event.setdefault("trace_id", exchange.trace.trace_id)
    return event


def base_processors() -> list[Any]:
    """Return the processors of every event, before it is formatted."""
    import structlog

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        with_request_ids,
        without_secrets,
        without_controls,
        without_known_traceback,
    ]


def pass_events_on() -> None:
    """Pass events to `logging` unformatted: its handlers format them."""
    _Style.structured = True


@cache
def _as_text() -> Any:
    import structlog

    return structlog.processors.KeyValueRenderer(key_order=["event"])


def _to_logging(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
    import structlog

    if _Style.structured:
        return structlog.stdlib.ProcessorFormatter.wrap_for_formatter(logger, method, event)
    for known in ("timestamp", "level"):  # `logging` has them
        event.pop(known, None)
    error = event.pop("exc_info", None)
    return (_as_text()(logger, method, event),), {"exc_info": error} if error else {}


class _Logger:
    """The logger of a module, which imports structlog for its first line."""

    def __init__(self, name: str, fields: Mapping[str, Any] | None = None) -> None:
        self._logger = logging.getLogger(name)
        self._fields = fields or {}

    def bind(self, **fields: object) -> _Logger:
        """Return a logger that adds fields to each line."""
        return _Logger(self._logger.name, {**self._fields, **fields})

    @cached_property
    def _events(self) -> Any:
        import structlog

        return structlog.wrap_logger(
            self._logger,
            processors=[structlog.stdlib.filter_by_level, *base_processors(), _to_logging],
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=True,
            **self._fields,
        )

    def __getattr__(self, method: str) -> Any:
        level = _LEVELS.get(method)
        if level is not None and not self._logger.isEnabledFor(level):
            return _drop
        return getattr(self._events, method)


def _drop(*_values: object, **_fields: object) -> None:
    """Log nothing: the line's level is off."""


def get_logger(name: str) -> Any:
    """Return the logger of a module."""
    return _Logger(name)


_log = get_logger(__name__)


class RateLimit(logging.Filter):
    """Limits each message of a library to one in some seconds.

    Add it to a handler: a logger's filters do not apply to its child loggers.

    Args:
        library: the beginning of its loggers' names.
        seconds: between two messages of one text.
        together: all its warnings and errors count as one message.
        now: seconds that never go back.
    """

    def __init__(
        self,
        library: str,
        *,
        seconds: float = _MESSAGE_INTERVAL_S,
        together: bool = False,
        now: Callable[[], float] = steady,
    ) -> None:
        super().__init__()
        self._library = library
        self._seconds = seconds
        self._together = together
        self._now = now
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record."""
        if not record.name.startswith(self._library):
            return True
        now = self._now()
        is_joined = self._together and record.levelno >= logging.WARNING
        template = "" if is_joined else str(record.msg)[:200]
        if now - self._last.get(template, -self._seconds) < self._seconds:
            return False
        if len(self._last) > 1000:
            self._last.clear()
        self._last[template] = now
        return True


class _Formatter(logging.Formatter):
    """Formats lines as JSON or for a console."""

    def __init__(self, *, is_json: bool) -> None:
        super().__init__()
        self._is_json = is_json

    @cached_property
    def _events(self) -> logging.Formatter:
        import structlog

        last: Any = structlog.processors.JSONRenderer()
        if not self._is_json:
            last = structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"),
                # Rich's formatter shows every variable of every frame: hundreds of lines for one
                # error.
                exception_formatter=_plain_traceback,
            )
        return structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *base_processors()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *([structlog.processors.format_exc_info] * self._is_json),
                last,
            ],
        )

    def format(self, record: logging.LogRecord) -> str:
        """Return a line, or several for a traceback."""
        return self._events.format(record)


def logging_config(*, level: str, is_json: bool) -> dict[str, Any]:
    """Return the configuration of `logging`, with one format for all libraries."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "ours": {"()": _Formatter, "is_json": is_json},
            "json": {"()": _Formatter, "is_json": True},
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "stream": "ext://sys.stderr",
                "formatter": "ours",
                "filters": ["broker_errors", "bad_http", "collector_errors"],
            },
            "access": {
                "class": "logging.StreamHandler",
                "stream": "ext://sys.stderr",
                "formatter": "json",
            },
        },
        # While a broker is unreachable, its client logs about twenty errors a second, of many
        # texts. A worker says itself that it is away, and that it is back. uvicorn logs a line for
        # each connection that is not valid HTTP, OpenTelemetry for each failed export.
        "filters": {
            "broker_errors": {
                "()": RateLimit,
                "library": "aiokafka",
                "seconds": _OUTAGE_INTERVAL_S,
                "together": True,
            },
            "bad_http": {"()": RateLimit, "library": "uvicorn.error"},
            "collector_errors": {"()": RateLimit, "library": "opentelemetry"},
        },
        "root": {"level": level.upper(), "handlers": ["stderr"]},
        "loggers": {
            **{name: {"level": "WARNING"} for name in _WARNINGS_ONLY},
            # Its own setting switches it on, whatever the level of the other lines.
            ACCESS_LOGGER: {"level": "INFO", "handlers": ["access"], "propagate": False},
        },
    }


def configure_command() -> None:
    """Send the errors of this package and of all libraries to standard error."""
    logging.config.dictConfig(logging_config(level="error", is_json=False))
    pass_events_on()


def configure(settings: Settings) -> None:
    """Send the messages of this package and of all libraries to standard error."""
    import structlog

    is_json = settings.log_format == "json"
    logging.config.dictConfig(logging_config(level=settings.log_level, is_json=is_json))
    pass_events_on()
    structlog.configure(
        processors=[*base_processors(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def configure_server(settings: Settings) -> None:
    """Configure the logs of a server, and log the environment variables that it ignores."""
    from streams.settings import unknown_now

    configure(settings)
    unknown = unknown_now()
    if unknown.links:
        _log.info("service_links_ignored", names=unknown.links)
    for name, suggestion in unknown.ignored.items():
        _log.warning("setting_unknown", name=name, meant=suggestion)
