"""A short-lived broker starts from what is prepared, and also without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streams.testing import LocalBroker
from streams.testing.kafka_install import kafka_jars, kafka_version
from streams.testing.quick_start import META, copy_storage, quick_directory, quick_start
from tests.nightly import NIGHTLY


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache of the test's own, with the same jars and nothing prepared."""
    jars = kafka_jars(kafka_version())[0].parent
    (tmp_path / jars.name).symlink_to(jars)
    return tmp_path


def cut(archive: Path) -> None:
    archive.write_bytes((quick_directory(kafka_version()) / archive.name).read_bytes()[:100_000])


def fill(archive: Path) -> None:
    archive.write_bytes(b"no archive" * 10_000)


def test_the_broker_maps_the_archive(broker: LocalBroker) -> None:
    maps = Path(f"/proc/{broker.pid}/maps")
    archive = quick_directory(kafka_version()) / "classes.jsa"
    assert archive.is_file()
    assert str(archive) in maps.read_text()


@pytest.mark.parametrize("damage", [cut, fill] if NIGHTLY else [cut])
def test_a_broker_starts_with_a_damaged_archive(
    broker: LocalBroker, cache: Path, damage: Callable[[Path], None]
) -> None:
    prepared = quick_directory(kafka_version(), cache=cache)
    prepared.mkdir()
    damage(prepared / "classes.jsa")
    assert quick_start(kafka_version(), cache=cache).options
    with LocalBroker(short_lived=True, cache=cache) as other:
        assert other.is_running


def test_a_broker_starts_where_nothing_can_be_prepared(cache: Path) -> None:
    prepared = quick_directory(kafka_version(), cache=cache)
    prepared.with_name(f"{prepared.name}.lock").mkdir()  # which no process can lock
    with LocalBroker(short_lived=True, cache=cache) as other:
        assert other.is_running
    assert not prepared.exists()


def test_each_copy_of_the_storage_has_ids_of_its_own(broker: LocalBroker, tmp_path: Path) -> None:
    storage = quick_start(kafka_version()).storage
    assert storage is not None
    copies = [tmp_path / name for name in ("one", "two")]
    for copy in copies:
        copy_storage(storage, copy)
    ids = [
        line
        for directory in (storage, *copies)
        for line in (directory / META).read_text().splitlines()
        if line.startswith(("cluster.id=", "directory.id="))
    ]
    assert len(set(ids)) == 6
    for copy in copies:
        assert {file.name for file in copy.iterdir()} == {file.name for file in storage.iterdir()}
        assert (copy / META).read_text().count("\n") == (storage / META).read_text().count("\n")
