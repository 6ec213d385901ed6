"""`accountant evidence`: what it writes, of which ledgers, and that verify.py runs alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from accountant.times import iso
from accountant.views.joint import BOUNDED_RELEASES
from streams.audit.evidence_folder import new_folder
from streams.cli.evidence_parts import write_ledger
from streams.clock import SystemClock
from streams.embedded.sqlite_log import SqliteLog
from streams.log.decision_log import Part
from tests.streams.cli.authenticated_server import authenticated_server
from tests.streams.cli.conftest import Command
from tests.streams.cli.here import run_here
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import HOURS, fill, latest
from tests.streams.evidence.handed_over import (
    FILES,
    from_outside,
    make_evidence,
    make_ledger,
    manifest_of,
    verified,
    wrong,
)

ALWAYS = {
    *("MANIFEST.txt", "SHA256SUMS", "answers.jsonl", "audit.json", "audit.txt", "datasets.jsonl"),
    *("datasets.txt", "keys.txt", "log.jsonl", "manifest.json", "not-covered.txt"),
    *("statements.txt", "verify.py"),
}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("used")
    make_ledger(directory)
    make_evidence(directory)
    return directory


def names(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def missing(folder: Path) -> dict[str, str]:
    return {each["what"]: each["why"] for each in manifest_of(folder)["missing"]}


def secret_of(file: Path) -> str:
    """Return what is secret in PRIVATE+KEY+NAME+ID+BASE64; BASE64 itself may have a plus."""
    return file.read_text().strip().split("+", 4)[4]


def alone(folder: Path, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the verifier where there is nothing but the evidence, and no variable is set."""
    shutil.copytree(folder, directory / "alone")
    command = [sys.executable, "-I", "-S", "alone/verify.py", *arguments]
    return subprocess.run(command, cwd=directory, env={}, capture_output=True, text=True)


def test_the_folder_is_private_and_says_what_it_has_and_lacks(used: Path) -> None:
    folder = used / "given"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.rglob("*.*")} == {0o600}
    found = names(folder)
    notes = {each for each in found if each.startswith("checkpoints/")}
    assert found - notes == ALWAYS
    assert {each.rpartition(".")[2] for each in notes} == {"note", "head"}
    assert missing(folder) == {"receipts": "none was named with --receipt"}
    listed = {each["name"] for each in manifest_of(folder)["files"]}
    assert listed == found - {"manifest.json", "SHA256SUMS"}
    assert json.loads((folder / "audit.json").read_text())["audit"] == "ok"
    assert "ε = 1, δ = 1e-6" in (folder / "datasets.txt").read_text()
    not_covered = (folder / "not-covered.txt").read_text()
    assert "None: the guarantee of each dataset holds as datasets.txt states it." in not_covered
    assert "Erasure" in not_covered


def test_what_owners_say_of_the_past_is_there_in_words(accountant: Command) -> None:
    budget = ("--epsilon", "1", "--filter", "basic", "--access", "anyone")
    assert accountant("dataset", "open", "census", *budget).code == 0
    document, other = accountant.directory / "table.pdf", accountant.directory / "other.pdf"
    document.write_bytes(b"rows")
    other.write_bytes(b"other rows")
    outside = ("--at", "2026-01-01", "--evidence", "a [table]", "--document", str(document))
    assert accountant("dataset", "record", "census", "pure:0.1", *outside, "--yes").code == 0
    assert accountant("dataset", "remark", "census", "2", "by mistake", "--yes").code == 0
    digest = hashlib.sha256(b"rows").hexdigest()
    assert accountant("evidence", "without").code == 0
    assert f"document sha256:{digest}" in missing(accountant.directory / "without")
    wrong_one = accountant("evidence", "wrong", "--document", str(other))
    assert (wrong_one.code, "no record of a release names" in wrong_one.err) == (4, True)
    assert accountant("evidence", "whole", "--document", str(document)).code == 0
    folder = accountant.directory / "whole"
    first, second = (folder / "statements.txt").read_text().splitlines()
    assert "owner records pure:0.1, released at 2026-01-01 00:00 UTC, charged ε 0.1" in first
    assert first.endswith(f'Evidence: "a [table]", document sha256:{digest}')
    assert second.endswith('owner says of decision 2: "by mistake"')
    assert (folder / f"documents/{digest}.pdf").read_bytes() == b"rows"
    assert verified(folder)[0] in {0, 3}


def test_what_is_not_covered_begins_with_the_datasets_of_the_ledger(accountant: Command) -> None:
    for name in ("certain", "past", "recorded"):
        budget = ("--epsilon", "1", "--filter", "basic", "--access", "anyone")
        assert accountant("dataset", "open", name, *budget).code == 0
    outside = ("--at", "2026-01-01", "--evidence", "a table", "--yes")
    assert accountant("dataset", "record", "past", "pure:2", *outside).code == 0
    assert accountant("dataset", "record", "recorded", "pure:0.1", *outside).code == 0
    done = accountant("evidence", "whole")
    assert done.code == 0, done.out + done.err
    own, others = (
        (accountant.directory / "whole/not-covered.txt")
        .read_text()
        .split("What no guarantee covers\n")
    )
    lines = own.splitlines()[3:]
    assert len(lines) == 3, lines
    past, recorded, blank = lines
    assert past == "- past: none: a release made elsewhere did not fit the budget"
    assert recorded == f"- recorded: ε = 1, δ = 0, {BOUNDED_RELEASES}"
    assert blank == ""
    assert "Erasure" in others


def test_the_verifier_runs_alone_in_an_empty_environment(used: Path, tmp_path: Path) -> None:
    done = alone(used / "given", tmp_path, *from_outside(used / "given"))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = done.stdout.splitlines()
    assert [each.split(":")[0] for each in lines if each.startswith("ok")] == [
        f"ok    {name}"
        for name in ("files", "log", "datasets", "answers", "checkpoints", "receipts", "ledger")
    ]
    assert lines[-1].startswith("needs accountant audit: ")


def test_the_verifier_says_of_a_wrong_key_how_one_is_written(used: Path, tmp_path: Path) -> None:
    done = alone(used / "given", tmp_path, "--key", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "--key must be as a line of keys.txt, NAME+ID+BASE64\n"


def test_no_secret_is_in_the_folder(used: Path) -> None:
    secret = next(used.rglob("checkpoints/key"))
    rows = (used / "census.csv").read_text().splitlines()[1:]
    for each in (used / "given").rglob("*.*"):
        text = each.read_text()
        assert "PRIVATE" not in text or each.name == "verify.py"
        assert secret_of(secret) not in text
        assert not {line for line in text.splitlines() if line in rows}


def test_a_private_key_is_no_key_and_is_not_shown(used: Path) -> None:
    secret = next(used.rglob("checkpoints/key"))
    line = ("evidence", "new", "--url", "sqlite:///ledger.db", "--key", str(secret))
    done = run_here(used, *line)
    assert done.code == 4
    assert "a public key must be" in done.err
    assert secret_of(secret) not in done.err + done.out
    assert not (used / "new").exists()


def test_nothing_is_replaced_and_nothing_is_left_of_a_failure(used: Path) -> None:
    before = sorted(used.iterdir())
    done = run_here(used, "evidence", "given", "--url", "sqlite:///ledger.db")
    assert (done.code, "given exists" in done.err) == (4, True), done.err
    done = run_here(used, "evidence", "new", "--url", "sqlite:///absent.db")
    assert done.code == 4
    assert sorted(used.iterdir()) == before
    with pytest.raises(RuntimeError):
        fail_within(used / "new")
    assert sorted(used.iterdir()) == before


def fail_within(folder: Path) -> None:
    with new_folder(folder) as made:
        made.add("half", "half", b"half")
        raise RuntimeError


def test_a_killed_process_leaves_nothing_behind_the_next_folder(used: Path) -> None:
    before = {each.name for each in used.iterdir()}
    kill_within(used / "killed")
    (left,) = {each.name for each in used.iterdir()} - before
    assert left.startswith(".accountant-evidence-")
    with new_folder(used / "next") as made:
        made.add("whole", "whole", b"whole")
    assert {each.name for each in used.iterdir()} - before == {"next"}


def kill_within(folder: Path) -> None:
    """Kill a process that has written a part of a folder."""
    child = os.fork()
    if not child:
        try:
            with new_folder(folder) as made:
                made.add("half", "half", b"half")
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_a_copy_without_its_answers_and_checkpoints_says_so(used: Path, tmp_path: Path) -> None:
    shutil.copy(used / "ledger.db", tmp_path)
    line = ("evidence", "given", "--url", "sqlite:///ledger.db", "--json")
    done = run_here(tmp_path, *line, accountant_checkpoints=str(tmp_path / "none"))
    assert done.code == 0, done.err
    folder = tmp_path / "given"
    assert {"answers", "checkpoints", "public key"} <= missing(folder).keys()
    assert done.json["missing"] == manifest_of(folder)["missing"]
    assert {each["name"] for each in done.json["files"]} == names(folder)
    code, found = verified(folder, "--ledger", from_ledger(folder))
    assert (code, wrong(found)) == (3, [])


def from_ledger(folder: Path) -> str:
    return str(manifest_of(folder)["ledger"])


def test_one_dataset_of_a_file_has_its_answers(used: Path) -> None:
    folder = make_evidence(used, "--dataset", "census", folder="of-census")
    assert len((folder / "answers.jsonl").read_text().splitlines()) == 2
    records = (folder / "records.jsonl").read_text()
    assert {json.loads(line)["dataset"] for line in records.splitlines()} == {"census"}
    code, found = verified(folder)
    assert (code, wrong(found)) == (3, [])
    assert "NOT PROVED: the records are not chained" in found["notes"]


class Growing(SqliteLog):
    """A log whose ledger answers a question while the log is read for the first time."""

    def __init__(self, path: Path, later: Path) -> None:
        super().__init__(path)
        self._later: Path | None = later

    def parts(self, *, since: int | None = None, only: int | None = None) -> Iterator[Part]:
        if self._later is not None:
            for name in FILES:
                shutil.copy(self._later / name, self.path.parent / name)
        self._later = None
        yield from super().parts(since=since, only=only)


def test_an_answer_that_is_stored_meanwhile_is_in_the_folder(used: Path, tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(used / f"earlier-{name}", tmp_path / name)
    file = tmp_path / "ledger.db"
    source = Growing(file, used)
    with chdir(tmp_path), new_folder(tmp_path / "given") as made:
        assert write_ledger(made, f"sqlite:///{file}", source, (), ["."], (), (), None, ())
    assert len((tmp_path / "given" / "answers.jsonl").read_text().splitlines()) == 2
    code, found = verified(tmp_path / "given")
    assert (code, wrong(found)) == (3, [])


def test_what_the_audit_finds_is_in_the_folder(used: Path, tmp_path: Path) -> None:
    for name in ("ledger.db", "ledger.db.answers"):
        shutil.copy(used / name, tmp_path)
    notes = tmp_path / "notes"
    shutil.copytree(used / "checkpoints", notes)
    for each in notes.rglob("*.note"):
        each.write_text(each.read_text().replace("\n— accountant ", "\n— accountant A"))
    key = from_outside(used / "given")[1]
    folder = make_evidence(tmp_path, "--checkpoints", str(notes), "--key", key, code=1)
    assert json.loads((folder / "audit.json").read_text())["audit"] == "failed"
    code, found = verified(folder, *from_outside(folder))
    assert (code, wrong(found)) == (1, ["checkpoints"])


def test_a_log_whose_beginning_is_archived(accountant: Command, tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    fill(file, TestClock(SystemClock().now() - HOURS * 3_600_000))
    line = ("--before", iso(latest(file)), "--reason", "full", "--url", "sqlite:///ledger.db")
    archived = accountant("log", "archive", "old.jsonl.gz", *line)
    assert archived.code == 0, archived.err

    cut = make_evidence(tmp_path, folder="cut")
    assert "decisions 1 to " in missing(cut)["beginning of the log"]
    code, found = verified(cut, "--ledger", from_ledger(cut))
    assert (code, wrong(found)) == (3, [])
    assert "from the seal on" in found["checks"][1]["found"]

    whole = make_evidence(tmp_path, "--archive", str(tmp_path / "old.jsonl.gz"), folder="whole")
    assert "archives/1-old.jsonl.gz" in names(whole)
    code, found = verified(whole, "--ledger", from_ledger(whole))
    assert (code, wrong(found)) == (3, [])
    assert "in full" in found["checks"][1]["found"]
    assert "beginning of the log" not in missing(whole)
    lines = (cut / "log.jsonl").read_bytes().splitlines(keepends=True)
    (cut / "log.jsonl").write_bytes(b"".join(lines[:1] + lines[2:-1]))
    assert verified(cut)[1]["checks"][1]["ok"] is False


def test_an_owner_of_one_dataset_gets_its_records_from_a_server(accountant: Command) -> None:
    with authenticated_server(accountant) as server:
        policy = ("--filter", "basic", "--epsilon", "1", "--access", "members")
        for name, owner in (("census", "olga"), ("other", "otto")):
            line = ("dataset", "open", name, *policy, "--owner", owner, "--url", server.url)
            server.done("root", *line)
        server.done(
            "olga", "member", "set", "census", "ana", "--role", "analyst", "--url", server.url
        )
        server.done("ana", "ask", "census", "pure:0.05", "--url", server.url)
        made = server.by("olga", "evidence", "given", "--dataset", "census", "--url", server.url)
        assert made.code == 0, made.err
        refused = server.by("otto", "evidence", "new", "--dataset", "census", "--url", server.url)
        assert refused.code == 1, refused.err
        whole = server.by("olga", "evidence", "new", "--url", server.url)
        assert (whole.code, "add --dataset NAME" in whole.err) == (2, True), whole.err
    folder = accountant.directory / "given"
    assert not (accountant.directory / "new").exists()
    text = "".join(each.read_text() for each in folder.rglob("*.*"))
    assert server.tokens["olga"] not in text
    assert "otto" not in text
    assert "NOT CHAINED" in (folder / "MANIFEST.txt").read_text()
    code, found = verified(folder)
    assert (code, wrong(found)) == (3, [])
    records = (folder / "records.jsonl").read_text()
    (folder / "records.jsonl").write_text(records.replace('"epsilon":"0.05"', '"epsilon":"0.04"'))
    assert wrong(verified(folder)[1]) == ["files", "log"]
