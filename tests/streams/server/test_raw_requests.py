"""Requests as bytes, to a real server: none is read in two ways, and addresses are read in all."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import h11
import pytest

from streams.server.connection_limits import MOST_HEAD
from streams.server.strict_http import StrictConnection
from tests.every_case import every_case
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer

FIRST_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
NEXT_REQUEST = FIRST_REQUEST[:-2] + b"Connection: close\r\n\r\n"
"""What a proxy that reads otherwise takes for somebody else's request; the last in any case."""
CHUNKED = b"Transfer-Encoding: chunked"
LENGTH = b"Content-Length: 4"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("raw") / "ledger.db", TestClock()) as made:
        yield made


def exchanged(server: LocalServer, *pieces: bytes) -> bytes:
    """Return all that a connection answers until the server ends it."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        response = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
            while piece := connection.recv(65_536):
                response += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
        return response


def statuses(response: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d{3}) ", response)]


def post(*headers: bytes, body: bytes = b"0\r\n\r\n", version: bytes = b"1.1") -> bytes:
    head = [b"POST /requests HTTP/" + version, b"Host: localhost", *headers]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


AMBIGUOUS = {
    "length and chunked": post(LENGTH, CHUNKED),
    "chunked and length": post(CHUNKED, LENGTH),
    "in other letters": post(b"cOnTeNt-LeNgTh: 4", b"TRANSFER-ENCODING: Chunked"),
    "with a length of nothing": post(b"Content-Length: 0", CHUNKED),
    "with the right length": post(b"Content-Length: 5", CHUNKED),
    "with one between": post(LENGTH, b"Accept: */*", CHUNKED),
    "for GET": post(LENGTH, CHUNKED).replace(b"POST", b"GET"),
    "for HEAD": post(LENGTH, CHUNKED).replace(b"POST", b"HEAD"),
    "two equal lengths": post(LENGTH, LENGTH, body=b"abcd"),
    "equal lengths in a list": post(b"Content-Length: 4, 4", body=b"abcd"),
    "two lengths": post(LENGTH, b"Content-Length: 5", body=b"abcd"),
    "two lengths in a list": post(b"Content-Length: 4, 5", body=b"abcd"),
    "length with a sign": post(b"Content-Length: +4", body=b"abcd"),
    "negative length": post(b"Content-Length: -4", body=b"abcd"),
    "length in hexadecimal": post(b"Content-Length: 0x4", body=b"abcd"),
    "length with an underscore": post(b"Content-Length: 0_4", body=b"abcd"),
    "length of no digits": post(b"Content-Length: \xb2", body=b"abcd"),
    "empty length": post(b"Content-Length:", body=b""),
    "very long length": post(b"Content-Length: " + b"0" * 30 + b"4", body=b"abcd"),
    "space before the colon": post(b"Content-Length : 4", body=b"abcd"),
    "space before the other colon": post(b"Transfer-Encoding : chunked"),
    "chunked twice": post(CHUNKED, CHUNKED),
    "chunked twice in a list": post(b"Transfer-Encoding: chunked, chunked"),
    "another coding": post(b"Transfer-Encoding: gzip, chunked"),
    "an unknown coding": post(b"Transfer-Encoding: xchunked"),
    "identity": post(b"Transfer-Encoding: identity", LENGTH, body=b"abcd"),
    "a coding in quotes": post(b'Transfer-Encoding: "chunked"'),
    "a coding behind a tab": post(b"Transfer-Encoding: \x0bchunked"),
    "chunked in HTTP/1.0": post(CHUNKED, version=b"1.0"),
    "folded coding": post(b"Transfer-Encoding:\r\n chunked"),
    "folded coding beside a length": post(LENGTH, b"Transfer-Encoding:\r\n\tchunked"),
    "folded length": post(b"Content-Length:\r\n 4", body=b"abcd"),
    "a coding that seems folded": post(b"X-Other: a\r\n Transfer-Encoding: chunked", LENGTH),
    "a length that seems folded": post(b"X-Other: a\r\n Content-Length: 4"),
    "folded with a bare line feed": post(b"X-Other: a\n Content-Length: 4"),
    "first header folded": post(b"Accept: a").replace(b"\r\nHost", b"\r\n Host"),
    "a second request behind two bare line feeds": NEXT_REQUEST[:-2] + b"X-Other: a\n\n",
    "headers ended by a bare line feed and CRLF": NEXT_REQUEST[:-2] + b"X-Other: a\n\r\n",
    "headers ended by a bare line feed": NEXT_REQUEST[:-2] + b"\n",
    "request line ended by a bare line feed": NEXT_REQUEST.replace(b"1.1\r\n", b"1.1\n"),
    "two headers divided by a bare line feed": NEXT_REQUEST[:-2] + b"X-Other: a\nX-More: b\r\n\r\n",
    "nothing but bare line feeds": NEXT_REQUEST.replace(b"\r\n", b"\n"),
    "a bare line feed before the request": b"\n" + NEXT_REQUEST,
    "trailers ended by bare line feeds": post(CHUNKED, body=b"0\r\nX-Other: a\n\n"),
    "no trailers and a bare line feed": post(CHUNKED, body=b"0\r\n\n"),
    "bare carriage return": post(b"X-Other: a\rContent-Length: 4"),
    "zero byte": post(b"X-Other: a\x00", LENGTH, body=b"abcd"),
    "no colon": post(b"Content-Length 4"),
    "two hosts": post(b"Host: localhost", LENGTH, body=b"abcd"),
    "a chunk's length with a sign": post(CHUNKED, body=b"+4\r\nabcd\r\n0\r\n\r\n"),
    "a chunk's length with 0x": post(CHUNKED, body=b"0x4\r\nabcd\r\n0\r\n\r\n"),
    "a chunk of another length": post(CHUNKED, body=b"3\r\nabcd\r\n0\r\n\r\n"),
    "a target with a user": NEXT_REQUEST.replace(b"/healthz", b"http://ana@localhost/healthz"),
    **{
        f"host {host!r}": NEXT_REQUEST.replace(b"Host: localhost", b"Host: " + host)
        for host in (
            b"127.0.0.1/evil",
            b"localhost#.evil.example",
            b"localhost?a",
            b"localhost\\@evil.example",
            b"ana@localhost",
            b"localhost, evil.example",
            b"localhost evil.example",
            b"localhost:80:80",
            b"evil.example:localhost",
            b"http://localhost",
            b"[::1",
            b"[::1]evil",
            b"::1",
            b"\xff",
        )
    },
    "a target without a host": NEXT_REQUEST.replace(b"/healthz", b"http:///healthz"),
}


@every_case("case", AMBIGUOUS)
def test_an_ambiguous_request_gets_400_and_ends_the_connection(
    server: LocalServer, case: str
) -> None:
    response = exchanged(server, AMBIGUOUS[case] + NEXT_REQUEST)
    assert statuses(response) == [400], response
    assert b"connection: close" in response.lower()
    assert b'"error":"malformed_request"' in response


def test_bytes_after_a_refused_request_are_not_read(
    server: LocalServer,
) -> None:
    # The answer itself may be lost: a connection that is closed with something unread is reset.
    response = exchanged(server, AMBIGUOUS["length and chunked"], NEXT_REQUEST, NEXT_REQUEST)
    assert statuses(response) in ([400], []), response


def test_a_bad_request_behind_a_good_one_is_refused_after_its_answer(server: LocalServer) -> None:
    response = exchanged(server, FIRST_REQUEST + AMBIGUOUS["chunked and length"] + NEXT_REQUEST)
    assert statuses(response) == [200, 400]


def headed(length: int) -> bytes:
    """Return a request whose line and headers have so many bytes."""
    head = NEXT_REQUEST[:-2] + b"X-Other: "
    return head + b"x" * (length - len(head) - 4) + b"\r\n\r\n"


@every_case("length", [MOST_HEAD + 1, 70_000, 130_000, 200_000, 1_000_000])
@every_case("pieces", [1, 2, 50])
def test_too_long_headers_get_431_however_they_arrive(length: int, pieces: int) -> None:
    connection = StrictConnection(MOST_HEAD)
    request, step = headed(length), -(-length // pieces)
    with pytest.raises(h11.RemoteProtocolError):  # noqa: PT012 (any piece may be the one)
        for at in range(0, length, step):
            connection.receive_data(request[at : at + step])
            assert connection.next_event() is h11.NEED_DATA
    assert connection.is_too_long


@every_case("end", [b"", b"\r\n\r\n"])
def test_headers_at_the_limit_are_served_and_one_byte_more_gets_431(
    server: LocalServer, end: bytes
) -> None:
    assert statuses(exchanged(server, headed(MOST_HEAD))) == [200]
    response = exchanged(server, headed(MOST_HEAD + 1 + len(end)).removesuffix(end))
    assert statuses(response) == [431]
    assert b"longer than 65536 bytes" in response


def test_too_long_trailers_get_431(server: LocalServer) -> None:
    trailer = b"0\r\nX-Other: " + b"x" * MOST_HEAD + b"\r\n\r\n"
    assert statuses(exchanged(server, post(CHUNKED, body=trailer) + NEXT_REQUEST)) == [431]


def test_a_single_length_or_chunked_body_is_read(server: LocalServer) -> None:
    for sound in (post(LENGTH, body=b"abcd"), post(CHUNKED, body=b"4\r\nabcd\r\n0\r\n\r\n")):
        response = exchanged(server, sound + NEXT_REQUEST)
        # The body has no content type; the connection stays open.
        assert statuses(response) == [415, 200]


@every_case(
    "target",
    [
        "http://{host}/healthz",
        "HTTP://{host}/healthz",
        "https://localhost/healthz",
        "http://LOCALHOST:1/healthz",
        "http://[::1]/healthz?x=http://elsewhere/",
    ],
)
def test_an_absolute_url_as_target_is_served(server: LocalServer, target: str) -> None:
    address = target.format(host=server.url.removeprefix("http://")).encode()
    assert statuses(exchanged(server, NEXT_REQUEST.replace(b"/healthz", address))) == [200]


def test_the_host_of_an_absolute_target_overrides_the_host_header(server: LocalServer) -> None:
    named = NEXT_REQUEST.replace(b"/healthz", b"http://evil.example/healthz")
    assert statuses(exchanged(server, named)) == [421]
    named = NEXT_REQUEST.replace(b"/healthz", b"http://localhost/healthz")
    assert statuses(exchanged(server, named.replace(b"Host: localhost", b"Host: evil"))) == [200]


@every_case("target", [b"*", b"localhost:80", b"ftp://localhost/healthz", b"healthz"])
@every_case("method", [b"OPTIONS", b"CONNECT", b"GET"])
def test_other_forms_of_a_target_are_refused(
    server: LocalServer, method: bytes, target: bytes
) -> None:
    response = exchanged(server, NEXT_REQUEST.replace(b"GET /healthz", method + b" " + target))
    assert statuses(response)[0] in {400, 404, 405}


@every_case(
    ("host", "status"),
    [
        (b"LOCALHOST", 200),
        (b"LocalHost:8000", 200),
        (b"localhost.", 200),
        (b"LOCALHOST.:80", 200),
        (b"localhost:", 200),
        (b"127.0.0.1", 200),
        (b"127.0.0.1:", 200),
        (b"127.255.0.1:8000", 200),
        (b"[::1]", 200),
        (b"[::1]:8000", 200),
        (b"[0:0:0:0:0:0:0:1]:8000", 200),
        (b"localhost..", 421),
        (b"localhost.evil.example", 421),
        (b"evil-localhost", 421),
        (b"127.0.0.1.evil.example:8000", 421),
        (b"", 421),
    ],
)
def test_only_names_of_this_machine_are_accepted_in_the_host_header(
    server: LocalServer, host: bytes, status: int
) -> None:
    response = exchanged(server, NEXT_REQUEST.replace(b"Host: localhost", b"Host: " + host))
    assert statuses(response) == [status]
