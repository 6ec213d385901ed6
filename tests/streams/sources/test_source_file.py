"""The file of sources is read again when it changes; one that is broken changes nothing."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streams.errors import Refused
from streams.settings import Settings
from streams.sources.source_file import SourceFile
from streams.sources.source_settings import SourceSettings


def written(path: Path, sources: object, *, by: str = "rename") -> None:
    """Write a file of sources, in place or by a rename."""
    text = sources if isinstance(sources, str) else json.dumps(sources)
    if by == "rename":
        path.with_name("new").write_text(text)
        path.with_name("new").rename(path)
    else:
        path.write_text(text)


def move(path: Path, to: str) -> Path:
    return path.rename(path.with_name(to))


def csv(name: str, **more: Any) -> dict[str, Any]:
    return {name: {"kind": "csv", "path": f"{name}.csv", **more}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    written(tmp_path / "sources.json", csv("census"))
    return tmp_path / "sources.json"


def read(path: Path, *, reads: bool = True) -> SourceFile:
    return SourceFile(path, Settings(data_sources=path), reads=reads)


@pytest.mark.parametrize("by", ["rename", "in place"])
async def test_all_who_go_by_the_file_change_in_one_step(path: Path, by: str) -> None:
    file, steps = read(path), list[tuple[set[str], int]]()

    def use(sources: Mapping[str, SourceSettings]) -> None:
        steps.append((set(sources), file.access.generation))

    file.on_change(use)
    assert not await file.look()
    written(path, csv("census") | csv("visits"), by=by)
    assert await file.look()
    assert not await file.look()
    assert steps == [({"census", "visits"}, 0)]
    assert set(file.sources) == {"census", "visits"}
    assert (file.access.generation, file.access.has("visits")) == (1, True)
    written(path, csv("visits"), by=by)
    assert await file.look()
    assert not file.access.has("census")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("{", "must name sources"),
        ('{"census": {"kind": "csv", "path": "x"}, "census": {}}', "must name sources"),
        ({"census": {"kind": "xml", "path": "x"}}, "one of parquet, csv, duckdb, postgresql"),
        (csv("census", seconds=151), "ACCOUNTANT_CURATOR_TURN_SECONDS to at least 906"),
        (None, "cannot be read"),
        (os.mkfifo, "is not a regular file: name the file of sources"),
        (Path.mkdir, "is not a regular file: name the file of sources"),
    ],
    ids=["no json", "twice", "kind", "seconds", "away", "pipe", "directory"],
)
async def test_a_broken_file_keeps_the_one_before_and_says_so(
    path: Path, broken: object, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = read(path)
    with caplog.at_level(logging.INFO):
        if broken is None or callable(broken):
            move(path, "away")
        if callable(broken):
            broken(path)
        elif broken is not None:
            written(path, broken)
        assert not await file.look()
        assert not await file.look()
        assert caplog.text.count("sources_not_read_again") == 1
        assert (set(file.sources), file.access.generation) == ({"census"}, 0)
        (note,) = file.notes()
        assert note.startswith("the file of sources is not used, and the one before it still is: ")
        assert words in note
        if callable(broken):
            move(path, "broken")
        if broken is None:
            move(path.with_name("away"), path.name)
        else:
            written(path, csv("visits"))
        assert await file.look()
    assert file.notes() == []
    assert set(file.sources) == ({"census"} if broken is None else {"visits"})


async def test_a_gateway_leaves_the_seconds_of_sources_to_who_reads_them(path: Path) -> None:
    written(path, csv("census", seconds=151))
    with pytest.raises(Refused, match="906"):
        read(path)
    assert set(read(path, reads=False).sources) == {"census"}


async def test_what_cannot_be_found_is_a_note(path: Path) -> None:
    file = read(path)
    file.missing["census"] = "there is no such file"
    (note,) = file.notes()
    assert note.startswith("the source census is not there: there is no such file. Questions")
