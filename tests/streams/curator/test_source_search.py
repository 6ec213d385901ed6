"""Who runs a curator learns at once which sources are not there."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from functools import partial
from pathlib import Path

import duckdb
import pytest

from streams.curator.source_search import SourceSearch
from streams.curator.start import make_curator
from streams.settings import Settings
from streams.sources.source_file import SourceFile
from tests.faults.ledger import until
from tests.streams.curator.curated import CuratedLedger, comes_true, opened, question

FOUND = {
    "no_file": ({"kind": "csv", "path": "away.csv"}, "there is no such file"),
    "no_directory": ({"kind": "parquet", "path": "away/x.parquet"}, "there is no such directory"),
    "no_match": ({"kind": "csv", "path": "away-*.csv"}, "no file matches its pattern"),
    "pipe": (
        {"kind": "csv", "path": "pipe"},
        "its path is a pipe or a device. Name a regular file",
    ),
    "no_table": (
        {"kind": "duckdb", "path": "people.duckdb", "table": "others"},
        "there is no such table",
    ),
    "a_view": ({"kind": "duckdb", "path": "people.duckdb", "table": "costly"}, None),
    "a_table": ({"kind": "duckdb", "path": "people.duckdb", "table": "people"}, None),
    "no_connection": (
        {"kind": "postgresql", "connection_file": "away.txt", "table": "people"},
        "the connection's file cannot be read",
    ),
}


def sources_of(directory: Path) -> SourceFile:
    with duckdb.connect(directory / "people.duckdb") as connection:
        connection.execute("CREATE TABLE people AS SELECT 30 AS age")
        connection.execute(
            "CREATE VIEW costly AS SELECT a.range AS age FROM range(10000000) a, range(10000000) b"
        )
    os.mkfifo(directory / "pipe")
    path = directory / "sources.json"
    path.write_text(json.dumps({name: fields for name, (fields, _) in FOUND.items()}))
    return SourceFile(path, Settings(data_sources=path), reads=True)


async def test_each_source_that_is_not_there_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = sources_of(tmp_path)
    search = SourceSearch(file)
    with caplog.at_level(logging.INFO):
        await search.look()
        missing = {name: why for name, (_, why) in FOUND.items() if why}
        if "no_connection" in file.missing:  # its words depend on what is installed here
            missing["no_connection"] = file.missing["no_connection"]
        assert file.missing == missing
        assert len(file.notes()) == len(missing)
        assert caplog.text.count("source_not_found") == len(missing)
        await search.look()
        assert caplog.text.count("source_not_found") == len(missing), "once"
        (tmp_path / "away.csv").write_text("age\n7\n")
        await search.look()
    assert "no_file" not in file.missing
    assert "source_found" in caplog.text


async def test_a_curator_reads_its_file_again_and_answers_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.sources.source_file._EVERY_S", 0.1)
    ledger, path = CuratedLedger(tmp_path), tmp_path / "sources.json"
    path.write_text(json.dumps({"other": {"kind": "csv", "path": "away.csv"}}))
    settings = Settings(data_sources=path, curator_tick_seconds=0.1)
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        curator = make_curator(ledger.service, ledger.store, settings)
        await curator.open()
        task = asyncio.create_task(curator.run())
        try:
            file = curator.file
            assert file is not None
            await until(lambda: file.missing, "the start says what is not there")
            grant = await ledger.ask(question())
            await until(lambda: "question_waits_for_its_source" in caplog.text, "it waits")
            path.write_text(json.dumps({"census": {"kind": "csv", "path": "census.csv"}}))
            answer = partial(ledger.store.get, grant)
            assert await comes_true(answer), "the changed file is not read"
            assert (await ledger.answer(grant)).outcome == "answered"
            await until(lambda: not file.notes(), "nothing is missing")
            await until(lambda: caplog.text.count("source_without_datasets") == 2, "who reads it")
        finally:
            curator.stop()
            await task
