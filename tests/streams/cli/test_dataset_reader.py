"""A ledger's file and its server show the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import msgspec
import pytest

from accountant.errors import LogDamaged
from accountant.views.datasets import DatasetView
from streams.cli.reading.dataset_reader import find_dataset, reader
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.index import index_path
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import closing, opening, request


def shown_by(server: LocalServer) -> list[DatasetView]:
    return msgspec.json.decode(server.http.get("/datasets").content, type=list[DatasetView])


def without_counts(views: list[DatasetView]) -> list[DatasetView]:
    """Return views without what a server counts since its start."""
    return [
        msgspec.structs.replace(view, outcomes={}, reasons={}, partition_sequence=0)
        for view in views
    ]


def test_a_file_shows_what_its_server_shows(server: LocalServer, file: Path) -> None:
    with reader(f"sqlite:///{file}") as views:
        for _ in range(2):
            once = request(server.clock)
            for body in (once, once, {**once, "purpose": "another"}):
                server.post("/requests", body)
            server.ask(claim={"type": "pure", "epsilon": "3"})
            server.ask(unit="household")
            server.ask(dataset="nowhere")
            assert without_counts(views.datasets()) == without_counts(shown_by(server))
        server.post("/datasets/census/close", closing(server.clock))
        server.ask()
        assert without_counts(views.datasets()) == without_counts(shown_by(server))
        (found,) = views.datasets()
        assert found.outcomes == {"opened": 1, "granted": 2, "refused": 5}
        assert found.reasons == {"exhausted": 2, "unit_mismatch": 2, "closed": 1}


def test_one_dataset_is_shown_as_among_all(server: LocalServer, file: Path) -> None:
    for name in ("census-2", "adult"):
        server.open(name)
    for name in ("census", "census-2", "census", "adult"):
        server.ask(dataset=name)
        server.ask(dataset=name, unit="household")
    server.ask(purpose='about "adult" and "census-2"')
    with reader(f"sqlite:///{file}") as views, reader(server.url) as of_server:
        for each in views.datasets():
            assert find_dataset(views, each.dataset) == each
            (of_one,) = without_counts([find_dataset(of_server, each.dataset) or each])
            assert [of_one] == without_counts([each])
        for name in ("a", "nowhere", "", '{"partition":0}', "cen/sus", "\udcff", "x" * 200):
            assert find_dataset(views, name) is None
            assert find_dataset(of_server, name) is None


def _damage(file: Path, change: str) -> None:
    db = apsw.Connection(str(file))
    db.execute(change)
    assert db.changes() == 1
    db.close()


def test_a_damaged_row_is_named_whichever_dataset_is_read(server: LocalServer, file: Path) -> None:
    server.open("adult")
    server.ask()
    _damage(
        file,
        """UPDATE state SET value = CAST('{"type":"snapshot"' AS BLOB)
        WHERE key = CAST('adult' AS BLOB)""",
    )
    with reader(f"sqlite:///{file}") as views:
        for name in ("census", "adult"):
            with pytest.raises(Refused, match="the row of adult in its `state` cannot be read"):
                find_dataset(views, name)


def test_a_second_read_shows_what_has_changed(server: LocalServer, file: Path) -> None:
    for name in ("adult", "survey"):
        server.open(name)
    with reader(f"sqlite:///{file}") as views:
        before = {view.dataset: view for view in views.datasets()}
        server.ask(dataset="census")
        server.ask(dataset="survey", unit="household")  # its row stays: refused, not numbered
        after = {view.dataset: view for view in views.datasets()}
    assert without_counts([after["adult"]]) == without_counts([before["adult"]])
    assert (before["census"].totals["epsilon"], after["census"].totals["epsilon"]) == ("0", "0.1")
    assert after["census"].outcomes == {"opened": 1, "granted": 1}
    assert before["census"].outcomes == {"opened": 1}
    assert after["survey"].reasons == {"unit_mismatch": 1}
    assert before["survey"].reasons == {}


async def _fill(file: Path, requests: int) -> None:
    clock = TestClock()
    service = EmbeddedService.open(file, Settings(port=0), clock=clock)
    await service.submit("admin", msgspec.json.encode(opening(clock)), wait=PATIENCE_S)
    bodies = [msgspec.json.encode(request(clock)) for _ in range(requests)]
    await asyncio.gather(*[service.submit("requests", body, wait=PATIENCE_S) for body in bodies])
    await service.close()


def test_the_wal_goes_back_into_the_file_while_the_log_is_counted(file: Path) -> None:
    asyncio.run(_fill(file, 2500))
    index_path(file, Settings()).unlink(missing_ok=True)
    other = apsw.Connection(str(file))
    taken_back: list[bool] = []

    def write(_: apsw.Connection) -> None:
        other.execute("INSERT INTO dead_letters VALUES ('requests', 0, '', x'')")
        busy, _, _ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
        taken_back.append(busy == 0)

    # Each slice of the log is read by a connection of its own.
    apsw.connection_hooks.append(write)
    try:
        with reader(f"sqlite:///{file}") as views:
            (shown,) = views.datasets()
    finally:
        apsw.connection_hooks.remove(write)
    assert sum(shown.outcomes.values()) == 2501
    assert len(taken_back) > 3
    assert all(taken_back)
    other.close()


@pytest.mark.parametrize("value", [b"{", b'{"type":"decision","dataset":"\xff"}'])
def test_a_decision_that_cannot_be_read_is_damage_and_is_named(
    server: LocalServer, file: Path, value: bytes
) -> None:
    server.ask()
    _damage(file, f"UPDATE decisions SET value = x'{value.hex()}' WHERE sequence = 2")
    with reader(f"sqlite:///{file}") as views, pytest.raises(LogDamaged, match="decision 2 "):
        views.datasets()


def test_a_sum_of_the_log_that_is_not_its_rows_is_damage(server: LocalServer, file: Path) -> None:
    server.ask()
    with reader(f"sqlite:///{file}") as views:
        before = views.datasets()
    _damage(
        file,
        """UPDATE decisions SET value = CAST(replace(
            CAST(value AS TEXT), '"mechanisms":1,"epsilon":"0.1"', '"mechanisms":1,"epsilon":"0.2"'
        ) AS BLOB) WHERE sequence = 2""",
    )
    with reader(f"sqlite:///{file}") as views:
        with pytest.raises(LogDamaged, match="decision 2 is another one than the state includes"):
            views.datasets()
        with pytest.raises(LogDamaged, match="decision 2 is another one than the state includes"):
            find_dataset(views, "census")
    assert before[0].totals["epsilon"] == "0.1"
