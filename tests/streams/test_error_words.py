"""Messages for people have words where libraries have names of classes."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import apsw
import duckdb
import httpx
import pytest
from aiokafka import errors as kafka

from streams.error_words import meaning_of, words_of, write_words
from streams.errors import Fenced, Refused
from streams.sources.database import cause_of

ROOT = Path(__file__).resolve().parents[2]
NAMES = re.compile(r"type\((?:error|fault|problem|exc)\)\.__(?:qual)?name__|\{(?:error|fault)!r\}")
FOR_PROGRAMS = {
    "streams/error_words.py",
    "streams/metrics/partition_counters.py",  # a label of a metric
    "streams/processing/processor.py",  # of a defect, in the log
    "accountant/replay/audit.py",  # what a forged record made the reader raise
}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx.ConnectError(""), "there is no connection"),
        (httpx.ReadTimeout(""), "no answer came in time"),
        (httpx.RemoteProtocolError("bad line"), "the answer is not HTTP: bad line"),
        (kafka.NotLeaderForPartitionError(), "not leader for partition"),
        (kafka.KafkaConnectionError("broker:1"), "there is no connection: broker:1"),
        (apsw.BusyError("BusyError: database is locked"), "another process uses it: database is"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (TimeoutError(), "no answer came in time"),
        (Refused("FILE is damaged. Restore it"), "FILE is damaged. Restore it"),
        (Fenced(), "fenced"),
        (KeyError("x"), "an unexpected KeyError: 'x'"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_is_words(error: BaseException, words: str) -> None:
    assert words_of(error).startswith(words)
    assert type(error).__name__ not in words_of(error) or isinstance(error, KeyError)


def test_what_an_error_means_has_nothing_of_its_text() -> None:
    secret = "https://hooks.example.org/secret"
    for error in (httpx.ConnectError(secret), httpx.InvalidURL(secret), ValueError(secret)):
        assert secret not in meaning_of(error)


def test_each_error_of_the_engine_has_words_without_its_name() -> None:
    kinds = [each for each in vars(duckdb).values() if isinstance(each, type)]
    errors = [each for each in kinds if issubclass(each, duckdb.Error)]
    assert len(errors) > 20
    for kind in errors:
        found = cause_of(kind("a cell"))
        assert found[0].islower()
        assert not re.search(r"Exception|Error|cell\b.*a cell|InterruptException", found)


def test_no_message_names_the_class_of_an_error() -> None:
    wrong = list[str]()
    for path in [*ROOT.glob("streams/**/*.py"), *ROOT.glob("accountant/**/*.py")]:
        name = str(path.relative_to(ROOT))
        for line in path.read_text("utf-8").split("\n"):
            # A field `error` of a line of the log is for those who mend this program.
            without = line.replace("error=type(error).__name__", "")
            if NAMES.search(without) and name not in FOR_PROGRAMS:
                wrong.append(f"{name}: {line.strip()}")
    assert not wrong


class OfPython(Exception):
    """As Python's own SQLite, of the store of results, says it."""

    sqlite_errorname = "SQLITE_FULL"


@pytest.mark.parametrize("kind", ["of the system", "a quota", "apsw", "of Python"])
def test_a_full_disk_names_the_directory_and_the_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {
        "of the system": OSError(errno.ENOSPC, "No space left on device"),
        "a quota": OSError(errno.EDQUOT, "Disk quota exceeded"),
        "apsw": apsw.FullError("FullError: database or disk is full"),
        "of Python": OfPython("database or disk is full"),
    }[kind]
    monkeypatch.chdir(tmp_path)
    said = write_words(error, Path("ledger.db"))
    assert said == f"the disk is full: {tmp_path} has no space for ledger.db"
    assert write_words(PermissionError(errno.EACCES, "Permission denied"), tmp_path) == (
        "Permission denied"
    )
