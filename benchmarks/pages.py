"""The page of one dataset with many decisions, for its owner and for two analysts."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec

from accountant.times import uuid7
from benchmarks import requests
from benchmarks.measure import Row, Scale, best_of
from benchmarks.processes import command, free_port
from streams.auth import token_file
from streams.embedded.service import EmbeddedService
from streams.settings import Settings

_AT_MOST_MS = 200.0
_ROUNDS = 7
_AT_ONCE = 500
_POLICY = {"epsilon": "1", "delta": "1e-6", "access": "members"}
_ASKED = {
    "owner": "the owner's",
    "busy": "of an analyst who has asked all but one",
    # The worst case: this analyst's request is the first of all, and no search reaches it.
    "rare": "of an analyst who has asked once, before all others",
}


def _body(kind: str, **fields: object) -> bytes:
    head = {"version": 1, "type": kind, "request_id": uuid7(requests.now(), os.urandom(10))}
    return msgspec.json.encode({**head, "dataset": "census", **fields})


def _asked(analyst: str, number: int) -> bytes:
    fields = {"unit": "person", "neighbours": "add_remove", "purpose": f"purpose {number % 300}"}
    claim = {"type": "pure", "epsilon": "0.00001"}
    return _body("request", analyst=analyst, claim=claim, **fields)


async def _fill(path: Path, count: int) -> None:
    service = EmbeddedService.open(path, Settings(port=0))
    try:
        await service.submit("admin", _body("open", by="owner", policy=_POLICY), wait=30)
        for name in ("busy", "rare"):
            body = _body("member", by="owner", member=name, roles=["analyst"], team="all")
            await service.submit("admin", body, wait=30)
        limit = _body("limit", by="owner", scope="each", name="all", part="0.9")
        await service.submit("admin", limit, wait=30)
        await service.submit("requests", _asked("rare", 0), wait=30)
        for first in range(0, count - 1, _AT_ONCE):
            bodies = [_asked("busy", i) for i in range(first, min(first + _AT_ONCE, count - 1))]
            await asyncio.gather(*[service.submit("requests", each, wait=30) for each in bodies])
    finally:
        await service.close()


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the time of a dataset's page, from the request to the last byte."""
    count, port = scale.of(10_000), free_port()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", ".")) as directory:
        path, tokens = Path(directory).absolute() / "ledger.db", Path(directory) / "tokens.json"
        asyncio.run(_fill(path, count))
        shown = {name: token_file.create(tokens, name, now=requests.now()).token for name in _ASKED}
        settings = {
            "ACCOUNTANT_URL": f"sqlite:///{path}",
            "ACCOUNTANT_PORT": str(port),
            "ACCOUNTANT_TOKENS": str(tokens.absolute()),
        }
        address = f"http://127.0.0.1:{port}/pages/datasets/census"
        with command("serve", settings, port=port), httpx.Client(trust_env=False) as http:
            for name, whose in _ASKED.items():
                headers = {"Authorization": f"Bearer {shown[name]}"}

                def look(headers: dict[str, str] = headers) -> None:
                    http.get(address, headers=headers, timeout=60).raise_for_status()

                look()
                took = best_of(_ROUNDS, look) * 1e3
                note = f"{count:,} decisions, 300 purposes, best of {_ROUNDS}"
                row = f"page of a dataset, {whose}"
                yield Row(name=row, value=took, unit="ms", at_most=_AT_MOST_MS, note=note)
