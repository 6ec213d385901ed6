"""Permissions at a gateway on a real broker: some cells of the server's access matrix."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from accountant.times import uuid7
from streams.auth import token_file
from streams.kafka.service.kafka_service import KafkaService
from streams.server.gateway_server import GatewayServer, run_gateway
from streams.settings import load
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, working
from tests.patience import PATIENCE_S

NAMES = ("root", "olga", "ana", "ben", "eng", "zoe")


def now() -> int:
    return time.time_ns() // 1_000_000


class Gateway:
    """A gateway with authentication."""

    def __init__(self, url: str, tokens: dict[str, str]) -> None:
        self._tokens = tokens
        self.http = httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False)

    def auth_headers(self, name: str | None) -> dict[str, str]:
        return {} if name is None else {"Authorization": f"Bearer {self._tokens[name]}"}

    async def send(self, name: str | None, path: str, kind: str, **body: Any) -> httpx.Response:
        whole = {"version": 1, "type": kind, "request_id": uuid7(now(), os.urandom(10)), **body}
        headers = {"Prefer": "wait=20", **self.auth_headers(name)}
        return await self.http.post(path, json=whole, headers=headers)

    async def ask(self, name: str | None, analyst: str, **more: str) -> httpx.Response:
        body = {"dataset": "census", "claim": {"type": "pure", "epsilon": "0.01"}, **more}
        body |= {"unit": "person", "neighbours": "add_remove", "analyst": analyst}
        return await self.send(name, "/requests", "request", **body)

    async def enrol(self, name: str, member: str, *roles: str, **more: str) -> httpx.Response:
        body = {"dataset": "census", "by": name, "member": member, "roles": roles, **more}
        return await self.send(name, "/datasets/census/members", "member", **body)

    async def see(self, name: str | None, path: str) -> httpx.Response:
        return await self.http.get(path, headers=self.auth_headers(name))


@asynccontextmanager
async def gateway(ledger: Ledger, directory: Path) -> AsyncIterator[Gateway]:
    file = directory / "tokens.json"
    tokens = {
        name: (await asyncio.to_thread(token_file.create, file, name, now=now())).token
        for name in NAMES
    }
    service = await KafkaService.start(ledger.deployment)
    urls: asyncio.Queue[str] = asyncio.Queue()
    servers: list[GatewayServer] = []
    settings = load(port=0, tokens=file, administrators="root")
    serving = asyncio.create_task(
        run_gateway(service, settings, listening=urls.put_nowait, made=servers.append)
    )
    made: Gateway | None = None
    try:
        made = Gateway(await asyncio.wait_for(urls.get(), PATIENCE_S), tokens)
        yield made
    finally:
        if made is not None:
            await made.http.aclose()
        if servers:
            servers[0].stop()
        await serving
        await service.close()


async def decided(ledger: Ledger) -> int:
    """Return the number of decisions."""
    await ledger.settle()
    return await asyncio.to_thread(ledger.visible)


async def events_until(server: Gateway, name: str, until: str) -> list[str]:
    """Return outcome and analyst of a stream's events, up to a purpose."""
    found: list[str] = []
    headers = server.auth_headers(name)
    async with server.http.stream("GET", "/events", headers=headers) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                decision = json.loads(line[6:])
                asked = decision["request"]
                found.append(asked.get("analyst") or f"{decision['outcome']}")
                if asked.get("purpose") == until:
                    return found
    return found


async def test_a_gateway_on_kafka_applies_the_roles_of_the_log(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with (
        Ledger(broker.bootstrap, application, partitions=1) as ledger,
        working(ledger),
        gateway(ledger, tmp_path) as server,
    ):
        policy = {"filter": "basic", "epsilon": "1", "access": "members"}
        owned = {"dataset": "census", "policy": policy, "owners": ["olga"]}
        refused = await server.send("olga", "/datasets", "open", by="olga", **owned)
        assert refused.status_code == 403
        opened = await server.send("root", "/datasets", "open", by="root", **owned)
        assert opened.json()["outcome"] == "opened"
        for member, role in (("ana", "analyst"), ("ben", "analyst"), ("eng", "engine")):
            assert (await server.enrol("olga", member, role)).json()["outcome"] == "member_set"
        before = await decided(ledger)
        for name, analyst, more, status in (
            (None, "ana", {}, 401),
            ("zoe", "zoe", {}, 403),
            ("ana", "ben", {}, 403),
            ("ana", "ana", {"via": "ana"}, 403),
            ("eng", "zoe", {"via": "eng"}, 403),
            ("olga", "olga", {}, 403),
            ("root", "root", {}, 403),
        ):
            assert (await server.ask(name, analyst, **more)).status_code == status
        assert (await server.enrol("ana", "zoe", "analyst")).status_code == 403
        for more in ({}, {"as": "administrator"}):
            assert (await server.enrol("ben", "ben", "owner", **more)).status_code == 403
        assert (await server.enrol("root", "root", "owner")).status_code == 403
        assert await decided(ledger) == before
        assert (await server.ask("ana", "ana")).json()["outcome"] == "granted"
        assert (await server.ask("ben", "ben")).json()["outcome"] == "granted"
        assert (await server.ask("eng", "ben", via="eng")).json()["outcome"] == "granted"
        await reads(server)
        reading = asyncio.create_task(events_until(server, "ana", until="last"))
        await asyncio.sleep(0)
        events = await asyncio.wait_for(_sent_until_read(server, reading), PATIENCE_S)
        assert set(events) == {"ana"}
        assert (await server.enrol("olga", "ana")).json()["outcome"] == "member_removed"
        assert (await server.see("ana", "/datasets/census")).status_code == 404
        assert (await server.ask("ana", "ana")).status_code == 403
        helped = await server.enrol("root", "zoe", "auditor", **{"as": "administrator"})
        assert helped.json()["administrator"] is True
        assert (await server.see("zoe", "/datasets/census/requests")).json()["next"] > 0


async def _sent_until_read(server: Gateway, reading: asyncio.Task[list[str]]) -> list[str]:
    """Send requests until a new stream reports one."""
    while not reading.done():
        assert (await server.ask("ben", "ben")).json()["outcome"] == "granted"
        assert (await server.ask("ana", "ana", purpose="last")).json()["outcome"] == "granted"
        await asyncio.wait([reading], timeout=0.2)
    return reading.result()


async def reads(server: Gateway) -> None:
    """Look at the dataset as everybody."""
    for name, status in ((None, 401), ("zoe", 404), ("ana", 200), ("olga", 200), ("root", 200)):
        for tail in ("", "/requests", "/members"):
            assert (await server.see(name, f"/datasets/census{tail}")).status_code == status
    for name, analysts in (("ana", {"ana"}), ("eng", {"ben"}), ("olga", {"ana", "ben"})):
        page = (await server.see(name, "/datasets/census/requests")).json()["decisions"]
        asked = {each["request"]["analyst"] for each in page if "analyst" in each["request"]}
        assert asked == analysts, name
    me = (await server.see("ana", "/me")).json()
    assert me["datasets"] == [{"dataset": "census", "roles": ["analyst"]}]
    members = (await server.see("ana", "/datasets/census/members")).json()
    assert [each["member"] for each in members] == ["ana"]
