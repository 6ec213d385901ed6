"""What version 0.1.0 wrote is read as it was, and the same inputs still give the same bytes.

`inputs.jsonl`: 820 inputs of one partition, every filter and every outcome among them, each with
the clock that decided it. `decided.json`: the chain's head after each batch, which covers every
byte of the log, and a hash of the rows of `state` at the end. `ledger.sqlite`: the file that an
embedded ledger made of the first 119 of the inputs that are text.

The same of rules 2: the inputs of before and those of `inputs_of_rules_2.jsonl` behind them, every
outcome and reason that came with these rules among them; `ledger_of_rules_2.sqlite` is made of the
latter, and `sealed_by_rules_2.sqlite` goes on from `archive_of_rules_2.jsonl.gz`.

`inputs_of_rules_3.jsonl` begins under rules 2, by which its first dataset is opened, and goes on
under rules 3, by which the others keep fractions: every filter, filled to the last part of a unit.
`ledger_of_rules_3.sqlite` is a file of rules 2 that went on with these inputs. What a later version
decides otherwise has other rules, and leaves all these files as they are. Rules 4 and 5 are held by
`test_written_by_rules_4_and_5`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from accountant.partition import hash_of
from accountant.partition.decide import decide, decide_internal_error
from accountant.partition.ids import decode_identity
from accountant.partition.operate import accept_rollback, change_key, reset_clock, seal_log
from accountant.records import FIRST_RULES, decode_decision
from accountant.records.inputs import Input
from accountant.records.operated.key_changes import KeyChange
from accountant.records.operated.rollbacks import Rollback
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.audit import Auditor, audit
from accountant.replay.refold import Refold, state_rows
from accountant.replay.sealed import next_seal
from accountant.times import from_iso, issued_at
from streams.embedded import ledger_file
from streams.embedded.archives.sealed_log import read_seal
from streams.embedded.ledger_file import numbered_decisions
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from streams.testing import ManualClock
from tests.accountant.world import World

HERE = Path(__file__).parent
DECIDED = json.loads((HERE / "decided.json").read_text())
INPUTS = [json.loads(line) for line in (HERE / "inputs.jsonl").read_text().splitlines()]
DECIDED_2 = json.loads((HERE / "decided_by_rules_2.json").read_text())
INPUTS_2 = [
    json.loads(line) for line in (HERE / "inputs_of_rules_2.jsonl").read_text().splitlines()
]
DECIDED_3 = json.loads((HERE / "decided_by_rules_3.json").read_text())
INPUTS_3 = [
    json.loads(line) for line in (HERE / "inputs_of_rules_3.jsonl").read_text().splitlines()
]
REASONS_SINCE_4 = {
    *(Reason.NOT_PERMITTED, Reason.UNKNOWN_MEMBER, Reason.LAST_OWNER, Reason.TOO_MANY_MEMBERS)
}
REASONS_SINCE_5 = {
    *(Reason.UNKNOWN_LIMIT, Reason.LIMIT_NOT_POSSIBLE, Reason.OVER_RESERVED),
    *(Reason.TOO_MANY_LIMITS, Reason.HAS_LIMITS),
}
REMEMBERED = {Outcome.GRANTED, Outcome.REFUSED, Outcome.OPENED, Outcome.AMENDED, Outcome.CLOSED}


def body_of(line: dict[str, Any]) -> bytes | None:
    value = line["value"]
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else value.encode()


@pytest.fixture(scope="module")
def played() -> World:
    world = World(batch=DECIDED["batch"], most_ids=DECIDED["most_ids"], rules=FIRST_RULES)
    for line in INPUTS:
        source, clock = line["source"], line["clock"]
        record = Input(source, world.draft.next[source], b"key", body_of(line), clock)
        how = decide_internal_error if line.get("internal_error") else decide
        world.took(how(world.draft, record, clock))
    world.commit()
    return world


def test_the_same_inputs_give_the_same_bytes(played: World) -> None:
    # The genesis is the first record, and no input.
    heads = ["sha256:" + hashlib.sha256(value).hexdigest() for value in played.log[1:]]
    every = len(INPUTS) // len(DECIDED["heads"])
    assert heads[every - 1 :: every][: len(DECIDED["heads"])] == DECIDED["heads"]


def test_state_is_the_same_bytes(played: World) -> None:
    found = hashlib.sha256()
    for key, value in played.rows():
        found.update(key + b"\0" + value + b"\n")
    assert found.hexdigest() == DECIDED["rows_sha256"]


def test_the_log_refolds_and_audits(played: World) -> None:
    assert state_rows(played.refolded()) == played.rows()
    assert audit(played.log, genesis=played.genesis, most_ids=DECIDED["most_ids"]).ok


def test_state_and_the_end_of_the_log_refold(played: World) -> None:
    refold = Refold(played.genesis, most_ids=DECIDED["most_ids"])
    for key, value in played.rows():
        refold.take_row(key, value)
    for value in played.log:
        if decode_decision(value).decided_at >= played.decisions[-1].floor:
            refold.take_decision(value)
    assert state_rows(refold.finish()) == played.rows()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    copy = tmp_path / "ledger.db"
    shutil.copy(HERE / "ledger.sqlite", copy)
    return copy


def test_a_file_of_before_opens_and_repeats_what_it_decided(file: Path) -> None:
    db = apsw.Connection(str(file))
    log = [value for _, value in numbered_decisions(db, first=0)]
    db.close()
    assert audit(log).ok
    decisions = [decode_decision(value) for value in log]
    clock = ManualClock(INPUTS[119]["clock"])
    service = EmbeddedService.open(file, Settings(), clock=clock)
    try:
        seen = 0
        for decision in decisions:
            if decision.outcome not in REMEMBERED or decision.source is None:
                continue
            source = "requests" if decision.source.topic == "requests" else "admin"
            answer = service.submit_sync(source, bytes(decision.request), 5)
            assert answer.decision is not None
            again = decode_decision(answer.decision)
            issued = issued_at(decode_identity(bytes(decision.request)).request_id)
            if issued is not None and issued <= from_iso(again.floor):
                assert again.outcome is Outcome.EXPIRED
                continue
            assert again.outcome is Outcome.REPEATED
            assert again.first is not None
            assert again.first.outcome == decision.outcome
            assert again.first.partition_sequence == decision.partition_sequence
            seen += 1
        assert seen > 40
    finally:
        service.close_sync()


@pytest.fixture(scope="module")
def played_2() -> World:
    world = World(batch=DECIDED_2["batch"], most_ids=DECIDED_2["most_ids"], rules=2)
    for line in INPUTS + INPUTS_2:
        if "reset" in line:
            world.commit()
            world.took(reset_clock(world.draft, line["reset"], line["note"]))
            world.commit()
            continue
        if "rollback" in line:
            world.commit()
            rollback = Rollback(**line["rollback"])
            world.took(accept_rollback(world.draft, line["at"], line["note"], rollback))
            world.commit()
            continue
        if "key_change" in line:
            world.commit()
            change = KeyChange(**line["key_change"])
            world.took(change_key(world.draft, line["at"], line["note"], change))
            world.commit()
            continue
        if "seal" in line:
            world.commit()
            auditor = Auditor(most_ids=DECIDED_2["most_ids"])
            assert all(map(auditor.take, world.log))
            assert auditor.partition is not None
            before = line["archived"], hash_of(world.log[line["archived"]])
            seal = next_seal(auditor.partition, auditor.counted, auditor.first, before)
            world.took(seal_log(world.draft, line["seal"], line["note"], seal))
            world.commit()
            continue
        source, clock = line["source"], line["clock"]
        record = Input(source, world.draft.next[source], b"key", body_of(line), clock)
        how = decide_internal_error if line.get("internal_error") else decide
        world.took(how(world.draft, record, clock))
    world.commit()
    return world


def test_rules_2_give_the_same_bytes(played_2: World) -> None:
    heads = [hashlib.sha256(value).hexdigest() for value in played_2.log]
    assert heads[::25] == DECIDED_2["every_25th"]
    assert f"sha256:{heads[-1]}" == DECIDED_2["head"]
    found = hashlib.sha256()
    for key, value in played_2.rows():
        found.update(key + b"\0" + value + b"\n")
    assert found.hexdigest() == DECIDED_2["rows_sha256"]
    assert audit(played_2.log, genesis=played_2.genesis, most_ids=DECIDED_2["most_ids"]).ok
    assert state_rows(played_2.refolded()) == played_2.rows()


def test_every_outcome_and_reason_is_among_them(played: World, played_2: World) -> None:
    decisions = [*played.decisions, *played_2.decisions]
    since_4 = {Outcome.MEMBER_SET, Outcome.MEMBER_REMOVED}
    since_5 = {Outcome.LIMIT_SET, Outcome.LIMIT_REMOVED}
    assert {decision.outcome for decision in decisions} == {*Outcome} - since_4 - since_5
    # A body too long for a file of text, and a partition of its own, are tested elsewhere.
    newer = REASONS_SINCE_4 | REASONS_SINCE_5
    missing = {*Reason} - {decision.reason for decision in decisions} - newer
    assert missing <= {Reason.OVERSIZE, Reason.WRONG_PARTITION}


def test_a_file_of_rules_2_opens_and_audits(tmp_path: Path) -> None:
    copy = tmp_path / "ledger.db"
    shutil.copy(HERE / "ledger_of_rules_2.sqlite", copy)
    with ledger_file.reader(copy) as db:
        log = [value for _, value in numbered_decisions(db, first=0)]
    assert audit(log).ok
    last = decode_decision(log[-1])
    service = EmbeddedService.open(copy, Settings(), clock=ManualClock(from_iso(last.decided_at)))
    try:
        assert service.readiness().ready
        answer = service.submit_sync("requests", bytes(last.request), 5)
        assert answer.decision is not None
        assert decode_decision(answer.decision).outcome is Outcome.REPEATED
    finally:
        service.close_sync()


def test_a_sealed_file_of_rules_2_opens_and_audits_with_its_archive(tmp_path: Path) -> None:
    copy = tmp_path / "ledger.db"
    shutil.copy(HERE / "sealed_by_rules_2.sqlite", copy)
    with ledger_file.reader(copy) as db:
        log = [value for _, value in numbered_decisions(db, first=0)]
        found = read_seal(db)
    assert found is not None
    archived = gzip.decompress((HERE / "archive_of_rules_2.jsonl.gz").read_bytes()).splitlines()
    assert audit([*archived, *log[1:]]).ok
    assert audit(log, sealed=found[0]).right
    db = apsw.Connection(str(copy))
    db.execute("DELETE FROM state")  # so that the start goes back to the snapshot
    db.close()
    clock = ManualClock(from_iso(decode_decision(log[-1]).decided_at))
    service = EmbeddedService.open(copy, Settings(), clock=clock)
    try:
        assert service.views.datasets()["survey"].totals["mechanisms"] == 20
    finally:
        service.close_sync()


@pytest.fixture(scope="module")
def played_3() -> World:
    world = World(batch=DECIDED_3["batch"], rules=2)
    for line in INPUTS_3:
        if "rules" in line:
            world.commit()
            world.rules = line["rules"]
            world.commit()
            continue
        source, clock = line["source"], line["clock"]
        record = Input(source, world.draft.next[source], b"key", body_of(line), clock)
        world.took(decide(world.draft, record, clock))
    world.commit()
    return world


def test_rules_3_give_the_same_bytes(played_3: World) -> None:
    heads = [hashlib.sha256(value).hexdigest() for value in played_3.log]
    assert heads[::10] == DECIDED_3["every_10th"]
    assert f"sha256:{heads[-1]}" == DECIDED_3["head"]
    found = hashlib.sha256()
    for key, value in played_3.rows():
        found.update(key + b"\0" + value + b"\n")
    assert found.hexdigest() == DECIDED_3["rows_sha256"]
    assert audit(played_3.log, genesis=played_3.genesis).ok
    assert state_rows(played_3.refolded()) == played_3.rows()


def test_only_datasets_that_rules_3_opened_keep_fractions(played_3: World) -> None:
    by_dataset: dict[str, list[Any]] = {}
    for decision in played_3.decisions:
        by_dataset.setdefault(str(decision.dataset), []).append(decision)
    before, after = by_dataset["before"], by_dataset["basic"]
    assert [decision.rules for decision in before] == [2, 2, 2, 3, 3]
    assert [str(decision.outcome) for decision in before[1:]] == ["granted"] * 2 + ["refused"] * 2
    assert before[2].totals["epsilon"] == "0.66666666666666666668"
    assert not any(decision.rounded_up for decision in before)
    assert [str(d.outcome) for d in after[1:5]] == ["granted"] * 3 + ["refused"]
    assert after[3].totals["epsilon"] == "1"


def test_a_file_of_rules_2_that_went_on_under_rules_3_opens_and_audits(tmp_path: Path) -> None:
    copy = tmp_path / "ledger.db"
    shutil.copy(HERE / "ledger_of_rules_3.sqlite", copy)
    with ledger_file.reader(copy) as db:
        log = [value for _, value in numbered_decisions(db, first=0)]
    assert {decode_decision(value).rules for value in log} == {2, 3}
    assert audit(log).ok
    last = decode_decision(log[-1])
    service = EmbeddedService.open(copy, Settings(), clock=ManualClock(from_iso(last.decided_at)))
    try:
        views = service.views.datasets()
        assert views["tight"].exact
        assert views["tight"].rounded_up
        assert not views["after@reset"].exact
        answer = service.submit_sync("requests", bytes(last.request), 5)
        assert answer.decision is not None
        assert decode_decision(answer.decision).outcome is Outcome.REPEATED
    finally:
        service.close_sync()
