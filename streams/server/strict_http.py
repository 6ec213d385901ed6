"""Strict HTTP/1.1 parsing against request smuggling: ambiguous requests are rejected.

h11 accepts the reading that the standard prefers. A proxy in front may read the same bytes in
another way, and take the rest of one request for a second one. So any ambiguity is an error.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

import h11

_TOO_LONG: Final = 431
_FOLDED: Final = re.compile(rb"\n[ \t]")
_BARE_LINE_FEED: Final = re.compile(rb"(?<!\r)\n")
_LENGTH: Final = re.compile(rb"\ncontent-length:[ \t]*([^\r\n]*?)[ \t]*\r?(?=\n)", re.IGNORECASE)
_ABSOLUTE: Final = re.compile(rb"https?://", re.IGNORECASE)
AUTHORITY: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%-]+)(?::[0-9]*)?")
"""The values that Host may have."""


class StrictConnection(h11.Connection):
    """An h11 connection that rejects ambiguous requests, and turns absolute targets into paths.

    Args:
        max_head: the maximum of bytes in a request's line and headers.

    Attributes:
        fault: what is wrong with the request, empty if nothing is.
        is_too_long: the fault is the length of the headers.
    """

    fault: str = ""
    is_too_long: bool = False

    def __init__(self, max_head: int) -> None:
        super().__init__(h11.SERVER, max_head)
        self._max_head = max_head

    def next_event(self) -> Any:
        """Return the next event, as h11 does.

        Raises: h11.RemoteProtocolError: the request must be rejected and the connection closed.
        """
        # Check the raw bytes: h11's event no longer shows repeated or folded headers.
        is_read = self.their_state in {h11.IDLE, h11.SEND_BODY}
        held = self.trailing_data[0] if is_read else b""
        try:
            event = super().next_event()
            if not isinstance(event, h11.Request | h11.EndOfMessage):
                return event
            head = held[: len(held) - len(self.trailing_data[0])]  # or the trailers of a body
            if len(head) > self._max_head:  # h11 limits only an incomplete head
                raise h11.RemoteProtocolError("too long", error_status_hint=_TOO_LONG)
            if _BARE_LINE_FEED.search(head):
                _refuse("each line of the headers must end with CRLF, not LF alone")
            return _checked(event, head) if isinstance(event, h11.Request) else event
        except h11.RemoteProtocolError as error:
            self.fault, self.is_too_long = str(error), error.error_status_hint == _TOO_LONG
            raise


def _checked(request: h11.Request, head: bytes) -> h11.Request:
    """Return the request to serve.

    Raises: h11.RemoteProtocolError: the request is ambiguous.
    """
    if _FOLDED.search(head):
        _refuse("a header must not continue on the next line")
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names:
        if b"content-length" in names:
            _refuse("Content-Length and Transfer-Encoding must not be sent together")
        if request.http_version < b"1.1":
            _refuse("HTTP/1.0 has no Transfer-Encoding")
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or any(not length.isdigit() for length in lengths):
        _refuse("Content-Length must be one number")
    hosts = [value for name, value in request.headers if name == b"host" and value]
    if any(AUTHORITY.fullmatch(host) is None for host in hosts):
        _refuse("Host must be a name or an address, with or without a port")
    if _ABSOLUTE.match(request.target):
        return _in_origin_form(request)
    if not request.target.startswith(b"/") and request.target != b"*":
        _refuse("the target must be a path, or an http:// or https:// address")
    return request


def _in_origin_form(request: h11.Request) -> h11.Request:
    """Return a request for an absolute address as one for its path, with that address's host."""
    _, _, rest = request.target.decode("ascii").partition("//")
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    if AUTHORITY.fullmatch(authority.encode("ascii")) is None:
        _refuse("the target must name a host, without a user")
    path = rest.removeprefix(authority)
    headers = [
        (name, value) for name, value in request.headers.raw_items() if name.lower() != b"host"
    ]
    return h11.Request(
        method=request.method,
        target=path if path.startswith("/") else f"/{path}",
        headers=[*headers, (b"Host", authority.encode("ascii"))],
        http_version=request.http_version,
    )


def _refuse(what: str) -> NoReturn:
    raise h11.RemoteProtocolError(what)
