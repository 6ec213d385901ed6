"""`accountant accept-rollback` accepts lost decisions, signs that, and every audit shows it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from accountant.records import decode_decision, encode
from streams.evidence import verify
from tests.streams.cli.test_checkpoints import ask
from tests.streams.embedded.test_forks import sign
from tests.streams.evidence.handed_over import manifest_of, verified

PLACE = "checkpoints"
NONE = "sha256:" + "0" * 64


@pytest.fixture
def lost(opened, tmp_path: Path, monkeypatch):
    """A ledger whose decisions 4 and 5 are lost, since a backup was put back.

    Its own process has kept checkpoints in the directory `checkpoints`.
    """

    def run(*arguments: str, checkpoints: str = PLACE):
        return opened(*arguments, ACCOUNTANT_CHECKPOINTS=checkpoints)

    ask(run, 2)
    shutil.copy(tmp_path / "accountant.db", tmp_path / "backup.db")
    ask(run, 2)
    shutil.copy(tmp_path / "backup.db", tmp_path / "accountant.db")
    return run


def public(run) -> str:
    return run("key", "show", f"{PLACE}/key").out.strip()


def accept(run, lost: str = "4-5", *more: str):
    return run("accept-rollback", "--lost", lost, "--reason", "the disk died", *more)


def test_a_loss_is_refused_until_it_is_accepted(lost, tmp_path):
    refused = lost("ask", "census", "pure:0.001", "--analyst", "ana")
    assert refused.code == 4
    assert "the log ends at decision 3, but decision 5 was there at" in refused.err
    command = "`accountant accept-rollback --lost 4-5 --reason TEXT --url sqlite:///"
    assert f"{command}{tmp_path / 'accountant.db'}`" in " ".join(refused.err.split())
    assert lost("dataset", "show", "census").code == 0  # to read is allowed

    for wrong in ("3-5", "4-6", "5-5", "4", "all", "4-5-6", "-1-5"):
        done = accept(lost, wrong)
        assert done.code == 2, wrong
        assert "must be 4-5" in done.err
    assert lost("accept-rollback", "--lost", "4-5", "--reason", "").code == 2

    done = accept(lost)
    assert done.code == 0, done.err
    assert done.out == (
        "decision 4 records that decisions 4-5 are lost\nnext: start the ledger again\n"
    )
    shown = lost("dataset", "show", "census")
    assert shown.code == 0
    assert "the log of partition 0 has lost decisions 1 time" in shown.err
    again = accept(lost)
    assert again.code == 1
    assert "nothing was written" in again.err
    ask(lost, 3)


def test_an_accepted_loss_is_reported_permanently_and_is_no_fork(lost, tmp_path):
    key = public(lost)
    assert accept(lost).code == 0
    ask(lost, 3)
    lost("head", "--key", f"{PLACE}/key", "--to", PLACE)
    plain = lost("audit")
    assert plain.code == 0
    assert "rollback partition 0, decision 4 at" in plain.out
    assert "decisions 4 to 5 were accepted as lost: the disk died" in plain.out
    done = lost("audit", "--checkpoints", PLACE, "--key", key)
    assert done.code == 0, done.out
    assert "that a rollback accepted as lost" in done.out
    reported = lost("audit", "--checkpoints", PLACE, "--key", key, "--json").json
    (partition,) = reported["checkpoints"]["partitions"]
    assert partition["wrong"] == []
    assert partition["given_up"] >= 1
    (report,) = (each["report"] for each in reported["partitions"])
    assert report["branch"] == 1
    assert report["rollbacks"][0]["note"] == "the disk died"
    assert lost("head", "--json").json["branch"] == 1

    assert lost("evidence", "given", "--checkpoints", PLACE, "--key", key).code == 0
    ledger = manifest_of(tmp_path / "given")["ledger"]
    code, found = verified(tmp_path / "given", "--key", key, "--ledger", ledger)
    assert (code, "of kind given up" in str(found["checks"])) == (0, True), found
    log = verify.Log()
    for line in (tmp_path / "given" / "log.jsonl").read_bytes().splitlines():
        log.take(line)
    ((_, record),) = log.commands[0]
    assert len(verify.trusted(log, 0, [verify.key_of(key)])) == 1
    for field, forged in (("last", 9), ("head", NONE), ("key", "x+y+z"), ("signature", "AAAA")):
        kept = record["rollback"][field]
        record["rollback"][field] = forged
        with pytest.raises(verify.Wrong, match=r"rollback|command"):
            verify.trusted(log, 0, [verify.key_of(key)])
        record["rollback"][field] = kept


def test_a_second_restore_of_an_older_backup_is_refused_too(lost, tmp_path):
    accept(lost)
    ask(lost, 1)
    shutil.copy(tmp_path / "backup.db", tmp_path / "accountant.db")
    refused = lost("ask", "census", "pure:0.001", "--analyst", "ana")
    assert refused.code == 4
    assert "--lost 4-5" in refused.err  # now of branch 1
    assert accept(lost).code == 0
    assert lost("head", "--json").json["branch"] == 2
    ask(lost, 1)
    done = lost("audit", "--checkpoints", PLACE, "--key", public(lost))
    assert done.code == 0, done.out


def test_only_a_signed_rollback_explains_a_loss(lost, tmp_path):
    key = public(lost)
    accept(lost)
    ask(lost, 1)
    other = lost("key", "create", "other").out.strip()
    log = [line.encode() for line in lost("log", "export").out.splitlines()]
    assert lost("audit", "--checkpoints", PLACE, "--key", key).code == 0
    for forged in ({"key": other}, {"last": 9}, {"branch": 2}, {"signature": "AAAA"}):
        fields = json.loads(log[4])
        fields["rollback"] |= forged
        value = encode(decode_decision(json.dumps(fields)))
        (tmp_path / "log.jsonl").write_bytes(b"\n".join([*log[:4], value]))
        plain = lost("audit", "log.jsonl")
        assert plain.code == 1, forged
        assert "field rollback.signature" in plain.out
        done = lost("audit", "log.jsonl", "--checkpoints", PLACE, "--key", key)
        assert done.code == 1, forged
        assert "rollback: none of the known keys has signed decision 4" in done.out
        assert "truncated: " in done.out or "differs: " in done.out


def test_more_than_was_accepted_is_still_a_loss(lost, tmp_path):
    """A rollback gives up what it names: not what was signed of that branch after it."""
    key = public(lost)
    accept(lost)
    kept = tmp_path / "accountant.db"
    shutil.move(kept, tmp_path / "accepted.db")
    # Unseen, the older log goes on and signs further in branch 0.
    shutil.copy(tmp_path / "backup.db", kept)
    for _ in range(4):
        asked = lost("ask", "census", "pure:0.001", "--analyst", "ana", checkpoints="off")
        assert asked.code == 0
    assert lost("head", "--key", f"{PLACE}/key", "--to", PLACE).code == 0
    shutil.move(tmp_path / "accepted.db", kept)
    done = lost("audit", "--checkpoints", PLACE, "--key", key)
    assert done.code == 1
    assert "truncated" in done.out


@pytest.fixture
def older(opened, tmp_path: Path):
    """A ledger of branch 0 that ends at decision 6; branch 1 began at 3 and ended at 8.

    Every checkpoint that was kept is in the directory `all`, too.
    """

    def run(*arguments: str):
        places = str(tmp_path / "all")
        return opened(*arguments, ACCOUNTANT_CHECKPOINTS=PLACE, ACCOUNTANT_CHECKPOINT_PLACES=places)

    file = tmp_path / "accountant.db"
    (tmp_path / "all").mkdir()
    ask(run, 1)
    shutil.copy(file, tmp_path / "short.db")
    ask(run, 4)
    shutil.copy(file, tmp_path / "long.db")
    shutil.copy(tmp_path / "short.db", file)
    assert accept(run, "3-6").code == 0
    ask(run, 5)
    shutil.copy(tmp_path / "long.db", file)
    return run


def test_on_an_older_branch_every_decision_of_the_newer_one_is_lost(older):
    refused = older("ask", "census", "pure:0.001", "--analyst", "ana")
    assert refused.code == 4
    said = " ".join(refused.err.split())
    assert "is of branch 0 and ends at decision 6, but decision 8 of branch 1 was there" in said
    assert "this copy lacks the rollback that began branch 1" in said
    assert "`accountant accept-rollback --lost 3-8 --reason TEXT --url sqlite:///" in said
    for wrong in ("7-8", "4-8", "6-8", "0-8", "3-7", "3-6", "3-9"):
        done = accept(older, wrong)
        assert done.code == 2, wrong
        assert "must be 3-8, or an earlier first one from 1" in " ".join(done.err.split())
    done = accept(older, "3-8")
    assert done.code == 0, done.err
    assert "decision 7 records that decisions 3-8 are lost" in done.out
    assert "decisions 3 to 8 were accepted as lost: the disk died" in older("audit").out
    ask(older, 1)
    run_audit = older("audit", "--checkpoints", "all", "--key", public(older))
    assert run_audit.code == 0, run_audit.out
    # Of branch 0 each agrees, also those of decisions from 3 on; of branch 1 none.
    said = " ".join(run_audit.out.split())
    assert "the last of decision 8; 5 concern decisions that a rollback accepted as lost" in said


@pytest.mark.parametrize("first", [7, 3])
def test_an_earlier_first_decision_may_be_named_if_the_fork_is_unknown(older, tmp_path, first):
    key = public(older)
    for note in sorted((tmp_path / PLACE).rglob("*.note"))[:-1]:
        note.unlink()
    refused = older("ask", "census", "pure:0.001", "--analyst", "ana")
    assert "--lost 7-8" in refused.err
    assert "or name an earlier first decision" in " ".join(refused.err.split())
    assert accept(older, f"{first}-8").code == 0
    run_audit = older("audit", "--checkpoints", "all", "--key", key)
    said = " ".join(run_audit.out.split())
    if first == 3:
        assert run_audit.code == 0, run_audit.out
        return
    assert run_audit.code == 1
    assert "lost: decision 4 of branch 1 was signed at" in said
    assert "its rollback to branch 2 gives up the decisions from 7 on alone" in said
    assert "decided again," not in said


def test_a_newer_branch_that_ended_earlier_is_named(lost, tmp_path):
    file = tmp_path / "accountant.db"
    assert accept(lost).code == 0
    ask(lost, 2)
    shutil.copy(file, tmp_path / "first.db")
    shutil.copy(tmp_path / "backup.db", file)
    assert accept(lost, "4-6").code == 0
    shutil.copy(tmp_path / "first.db", file)
    refused = lost("ask", "census", "pure:0.001", "--analyst", "ana")
    said = " ".join(refused.err.split())
    assert "is of branch 1 and ends at decision 6, but decision 4 of branch 2 was there" in said
    assert "--lost 4-4" in said
    assert accept(lost, "4-4").code == 0
    done = lost("audit", "--checkpoints", PLACE, "--key", public(lost), "--json")
    assert done.code == 0, done.out
    (partition,) = done.json["checkpoints"]["partitions"]
    assert (partition["wrong"], partition["last"]) == ([], 7)
    kept = [note.name.split("-") for note in (tmp_path / PLACE).rglob("*.note")]
    own = [name for name in kept if name[0] in {"1", "3"}]  # the log has had these branches
    assert len(own) >= 3
    assert partition["agree"] >= len(own)
    assert partition["agree"] + partition["given_up"] == len(kept)


def test_on_kafka_the_command_names_partition_and_sink(opened):
    kafka = ("--url", "kafka://127.0.0.1:9")
    lost = ("accept-rollback", "--lost", "1-2", "--reason", "x")
    for done in (opened(*lost, *kafka), opened(*lost, "--partition", "0")):
        assert done.code == 2
        assert "--partition N is for a ledger on Kafka" in done.err
    done = opened(*lost, *kafka, "--partition", "0")
    assert done.code == 2
    assert "set ACCOUNTANT_CHECKPOINTS" in done.err
    high = opened(*lost, *kafka, "--partition", "9", ACCOUNTANT_CHECKPOINTS=PLACE)
    assert high.code == 2
    assert "--partition must be at most 3" in high.err


def test_after_a_fork_one_log_continues_and_the_other_is_given_up(opened, tmp_path):
    def run(*arguments: str):
        return opened(*arguments, ACCOUNTANT_CHECKPOINTS=PLACE)

    file, kept = tmp_path / "accountant.db", tmp_path / PLACE
    for _ in range(3):
        assert run("ask", "census", "pure:0.001", "--analyst", "ana").code == 0
    sign(file, kept, 3)
    refused = run("ask", "census", "pure:0.001", "--analyst", "ana")
    assert refused.code == 4
    assert "with head sha256:" in refused.err
    key = run("key", "show", f"{PLACE}/key").out.strip()
    run_audit = run("audit", "--checkpoints", PLACE, "--key", key)
    assert run_audit.code == 1
    assert "fork: decision 3" in run_audit.out or "differs: decision 3" in run_audit.out
    done = run("accept-rollback", "--lost", "1-3", "--reason", "a copy went on elsewhere")
    assert done.code == 2, "the first that the checkpoints still show"
    lost = refused.err.split("--lost ")[1].split()[0]
    done = run("accept-rollback", "--lost", lost, "--reason", "a copy went on elsewhere")
    assert done.code == 0, done.err
    assert run("ask", "census", "pure:0.001", "--analyst", "ana").code == 0
    sign(file, kept, 4)  # the other process is not stopped yet: of a branch that was given up
    assert run("ask", "census", "pure:0.001", "--analyst", "ana").code == 0
    assert run("audit").code == 0


@pytest.fixture
def rotated(opened, tmp_path: Path):
    """A ledger that was rolled back to before a change of its key; a place kept all its notes."""
    first = opened("key", "create", "first").out.strip()
    assert opened("key", "create", "second").code == 0

    def run(*arguments: str, key: str = "first"):
        kept = {"ACCOUNTANT_CHECKPOINTS": PLACE, "ACCOUNTANT_CHECKPOINT_KEY": key}
        return opened(*arguments, **kept)

    def keep(key: str) -> None:
        assert run("head", "--key", key, "--to", "all", key=key).code == 0

    ask(run, 2)
    keep("first")
    shutil.copy(tmp_path / "accountant.db", tmp_path / "backup.db")
    done = run("key", "rotate", "second", "--old", "first", "--reason", "yearly")
    assert done.code == 0, done.err
    for _ in range(2):
        assert run("ask", "census", "pure:0.001", "--analyst", "ana", key="second").code == 0
        keep("second")
    shutil.copy(tmp_path / "backup.db", tmp_path / "accountant.db")
    return run, first, keep


def test_a_key_change_that_was_given_up_needs_no_key_of_its_branch(rotated):
    run, first, keep = rotated
    done = accept(run, "4-6")
    assert done.code == 0, done.err
    ask(run, 1)
    keep("first")
    run_audit = run("audit", "--checkpoints", "all", "--key", first)
    assert run_audit.code == 0, run_audit.out
    said = " ".join(run_audit.out.split())
    assert "2 checkpoints agree, the last of decision 5; 2 concern decisions that" in said


def test_a_rollback_signed_by_a_key_that_is_not_the_logs_is_refused(rotated):
    run, first, _ = rotated
    done = run("accept-rollback", "--lost", "4-6", "--reason", "it broke", key="second")
    assert done.code == 4
    assert f"the log's key is {first}, not" in " ".join(done.err.split())


def altered(path: Path, sequence: int, old: bytes, new: bytes) -> None:
    """Change the last decision of an exported log: no later hash depends on it."""
    lines = path.read_bytes().splitlines(keepends=True)
    assert old in lines[sequence]
    lines[sequence] = lines[sequence].replace(old, new)
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize("of", ["a rollback", "a change of key"])
def test_a_plain_audit_verifies_the_signature_of(lost, tmp_path, of):
    if of == "a rollback":
        assert accept(lost).code == 0
    else:
        shutil.copy(tmp_path / PLACE / "key", tmp_path / "old")
        shutil.rmtree(tmp_path / PLACE)
        lost("key", "create", "new")
        done = lost("key", "rotate", "new", "--old", "old", "--reason", "yearly", checkpoints="off")
        assert done.code == 0, done.err
    log = tmp_path / "log.jsonl"
    log.write_text(lost("log", "export").out)
    sound = lost("audit", "log.jsonl")
    assert sound.code == 0
    assert "signed by key accountant+" in sound.out or " replaces accountant+" in sound.out
    last = json.loads(log.read_bytes().splitlines()[-1])
    signature = (last.get("rollback") or last["key_change"])["signature"].encode()
    altered(log, -1, signature, b"A" * 84 + b"AAA=")
    wrong = lost("audit", "log.jsonl")
    assert wrong.code == 1
    assert ".signature" in wrong.out
    assert "expected a signature by accountant+" in " ".join(wrong.out.split())


def test_an_audit_says_that_a_change_of_a_lost_key_is_unsigned(opened):
    first = opened("key", "create", "first").out.strip()
    opened("key", "create", "second")
    done = opened("key", "rotate", "second", "--lost", first, "--reason", "the laptop is gone")
    assert done.code == 0, done.err
    done = opened("audit")
    assert done.code == 0
    assert "(unsigned)" in done.out
