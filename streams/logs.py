"""Structured logs to standard error. Bodies of requests are never logged."""

from __future__ import annotations

import logging.config
import os
import sys
from typing import Any, Final

import structlog

from streams.log_rate import RateLimit
from streams.loggers import first_steps, get_logger, hand_over_structured
from streams.settings import Settings, misspelt

_log = get_logger(__name__)

# They log whole addresses, and those hold who asked for what.
_CHATTY: Final = ("httpx", "httpcore", "uvicorn.access")


def logging_config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of `logging`: every library's messages in our format."""
    last = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"),
            # Rich's would show every frame's variables: hundreds of lines for one error.
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "ours": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [structlog.stdlib.add_logger_name, *first_steps()],
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
                "filters": ["away"],
            }
        },
        # While a broker is away its client logs some twenty errors a second.
        "filters": {"away": {"()": RateLimit, "library": "aiokafka"}},
        "root": {"level": settings.log_level.upper(), "handlers": ["stderr"]},
        "loggers": {name: {"level": "WARNING"} for name in _CHATTY},
    }


def configure(settings: Settings) -> None:
    """Send this package's and every library's messages to standard error, one way."""
    logging.config.dictConfig(logging_config(settings))
    hand_over_structured()
    structlog.configure(
        processors=[*first_steps(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    for name, meant in misspelt(os.environ).items():
        _log.warning("setting_unknown", name=name, meant=meant)
