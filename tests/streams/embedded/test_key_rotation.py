"""Another key for a ledger's checkpoints: one valid key at every moment, whatever is killed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from accountant.errors import RequestInvalid
from accountant.records import Decision, decode_decision, encode
from accountant.records.outcomes import Outcome
from accountant.replay.audit import AuditReport, audit
from streams.clock import SystemClock
from streams.embedded.checkpointing import ledger_id
from streams.embedded.file_ownership import stopped_ledger
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.evidence.key_changes import trusted_keys
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.operator_records import rotate_key
from streams.settings import Settings
from tests.faults.sqlite_life import Disk, die, forked
from tests.streams.embedded.ledger_files import ask, opened
from tests.streams.uncompared import uncompared


class Keys(NamedTuple):
    old: SigningKey
    new: SigningKey
    other: SigningKey


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(*(SigningKey.create(tmp_path / name, name) for name in ("old", "new", "other")))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    service = opened(path)
    ask(service, 1)
    service.close_sync()
    return path


def rotated(
    file: Path, new: SigningKey, old: SigningKey, *, lost: bool = False, note: str = "yearly"
) -> Decision | None:
    clock = SystemClock()
    with stopped_ledger(file, Settings(), clock.now()) as (journal, genesis):
        made = asyncio.run(
            rotate_key(
                journal,
                genesis,
                clock,
                ledger_id(file),
                new=new.verifier,
                old=old.verifier,
                key=None if lost else old,
                note=note,
                compare=uncompared,
            )
        )
    return None if made is None else decode_decision(made.value)


def report_of(file: Path) -> AuditReport:
    report = audit(read_decisions(file))
    assert report.ok, report.first_disagreement
    return report


def valid(file: Path, *known: Verifier) -> list[str]:
    """Return the names of the keys that are believed at the end of a log."""
    report = report_of(file)
    keys, wrong = trusted_keys(ledger_id(file), 0, known, report.key_changes)
    assert not wrong
    place = report.branch, report.sequence
    return [each.verifier.name for each in keys if each.at(place)]


def test_a_log_names_its_next_key(file: Path, keys: Keys) -> None:
    decision = rotated(file, keys.new, keys.old)
    assert decision is not None
    assert decision.outcome is Outcome.KEY_CHANGED
    assert (decision.dataset, decision.source, decision.note) == (None, None, "yearly")
    assert decision.key_change is not None
    assert decision.key_change.key == keys.new.verifier.text
    assert valid(file, keys.old.verifier) == ["new"]
    assert rotated(file, keys.new, keys.old) is None  # run again
    with pytest.raises(Refused, match=r"the log's key is new\+"):
        rotated(file, keys.other, keys.old)
    assert rotated(file, keys.other, keys.new) is not None
    assert valid(file, keys.old.verifier) == ["other"]
    assert valid(file, keys.new.verifier) == ["other"]
    service = EmbeddedService.open(file, Settings())  # state knows the key, too
    ask(service, 2)
    service.close_sync()
    with pytest.raises(Refused, match=r"the log's key is other\+"):
        rotated(file, keys.new, keys.old)


def test_a_replacement_of_a_lost_key_is_not_trusted_by_default(file: Path, keys: Keys) -> None:
    rotated(file, keys.new, keys.old, lost=True, note="the laptop is gone")
    assert valid(file, keys.old.verifier) == []
    assert valid(file, keys.old.verifier, keys.new.verifier) == ["new"]
    (change,) = report_of(file).key_changes
    assert (change.note, change.change.signature) == ("the laptop is gone", "")


def test_a_key_change_needs_a_reason(file: Path, keys: Keys) -> None:
    with pytest.raises(RequestInvalid, match="reason"):
        rotated(file, keys.new, keys.old, note="")
    assert report_of(file).key_changes == ()


def test_a_change_that_another_has_signed_is_wrong(file: Path, keys: Keys) -> None:
    decision = rotated(file, keys.new, keys.old)
    assert decision is not None
    assert decision.key_change is not None
    for field in ("key", "signature"):
        text = {"key": keys.other.verifier.text, "signature": "AAAA"}[field]
        change = msgspec.structs.replace(decision.key_change, **{field: text})
        forged = encode(msgspec.structs.replace(decision, key_change=change))
        report = audit([*list(read_decisions(file))[:-1], forged])
        assert report.ok  # the log itself is sound
        _, wrong = trusted_keys(ledger_id(file), 0, [keys.old.verifier], report.key_changes)
        assert len(wrong) == 1
        assert "not signed by the key before it" in wrong[0]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"key_change": None}, "key_change"),
        ({"note": None}, "note"),
        ({"outcome": Outcome.SEALED}, "key_change"),
        ({"dataset": "census"}, "dataset"),
    ],
)
def test_an_audit_names_each_forged_field_of_a_key_change(
    file: Path, keys: Keys, change: dict[str, object], field: str
) -> None:
    decision = rotated(file, keys.new, keys.old)
    assert decision is not None
    forged = encode(msgspec.structs.replace(decision, **change))
    report = audit([*list(read_decisions(file))[:-1], forged])
    assert report.first_disagreement is not None
    assert report.first_disagreement.what == field


def test_a_log_cannot_pass_over_a_key(file: Path, keys: Keys) -> None:
    rotated(file, keys.new, keys.old)
    decision = rotated(file, keys.other, keys.new)
    assert decision is not None
    assert decision.key_change is not None
    change = msgspec.structs.replace(decision.key_change, by=keys.old.verifier.text)
    forged = encode(msgspec.structs.replace(decision, key_change=change))
    report = audit([*list(read_decisions(file))[:-1], forged])
    assert report.first_disagreement is not None
    assert report.first_disagreement.what == "key_change.by"


def test_killed_at_each_write_there_is_one_valid_key(file: Path, keys: Keys) -> None:
    """The process dies at its first write to the disk, at its second, ..., until it ends well."""
    seen = set[str]()
    for at in range(1, 200):

        def life(at: int = at) -> None:
            with Disk() as disk:
                disk.at = lambda count, *_: die() if count == at else None
                disk.counting = True
                rotated(file, keys.new, keys.old)
            os._exit(0)

        _, status = os.waitpid(forked(life), 0)
        (name,) = valid(file, keys.old.verifier)
        seen.add(name)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            break
    assert seen == {"old", "new"}
    assert at > 3
    assert rotated(file, keys.new, keys.old) is None
    assert len(report_of(file).key_changes) == 1


def test_a_process_signs_by_the_logs_key_alone(file: Path, keys: Keys, tmp_path: Path) -> None:
    place, old = tmp_path / "kept", tmp_path / "old"
    given = Settings(checkpoints=place, checkpoint_key=old)
    EmbeddedService.open(file, given).close_sync()
    before = sorted(place.rglob("*.note"))
    assert len(before) == 1
    rotated(file, keys.new, keys.old)
    service = EmbeddedService.open(file, given)
    ask(service, 2)
    service.close_sync()
    assert any("set ACCOUNTANT_CHECKPOINT_KEY" in note for note in service.readiness().notes)
    assert sorted(place.rglob("*.note")) == before
    service = EmbeddedService.open(
        file, Settings(checkpoints=place, checkpoint_key=tmp_path / "new")
    )
    assert service.readiness().notes == []  # what the old key has signed is believed here
    service.close_sync()
    assert len(list(place.rglob("*.note"))) == 2
