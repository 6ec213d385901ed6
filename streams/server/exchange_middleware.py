"""Gives each request its ids, its span and its line in the access log, whatever answers it."""

from __future__ import annotations

from typing import Any, cast

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from streams.clock import steady
from streams.http.guard import answer
from streams.http.problems import problem
from streams.server.access_log import AccessLog
from streams.server.rate_limit import address_of
from streams.telemetry.logs import get_logger
from streams.telemetry.trace_context import (
    EXCHANGE,
    Exchange,
    begin_exchange,
    new_request_id,
    parse_ids,
)
from streams.telemetry.tracing import RequestSpan, Tracing

_log = get_logger(__name__)


class ExchangeMiddleware:
    """The outermost application of a server, so that refusals before routing are covered too.

    Args:
        access_log: gets a line for each request at the end of its response.
        client_by: as `address_of`.
        tracing: None without OpenTelemetry: a `traceparent` is then passed on as it came.
    """

    def __init__(
        self, app: ASGIApp, access_log: AccessLog, client_by: str | None, tracing: Tracing | None
    ) -> None:
        self._app = app
        self._access_log = access_log
        self._client_by = client_by
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        ids = parse_ids(scope["headers"])
        method = str(scope["method"])
        span = None if self._tracing is None else self._tracing.begin_request(method, ids.trace)
        sent_on = None if span is None else span.context
        exchange = Exchange(ids.request_id or new_request_id(), sent_on or ids.trace)
        # Not reset at the end: the server runs each request in a task of its own.
        begin_exchange(exchange)
        cast(Any, scope)[EXCHANGE] = exchange
        await _Response(self, exchange, scope, send).run(receive, span)

    async def pass_on(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Have the wrapped application answer."""
        await self._app(scope, receive, send)

    def write(
        self, exchange: Exchange, scope: HTTPScope, status: int | None, seconds: float, sent: int
    ) -> None:
        """Write the line of a request, if the level includes it."""
        # As it came, without the query: percent-encoded ASCII.
        path = scope["raw_path"].decode("ascii", "replace")
        if not self._access_log.includes(path, status):
            return
        self._access_log.write(
            exchange,
            method=str(scope["method"]),
            path=path,
            status=status,
            seconds=seconds,
            sent=sent,
            client=address_of(scope, self._client_by),
        )


class _Response:
    """The response to one request: adds the ids to its head, and counts what is sent."""

    def __init__(
        self, middleware: ExchangeMiddleware, exchange: Exchange, scope: HTTPScope, send: Send
    ) -> None:
        self._middleware = middleware
        self._exchange = exchange
        self._scope = scope
        self._send = send
        self._headers = [(name.encode(), value) for name, value in exchange.headers()]
        self._status: int | None = None
        self._sent = 0

    async def run(self, receive: Receive, span: RequestSpan | None) -> None:
        """Answer, and record the end however it comes."""
        began = steady()
        try:
            await self._middleware.pass_on(self._scope, receive, cast(Send, self._send_counted))
        except Exception as error:
            if self._status is not None:
                raise  # the server cuts the connection
            # The server's own 500 would have no ids.
            _log.error("request_failed", error=type(error).__name__, exc_info=error)
            what = "the server failed on this request; the server's log has the error"
            await answer(cast(Send, self._send_counted), problem(500, "internal_error", what))
        finally:
            seconds = steady() - began
            status = self._exchange.status or self._status
            self._middleware.write(self._exchange, self._scope, status, seconds, self._sent)
            if span is not None:
                route = cast(Any, self._scope).get("path_template")
                span.end(request_id=self._exchange.request_id, route=route, status=status)
            self._exchange.has_ended = True

    async def _send_counted(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"] = [*message["headers"], *self._headers]
        elif message["type"] == "http.response.body":
            self._sent += len(message.get("body", b""))
        await self._send(message)
