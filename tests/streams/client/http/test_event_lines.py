"""Event streams end lines at CR, LF and CRLF only; a bad event does not end a stream."""

from __future__ import annotations

import ast
import asyncio
import http.server
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
import pytest

from accountant.records import FORMAT, RULES, Decision, encode
from accountant.records.outcomes import Outcome
from streams.client import Accountant
from streams.client.http.reconnecting_events import events_in
from streams.errors import Refused
from streams.evidence.ledger_binding import check_name

OPENS = ("accountant/**", "streams/**", "research/**")

ROOT: Final = Path(__file__).parents[4]
NO_ENDS: Final = "\u2028\u2029\x85\v\f\x1c\x1d\x1e"
"""What `str.splitlines` takes for ends of lines besides."""
SPLITTERS: Final = {"splitlines", "aiter_lines", "iter_lines", "aiter_text", "iter_text"}
EXPECTED: Final = [
    {b"id": b"1", b"event": b"decision", b"data": f"a{NO_ENDS}b".encode()},
    {b"data": b"c:d\ne", b"flag": b""},
    {b"data": b" f"},
]
STREAM: Final = (
    b":there\r\nid: 1\revent:decision\ndata: "
    + f"a{NO_ENDS}b".encode()
    + b"\r\n\r\n\r\n\rdata:c:d\rdata:e\r\nflag\n\ndata:  f\r\r:\n\ndata: cut"
)


async def _in_chunks(stream: bytes, length: int, begin: int) -> AsyncIterator[bytes]:
    yield stream[:begin]
    for i in range(begin, len(stream), length):
        yield stream[i : i + length]
        yield b""


@pytest.mark.parametrize("length", [1, 2, 3, 7, 1000])
def test_lines_end_at_cr_lf_and_both_wherever_a_chunk_ends(length: int) -> None:
    async def read(begin: int) -> list[dict[bytes, bytes]]:
        return [event async for event in events_in(_in_chunks(STREAM, length, begin))]

    for begin in range(len(STREAM)):
        assert asyncio.run(read(begin)) == EXPECTED, begin


def _event(number: int, kind: str, data: bytes) -> bytes:
    return b"id: %d\r\nevent: %s\r\ndata: %s\r\n\r\n" % (number, kind.encode(), data)


def _decision(number: int) -> bytes:
    asked = encode({"purpose": f"x{NO_ENDS}y"})
    return encode(
        Decision(
            version=FORMAT,
            rules=RULES,
            partition_sequence=number,
            previous="",
            decided_at="2026-11-21T12:00:00.000Z",
            floor="2026-11-21T11:00:00.000Z",
            outcome=Outcome.GRANTED,
            dataset="census",
            request=msgspec.Raw(asked),
        )
    )


BAD: Final = (b"{", b"", b'"text"', b'{"type":"decision","outcome":"new"}', b"\xff", b"[" * 9999)


@pytest.fixture
def url() -> Iterator[str]:
    """A gateway's stream of two decisions, with events between them that cannot be read."""
    bad = [_event(2 + i, "decision", each) for i, each in enumerate(BAD)]
    none = b"event: decision\n\n"
    stream = b"".join([_event(1, "decision", _decision(1)), *bad, none, b"data: no kind\n\n"])
    stream += _event(90, "decision", _decision(2))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(stream)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_bad_event_is_logged_and_the_next_one_comes(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Accountant(url) as ledger, caplog.at_level(logging.WARNING):
        found = list(islice(ledger.events(), 2))
    assert [each.partition_sequence for each in found] == [1, 2]
    assert bytes(found[0].request) == encode({"purpose": f"x{NO_ENDS}y"})
    logged = [each for each in caplog.messages if "event_not_readable" in each]
    assert len(logged) == len(BAD) + 1


@pytest.mark.parametrize("more", [*NO_ENDS, "\n", "\r", ""])
def test_a_path_with_any_line_end_is_stored_with_its_ledger_id(tmp_path: Path, more: str) -> None:
    name = f"/data/a{more}b.db"
    check_name(tmp_path, name, "0" * 32)
    check_name(tmp_path, name, "0" * 32)
    with pytest.raises(Refused, match="another"):
        check_name(tmp_path, name, "1" * 32)


def test_no_foreign_text_is_split_where_python_ends_lines() -> None:
    """`str.splitlines` and httpx's lines end at U+2028 and others, too: split at "\\n"."""
    found = []
    for package in ("accountant", "streams"):
        for path in sorted((ROOT / package).rglob("*.py")):
            found += [
                f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
                for node in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(node, ast.Attribute) and node.attr in SPLITTERS
            ]
    assert not found
