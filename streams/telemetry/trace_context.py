"""The ids that follow a request through logs, spans and Kafka: an HTTP request id and a trace.

They come from outside, so they are checked here. No record of the ledger has a field for them, so
they reach neither a decision nor the decision log. The HTTP request id is not the `request_id` of
a ledger request.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from contextvars import ContextVar
from itertools import islice
from typing import Final, NamedTuple

REQUEST_ID: Final = "x-request-id"
TRACEPARENT: Final = "traceparent"
_MOST_HEADERS: Final = 100
"""Headers that are read; more than a server or a proxy sends."""
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# W3C Trace Context, level 1, 3.2: version, trace id, parent id, flags.
_TRACEPARENT: Final = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

EXCHANGE: Final = "accountant.exchange"
"""The key of a request's scope for its exchange."""

Header = tuple[bytes, bytes | None]


class TraceContext(NamedTuple):
    """A trace and the span that the next one belongs to, as a `traceparent` of version 00.

    Attributes:
        trace_id: 32 hexadecimal digits, not all 0.
        parent_id: 16 hexadecimal digits, not all 0.
        flags: two hexadecimal digits.
    """

    trace_id: str
    parent_id: str
    flags: str

    @property
    def header(self) -> bytes:
        """The value of the header `traceparent`."""
        return f"00-{self.trace_id}-{self.parent_id}-{self.flags}".encode()


class RequestIds(NamedTuple):
    """The valid ids among some headers, None for each that is missing or invalid."""

    request_id: str | None = None
    trace: TraceContext | None = None


_NO_IDS: Final = RequestIds()
_REQUEST_ID_NAME: Final = REQUEST_ID.encode()
_TRACEPARENT_NAME: Final = TRACEPARENT.encode()
_NAMES: Final = frozenset({_REQUEST_ID_NAME, _TRACEPARENT_NAME})


def parse_ids(headers: Iterable[Header]) -> RequestIds:
    """Return the ids in headers of an HTTP request or of a Kafka record.

    A header that is sent twice is ambiguous, and ignored like an invalid one.

    Args:
        headers: names in lower case, and values; untrusted.
    """
    named = [each for each in islice(headers, _MOST_HEADERS) if each[0] in _NAMES]
    if not named:
        return _NO_IDS
    request_ids = [value or b"" for name, value in named if name == _REQUEST_ID_NAME]
    traces = [value or b"" for name, value in named if name == _TRACEPARENT_NAME]
    request_id = request_ids[0] if len(request_ids) == 1 else b""
    return RequestIds(
        request_id=request_id.decode() if _REQUEST_ID.fullmatch(request_id) else None,
        trace=_parse_traceparent(traces[0]) if len(traces) == 1 else None,
    )


def _parse_traceparent(value: bytes) -> TraceContext | None:
    found = _TRACEPARENT.fullmatch(value)
    if found is None:
        return None
    made = TraceContext(*(each.decode() for each in found.groups()))
    return made if made.trace_id.strip("0") and made.parent_id.strip("0") else None


_IDS_AT_ONCE: Final = 128
_new_ids: list[str] = []


def new_request_id() -> str:
    """Return an id for a request that has none: 128 random bits as hexadecimal text."""
    while True:
        try:
            return _new_ids.pop()  # two threads never get the same one
        except IndexError:
            # The system's call for random bytes takes longer than the rest of a request's head.
            drawn = secrets.token_hex(16 * _IDS_AT_ONCE)
            _new_ids.extend(drawn[i : i + 32] for i in range(0, len(drawn), 32))


class Exchange:
    """One HTTP request and its response, for logs, spans and records.

    Attributes:
        request_id: the HTTP request id.
        trace: what is sent on as `traceparent`, None without a trace.
        caller: the name of the authenticated caller, None without one.
        lines: lines of a batch, as far as they were split; None for other requests.
        status: of the response that the server sent in place of the application's, None without
            one.
        has_ended: the response was sent; tasks that run on belong to no request.
    """

    __slots__ = ("caller", "has_ended", "lines", "request_id", "status", "trace")

    def __init__(self, request_id: str, trace: TraceContext | None) -> None:
        self.request_id = request_id
        self.trace = trace
        self.caller: str | None = None
        self.lines: int | None = None
        self.status: int | None = None
        self.has_ended = False

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the headers of responses and records: the id, and the trace if there is one."""
        named = [(REQUEST_ID, self.request_id.encode())]
        if self.trace is not None:
            named.append((TRACEPARENT, self.trace.header))
        return named


_current: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


def begin_exchange(exchange: Exchange) -> None:
    """Make an exchange the current one of this task and of the tasks that it starts."""
    _current.set(exchange)


def current_exchange() -> Exchange | None:
    """Return the exchange that this code runs for, None outside of one."""
    found = _current.get()
    return None if found is None or found.has_ended else found
