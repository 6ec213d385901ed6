"""A log of another version: this one stops at what it cannot know, and says who can read it."""

from __future__ import annotations

import json

import pytest

from accountant.errors import MadeByNewerVersion, MadeByOtherVersion, MadeByPrereleaseVersion
from accountant.records import FORMAT, RULES, check_maker, decode_decision
from accountant.records.header import decode_header
from accountant.records.state_rows import decode_row, partition_row_key
from accountant.replay.audit import audit
from accountant.replay.replay import Replay
from accountant.views.tallies import UnreadableDecision, count
from tests.accountant.partition.division import divide, divided
from tests.accountant.world import World, opened

NEWER = {"outcome": "undreamt_of"}
LACKING = [{"version": None}, {"version": 1}, {"version": None, "rules": 99}]
"""Changes to a record that leave it without the mark: None drops the field."""


def changed(value: bytes, **fields: object) -> bytes:
    record = json.loads(value) | fields
    return json.dumps({k: v for k, v in record.items() if v is not None}).encode()


def spent() -> World:
    world = opened()
    world.ask("pure:0.25")
    world.ask("pure:0.25")
    return world


def test_every_decision_and_every_row_has_the_mark_and_the_rules() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.5")
    world.ask("pure:0.1")
    world.ask("pure:100")
    world.send("requests", b"no JSON")
    for value in world.log:
        fields = json.loads(value)
        assert (fields["version"], fields["rules"]) == (FORMAT, RULES)
    rows = [json.loads(value) for _, value in world.rows()]
    assert {row["type"] for row in rows} == {"snapshot", "member", "level", "partition"}
    assert {row["version"] for row in rows} == {FORMAT}


@pytest.mark.parametrize("newer", [{"rules": RULES + 1}, {"version": FORMAT + 1}])
def test_a_decision_of_a_newer_program_is_detected_before_the_rest_is_read(
    newer: dict[str, int],
) -> None:
    world = spent()
    world.log[-1] = changed(world.log[-1], **newer, **NEWER)
    refold = Replay(world.genesis)
    for value in world.log[:-1]:
        refold.take_decision(value)
    ((what, number),) = newer.items()
    words = f"made by {what} {number}.*run the newer version"
    with pytest.raises(MadeByNewerVersion, match=words):
        refold.take_decision(world.log[-1])
    found = audit(world.log).first_disagreement
    assert found is not None
    assert "run the newer version" in found.found


def test_a_row_of_a_newer_program_is_detected() -> None:
    world = spent()
    (key, value) = world.rows()[-1]
    with pytest.raises(MadeByNewerVersion, match="run the newer version"):
        Replay(world.genesis).take_row(key, changed(value, rules=RULES + 1, head=None))


@pytest.mark.parametrize("lacking", LACKING)
def test_no_reader_takes_a_decision_without_the_mark(lacking: dict[str, object]) -> None:
    value = changed(spent().log[-1], **lacking)
    for read in (decode_decision, decode_header, check_maker):
        with pytest.raises(MadeByPrereleaseVersion, match="before the first release"):
            read(value)
    with pytest.raises(MadeByPrereleaseVersion):
        Replay(World().genesis).take_decision(value)
    with pytest.raises(
        (MadeByPrereleaseVersion, UnreadableDecision), match="before the first release"
    ):
        count([value], after=2, head=None)


@pytest.mark.parametrize("lacking", LACKING)
def test_no_reader_takes_a_row_without_the_mark(lacking: dict[str, object]) -> None:
    world = divided()
    divide(world, "team", "blue", part="0.5")
    world.ask("pure:0.1")
    for key, value in world.rows():
        row = changed(value, **lacking)
        with pytest.raises(MadeByPrereleaseVersion, match="Start a new ledger in another place"):
            Replay(world.genesis).take_row(key, row)
        if key != partition_row_key(0):
            with pytest.raises(MadeByPrereleaseVersion):
                decode_row(row)


def test_the_mark_comes_before_the_number_of_the_rules() -> None:
    # What versions before the first release called rules is another count: it reached 5.
    with pytest.raises(MadeByPrereleaseVersion):
        check_maker(b'{"rules":5,"outcome":"undreamt_of"}')
    with pytest.raises(MadeByPrereleaseVersion):
        check_maker(b'{"rules":"of a form that is not known"}')


def test_rules_must_be_there() -> None:
    with pytest.raises(Exception, match="rules"):
        decode_decision(changed(spent().log[-1], rules=None))


def test_an_audit_of_a_log_without_the_mark_is_refused_and_not_called_wrong() -> None:
    world = spent()
    with pytest.raises(MadeByPrereleaseVersion):
        audit([changed(value, version=None) for value in world.log])
    # One record without it in a log that has it was put there.
    forged = [*world.log[:-1], changed(world.log[-1], version=None)]
    found = audit(forged).first_disagreement
    assert found is not None
    assert (found.partition_sequence, found.what) == (3, "version")


def test_errors_for_newer_and_prerelease_versions_share_a_base_class() -> None:
    assert issubclass(MadeByNewerVersion, MadeByOtherVersion)
    assert issubclass(MadeByPrereleaseVersion, MadeByOtherVersion)
