"""Rows of `state` in a ledger's file that somebody forged, with every checksum made right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accountant.errors import LogDamaged
from streams.client import Accountant
from streams.embedded.ledger_file import reader
from streams.embedded.sealed_log import first_unarchived
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.settings import Settings
from tests.faults.forged_rows import forged, put, replaced, rows_of, with_right_checksum
from tests.ledger_file import connected
from tests.streams.cli.here import run_here
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import archive_file, fill, latest

ONE = {"filter": "basic", "epsilon": "1"}
PAST_WINDOW_AND_SKEW_S = 2 * 3600
UNSPENT = replaced(b'"mechanisms":3,"epsilon":"0.9"', b'"mechanisms":0,"epsilon":"0"')


def opened(file: Path, clock: TestClock) -> Accountant:
    return Accountant(f"sqlite:///{file}", clock=clock, analyst="ana")


def forget_index(file: Path) -> None:
    for suffix in (".index", ".index-wal", ".index-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


@pytest.fixture(params=["with an index", "without an index"])
def spent(request: pytest.FixtureRequest, file: Path, clock: TestClock) -> Path:
    """A ledger whose `census` has 0.9 of 1 spent, and was left alone since."""
    with opened(file, clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        ledger.as_owner("owner").open("other", ONE, as_given=True)
        for _ in range(3):
            clock.pass_(seconds=1)
            assert ledger.ask("census", "pure:0.3").granted
        clock.pass_(seconds=PAST_WINDOW_AND_SKEW_S)
        assert ledger.ask("other", "pure:0.01").granted
        ledger.usage("census")  # waits for the index
    if request.param == "without an index":
        forget_index(file)
    return file


def audit(file: Path) -> tuple[int, str]:
    done = run_here(file.parent, "audit", str(file))
    return done.code, " ".join(f"{done.out} {done.err}".split())


def test_a_sound_ledger_starts_and_passes_audit(spent: Path, clock: TestClock) -> None:
    code, said = audit(spent)
    assert code == 0, said
    assert "5 rows of `state` agree with them" in said
    with opened(spent, clock) as ledger:
        assert not ledger.ask("census", "pure:0.3").granted


def test_a_start_refuses_a_forged_total_of_an_idle_dataset(spent: Path, clock: TestClock) -> None:
    put(spent, forged(rows_of(spent), b"census", UNSPENT))
    with pytest.raises(LogDamaged, match=r"census in `state` has totals\.mechanisms 0.* has 3"):
        EmbeddedService.open(spent, Settings(), clock=clock)


def test_an_audit_names_the_forged_total_and_exits_with_1(spent: Path) -> None:
    put(spent, forged(rows_of(spent), b"census", UNSPENT))
    code, said = audit(spent)
    assert code == 1
    assert "dataset census, field totals.mechanisms expected 3 found 0" in said
    assert "all 7 decisions agree with each other, but this row does not agree with them" in said


def test_rows_made_again_from_the_log_pass(spent: Path, clock: TestClock) -> None:
    put(spent, {})  # as the message of the start and of the audit says
    with opened(spent, clock) as ledger:
        assert not ledger.ask("census", "pure:0.3").granted
    assert audit(spent)[0] == 0


@pytest.mark.parametrize(
    "change",
    [
        replaced(b'"budget":{"epsilon":"1"', b'"budget":{"epsilon":"9"'),
        replaced(b'"sequence":4', b'"sequence":9'),
        replaced(b'"sequence":4', b'"sequence":3'),
    ],
)
def test_a_start_refuses_a_forged_budget_or_number(
    spent: Path, clock: TestClock, change: Callable[[bytes], bytes]
) -> None:
    put(spent, forged(rows_of(spent), b"census", change))
    with pytest.raises(LogDamaged, match="the row of dataset census"):
        EmbeddedService.open(spent, Settings(), clock=clock)
    assert audit(spent)[0] == 1


def test_with_an_index_a_start_refuses_an_older_row(file: Path, clock: TestClock) -> None:
    with opened(file, clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        ledger.as_owner("owner").open("other", ONE, as_given=True)
        ledger.ask("census", "pure:0.3")
    early = rows_of(file)
    with opened(file, clock) as ledger:
        clock.pass_(seconds=1)
        ledger.ask("census", "pure:0.3")
        clock.pass_(seconds=PAST_WINDOW_AND_SKEW_S)
        ledger.ask("other", "pure:0.01")
        ledger.usage("census")
    put(file, with_right_checksum({**rows_of(file), b"census": early[b"census"]}))
    with pytest.raises(LogDamaged, match="has sequence 2; decision 4 of the log has 3"):
        EmbeddedService.open(file, Settings(), clock=clock)


MEMBER = b'{"dataset":"census","member":"ana"}'
LIMIT = b'{"dataset":"census","scope":"team","name":"blue"}'


@pytest.fixture
def administered(file: Path, clock: TestClock) -> Path:
    """A ledger whose owner has amended, set a member and a limit before the last decisions."""
    policy = {"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6", "most_per_request": "0.1"}
    with opened(file, clock) as ledger:
        ledger.as_owner("owner").open("census", policy, as_given=True)
        assert ledger.as_owner("owner").amend("census", alert_at=["0.5"]).outcome == "amended"
        done = ledger.as_owner("owner").set_member("census", "ana", roles=["analyst"], team="blue")
        assert done.outcome == "member_set"
        done = ledger.as_owner("owner").set_limit("census", "team", "blue", part="0.5")
        assert done.outcome == "limit_set"
        assert ledger.ask("census", "pure:0.01").granted
        clock.pass_(seconds=PAST_WINDOW_AND_SKEW_S)
        assert ledger.ask("census", "pure:0.01").granted
    return file


@pytest.mark.parametrize(
    ("key", "old", "new", "said"),
    [
        (b"census", b'"unit":"person"', b'"unit":"household"', "policy.unit household"),
        (b"census", b'"add_remove"', b'"replace"', "policy.neighbours replace"),
        (b"census", b'"most_per_request":"0.1"', b'"most_per_request":"0.9"', "policy.most_per_"),
        (b"census", b'"epsilon":"1"', b'"epsilon":"5"', "policy.epsilon 5"),
        (b"census", b'"delta":"1e-6"', b'"delta":"1e-3"', "policy.delta 1e-3"),
        (b"census", b'"alert_at":["0.5"]', b'"alert_at":["0.9"]', "policy.alert_at"),
        (b"census", b'"opened_at":1', b'"opened_at":2', "opened_at"),
        (b"census", b'"closed":false', b'"closed":true', "closed true"),
        (MEMBER, b'"roles":["analyst"]', b'"roles":["auditor"]', "member ana"),
        (MEMBER, b'"team":"blue"', b'"team":"gold"', "member ana"),
        (LIMIT, b'"part":"0.5"', b'"part":"0.9"', "level team blue"),
        (LIMIT, b'"counted_since":1', b'"counted_since":2', "level team blue"),
    ],
)
def test_a_start_refuses_a_row_that_an_administrator_s_record_has_not_set(
    administered: Path, clock: TestClock, key: bytes, old: bytes, new: bytes, said: str
) -> None:
    put(administered, forged(rows_of(administered), key, replaced(old, new)))
    with pytest.raises(LogDamaged, match=said):
        EmbeddedService.open(administered, Settings(), clock=clock)
    assert audit(administered)[0] == 1


def test_a_sound_ledger_with_members_and_limits_starts(
    administered: Path, clock: TestClock
) -> None:
    with opened(administered, clock) as ledger:
        assert ledger.ask("census", "pure:0.01").granted


def test_an_archive_of_a_ledger_with_a_forged_row_is_refused(
    file: Path, clock: TestClock, tmp_path: Path
) -> None:
    fill(file, clock)
    # Which no decision has: a start does not look there.
    put(file, forged(rows_of(file), b"survey", replaced(b'"crossed":', b'"crossed":1')))
    with pytest.raises(LogDamaged, match="dataset survey, field crossed"):
        archive_file(file, clock, tmp_path / "old.jsonl.gz")
    assert not (tmp_path / "old.jsonl.gz").exists()


def test_a_dataset_whose_last_decision_is_archived_starts_and_its_forged_row_does_not(
    file: Path, clock: TestClock, tmp_path: Path
) -> None:
    with opened(file, clock) as ledger:
        ledger.as_owner("owner").open("old", ONE, as_given=True)
        ledger.ask("old", "pure:0.3")
        clock.pass_(seconds=PAST_WINDOW_AND_SKEW_S)
    fill(file, clock)
    archive_file(file, clock, tmp_path / "old.jsonl.gz", before=latest(file))
    with reader(file) as db:
        assert first_unarchived(db) > 2
    sound = rows_of(file)
    with opened(file, clock) as ledger:
        assert ledger.dataset("old").totals["epsilon"] == "0.3"
    put(file, forged(sound, b"old", replaced(b'"epsilon":"0.3"', b'"epsilon":"0"')))
    with pytest.raises(LogDamaged, match="dataset old"):
        EmbeddedService.open(file, Settings(), clock=clock)
    assert audit(file)[0] == 1


def test_a_file_with_a_foreign_or_missing_part_is_refused_and_the_part_named(
    spent: Path, clock: TestClock
) -> None:
    sound = spent.read_bytes()
    drop = "BEFORE INSERT ON decisions BEGIN SELECT raise(ignore); END"
    for said, *statements in (
        ("trigger t is not", f"CREATE TRIGGER t {drop}"),
        ("table extra is not", "CREATE TABLE extra (x)"),
        ("table decisions is not", "ALTER TABLE decisions ADD COLUMN x"),
        ("index decisions_by_time is missing", "DROP INDEX decisions_by_time"),
        ("index decisions_of_admins is not", "DROP INDEX decisions_of_admins",
         "CREATE INDEX decisions_of_admins ON decisions (sequence) WHERE sequence < 0"),
        ("table rows is not", "ALTER TABLE state RENAME TO rows",
         "CREATE VIEW state AS SELECT * FROM rows"),
        ("state. has the key 'census'",
         "INSERT INTO state SELECT 'census', value, crc FROM state LIMIT 1"),
        ("decision -1 must",
         "INSERT INTO decisions SELECT -1, decided_at, value FROM decisions LIMIT 1"),
        ("owner. must hold one epoch", "DELETE FROM owner"),
        ("owner. must hold one epoch", "UPDATE owner SET epoch = 'abc'"),
        ("owner. must hold one epoch", "UPDATE owner SET epoch = 9223372036854775807"),
    ):  # fmt: skip
        spent.write_bytes(sound)
        with connected(spent) as db:
            for statement in statements:
                db.execute(statement)
        with pytest.raises(Refused, match=f"is damaged: .*{said}"):
            EmbeddedService.open(spent, Settings(), clock=clock)
        code, out = audit(spent)
        assert code == 4, out
        spent.with_name(spent.name + "-wal").unlink(missing_ok=True)
        spent.with_name(spent.name + "-shm").unlink(missing_ok=True)
