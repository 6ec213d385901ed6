"""Plain requests and responses: read and written as h11 reads and writes them."""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from typing import Any

import h11
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.server.connection_limits import MOST_HEAD, BoundedServer
from streams.server.plain_exchange import PlainCycle
from streams.server.plain_http import parse_request, response_head
from streams.server.strict_http import StrictConnection
from tests.every_case import every_case

PLAIN = b"POST /requests?a=%20 HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 4\r\n\r\nabcd"
LINES = [
    b"Host: localhost",
    b"Host:",
    b"host: [::1]:80",
    b"Host: a b",
    b"Content-Length: 4",
    b"content-length:3",
    b"Content-Length: 0",
    b"Content-Length: +4",
    b"Content-Length: 4, 4",
    b"Content-Length: 99999999999",
    b"Transfer-Encoding: chunked",
    b"Connection: keep-alive",
    b"Connection: close",
    b"Connection: upgrade",
    b"Upgrade: websocket",
    b"Expect: 100-continue",
    b"Accept: \t*/* ",
    b"X: \x80",
    b"X: a\x0bb",
    b"X : a",
    b" folded",
    b"X-Long: " + b"x" * 200,
    b"",
    b"\nX: y",
]
FIRST_LINES = [
    b"POST /requests HTTP/1.1",
    b"GET /a%41?q=1 HTTP/1.1",
    b"HEAD / HTTP/1.1",
    b"POST http://localhost/requests HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"POST /requests HTTP/1.0",
    b"POST  /requests HTTP/1.1",
    b"post /requests HTTP/1.1",
    b"POST /\x80 HTTP/1.1",
    b"POST /requests HTTP/1.1 ",
]


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Return the bytes of one request, often a plain one, often slightly wrong."""
    first = draw(st.sampled_from(FIRST_LINES[:2]) | st.sampled_from(FIRST_LINES))
    lines = draw(st.lists(st.sampled_from(LINES), max_size=6))
    lines += draw(st.sampled_from([[], [b"Host: localhost"], [b"Host: a", b"Content-Length: 4"]]))
    end = draw(st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"]))
    made = end.join([first, *draw(st.permutations(lines))]) + end + end
    return made + draw(st.sampled_from([b"", b"abcd", b"abc", b"4\r\nabcd\r\n0\r\n\r\n"]))


def read_by_h11(data: bytes) -> tuple[h11.Request, bytes]:
    """Return the request as h11 reads it, and the part of its body that is there."""
    connection = StrictConnection(MOST_HEAD)
    connection.receive_data(data)
    request = connection.next_event()
    assert isinstance(request, h11.Request)
    assert not connection.they_are_waiting_for_100_continue
    body = b""
    while isinstance(event := connection.next_event(), h11.Data):
        body += event.data
    assert event is h11.NEED_DATA or isinstance(event, h11.EndOfMessage)
    assert connection.their_state in {h11.SEND_BODY, h11.DONE}  # neither must it close
    return request, body


@settings(max_examples=500)
@given(messages())
@example(PLAIN)
def test_a_plain_request_is_what_h11_reads(data: bytes) -> None:
    request = parse_request(data, MOST_HEAD)
    if request is None:
        return
    expected, body = read_by_h11(data)
    assert request.method.encode() == expected.method
    assert request.target == expected.target
    assert request.headers == list(expected.headers)
    assert expected.http_version == b"1.1"
    assert data[request.head : request.head + request.length] == body


@every_case(
    "data",
    [
        PLAIN,
        PLAIN.replace(b"POST", b"GET"),
        PLAIN.replace(b"Content-Length: 4\r\n", b""),
        PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: Keep-Alive\r\nAccept:\r\n\r\n"),
    ],
)
def test_a_usual_request_is_plain(data: bytes) -> None:
    assert parse_request(data, MOST_HEAD) is not None


@every_case(
    "data",
    [
        PLAIN[:-6],
        PLAIN.replace(b"Host", b"Content-Length: 4\r\nHost"),
        PLAIN.replace(b"Host", b"Host: localhost\r\nHost"),
        PLAIN.replace(b"/requests", b"http://localhost/requests"),
        PLAIN.replace(b": 4", b": 65537"),
        PLAIN.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"),
        PLAIN.replace(b"Host", b"X: " + b"x" * MOST_HEAD + b"\r\nHost"),
    ],
)
def test_everything_else_is_not(data: bytes) -> None:
    assert parse_request(data, MOST_HEAD) is None


HEADERS = [
    (b"content-type", b"application/json"),
    (b"Keep-Alive", b"timeout=9"),
    (b"x-empty", b""),
    (b"x-space", b" a"),
    (b"x-line", b"a\r\nset-cookie: b"),
    (b"x name", b"a"),
    (b"x-other", b"\x80"),
    (b"content-length", b"4"),
    (b"content-length", b"5"),
    (b"connection", b"close"),
    (b"transfer-encoding", b"chunked"),
]


@given(
    st.sampled_from([200, 202, 204, 304, 401, 422, 599]),
    st.lists(st.sampled_from(HEADERS), max_size=5),
)
@example(200, [HEADERS[0], HEADERS[7]])
@example(200, [HEADERS[4], HEADERS[7]])
def test_a_plain_response_is_what_h11_writes(status: int, headers: Any) -> None:
    head = response_head(status, headers)
    if head is None:
        return
    connection = StrictConnection(MOST_HEAD)
    connection.receive_data(PLAIN)
    connection.next_event()
    body = b"x" * head.length
    reason = "OK" if status == 200 else ""
    written = connection.send(h11.Response(status_code=status, headers=headers, reason=reason))
    _, _, expected = (written or b"").partition(b"\r\n")
    first, _, text = head.text.partition(b"\r\n")
    assert text == expected
    assert first.startswith(b"HTTP/1.1 %d " % status)
    assert connection.send(h11.Data(data=body)) == body
    assert connection.send(h11.EndOfMessage()) == b""


class Transport(asyncio.Transport):
    """Collects what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 80)})
        self.written = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += b"" if self.is_closed else bytes(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class Application:
    """Answers as the path says, and notes each request with its body."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.plain: list[bool] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.plain.append(isinstance(send.__self__._send.__self__, PlainCycle))
        way, body = scope["path"][1:], b""
        if way != "early":
            body, more = b"", True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body, more = body + message["body"], message["more_body"]
        kept = ("method", "path", "raw_path", "query_string", "headers", "http_version", "scheme")
        self.requests.append(({name: scope[name] for name in kept}, body))
        if way == "fails":
            raise RuntimeError
        length = {"long": 5, "short": 3}.get(way, 4)
        headers = [] if way == "stream" else [(b"content-length", b"%d" % length)]
        if way == "close":
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if way == "breaks":
            raise RuntimeError
        if way in {"stream", "pieces"}:
            await send({"type": "http.response.body", "body": b"ab", "more_body": True})
            await send({"type": "http.response.body", "body": b"cd", "more_body": False})
        else:
            await send({"type": "http.response.body", "body": b"abcd", "more_body": False})


def connected(app: Application, **options: Any) -> tuple[Any, Transport]:
    """Return a server's end of a new connection, and its transport."""
    server = BoundedServer(app, **options)  # type: ignore[arg-type]
    server.config.load()
    factory: Any = server.config.http_protocol_class
    protocol = factory(config=server.config, server_state=server.server_state, app_state={})
    transport = Transport()
    protocol.connection_made(transport)
    return protocol, transport


async def exchanged(pieces: list[bytes], **options: Any) -> tuple[bytes, bool, Any, list[bool]]:
    """Return what a connection answers, whether it is closed, and the application's requests."""
    app = Application()
    protocol, transport = connected(app, **options)
    for piece in pieces:
        protocol.data_received(piece)
        for _ in range(10):
            await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    protocol.connection_lost(ConnectionResetError())
    await asyncio.gather(*protocol.tasks)
    return without_ids(transport.written), transport.is_closed, app.requests, app.plain


def without_ids(response: bytes) -> bytes:
    lines = response.split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.startswith(b"x-request-id"))


WAYS = ["", "early", "stream", "pieces", "long", "short", "close", "fails", "a%20b?c=d"]


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Return the bytes of some requests on one connection, in pieces."""
    sent = b""
    for _ in range(draw(st.integers(1, 3))):
        way = draw(st.sampled_from(WAYS)).encode()
        body = draw(st.sampled_from([b"", b"abcd", b"GET / HTTP/1.1\r\n"]))
        more = draw(st.sampled_from([b"", b"", b"Connection: close\r\n", b"X: \x80\r\n"]))
        sent += b"POST /%s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n%s" % (
            *(way, more, len(body)),
            body,
        )
    sent += draw(st.sampled_from([b"", b"", b"GET", b"\x00"]))
    cuts = sorted(draw(st.lists(st.integers(0, len(sent)), max_size=4)))
    edges = [0, *cuts, len(sent)]
    return [sent[a:b] for a, b in pairwise(edges) if a < b]


@settings(max_examples=150, deadline=None)
@given(streams())
def test_a_connection_answers_as_with_h11_alone(pieces: list[bytes]) -> None:
    plain = asyncio.run(exchanged(pieces))
    # With a limit of concurrent requests uvicorn's own way is taken.
    by_h11 = asyncio.run(exchanged(pieces, limit_concurrency=1_000))
    assert plain[:3] == by_h11[:3]
    assert not any(by_h11[3])


def test_a_usual_exchange_is_plain_in_one_piece_or_two() -> None:
    head, body = PLAIN.split(b"abcd")[0], b"abcd"
    for pieces in ([PLAIN], [head, body], [PLAIN, PLAIN]):
        assert all(asyncio.run(exchanged(pieces))[3])


def test_a_response_that_breaks_off_is_cut() -> None:
    response, is_closed, _, plain = asyncio.run(
        exchanged([PLAIN.replace(b"/requests?a=%20", b"/breaks")])
    )
    assert is_closed
    assert response == b""
    assert plain == [True]


def test_an_idle_connection_keeps_no_bytes_of_its_last_request() -> None:
    piece = PLAIN.replace(b"?a=%20", b"?" + b"a" * 60_000)
    before = sys.getrefcount(piece)

    async def answer() -> None:
        protocol, transport = connected(Application())
        protocol.data_received(piece)
        for _ in range(50):
            await asyncio.sleep(0)
        assert transport.written.endswith(b"abcd")
        assert sys.getrefcount(piece) == before

    asyncio.run(answer())
