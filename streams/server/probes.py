"""A separate port for health probes, so that a supervisor never takes a busy server for dead."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from litestar import Litestar

from streams.auth.authenticator import Authenticator
from streams.http.head_method import answer_head
from streams.http.host_header import host_check_at
from streams.server.access_log import AccessLog
from streams.server.connection_limits import GuestServer
from streams.server.listen import Options, bind_socket
from streams.server.monitoring import health
from streams.service.ledger_service import Readiness
from streams.settings import PREFIX, Settings
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
MAX_PROBES: Final = 16
"""Connections at the port for probes, in addition to the server's own."""
_BACKLOG: Final = 4
_REQUEST_S: Final = 5.0
_GRACE_S: Final = 1


class Probes:
    """Answers the routes of health on a separate port, over plain HTTP and without tokens.

    Args:
        settings: has port and address; without a port nothing listens.
        readiness: the answer of /readyz.
        authenticator: the server's own; with one, /readyz shows `ready` alone.
        needs_tokens: as for `monitoring.health`.
    """

    def __init__(
        self,
        settings: Settings,
        readiness: Callable[[], Readiness],
        authenticator: Authenticator | None,
        *,
        needs_tokens: bool = True,
    ) -> None:
        app = Litestar(
            health(readiness, needs_tokens=needs_tokens),
            before_request=host_check_at(settings.probe_bind),
            openapi_config=None,
            logging_config=None,
        )
        if authenticator is not None:
            app.state["authenticator"] = authenticator
        self._settings = settings
        self._app = answer_head(app)
        self._socket: socket.socket | None = None
        self._server: GuestServer | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int | None:
        """The port for probes, None without one."""
        return None if self._socket is None else int(self._socket.getsockname()[1])

    @property
    def address(self) -> str | None:
        """The address for probes, None without a port."""
        return None if self._socket is None else str(self._socket.getsockname()[0])

    async def start(self) -> None:
        """Listen.

        Raises: Refused: the port is taken.
        """
        if self._settings.probe_port is None:
            return
        host, port = self._settings.probe_bind.strip("[]"), self._settings.probe_port
        options = Options(f"{PREFIX}PROBE_PORT", f"{PREFIX}PROBE_BIND")
        self._socket = bind_socket(host, port, options)
        self._server = GuestServer(
            self._app,
            max_connections=MAX_PROBES,
            backlog=_BACKLOG,
            request_s=_REQUEST_S,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            access_log=AccessLog(self._settings.access_log),
            client_by=self._settings.limit_by,
        )
        serving = self._server.serve(sockets=[self._socket])
        self._task = asyncio.create_task(serving, name="probes")
        await self._server.wait_until_started(self._task)
        serves = "/healthz /healthz/metrics /readyz"
        _log.info("probes_listen", host=host, port=self.port, serves=serves)

    async def stop(self) -> None:
        """Stop listening. Safe to repeat."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await asyncio.wait([self._task], timeout=2 * _GRACE_S)
        if self._socket is not None:
            self._socket.close()
        self._socket = self._server = self._task = None
