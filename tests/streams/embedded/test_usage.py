"""Usage of an embedded ledger: it survives restarts, and no decision needs its index."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer


def used(server: LocalServer, by: str = "analyst") -> dict[str, tuple[int, int, str]]:
    rows = server.http.get("/datasets/census/usage", params={"by": by}).json()
    return {row[by]: (row["granted"], row["refused"], row["spent"]) for row in rows}


def test_usage_survives_a_restart(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server:
        server.open()
        server.ask(analyst="ana", purpose="α, β")
    clock.pass_(seconds=86_400)
    with LocalServer(file, clock, Settings(port=0, metrics_analysts=5)) as server:
        assert used(server) == {"ana": (1, 0, "0.1")}
        server.ask(analyst="ben")
        assert used(server) == {"ana": (1, 0, "0.1"), "ben": (1, 0, "0.1")}
        assert used(server, "purpose") == {"": (1, 0, "0.1"), "α, β": (1, 0, "0.1")}
        days = used(server, "day")
        assert list(days.values()) == [(1, 0, "0.1")] * 2
        text = server.http.get("/metrics").text
        assert 'analyst="ana"' in text
        assert "privacy_usage_index_trouble 0.0" in text


@pytest.mark.parametrize("what", ["foreign", "directory", "deleted", "damaged"])
def test_a_ledger_decides_whatever_became_of_its_index(
    file: Path, clock: TestClock, what: str
) -> None:
    index = file.with_name(file.name + ".index")
    with LocalServer(file, clock) as server:
        server.open()
        server.ask()
        assert used(server)
    for each in file.parent.glob("*.index*"):
        if what != "damaged":
            each.unlink()
    if what == "foreign":
        index.write_text("somebody's notes " * 100)
    elif what == "directory":
        index.mkdir()
    elif what == "damaged":
        index.write_bytes(index.read_bytes()[:4096] + b"\xa5" * 8192)
    with LocalServer(file, clock) as server:
        assert server.ask(analyst="ben").json()["outcome"] == "granted"
        assert used(server) == {"ana": (1, 0, "0.1"), "ben": (1, 0, "0.1")}
        ready = server.http.get("/readyz")
        assert ready.status_code == 200
        is_reported = what in {"foreign", "directory"}
        assert bool(ready.json().get("notes")) is is_reported
        assert (
            f"privacy_usage_index_trouble {float(is_reported)}" in server.http.get("/metrics").text
        )


def test_the_index_lies_where_the_setting_says(file: Path, clock: TestClock) -> None:
    elsewhere = file.parent / "elsewhere.index"
    with LocalServer(file, clock, Settings(port=0, index=elsewhere)) as server:
        server.open()
        server.ask()
        assert used(server)
    assert elsewhere.exists()
    assert not file.with_name(file.name + ".index").exists()
