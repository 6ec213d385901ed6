"""`accountant log archive`, and what the other commands say of an archived log."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from accountant.times import iso
from streams.clock import SystemClock
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import HOURS, fill, latest

SINCE_THE_SEAL = {"partition_sequence", "outcomes", "reasons", "last_decided_at"}
WHY = ("--reason", "the disk is full")


@pytest.fixture
def used(accountant, tmp_path: Path) -> Path:
    """A ledger that was used until now."""
    file = tmp_path / "accountant.db"
    fill(file, TestClock(SystemClock().now() - HOURS * 3_600_000))
    return file


@pytest.fixture
def before(used: Path) -> str:
    return iso(latest(used))


def test_archive_audit_export_and_the_rest(accountant, used, before, tmp_path):
    whole = accountant("log", "export").out
    shown = accountant("dataset", "list", "--json").rows
    counted = accountant("usage", "survey", "--by", "purpose", "--json").rows
    done = accountant("log", "archive", "old.jsonl.gz", "--before", before, *WHY)
    assert done.code == 0, done.err
    assert "decisions 0 to " in done.out
    assert "accountant audit --url sqlite:///accountant.db --archive old.jsonl.gz" in done.out

    alone = accountant("audit")
    assert alone.code == 1
    assert "right from the seal on" in alone.out
    assert "ok " not in alone.out
    assert "name each archive with --archive FILE" in " ".join(alone.out.split())
    as_json = accountant("audit", "--json")
    assert as_json.code == 1
    assert as_json.json["audit"] == "from the seal on"
    (part,) = as_json.json["partitions"]
    assert (part["report"]["ok"], part["report"]["records"]) == (False, 1)
    assert accountant("audit", "--from-seal").code == 0
    both = accountant("audit", "--archive", "old.jsonl.gz", "--json")
    assert (both.code, both.json["audit"]) == (0, "ok")
    assert accountant("audit", "old.jsonl.gz").code == 0

    refused = accountant("log", "export")
    assert refused.code == 2
    assert "the beginning of this log was archived" in refused.err
    again = accountant("log", "export", "--archive", "old.jsonl.gz").out
    assert again.startswith(whole)
    seal = json.loads(again[len(whole) :])
    assert seal["outcome"] == "sealed"
    (tmp_path / "whole.jsonl").write_text(again)
    assert accountant("audit", "whole.jsonl").code == 0

    for row, was in zip(accountant("dataset", "list", "--json").rows, shown, strict=True):
        differing = {name for name, value in was.items() if row[name] != value}
        assert differing <= SINCE_THE_SEAL, row
    assert accountant("usage", "survey", "--by", "purpose", "--json").rows == counted
    for suffix in (".index", ".index-wal", ".index-shm"):
        used.with_name(used.name + suffix).unlink(missing_ok=True)
    assert accountant("usage", "survey", "--by", "purpose", "--json").rows == counted
    assert accountant("ask", "census", "zcdp:rho=0.01", "--analyst", "ana").code == 0
    assert accountant("audit", "--archive", "old.jsonl.gz").code == 0
    assert "census" in accountant("dataset", "show", "census").out


def test_an_export_by_id_also_searches_the_archive(accountant, used, before):
    first = json.loads(accountant("log", "export").out.splitlines()[3])["request"]["request_id"]
    accountant("log", "archive", "old.jsonl.gz", "--before", before, *WHY)
    without = accountant("log", "export", "--id", first)
    assert without.code == 1
    assert "to search an archive too, add --archive FILE" in without.err
    found = accountant("log", "export", "--id", first, "--archive", "old.jsonl.gz")
    assert json.loads(found.out)["partition_sequence"] == 3


def test_a_wrong_archive_is_noticed(accountant, used, before, tmp_path):
    accountant("log", "archive", "old.jsonl.gz", "--before", before, *WHY)
    text = gzip.decompress((tmp_path / "old.jsonl.gz").read_bytes()).splitlines()
    for name, lines in (("short", text[:-1]), ("gap", [*text[:4], *text[5:]]), ("none", [])):
        (tmp_path / name).write_bytes(gzip.compress(b"\n".join(lines)))
        found = accountant("audit", "--archive", name)
        assert found.code == 1, name
        assert "disagrees" in found.out
    (tmp_path / "cut").write_bytes((tmp_path / "old.jsonl.gz").read_bytes()[:-40])
    cut = accountant("audit", "--archive", "cut")
    assert cut.code == 4
    assert "cut is damaged" in cut.err
    assert accountant("audit", "--archive", "missing").code == 2


def test_a_head_that_is_archived_needs_the_archive(accountant, used, before):
    report = accountant("audit", "--json").json["partitions"][0]["report"]
    head = f"{report['sequence']}:{report['head']}"
    done = accountant("log", "archive", "old.jsonl.gz", "--before", before, *WHY, "--json").json
    archived = f"{done['last']}:{done['head']}"
    assert accountant("audit", "--head", head, "--from-seal").code == 0
    alone = accountant("audit", "--head", archived, "--from-seal")
    assert alone.code == 2
    assert "is in an archive" in alone.err
    assert accountant("audit", "--head", archived, "--archive", "old.jsonl.gz").code == 0
    other = f"{done['last']}:sha256:{'1' * 64}"
    assert accountant("audit", "--head", other, "--archive", "old.jsonl.gz").code == 1


def test_the_archive_command_refuses_invalid_arguments(accountant, used, before):
    def error(*arguments: str) -> str:
        done = accountant("log", "archive", *arguments)
        assert done.code in {2, 4}, done
        return done.err

    late = iso(latest(used) + 1)
    assert "may still be repeated" in error("a.gz", "--before", late, *WHY)
    assert "must be P90D, PT8H, a day" in error("a.gz", "--before", "yesterday", *WHY)
    assert "after the first decision" in error("a.gz", "--before", "2001-01-01", *WHY)
    assert "reason must be 1 to 200" in error("a.gz", "--before", before, "--reason", "")
    kafka = ("--url", "kafka://127.0.0.1:9")
    assert "tiered storage" in error("a.gz", "--before", before, *WHY, *kafka)
    gateway = ("--url", "http://127.0.0.1:9")
    assert "cannot be archived over HTTP" in error("a.gz", "--before", before, *WHY, *gateway)
    assert "no such ledger" in error("a.gz", "--before", before, *WHY, "--url", "sqlite:///b.db")
    assert "has no archives" in accountant("audit", "--archive", str(used)).err
    assert accountant("audit").code == 0
