"""The access log: one JSON line a request, without queries, bodies, headers or tokens."""

from __future__ import annotations

from typing import Final, Literal

from accountant.foreign_text import escape_text
from streams.telemetry.logs import ACCESS_LOGGER, get_logger
from streams.telemetry.trace_context import Exchange

Level = Literal["off", "errors", "requests", "all"]

MAX_PATH: Final = 500
"""Characters of a path in a line."""
_MAX_METHOD: Final = 20
# Supervisors and Prometheus send these every few seconds.
_MONITORING: Final = frozenset({"/healthz", "/healthz/metrics", "/metrics", "/readyz"})

_log = get_logger(ACCESS_LOGGER)


class AccessLog:
    """Writes a line for each request that the level includes.

    Args:
        level: `errors` for responses from 400 on, and requests without a response; `requests` for
            all but successful probes and scrapes; `all`.
    """

    def __init__(self, level: Level) -> None:
        self._level = level

    def includes(self, path: str | None, status: int | None) -> bool:
        """Tell whether a request has a line at this level. Arguments as for `write`."""
        if self._level in {"off", "all"}:
            return self._level == "all"
        failed = status is None or status >= 400
        return failed or (self._level == "requests" and path not in _MONITORING)

    def write(
        self,
        exchange: Exchange,
        *,
        method: str | None,
        path: str | None,
        status: int | None,
        seconds: float | None,
        sent: int,
        client: str | None,
    ) -> None:
        """Write the line of a request; ask `includes` first.

        Args:
            method, path: None for a request that could not be parsed. The path has no query.
            status: None if the request ended without a response.
            seconds: from the headers of the request to the end of the response.
            sent: bytes of the response's body.
            client: the address that the rate limit counts, None for one that it does not count.
        """
        _log.info(
            "http_request",
            method=None if method is None else escape_text(method[:_MAX_METHOD]),
            path=None if path is None else _shortened(escape_text(path)),
            status=status,
            seconds=seconds if seconds is None else round(seconds, 6),
            bytes=sent,
            caller=exchange.caller,
            client=client,
            http_request_id=exchange.request_id,
            trace_id=None if exchange.trace is None else exchange.trace.trace_id,
            **({} if exchange.lines is None else {"lines": exchange.lines}),
        )


def _shortened(path: str) -> str:
    return path if len(path) <= MAX_PATH else f"{path[:MAX_PATH]}..."
