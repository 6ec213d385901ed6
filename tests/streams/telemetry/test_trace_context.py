"""The ids that come from outside: which are taken, and which are ignored."""

from __future__ import annotations

import asyncio

import pytest

from streams.telemetry.trace_context import (
    Exchange,
    RequestIds,
    TraceContext,
    begin_exchange,
    current_exchange,
    parse_ids,
)

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01".encode()


@pytest.mark.parametrize("value", ["a", "A.b_c-9", "x" * 64, "..", "-"])
def test_a_request_id_of_the_allowed_characters_is_taken(value: str) -> None:
    assert parse_ids([(b"x-request-id", value.encode())]) == RequestIds(value, None)


@pytest.mark.parametrize(
    "value",
    [b"", b"x" * 65, b"a b", b"a\n", b"\na", b"a\x00", b"a\x1b[2J", "ä".encode(), b"a,b", b"a/b"],
)
def test_any_other_request_id_is_ignored(value: bytes) -> None:
    assert parse_ids([(b"x-request-id", value)]) == RequestIds()


def test_a_traceparent_of_version_0_is_taken() -> None:
    found = parse_ids([(b"traceparent", TRACEPARENT)]).trace
    assert found == TraceContext(TRACE_ID, PARENT_ID, "01")
    assert found.header == TRACEPARENT


@pytest.mark.parametrize(
    "value",
    [
        b"",
        TRACEPARENT.upper(),
        TRACEPARENT + b"-00",
        TRACEPARENT + b"\n",
        b" " + TRACEPARENT,
        TRACEPARENT[:-1],
        b"ff" + TRACEPARENT[2:],
        b"01" + TRACEPARENT[2:],
        f"00-{'0' * 32}-{PARENT_ID}-01".encode(),
        f"00-{TRACE_ID}-{'0' * 16}-01".encode(),
        f"00-{TRACE_ID[:-1]}g-{PARENT_ID}-01".encode(),
        b"x" * 100_000,
    ],
)
def test_any_other_traceparent_is_ignored(value: bytes) -> None:
    assert parse_ids([(b"traceparent", value)]) == RequestIds()


def test_a_header_that_is_sent_twice_is_ignored() -> None:
    twice = [(b"x-request-id", b"one"), (b"x-request-id", b"one")]
    assert parse_ids([*twice, (b"traceparent", TRACEPARENT)]).request_id is None
    assert parse_ids([(b"traceparent", TRACEPARENT)] * 2) == RequestIds()


def test_headers_without_a_value_and_unknown_headers_are_ignored() -> None:
    found = parse_ids([(b"x-request-id", None), (b"traceparent", None), (b"other", b"one")])
    assert found == RequestIds()


async def test_a_task_that_outlives_its_request_belongs_to_none() -> None:
    exchange, ended = Exchange("one", None), asyncio.Event()

    async def background() -> tuple[Exchange | None, Exchange | None]:
        before = current_exchange()
        await ended.wait()
        return before, current_exchange()

    async def request() -> asyncio.Task[tuple[Exchange | None, Exchange | None]]:
        begin_exchange(exchange)
        made = asyncio.create_task(background())
        await asyncio.sleep(0)
        exchange.has_ended = True
        ended.set()
        return made

    task = await asyncio.create_task(request())
    assert await task == (exchange, None)
