"""Heads, checkpoints, and what an audit with them says of a log that was tampered with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from accountant.partition import hash_of
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records import decode_decision, encode
from accountant.records.inputs import Input
from accountant.replay.apply import parse_source
from accountant.replay.replay import Replay
from accountant.times import from_iso, iso
from streams.client import Accountant
from streams.client.releases.store import ResultStore
from streams.clock import SystemClock
from streams.embedded.ledger_file import read_decisions
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import HOURS, fill, latest
from tests.streams.evidence.handed_over import verdict

Log = list[bytes]


@pytest.fixture
def key(accountant, tmp_path: Path) -> str:
    """The public half of a key in the file `key`."""
    done = accountant("key", "create", "key", "--name", "census.example.org")
    assert done.code == 0, done.err
    assert accountant("key", "show", "key").out == done.out
    return done.out.strip()


def ask(accountant, times: int) -> None:
    for _ in range(times):
        assert accountant("ask", "census", "pure:0.001", "--analyst", "ana").code == 0


@pytest.fixture
def stored_checkpoints(opened, key) -> str:
    """A ledger of whose log three checkpoints were kept, the last of its last decision."""
    for _ in range(3):
        ask(opened, 2)
        assert opened("head", "--key", "key", "--to", "kept").code == 0
    return key


def run_audit(accountant, key: str, *more: str):
    return accountant("audit", *more, "--checkpoints", "kept", "--key", key)


def test_a_log_agrees_with_its_checkpoints(opened, stored_checkpoints, tmp_path):
    done = run_audit(opened, stored_checkpoints)
    assert done.code == 0, done.out
    assert "3 checkpoints agree, the last of decision 7" in done.out
    ask(opened, 1)  # the log may go on
    as_json = run_audit(opened, stored_checkpoints, "--json").json
    assert as_json["audit"] == "ok"
    assert as_json["checkpoints"]["ok"] is True
    assert as_json["checkpoints"]["partitions"][0]["agree"] == 3
    (tmp_path / "public").write_text(stored_checkpoints)
    assert run_audit(opened, "public").code == 0


def test_a_head_is_printed_and_signed(opened, key):
    line = opened("head").out.splitlines()[-1]
    number, digest = line.split()[-1].split(":", 1)
    assert opened("audit", "--head", f"{number}:{digest}").code == 0
    as_json = opened("head", "--json").json
    assert as_json["head"] == digest
    note = opened("head", "--key", "key").out
    assert note.startswith(f"accountant/{as_json['ledger']}/0\n{int(number) + 1}\n")
    assert "— census.example.org " in note


def test_a_ledger_that_was_replaced_fails_the_audit(
    opened, accountant, stored_checkpoints, tmp_path
):
    old = opened("head", "--json").json["ledger"]
    assert opened("head").out.splitlines()[0] == f"ledger {old}"
    for name in ("accountant.db", "accountant.db-wal", "accountant.db-shm", "accountant.db.index"):
        (tmp_path / name).unlink(missing_ok=True)
    again = ("dataset", "open", "census", "--epsilon", "1", "--filter", "basic", "--by", "owner")
    refused = accountant(*again)
    assert refused.code == 4
    assert "is missing, and ledger" in refused.err
    assert "--replace-ledger" in refused.err
    assert not (tmp_path / "accountant.db").exists()
    done = accountant(*again, "--replace-ledger")
    assert done.code == 0, done.err
    ask(opened, 1)
    assert opened("head", "--key", "key", "--to", "kept").code == 0
    new = opened("head", "--json").json["ledger"]

    done = run_audit(opened, stored_checkpoints)
    assert done.code == 1
    said = " ".join(done.out.split())
    assert f"another ledger {old}: it has 3 checkpoints there, the last of decision 7" in said
    assert f"ledger {new}" in said
    (other,) = run_audit(opened, stored_checkpoints, "--json").json["checkpoints"]["others"]
    assert (other["ledger"], other["checkpoints"], other["key"]) == (old, 3, stored_checkpoints)

    meant = run_audit(opened, stored_checkpoints, "--ledger", new)
    assert meant.code == 0, meant.out
    assert run_audit(opened, stored_checkpoints, "--ledger", old).code == 1
    assert run_audit(opened, stored_checkpoints, "--ledger", f" {new.upper()} ").code == meant.code
    for unlike in ("", f"ledger {new}", new[:-1]):
        unclear = run_audit(opened, stored_checkpoints, "--ledger", unlike)
        assert (unclear.code, "--ledger must be" in unclear.err) == (2, True)
    wrong = opened("audit", "--ledger", old)
    assert wrong.code == 1
    assert f"expected {old} found {new}" in " ".join(wrong.out.split())


def test_checkpoints_of_another_ledger_fail_no_audit(
    opened, accountant, stored_checkpoints, tmp_path
):
    assert accountant("key", "create", "theirs").code == 0
    other = f"sqlite:///{tmp_path}/other.db"
    accountant(
        "dataset",
        "open",
        "x",
        "--epsilon",
        "1",
        "--filter",
        "basic",
        "--by",
        "owner",
        "--url",
        other,
    )
    assert accountant("head", "--url", other, "--key", "theirs", "--to", "kept").code == 0
    assert run_audit(opened, stored_checkpoints).code == 0


def rewritten(log: Log) -> Log:
    """Return a log whose chain is right again, whatever was done to its decisions."""
    out: Log = []
    for value in log:
        decision = json.loads(value)
        decision["partition_sequence"] = len(out)
        decision["previous"] = hash_of(out[-1]) if out else decision["previous"]
        out.append(encode(decode_decision(json.dumps(decision))))
    return out


def last_edited(log: Log) -> Log:
    return [*log[:-1], log[-1].replace(b'"ana"', b'"eve"')]


TAMPERED: dict[str, tuple[Callable[[Log], Log], str]] = {
    "edited": (lambda log: [*log[:3], log[3].replace(b'"ana"', b'"eve"'), *log[4:]], "differs"),
    "dropped": (lambda log: rewritten([*log[:3], *log[4:]]), "truncated"),
    "swapped": (lambda log: rewritten([*log[:3], log[4], log[3], *log[5:]]), "differs"),
    "doubled": (lambda log: rewritten([*log[:4], log[3], *log[4:]]), "differs"),
    "truncated": (lambda log: log[:-1], "truncated"),
    "cut to its opening": (lambda log: log[:2], "truncated"),
    "its last decision": (last_edited, "differs"),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_an_audit_names_each_kind_of_tampering(opened, stored_checkpoints, tmp_path, how):
    change, named = TAMPERED[how]
    log = opened("log", "export").out.encode().splitlines()
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(change(log)))
    done = run_audit(opened, stored_checkpoints, "log.jsonl")
    assert done.code == 1
    assert named in done.out, done.out
    assert (
        run_audit(opened, stored_checkpoints, "log.jsonl", "--json").json["checkpoints"]["ok"]
        is False
    )


def recomputed(log: Log, without: int) -> Log:
    """Return the log that the same requests would have made without one of them."""
    first = decode_decision(log[0])
    assert first.genesis is not None
    refold = Replay(first.genesis)
    refold.take_decision(log[0])
    draft, out = Draft(refold.finish()), [log[0]]
    for number, value in enumerate(log[1:], 1):
        decision = decode_decision(value)
        if number == without or decision.source is None:
            continue
        source, at = parse_source(decision.source.topic), from_iso(decision.decided_at)
        body = bytes(decision.request)
        out.append(decide(draft, Input(source, draft.next[source], None, body, at), at).value)
    return out


def test_a_recomputed_log_is_named_though_its_audit_passes(opened, stored_checkpoints, tmp_path):
    log = opened("log", "export").out.encode().splitlines()
    (tmp_path / "recomputed.jsonl").write_bytes(b"\n".join(recomputed(log, 4)))
    assert opened("audit", "recomputed.jsonl").code == 0
    done = run_audit(opened, stored_checkpoints, "recomputed.jsonl")
    assert done.code == 1
    assert "truncated" in done.out
    assert "differs: decision 5 is" in done.out
    assert "decided again, after decision 3" in done.out


def test_an_old_backup_is_named(opened, stored_checkpoints, tmp_path):
    backup = tmp_path / "backup.db"
    shutil.copy(tmp_path / "accountant.db", backup)
    ask(opened, 1)
    opened("head", "--key", "key", "--to", "kept")
    done = run_audit(opened, stored_checkpoints, "backup.db")
    assert done.code == 1
    assert "truncated: the log ends at decision 7, but decision 8 was signed" in done.out
    shutil.copy(backup, tmp_path / "accountant.db")
    unseen = partial(opened, ACCOUNTANT_CHECKPOINTS="off")
    ask(unseen, 1)  # the copy goes on, another way
    forked = run_audit(opened, stored_checkpoints)
    assert forked.code == 1
    assert "differs: decision 8 is" in forked.out
    assert "decided again, after decision 7" in forked.out
    opened("head", "--key", "key", "--to", "kept")
    assert (
        "fork: decision 8 of branch 0 was signed twice" in run_audit(opened, stored_checkpoints).out
    )


def test_another_ledgers_log_is_named(opened, stored_checkpoints):
    url = ("--url", "sqlite:///other.db")
    opened("dataset", "open", "survey", "--epsilon", "1", "--filter", "basic", *url)
    done = run_audit(opened, stored_checkpoints, "other.db")
    assert done.code == 1
    assert "no checkpoint of this ledger was found" in done.out


def test_a_checkpoint_without_a_valid_signature_fails_the_audit(
    opened, stored_checkpoints, tmp_path
):
    other = opened("key", "create", "other").out.strip()
    assert run_audit(opened, other).code == 1
    both = opened("audit", "--checkpoints", "kept", "--key", other, "--key", stored_checkpoints)
    assert both.code == 0
    note = next((tmp_path / "kept").rglob("*.note"))
    note.write_bytes(note.read_bytes().replace(b"branch 0", b"branch 1"))
    done = run_audit(opened, stored_checkpoints)
    assert done.code == 1
    assert "no known key has signed it" in done.out


def test_a_receipt_is_found_or_reported_as_missing(opened, stored_checkpoints, tmp_path):
    asked = opened("ask", "census", "pure:0.001", "--analyst", "ana", "--json")
    (tmp_path / "receipt.json").write_text(asked.out)
    found = opened("audit", "--receipt", "receipt.json")
    assert found.code == 0, found.out
    assert "receipt of decision 8, partition 0: in the log" in found.out
    assert (
        "no checkpoint covers it yet"
        in run_audit(opened, stored_checkpoints, "--receipt", "receipt.json").out
    )
    opened("head", "--key", "key", "--to", "kept")
    under = run_audit(opened, stored_checkpoints, "--receipt", "receipt.json")
    assert "in the log, and covered by the checkpoint of 8" in under.out
    log = opened("log", "export").out.encode().splitlines()
    for lacking in (log[:-1], last_edited(log)):
        (tmp_path / "log.jsonl").write_bytes(b"\n".join(lacking))
        done = opened("audit", "log.jsonl", "--receipt", "receipt.json")
        assert done.code == 1
        assert "not in the log" in done.out
        assert opened("audit", "log.jsonl", "--receipt", "receipt.json", "--json").code == 1
    (tmp_path / "receipt.json").write_text("{}")
    assert "is not a receipt" in opened("audit", "--receipt", "receipt.json").err


def test_the_store_of_answers_keeps_receipts(opened, tmp_path):
    with Accountant(f"sqlite:///{tmp_path / 'accountant.db'}", analyst="ana") as ledger:
        store = ResultStore(tmp_path / "answers.db")
        assert ledger.release("census", "pure:0.001", lambda: 41, store=store) == 41
        reply = ledger.ask("census", "pure:0.001")
        again = ledger.ask("census", "pure:0.001", request_id=reply.request_id)
    assert again.repeated
    assert again.receipt == reply.receipt
    (kept,) = store.receipts()
    assert json.loads(kept)["partition_sequence"] == reply.receipt.partition_sequence - 1
    done = opened("audit", "--receipt", "answers.db")
    assert done.code == 0, done.out
    assert "receipt of decision 2, partition 0: in the log" in done.out


def test_a_part_of_the_log_in_an_archive(accountant, key, tmp_path):
    file = tmp_path / "accountant.db"
    fill(file, TestClock(SystemClock().now() - HOURS * 3_600_000))
    log = accountant("log", "export").out.encode().splitlines()
    for end in (9, 30):
        (tmp_path / "part.jsonl").write_bytes(b"\n".join(log[:end]))
        url = ("--url", "part.jsonl")
        assert accountant("head", *url, "--key", "key", "--to", "kept").code == 0
    accountant("head", "--key", "key", "--to", "kept")
    before = iso(latest(file))
    accountant("log", "archive", "a.gz", "--before", before, "--reason", "disk")
    accountant("head", "--key", "key", "--to", "kept")
    alone = run_audit(accountant, key, "--from-seal")
    assert alone.code == 0, alone.out
    assert "concern archived decisions" in alone.out
    whole = run_audit(accountant, key, "--archive", "a.gz")
    assert "4 checkpoints agree" in whole.out, whole.out


@pytest.fixture
def sealed(accountant, tmp_path: Path) -> tuple[Log, int]:
    """The whole log of a ledger whose beginning is in `a.gz`, and its first number that is not."""
    fill(tmp_path / "accountant.db", TestClock(SystemClock().now() - HOURS * 3_600_000))
    log = accountant("log", "export").out.encode().splitlines()
    before = iso(latest(tmp_path / "accountant.db"))
    done = accountant("log", "archive", "a.gz", "--before", before, "--reason", "disk")
    assert done.code == 0, done.err
    left = [*read_decisions(tmp_path / "accountant.db")]
    return log, decode_decision(left[1]).partition_sequence


@pytest.mark.parametrize("where", ["archived", "kept"])
@pytest.mark.parametrize("archive", ["given", "not given"])
def test_a_receipt_is_compared_with_archive_and_log(accountant, sealed, tmp_path, where, archive):
    log, first = sealed
    number = first - 1 if where == "archived" else first
    how = ("--archive", "a.gz") if archive == "given" else ("--from-seal",)
    is_seen = where == "kept" or archive == "given"
    for digest, is_right in ((hash_of(log[number]), True), (hash_of(b"another"), False)):
        receipt = {"partition": 0, "partition_sequence": number, "hash": digest}
        (tmp_path / "receipt.json").write_text(json.dumps(receipt))
        done = accountant("audit", *how, "--receipt", "receipt.json")
        assert done.code == (0 if is_seen and is_right else 1), done.out
        reported = (
            "it is in an archive"
            if not is_seen
            else ": in the log"
            if is_right
            else "not in the log"
        )
        assert reported in " ".join(done.out.split())


def test_an_invalid_argument_of_an_audit_is_reported(opened, key):
    assert "needs the public key" in opened("audit", "--checkpoints", ".").err
    assert "--key needs --checkpoints" in opened("audit", "--key", key).err
    assert "must be NAME+ID+BASE64" in opened("audit", "--checkpoints", ".", "--key", "x").err
    assert opened("audit", "--checkpoints", "nowhere", "--key", key).code == 3
    assert "--to stores signed checkpoints" in opened("head", "--to", "kept").err
    server = ("--url", "http://127.0.0.1:9")
    assert "GET /head" in opened("audit", *server).err
    assert "not what a server says" in opened("head", *server, "--key", "key").err


def test_after_a_rotation_the_old_key_is_no_longer_trusted(opened, stored_checkpoints, tmp_path):
    opened("key", "create", "next", "--name", "census.example.org")
    new = opened("key", "show", "next").out.strip()
    done = opened("key", "rotate", "next", "--old", "key", "--reason", "yearly")
    assert done.code == 0, done.err
    assert done.out == "partition 0: decision 8 names the new key\n"
    again = opened("key", "rotate", new, "--old", "key", "--reason", "yearly")
    assert again.code == 1
    assert "nothing was written" in again.err
    opened("head", "--key", "next", "--to", "kept")
    sound = run_audit(opened, stored_checkpoints)  # with the first key alone
    assert sound.code == 0, sound.out
    assert "key partition 0, decision 8 at" in sound.out
    assert f"{new} replaces {stored_checkpoints}: yearly" in " ".join(sound.out.split())
    assert "4 checkpoints agree" in sound.out
    assert verdict(opened, stored_checkpoints) == (0, "agreeing: 4 of kind checkpoint")
    ask(opened, 1)
    opened("head", "--key", "key", "--to", "kept")  # as a thief would
    code, said = verdict(opened, stored_checkpoints, code=1)
    assert (code, "its key and branch there" in said) == (1, True), said
    stolen = run_audit(opened, stored_checkpoints)
    assert stolen.code == 1
    assert "key: decision 9 was signed at" in stolen.out
    assert "which is not the log's key there" in stolen.out


def test_a_lost_key_is_reported_and_the_new_one_must_be_named(opened, stored_checkpoints):
    new = opened("key", "create", "next").out.strip()
    done = opened("key", "rotate", "next", "--lost", stored_checkpoints, "--reason", "stolen")
    assert done.code == 0, done.err
    opened("head", "--key", "next", "--to", "kept")
    alone = run_audit(opened, stored_checkpoints)
    assert alone.code == 1
    assert "no known key has signed it" in alone.out
    assert "no known key has signed it" in verdict(opened, stored_checkpoints, code=1)[1]
    found = verdict(opened, stored_checkpoints, new)
    assert found == (0, "agreeing: 4 of kind checkpoint")
    both = opened("audit", "--checkpoints", "kept", "--key", stored_checkpoints, "--key", new)
    assert both.code == 0, both.out
    assert f"{new} replaces {stored_checkpoints} (unsigned): stolen" in " ".join(both.out.split())


def test_a_rotation_names_the_key_before_it(opened, stored_checkpoints):
    for options in ((), ("--old", "key", "--lost", stored_checkpoints)):
        done = opened("key", "rotate", stored_checkpoints, "--reason", "x", *options)
        assert done.code == 2
        assert "--old FILE, or --lost PUBLIC" in done.err
    assert opened("key", "rotate", "no key", "--old", "key", "--reason", "x").code == 4


def test_checkpoints_after_a_broken_chain_do_not_count(opened, stored_checkpoints, tmp_path):
    log = opened("log", "export").out.encode().splitlines()
    log[4] = log[4].replace(b'"ana"', b'"eve"')
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(log))
    done = run_audit(opened, stored_checkpoints, "log.jsonl")
    assert done.code == 1
    said = " ".join(done.out.split())
    assert "disagrees partition 0, decision 5, field previous" in said
    assert "1 checkpoints agree, the last of decision 3; 2 are of decisions from the" in said
    assert "ok partition" not in said
    (found,) = run_audit(opened, stored_checkpoints, "log.jsonl", "--json").json["checkpoints"][
        "partitions"
    ]
    assert (found["agree"], found["last"], found["after_flaw"]) == (1, 3, 2)
    log[2] = log[2].replace(b'"ana"', b'"eve"')
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(log))
    none = run_audit(opened, stored_checkpoints, "log.jsonl")
    assert "no checkpoint agrees; 3 are of decisions from the disagreement on" in " ".join(
        none.out.split()
    )


def test_what_checkpoints_show_after_a_disagreement_follows_from_it(
    opened, stored_checkpoints, tmp_path
):
    def said(changed: list[bytes], *more: str) -> str:
        (tmp_path / "log.jsonl").write_bytes(b"\n".join(changed))
        return " ".join(run_audit(opened, stored_checkpoints, "log.jsonl", *more).out.split())

    log = opened("log", "export").out.encode().splitlines()
    # A record is gone: the places of the later ones are not their numbers.
    gap = said([*log[:3], *log[4:]])
    assert "disagrees partition 0, decision 3, field partition_sequence" in gap
    places = "so the numbers of later ones are places in this log"
    assert (
        f"from decision 3 on follows from this: records are missing or doubled there, {places}"
        in gap
    )
    assert gap.index(places) < gap.index("truncated: the log ends at decision")
    # A cost is forged, and the chain made again.
    forged = log[4].replace(b'"cost":{"', b'"cost":{"no', 1)
    chained = [*log[:4], forged]
    for before, value in pairwise(log[4:]):
        chained.append(value.replace(hash_of(before).encode(), hash_of(chained[-1]).encode()))
    seen = said(chained)
    assert seen.index("field cost") < seen.index("from decision 4 on follows from this checkpoints")
    assert "differs: decision 5 is" in seen
    assert "1 checkpoints agree, the last of decision 3" in seen
    assert "follows from this" not in said(log[:-1])  # a cut log agrees with itself


def test_an_empty_log_is_named_before_the_checkpoints_that_it_lacks(accountant, key, tmp_path):
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "kept").mkdir()
    done = run_audit(accountant, key, "empty.jsonl")
    assert done.code == 1
    assert done.out.splitlines() == [
        "the log is empty: it has no genesis record",
        "no checkpoint of this ledger was found",
    ]


def test_checkpoints_of_archived_decisions_are_said_to_be_uncompared(accountant, key, tmp_path):
    file = tmp_path / "accountant.db"
    fill(file, TestClock(SystemClock().now() - HOURS * 3_600_000))
    log = accountant("log", "export").out.encode().splitlines()
    (tmp_path / "part.jsonl").write_bytes(b"\n".join(log[:9]))
    accountant("head", "--url", "part.jsonl", "--key", "key", "--to", "kept")
    before = iso(latest(file))
    done = accountant("log", "archive", "a.gz", "--before", before, "--reason", "disk")
    assert done.code == 0, done.err
    alone = run_audit(accountant, key, "--from-seal")
    said = " ".join(alone.out.split())
    assert "no checkpoint agrees; 1 concern archived decisions, and were not compared" in said
    assert "name each archive with --archive FILE" in said
    assert "1 checkpoints agree" in run_audit(accountant, key, "--archive", "a.gz").out


def test_two_heads_of_one_ledger_are_named(opened, stored_checkpoints, tmp_path):
    shutil.copy(tmp_path / "accountant.db", tmp_path / "copy.db")
    here, there = (partial(opened, ACCOUNTANT_CHECKPOINTS=name) for name in ("here", "there"))
    ask(here, 2)
    shutil.copy(tmp_path / "accountant.db", tmp_path / "before.db")
    for _ in range(2):
        url = ("--url", "sqlite:///copy.db")
        assert there("ask", "census", "pure:0.002", "--analyst", "eve", *url).code == 0
    assert here("audit").code == 0  # each has seen its own checkpoints alone
    (theirs,) = (tmp_path / "there").glob("*/*/keys")
    shutil.copytree(theirs.parent, tmp_path / "here" / Path(*theirs.parts[-3:-1]))
    for file in ("accountant.db", "copy.db"):
        done = here("audit", file)
        assert done.code == 1
        said = " ".join(done.out.split())
        assert "checkpoints beside the ledger, fork: decision 9 of branch 0 was signed" in said
        assert len(here("audit", file, "--json").json["forks"]) >= 1
    assert opened("audit").code == 0  # where nothing of it is known
    key, other = (opened("key", "show", f"{name}/key").out.strip() for name in ("here", "there"))
    keys = ("--checkpoints", "here", "--key", key, "--key", other)
    assert "fork: decision 9 of branch 0" in opened("audit", *keys).out
    (older,) = (tmp_path / "here").glob(f"*/{theirs.parent.name}/0/0-*09-*.note")
    older.unlink()
    notes = (tmp_path / "here").rglob("0-*08-*.note")
    (own,) = (each for each in notes if theirs.parent.name not in each.parts)
    own.unlink()
    said = " ".join(opened("audit", *keys).out.split())
    assert "and so was decision 9 of this log at" in said
    assert "two logs of this ledger were signed" in said
