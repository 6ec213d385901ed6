"""The listener takes one answer of its own sign-in, from this machine, and nothing else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from streams.client.login.browser_flow import sign_in_by_browser
from streams.client.login.loopback import LoopbackListener
from streams.client.login.request import LoginRequest
from streams.client.login.sign_in import find_endpoints
from streams.errors import Refused
from streams.oauth.token_endpoint import OAuthClient
from tests.streams.client.login.login_provider import LoginProvider
from tests.streams.oauth.sign_in_provider import CLIENT

STATE = "the-state"
GOOD = f"state={STATE}&code=c"


@pytest.fixture
async def listener() -> AsyncIterator[LoopbackListener]:
    async with LoopbackListener(STATE) as made:
        yield made


def port_of(listener: LoopbackListener) -> int:
    return urlsplit(listener.url).port or 0


async def send(listener: LoopbackListener, head: str) -> str:
    """Send a request as it is, and return the whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(listener))
    writer.write(head.replace("PORT", str(port_of(listener))).encode("latin-1"))
    await writer.drain()
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


def get(query: str, path: str = "/callback", method: str = "GET") -> str:
    return f"{method} {path}?{query} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n"


WRONG = {
    "another path": (get(GOOD, "/"), 404),
    "a longer path": (get(GOOD, "/callback/"), 404),
    "a path with dots": (get(GOOD, "/x/../callback"), 404),
    "another method": (get(GOOD, method="POST"), 405),
    "no query": ("GET /callback HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 403),
    "another state": (get("state=other&code=c"), 403),
    "a state that begins alike": (get(f"state={STATE}x&code=c"), 403),
    "two states": (get(f"state=other&{GOOD}"), 400),
    "two codes": (get(f"{GOOD}&code=d"), 400),
    "too many fields": (get(GOOD + "&a" * 30), 400),
    "another host": (get(GOOD).replace("127.0.0.1:PORT", "evil.example:PORT"), 421),
    "a name of this machine": (get(GOOD).replace("127.0.0.1:PORT", "localhost:PORT"), 421),
    "another port": (get(GOOD).replace(":PORT", ":1"), 421),
    "no host": (f"GET /callback?{GOOD} HTTP/1.1\r\n\r\n", 421),
    "two hosts": (get(GOOD).replace("\r\n\r\n", "\r\nHost: evil.example\r\n\r\n"), 421),
    "no HTTP": ("\x16\x03\x01\r\n\r\n", 400),
    "another version": (get(GOOD).replace("1.1", "2.0"), 400),
}


@pytest.mark.parametrize("name", WRONG)
async def test_any_other_request_is_rejected_and_waiting_continues(
    listener: LoopbackListener, name: str
) -> None:
    head, status = WRONG[name]
    answer = await send(listener, head)
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert "<script" not in answer
    waiting = asyncio.ensure_future(listener.receive())
    assert (await send(listener, get(GOOD))).startswith("HTTP/1.1 200 ")
    assert await waiting == {"state": STATE, "code": "c"}


async def test_an_answer_is_taken_once(listener: LoopbackListener) -> None:
    first = await send(listener, get(GOOD))
    assert first.startswith("HTTP/1.1 200 ")
    assert (await send(listener, get(f"state={STATE}&code=d"))).startswith("HTTP/1.1 410 ")
    assert await listener.receive() == {"state": STATE, "code": "c"}


async def test_the_page_has_no_secret_and_may_not_load_or_store_anything(
    listener: LoopbackListener,
) -> None:
    answer = await send(listener, get(f"state={STATE}&code=the-code"))
    head, _, body = answer.partition("\r\n\r\n")
    assert "You may close this page" in body
    assert STATE not in answer
    assert "the-code" not in answer
    for line in (
        "Cache-Control: no-store",
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
        "Referrer-Policy: no-referrer",
        "Connection: close",
    ):
        assert line in head.split("\r\n")


async def test_only_this_machine_can_connect(listener: LoopbackListener) -> None:
    (bound,) = listener._server.sockets
    assert bound.getsockname()[0] == "127.0.0.1"
    # Each other address of this machine stands for another machine.
    for address in ("127.0.0.2", *own_addresses()):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address, port_of(listener))


def own_addresses() -> set[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return set()
        return {probe.getsockname()[0]} - {"127.0.0.1"}


async def test_a_head_that_is_too_long_or_never_ends_holds_up_nobody(
    listener: LoopbackListener,
) -> None:
    _, idle = await asyncio.open_connection("127.0.0.1", port_of(listener))
    assert await send(listener, "GET /" + "x" * 20_000 + "\r\n\r\n") == ""
    assert (await send(listener, get(GOOD))).startswith("HTTP/1.1 200 ")
    idle.close()


async def test_a_port_in_use_is_named(listener: LoopbackListener) -> None:
    with pytest.raises(Refused, match=f"port {port_of(listener)} of 127.0.0.1 cannot be used"):
        async with LoopbackListener(STATE, port_of(listener)):
            pass


async def test_nobody_who_signs_in_ends_the_wait(provider: LoginProvider) -> None:
    request = LoginRequest(
        endpoints=await find_endpoints(provider.issuer),
        client=OAuthClient(client_id=CLIENT),
        scope="openid",
    )
    shown: list[str] = []
    with pytest.raises(Refused, match="nobody signed in within"):
        await sign_in_by_browser(request, shown.append, within=0.2)
    (address,) = shown
    assert address.startswith(f"{provider.issuer}/authorize?")
