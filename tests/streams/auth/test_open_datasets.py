"""Datasets older than authentication stay open: the log says how many, and what to do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from streams.auth.open_datasets import find_open_datasets, log_open_datasets
from tests.streams.auth.roles_server import RolesServer, setting
from tests.streams.gateway.local_server import LocalServer, TestClock, amending, closing, eventually

_TOLD = "datasets_open_to_anybody"


def found(server: LocalServer) -> list[str]:
    return asyncio.run(find_open_datasets(server.service))


def test_a_server_says_once_at_its_start_what_was_left_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalServer(tmp_path / "ledger.db", TestClock()) as before:
        for name in ("a", "b", "c", "d", "ended"):
            before.open(name)
        before.open("closed", access="members")
        before.post("/datasets/ended/close", closing(before.clock, "ended"))
        assert _TOLD not in caplog.text  # it knows nobody: everybody is the owner
    with RolesServer(tmp_path) as server:
        eventually(lambda: _TOLD in caplog.text)
        (told,) = [each for each in caplog.messages if _TOLD in each]
        assert "count=4" in told
        assert "names='a, b, c, ...'" in told
        assert "accountant dataset amend NAME --access members" in told
        # Each of the ways that it names ends it.
        for name, access in (("a", "members"), ("b", "anyone")):
            member = {**setting("root", name, "olga", "owner"), "as": "administrator"}
            server.done("root", f"/datasets/{name}/members", member, "member_set")
            amend = {**amending(server.clock, name, access=access), "by": "olga"}
            server.done("olga", f"/datasets/{name}/amend", amend, "amended")
        assert found(server) == ["c", "d"]
        server.open_for_olga("new", access="anyone")
        assert found(server) == ["c", "d"]


def test_where_there_is_nothing_nothing_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RolesServer(tmp_path) as server:
        server.furnish()
        asyncio.run(log_open_datasets(server.service))
        assert _TOLD not in caplog.text
