"""The file of sources, and the key of the hash that chooses rows."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streams.errors import Refused
from streams.sources import default_key_path, load_contribution_key, read_data_sources
from streams.sources.source_settings import CsvSource, ParquetSource, PostgresqlSource


def test_paths_begin_at_the_directory_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "sources.json"
    path.write_text(
        '{"a": {"kind": "parquet", "path": "a.parquet"},'
        ' "b": {"kind": "csv", "path": "/data/b.csv", "delimiter": ";", "memory_mb": 256},'
        ' "c": {"kind": "postgresql", "connection_file": "c.txt", "table": "public.t"}}'
    )
    assert dict(read_data_sources(path)) == {
        "a": ParquetSource(path=str(tmp_path / "a.parquet")),
        "b": CsvSource(path="/data/b.csv", delimiter=";", memory_mb=256),
        "c": PostgresqlSource(connection_file=str(tmp_path / "c.txt"), table="public.t"),
    }


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", '{"a": {}}', '{"a": {"kind": "excel", "path": "a"}}', '{"a": {"kind": "csv"}}'),
        '{"a": {"kind": "csv", "path": "a", "more": 1}}',
        '{"a": {"kind": "csv", "path": "a", "delimiter": "\'"}}',
        '{"a": {"kind": "csv", "path": "a", "threads": 0}}',
        # names that no schema can have
        *('{"a-b": {"kind": "csv", "path": "a"}}', '{"\u0430": {"kind": "csv", "path": "a"}}'),
    ],
)
def test_a_file_of_another_form_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "sources.json"
    path.write_text(text)
    with pytest.raises(Refused, match=r"sources\.json must name sources, such as"):
        read_data_sources(path)
    with pytest.raises(Refused, match="cannot be read"):
        read_data_sources(tmp_path / "absent.json")


def test_a_key_is_made_once_for_its_user_alone(tmp_path: Path) -> None:
    path = default_key_path(tmp_path / "sources.json")
    assert path.name == "sources.json.key"
    old = os.umask(0)
    try:
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(load_contribution_key, path).result()
    finally:
        os.umask(old)
    assert len(first) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_contribution_key(path) == first
    assert load_contribution_key(tmp_path / "other.key") != first
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other.key", "sources.json.key"]


def test_a_key_that_others_can_read_or_of_another_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    load_contribution_key(path)
    path.chmod(0o644)
    with pytest.raises(Refused, match="chmod 600"):
        load_contribution_key(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(Refused, match="must have 32 bytes"):
        load_contribution_key(path)
    with pytest.raises(Refused, match="cannot be made"):
        load_contribution_key(tmp_path / "absent" / "key")
