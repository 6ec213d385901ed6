"""Clients read an overview and usage from a server, and from a file without a lock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from accountant.records import encode
from accountant.views.overview import decode_overview
from streams.client import Accountant, UnknownDataset
from streams.errors import NotPermitted, Refused
from tests.streams.auth.roles_server import RolesServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RolesServer]:
    with RolesServer(tmp_path) as server:
        server.furnish()
        server.granted("closed-own", "ana")
        server.granted("closed-own", "ben")
        yield server


def test_a_server_shows_a_token_its_own_overview(server: RolesServer) -> None:
    for name in ("ana", "olga", "root"):
        with Accountant(server.url, token=server.tokens[name]) as ledger:
            found = ledger.overview("closed-own")
            answer = server.see(name, "/datasets/closed-own/overview")
            assert encode(found) == encode(decode_overview(answer.content))
            assert found.caller.name == name
            with pytest.raises(UnknownDataset):
                ledger.overview("nowhere")
    with (
        Accountant(server.url, token=server.tokens["otto"]) as ledger,
        pytest.raises(UnknownDataset),
    ):
        ledger.overview("closed-own")


def test_usage_by_day_needs_full_visibility(server: RolesServer) -> None:
    with Accountant(server.url, token=server.tokens["olga"]) as ledger:
        (day,) = ledger.usage_by("closed-own", "day")
        assert (day.key, day.granted) == ("2026-11-21", 2)
        assert [row.key for row in ledger.usage_by("closed-own", "analyst")] == ["ana", "ben"]
        assert [row.analyst for row in ledger.usage("closed-own")] == ["ana", "ben"]
    with Accountant(server.url, token=server.tokens["ana"]) as ledger:
        assert [row.key for row in ledger.usage_by("closed-own", "analyst")] == ["ana"]
        with pytest.raises(NotPermitted):
            ledger.usage_by("closed-own", "day")


def test_a_read_only_client_reads_a_served_file_and_writes_nothing(server: RolesServer) -> None:
    with Accountant(f"sqlite:///{server.path}", analyst="ana", read_only=True) as ledger:
        found = ledger.overview("closed-own")
        assert found is not None
        assert found.caller.sees_all
        assert len(found.requests.decisions) == 2
        assert len(found.members) == 6
        before = server.stored_rows()
        with pytest.raises(Refused, match="read_only"):
            ledger.ask("closed-own", "pure:0.1")
        assert server.stored_rows() == before
