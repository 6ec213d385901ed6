"""A source's new version is read in full before anybody asks about it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from pathlib import Path

import duckdb
import pytest

from accountant.questions import Schema
from streams.curator.curator import Curator, CuratorOptions
from streams.curator.read_ahead import ReadAhead
from streams.curator.start import make_curator
from streams.settings import Settings
from streams.sources import DataSources
from streams.sources.database import SourceVersion, version_of
from streams.sources.source_access import SourceAccess
from streams.sources.source_settings import CsvSource, DuckdbSource, ParquetSource
from streams.sources.source_tables import EnvironmentProblem
from streams.sources.unfinished_reading import unfinished_while
from tests.accountant.questions.schemas import small_schema
from tests.faults.ledger import until
from tests.streams.curator.curated import SCHEMA, CuratedLedger, opened
from tests.streams.sources.source_files import with_source
from tests.threads import threads_named


def read_ahead(sources: DataSources, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Read ahead; return the causes of what could not be read."""
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        sources.read_ahead(with_source(small_schema(), "parquet"))
    return [record.getMessage() for record in caplog.records]


def test_each_version_is_read_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, unfinished = tmp_path / "t.parquet", tmp_path / "reading"
    sources = DataSources({"census": ParquetSource(path=str(path))}, unfinished=unfinished)
    assert "no such file" in read_ahead(sources, caplog)[0]
    assert read_ahead(sources, caplog) == []
    path.write_bytes(b"no parquet")
    assert "source_not_read_ahead" in read_ahead(sources, caplog)[0]
    assert read_ahead(sources, caplog) == []
    path.write_bytes(b"no parquet either")
    assert "source_not_read_ahead" in read_ahead(sources, caplog)[0]
    assert not unfinished.exists()


def test_a_reading_that_never_ends_is_tried_three_times(tmp_path: Path) -> None:
    path = tmp_path / "reading"
    version: SourceVersion = ((1, 2), None)

    def killed(version: SourceVersion, name: str = "census") -> None:
        """Try a reading, and leave the file as it is while that goes on."""
        with unfinished_while(path, name, version):
            content = path.read_bytes()
        path.write_bytes(content)

    for _ in range(3):
        killed(version)
    with pytest.raises(EnvironmentProblem, match="did not end"):
        killed(version)
    with unfinished_while(path, "other", version):
        pass
    with pytest.raises(EnvironmentProblem, match="did not end"):
        killed(version)
    # Another version is another matter, and so is a file that has lost its content.
    killed(((1, 3), None))
    path.write_bytes(b"\0\0")
    with unfinished_while(path, "census", version):
        assert path.exists()
    assert not path.exists()


class Reads:
    """Remembers what is read, and has another read it."""

    def __init__(self, sources: DataSources | None = None) -> None:
        self._sources = sources
        self.names = list[str]()
        self.threads = set[str]()

    def read_ahead(self, schema: Schema) -> None:
        if self._sources is not None:
            self._sources.read_ahead(schema)
        self.threads.add(threading.current_thread().name)
        self.names.append(schema.source.name)

    def interrupt(self) -> None:
        """Nothing takes long."""


async def test_sources_of_open_datasets_are_read(tmp_path: Path) -> None:
    ledger = CuratedLedger(tmp_path)
    reads = Reads()
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        other = {**SCHEMA, "source": {"kind": "csv", "name": "other"}}
        await ledger.send(opened("stranger", schema=other), "admin")
        await ReadAhead(ledger.service, ledger.access, reads).look()
        assert "census" in reads.names
        assert reads.threads == {"reading ahead"}
        # A dataset that may not read a source has nobody read it.
        named = CsvSource(path=str(ledger.data), datasets=("stranger",))
        reads.names.clear()
        await ReadAhead(ledger.service, SourceAccess({"census": named}, "nobody"), reads).look()
        assert reads.names == []


async def test_a_curator_reads_ahead(tmp_path: Path) -> None:
    ledger = CuratedLedger(tmp_path)
    path = ledger.data.with_name("unfinished")
    sources = DataSources({"census": CsvSource(path=str(ledger.data))}, unfinished=path)

    async with ledger.open():
        await ledger.send(opened("census"), "admin")

        reads = Reads(sources)
        curator = Curator(
            ledger.service,
            ledger.store,
            ledger.answering,
            CuratorOptions(),
            access=ledger.access,
            read_ahead=reads,
        )
        await curator.open()
        task = asyncio.create_task(curator.run())
        try:
            await until(lambda: reads.names == ["census"], "the source is read")
            assert not path.exists()
        finally:
            curator.stop()
            await task


async def test_nothing_is_written_beside_data_that_are_read_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, state = tmp_path / "data", tmp_path / "state"
    data.mkdir()
    state.mkdir()
    (data / "sources.json.reading").mkdir()  # nothing can be written here
    ledger = CuratedLedger(data)
    source = {"kind": "csv", "path": "census.csv"}
    (data / "sources.json").write_text(json.dumps({"census": source}))
    counted = {"version": version_of(CsvSource(path=str(ledger.data))), "number": 3}
    (state / "sources.reading").write_text(json.dumps({"census": counted}))
    settings = Settings(
        data_sources=data / "sources.json",
        data_sources_key=state / "sources.key",
        data_sources_confirmed=state / "sources.confirmed",
    )
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        curator = make_curator(ledger.service, ledger.store, settings)
        await curator.open()
        with caplog.at_level(logging.ERROR):
            task = asyncio.create_task(curator.run())
            try:
                await until(lambda: "source_not_read_ahead" in caplog.text, "it is tried")
            finally:
                curator.stop()
                await task
    assert f"{state / 'sources.reading'} counts them" in caplog.text
    assert {file.name for file in state.iterdir()} == {
        *("sources.key", "sources.confirmed", "sources.confirmed.lock", "sources.reading")
    }


async def test_the_end_of_a_curator_interrupts_a_long_reading(tmp_path: Path) -> None:
    ledger = CuratedLedger(tmp_path)
    path = tmp_path / "slow.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(
            "CREATE VIEW slow AS SELECT a.range AS age, 'north' AS region "
            "FROM range(10000000) a, range(10000000) b"
        )
    unfinished = tmp_path / "reading"
    settings = DuckdbSource(path=str(path), table="slow")
    schema = {**SCHEMA, "source": {"kind": "duckdb", "name": "slow"}}
    before = threads_named("reading ahead")
    async with ledger.open():
        await ledger.send(opened("census", schema=schema), "admin")
        ahead = ReadAhead(
            ledger.service,
            SourceAccess({"slow": settings}, "population"),
            DataSources({"slow": settings}, unfinished=unfinished),
        )
        task = asyncio.create_task(ahead.run())
        await until(unfinished.exists, "the reading has begun")
        task.cancel()
        await asyncio.wait({task})
    assert threads_named("reading ahead") <= before
    # It has ended by itself, so it does not count as one that ended the process.
    assert not unfinished.exists()
