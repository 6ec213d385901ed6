"""Every command refuses what versions before the first release wrote, and changes none of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.before.fixtures import ARCHIVE, HERE, LEDGERS, REFUSED, directory_contents, topics
from tests.every_case import every_case

# One test runs commands for many cases.
pytestmark = pytest.mark.timeout(600)

OPENS = ("tests/before/*",)

REASON = ("--reason", "a test")
ON_A_FILE = [
    ("serve", "--port", "0"),
    ("ask", "census", "pure:0.1", "--analyst", "ana"),
    ("dataset", "open", "new", "--epsilon", "1", "--delta", "1e-6"),
    ("dataset", "list"),
    ("dataset", "show", "census"),
    ("usage", "census"),
    ("why", "census"),
    ("head",),
    ("audit",),
    ("log", "export"),
    ("log", "archive", "old.jsonl.gz", "--before", "2026-01-26T00:00:00.000Z", *REASON),
    ("clock", "reset", *REASON),
]


@every_case("command", ON_A_FILE)
@every_case("name", [LEDGERS[0], LEDGERS[-1]])
def test_every_command_refuses_an_old_file(accountant, tmp_path: Path, command, name: str) -> None:
    shutil.copy2(HERE / f"{name}.sqlite", tmp_path / "accountant.db")
    before = directory_contents(tmp_path)
    done = accountant(*command)
    said = " ".join(done.err.split())
    assert (done.code, done.out) == (4, ""), said
    assert REFUSED in said
    assert "accountant.db" in said
    assert "Start a new ledger in another place" in said
    assert "damaged" not in said
    assert directory_contents(tmp_path) == before


def test_an_old_archive_and_an_old_export_are_refused(accountant, tmp_path: Path) -> None:
    shutil.copy2(ARCHIVE, tmp_path / "old.jsonl.gz")
    (tmp_path / "export.jsonl").write_bytes(b"".join(line + b"\n" for line in topics()[0]))
    before = directory_contents(tmp_path)
    for name in ("old.jsonl.gz", "export.jsonl"):
        done = accountant("audit", name)
        said = " ".join(done.err.split())
        assert (done.code, REFUSED in said, "damaged" in said) == (4, True, False), done
    assert directory_contents(tmp_path) == before
