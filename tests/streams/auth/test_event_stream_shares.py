"""Streams of events are shared: no name keeps the others from theirs."""

from __future__ import annotations

import contextlib
from pathlib import Path

import httpx
import jsonschema_rs
import pytest

from streams.clock import SystemClock
from streams.embedded.service import EmbeddedService
from streams.errors import Unavailable
from streams.gateway.events.route import (
    FOR_NEW_NAMES,
    MAX_STREAMS,
    MAX_STREAMS_OF_ONE,
    Streams,
)
from streams.http.context import Context
from streams.http.problems import HTTPProblem
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.auth.roles_server import RolesServer
from tests.streams.waiting import eventually


async def test_the_last_free_streams_are_reserved_for_callers_without_one(tmp_path: Path) -> None:
    service = EmbeddedService.open(tmp_path / "ledger.db", Settings())
    try:
        context, streams = Context(service, Settings(), SystemClock()), Streams()
        for number in range(MAX_STREAMS - FOR_NEW_NAMES):
            streams.begin(context, f"name{number % 10}")
        with pytest.raises(HTTPProblem):
            streams.begin(context, "name3")
        for number in range(FOR_NEW_NAMES):
            new = streams.begin(context, f"new{number}")
            with pytest.raises(HTTPProblem):
                streams.begin(context, f"new{number}")
        with pytest.raises(Unavailable):
            streams.begin(context, "newest")
        new.close()
        streams.begin(context, "newest")
        for reading in list(streams.open):
            reading.close()
    finally:
        await service.close()


def test_one_caller_cannot_open_every_event_stream(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server, contextlib.ExitStack() as streams:
        server.open_for_olga("census", access="members")
        limits = httpx.Limits(max_connections=2 * MAX_STREAMS_OF_ONE)
        client = streams.enter_context(
            httpx.Client(timeout=PATIENCE_S, trust_env=False, limits=limits)
        )
        first = streams.enter_context(contextlib.ExitStack())

        def begun(name: str, stack: contextlib.ExitStack) -> int:
            """Return the status of a new stream, which stays open until `stack` closes."""
            asked = client.stream("GET", f"{server.url}/events", headers=server.auth_headers(name))
            return stack.enter_context(asked).status_code

        assert begun("zoe", first) == 200
        for _ in range(MAX_STREAMS_OF_ONE - 1):
            assert begun("zoe", streams) == 200
        with client.stream(
            "GET", f"{server.url}/events", headers=server.auth_headers("zoe")
        ) as refused:
            assert refused.status_code == 429
            refused.read()
        assert int(refused.headers["retry-after"]) > 0
        result = refused.json()
        assert result["error"] == "too_many_streams"
        assert result["message"].startswith("zoe has 50 open streams of events")
        document = server.see("olga", "/schema/openapi.json").json()
        stated = document["paths"]["/events"]["get"]["responses"]["429"]
        (content,) = stated["content"].values()
        schema = {**content["schema"], "components": document["components"]}
        jsonschema_rs.validator_for(schema, validate_formats=True).validate(result)
        assert set(stated["headers"]) == {"Retry-After", "X-Request-Id"}
        assert begun("olga", streams) == 200
        first.close()  # and its place is free again
        eventually(lambda: begun("zoe", streams) == 200)
