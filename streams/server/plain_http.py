"""Reads plain HTTP requests and writes plain responses, without h11's state machine.

Nearly every request is plain: a GET or POST of HTTP/1.1 for a path, of printable ASCII, with at
most one Content-Length and no other framing. h11 takes ten times as long for it. Whatever is not
plain by these narrow patterns, h11 reads or writes as before, so this module rejects nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

from streams.server.strict_http import AUTHORITY

MOST_BODY: Final = 65_536
"""Bytes of a plain request's body: of a longer one, h11 must pause the reading."""

_TOKEN: Final = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_HEAD: Final = re.compile(
    rb"(GET|POST) (/[!-~]*) HTTP/1\.1\r\n((?:" + _TOKEN + rb":[ -~]*\r\n)+)\r\n"
)
_LENGTH: Final = re.compile(rb"[0-9]{1,9}")
# The value neither begins nor ends with a space, as h11 demands of it.
_FIELDS: Final = re.compile(rb"(?:" + _TOKEN + rb": (?! )[ -~]*(?<! )\r\n)*")
_FRAMING: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
_NAMED: Final = _FRAMING | {b"host", b"content-length", b"connection"}
_KEEP_ALIVE: Final = b"keep-alive"
_BODILESS: Final = frozenset({204, 304})

Headers = list[tuple[bytes, bytes]]


class PlainRequest(NamedTuple):
    """The head of a plain request.

    Attributes:
        target: the path with the query.
        headers: names in lower case.
        length: bytes of the body.
        head: bytes of the head, with its empty line.
    """

    method: str
    target: bytes
    headers: Headers
    length: int
    head: int


class PlainHead(NamedTuple):
    """The head of a plain response, as it is sent.

    Attributes:
        length: bytes of the body that must follow.
    """

    text: bytes
    length: int


def parse_request(data: bytes, max_head: int) -> PlainRequest | None:
    """Return the plain request that begins here; None if h11 must read it, or the head is partial.

    Args:
        max_head: the maximum of bytes in a head.
    """
    found = _HEAD.match(data)
    if found is None or found.end() > max_head:
        return None
    method, target, fields = found.groups()
    headers: Headers = []
    host = length = connection = None
    for line in fields.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" ")
        headers.append((name, value))
        if name not in _NAMED:
            continue
        if name == b"host" and host is None:
            host = value
        elif name == b"content-length" and length is None:
            length = value
        elif name == b"connection" and connection is None:
            connection = value
        else:
            return None  # other framing, or one of them twice
    if host is None or AUTHORITY.fullmatch(host) is None:
        return None
    if connection is not None and connection.lower() != _KEEP_ALIVE:
        return None
    if length is not None and _LENGTH.fullmatch(length) is None:
        return None
    size = 0 if length is None else int(length)
    if size > MOST_BODY:
        return None
    return PlainRequest(method.decode(), target, headers, size, found.end())


def response_head(status: int, headers: Sequence[tuple[bytes, bytes]]) -> PlainHead | None:
    """Return the head of a response with one Content-Length; None if h11 must write it."""
    if status < 200 or status in _BODILESS:
        return None
    length = None
    for name, value in headers:
        lower = name.lower()
        if lower == b"content-length" and length is None:
            length = value
        elif lower in _NAMED:
            return None
    if length is None or _LENGTH.fullmatch(length) is None:
        return None
    fields = b"".join([b"%s: %s\r\n" % header for header in headers])
    # No value may begin another header.
    if _FIELDS.fullmatch(fields) is None or fields.count(b"\n") != len(headers):
        return None
    return PlainHead(b"HTTP/1.1 %d %s\r\n%s\r\n" % (status, _phrase(status), fields), int(length))


def _phrase(status: int) -> bytes:
    return _PHRASES.get(status, b"")


_PHRASES: Final = {int(status): status.phrase.encode() for status in HTTPStatus}
