"""HTTP/1.1 as no two readers understand it in two ways: what a proxy may read otherwise is refused.

h11 takes the one reading that the standard prefers. Where a proxy in front takes another, the rest
of one request is a second one (request smuggling), so that the doubt itself is an error here.
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
_AUTHORITY: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%-]+)(?::[0-9]*)?")


class StrictConnection(h11.Connection):
    """h11 that refuses what is ambiguous, and turns absolute targets into paths.

    Args:
        most_head: bytes of a request's line and headers, however they arrive.

    Attributes:
        fault: what is wrong with what came, empty as long as nothing is.
        is_too_long: the fault is the length of the headers.
    """

    fault: str = ""
    is_too_long: bool = False

    def __init__(self, most_head: int) -> None:
        super().__init__(h11.SERVER, most_head)
        self._most_head = most_head

    def next_event(self) -> Any:
        """Return what came next, as h11 does.

        Raises: h11.RemoteProtocolError: the connection must be refused and closed.
        """
        # Headers that are repeated or folded do not look so any more in the event.
        is_read = self.their_state in {h11.IDLE, h11.SEND_BODY}
        held = self.trailing_data[0] if is_read else b""
        try:
            event = super().next_event()
            if not isinstance(event, h11.Request | h11.EndOfMessage):
                return event
            head = held[: len(held) - len(self.trailing_data[0])]  # or what follows the last chunk
            if len(head) > self._most_head:  # h11 looks only at what is incomplete
                raise h11.RemoteProtocolError("too long", error_status_hint=_TOO_LONG)
            if _BARE_LINE_FEED.search(head):
                _refuse("each line of the headers must end with CRLF, not LF alone")
            return _checked(event, head) if isinstance(event, h11.Request) else event
        except h11.RemoteProtocolError as error:
            self.fault, self.is_too_long = str(error), error.error_status_hint == _TOO_LONG
            raise


def _checked(request: h11.Request, head: bytes) -> h11.Request:
    """Return a request as it is served.

    Raises: h11.RemoteProtocolError: it can be read in two ways.
    """
    if _FOLDED.search(head):
        _refuse("a header must not go on in the next line")
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names:
        if b"content-length" in names:
            _refuse("Content-Length must not stand beside Transfer-Encoding")
        if request.http_version < b"1.1":
            _refuse("HTTP/1.0 has no Transfer-Encoding")
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or any(not length.isdigit() for length in lengths):
        _refuse("Content-Length must be one number")
    hosts = [value for name, value in request.headers if name == b"host" and value]
    if any(_AUTHORITY.fullmatch(host.decode("latin-1")) is None for host in hosts):
        _refuse("Host must be a name or an address, and a port if any")
    if _ABSOLUTE.match(request.target):
        return _in_origin_form(request)
    if not request.target.startswith(b"/") and request.target != b"*":
        _refuse("the target must be a path, or an address with http")
    return request


def _in_origin_form(request: h11.Request) -> h11.Request:
    """Return a request for an address as one for its path, with the host that the address names."""
    _, _, rest = request.target.decode("ascii").partition("//")
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    if _AUTHORITY.fullmatch(authority) is None:
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
