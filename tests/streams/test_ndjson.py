from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.ndjson import LineSplitter


def split(pieces: list[bytes], max_bytes: int = 8) -> list[bytes | None]:
    splitter = LineSplitter(max_bytes)
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    return [*lines, *splitter.end()]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"\n", [b""]),
        (b"12345678\n", [b"12345678"]),
        (b"12345678\r\n", [b"12345678"]),
        (b"123456789\n", [None]),
        (b"123456789", [None]),
        (b"1234567890\r\na\n", [None, b"a"]),
        (b"a\rb\n", [b"a\rb"]),
    ],
)
def test_a_body_is_split_at_line_ends(body: bytes, lines: list[bytes | None]) -> None:
    assert split([body]) == lines


@given(st.lists(st.binary(max_size=12)))
def test_pieces_of_any_size_give_the_same_lines(parts: list[bytes]) -> None:
    body = b"\n".join(parts)
    single_bytes = [body[i : i + 1] for i in range(len(body))]
    assert split(single_bytes) == split([body]) == split([body[:3], body[3:5], b"", body[5:]])


def test_a_line_without_an_end_occupies_no_more_memory_than_the_longest_line() -> None:
    splitter = LineSplitter(8)
    for _ in range(10_000):
        assert [*splitter.feed(b"x" * 1_000)] == []
        assert len(splitter._part) <= 9
    assert [*splitter.feed(b"\nok\n")] == [None, b"ok"]
