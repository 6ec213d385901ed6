"""Datasets older than authentication stay open: the log says how many, and what to do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from streams.auth.open_datasets import find_open_datasets, log_open_datasets
from tests.streams.auth.roles_server import RolesServer, setting
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import amending, closing
from tests.streams.waiting import eventually

_EVENT = "datasets_open_to_anybody"


def open_datasets(server: LocalServer) -> list[str]:
    return asyncio.run(find_open_datasets(server.service))


def test_the_server_logs_datasets_open_to_anybody_once_at_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalServer(tmp_path / "ledger.db", TestClock()) as before:
        for name in ("a", "b", "c", "d", "ended"):
            before.open(name)
        before.open("closed", access="members")
        before.post("/datasets/ended/close", closing(before.clock, "ended"))
        assert _EVENT not in caplog.text  # authentication is off, so everybody has full access
    with RolesServer(tmp_path) as server:
        eventually(lambda: _EVENT in caplog.text)
        (result,) = [each for each in caplog.messages if _EVENT in each]
        assert "count=4" in result
        assert "names='a, b, c, ...'" in result
        assert "accountant dataset amend NAME --access members" in result
        # Each of the ways that it names ends it.
        for name, access in (("a", "members"), ("b", "anyone")):
            member = {**setting("root", name, "olga", "owner"), "as": "administrator"}
            server.done("root", f"/datasets/{name}/members", member, "member_set")
            amend = {**amending(server.clock, name, access=access), "by": "olga"}
            server.done("olga", f"/datasets/{name}/amend", amend, "amended")
        assert open_datasets(server) == ["c", "d"]
        server.open_for_olga("new", access="anyone")
        assert open_datasets(server) == ["c", "d"]


def test_the_server_logs_nothing_when_no_dataset_is_open_to_anybody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RolesServer(tmp_path) as server:
        server.furnish()
        asyncio.run(log_open_datasets(server.service))
        assert _EVENT not in caplog.text
