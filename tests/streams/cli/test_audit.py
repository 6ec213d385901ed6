"""What `accountant audit` says of a head, and of files that are no log or a damaged one."""

from __future__ import annotations

import json
import re

import pytest

from tests.every_case import every_case

AAAA = "sha256:" + 64 * "a"


@pytest.fixture
def exported_ledger(opened):
    """A ledger of four decisions, exported to `log.jsonl`."""
    for _ in range(2):
        assert opened("ask", "census", "pure:0.1", "--analyst", "ana").code == 0
    (opened.directory / "log.jsonl").write_text(opened("log", "export").out)
    return opened


def lines(command):
    return (command.directory / "log.jsonl").read_text().splitlines()


def head_of(command, name="log.jsonl"):
    report = command("audit", name, "--json").json["partitions"][-1]["report"]
    return f"{report['sequence']}:{report['head']}"


def disagreements(done):
    return [part["report"].get("first_disagreement") for part in done.json["partitions"]]


@every_case(
    "head",
    [
        "31:sha256:zz",
        "999:sha256:aaaa",
        f"3:{AAAA}0",
        f"3:{AAAA[:-1]}g",
        f"3:{AAAA}\n",
        f"\u0663:{AAAA}",
        f"{5000 * '9'}:{AAAA}",
        f":{AAAA}",
        "3",
    ],
)
def test_a_malformed_head_is_wrong_usage_and_nothing_is_read(accountant, head):
    done = accountant("audit", "nowhere.jsonl", "--head", head)
    assert (done.code, done.out) == (2, "")
    rule = "--head must be NUMBER:sha256: and 64 hexadecimal digits"
    assert done.err.startswith(f"error: {rule}, got {head[:80].rstrip()}")


def test_the_digits_of_a_head_may_be_large(exported_ledger):
    number, _, digits = head_of(exported_ledger).split(":")
    assert exported_ledger("audit", "--head", f"{number}:sha256:{digits.upper()}").code == 0


def test_a_head_within_the_log_with_another_hash_is_shown_beside_what_is_there(exported_ledger):
    there = json.loads(lines(exported_ledger)[3])["previous"]
    done = exported_ledger("audit", "--head", f"2:{AAAA}")
    assert done.code == 1
    assert "disagrees partition 0, decision 2, field head\n" in done.out
    assert f"expected 2 {AAAA}\n   found    2 {there}\n" in done.out
    assert "decision 2 has another hash" in done.out
    assert "before it agree" not in done.out
    (wrong,) = disagreements(exported_ledger("audit", "--head", f"2:{AAAA}", "--json"))
    assert (wrong["expected"], wrong["found"]) == (f"2 {AAAA}", f"2 {there}")


@pytest.mark.parametrize("number", [4, 9])
def test_a_head_beyond_the_end_of_the_log_is_reported_with_that_end(exported_ledger, number):
    last = head_of(exported_ledger).replace(":", " ", 1)
    done = exported_ledger("audit", "--head", f"{number}:{AAAA}")
    assert done.code == 1
    assert f"field head\n   expected {number} {AAAA}\n" in done.out
    ends = f"the log ends at decision {last}, before decision {number}"
    assert f"found    {ends}: decisions are missing" in done.out
    assert "all 4 decisions agree with each other, but the log does not end" in done.out


@every_case(
    ("number", "reported"),
    [
        (0, "decision 0 or 1 was changed, or both; no other decision before them was checked"),
        (2, "decision 2 or 3 was changed, or both; the 2 before these two agree with each other"),
        (3, "all 4 decisions agree with each other, but decision 3 has another hash"),
    ],
)
def test_an_edited_record_is_not_counted_as_verified(exported_ledger, number, reported):
    head, log = head_of(exported_ledger), lines(exported_ledger)
    # Nothing else depends on the ledger's id or on the caller.
    log[number] = log[number].replace('"analyst":"ana"', '"analyst":"eva"')
    log[number] = re.sub(r'"ledger":"[0-9a-f]{4}', '"ledger":"0000', log[number])
    (exported_ledger.directory / "edited.jsonl").write_text("\n".join(log) + "\n")
    done = exported_ledger("audit", "edited.jsonl", "--head", head)
    assert done.code == 1
    said = " ".join(done.out.split())
    assert reported in said
    assert "right" not in said


def test_a_head_behind_a_damaged_record_is_not_missing_from_other_partitions(exported_ledger):
    genesis, *rest = lines(exported_ledger)
    other = genesis.replace('"partition":0', '"partition":1')
    other = other.replace('partitions":1', 'partitions":2')
    damaged = [genesis, rest[0].replace('"epsilon":"1"', '"epsilon":"2"'), *rest[1:]]
    (exported_ledger.directory / "two.jsonl").write_text("\n".join([*damaged, other]) + "\n")
    done = exported_ledger("audit", "two.jsonl", "--head", head_of(exported_ledger), "--json")
    assert done.code == 1
    first, second = disagreements(done)
    assert first["partition_sequence"] == 1
    assert second is None


@every_case(
    "content",
    [
        b'{"epsilon":"1","delta":"1e-6"}\n',
        b'{\n  "epsilon": "1",\n  "delta": "1e-6"\n}\n',
        b'{"type":"request","dataset":"census"}\n{"type":"decision"}\n',
        b'{"dataset":"census","partition_sequence":1}\n',
        b"{}\n",
        b"\n\n[1]\n",
        b"17\n",
    ],
)
def test_json_that_is_no_decision_is_no_log(accountant, content):
    (accountant.directory / "p.json").write_bytes(content)
    done = accountant("audit", "p.json")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: p.json is not a decision log\n")


def damaged_later(log):
    return [log[0], '{"version":2}', *log[2:]]


def forged_genesis(log):
    return [log[0].replace('"outcome":"genesis"', '"outcome":"genexis"'), *log[1:]]


def mistyped_genesis(log):
    return [log[0].replace('"decision"', '"decisiom"'), *log[1:]]


def cut_genesis(log):
    return [log[0][:15], *log[1:]]


def beheaded_genesis(log):
    return [log[0][4:], *log[1:]]


@every_case(
    ("damage", "where"),
    [
        (damaged_later, 1),
        (forged_genesis, 0),
        (mistyped_genesis, 0),
        (cut_genesis, 0),
        (beheaded_genesis, 0),
    ],
)
def test_a_damaged_log_is_still_one(exported_ledger, damage, where):
    (exported_ledger.directory / "damaged.jsonl").write_text(
        "\n".join(damage(lines(exported_ledger))) + "\n"
    )
    done = exported_ledger("audit", "damaged.jsonl")
    assert (done.code, done.err) == (1, "")
    assert f"disagrees partition 0, decision {where}, field record" in done.out
