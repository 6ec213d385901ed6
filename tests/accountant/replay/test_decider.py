"""An audit in two halves accepts no log that an audit in one refuses."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from accountant.errors import MadeByPrereleaseVersion
from accountant.partition import hash_of
from accountant.partition.operate import seal_log
from accountant.records import decode_decision, encode
from accountant.replay.audit import Auditor, audit
from accountant.replay.decider import DecidedLog, Decider, hash_of_rows
from accountant.replay.sealed_log import next_seal
from tests.accountant.histories import worlds
from tests.accountant.replay.test_audit import LOG, rechained
from tests.accountant.replay.test_grant_run import FIELDS, WORLD, forged
from tests.accountant.world import World
from tests.every_case import check_each
from tests.nightly import examples


def decided(log: list[bytes], most_ids: int | None = None) -> DecidedLog | None:
    decider = Decider(most_ids=most_ids)
    try:
        return decider.end() if all(map(decider.take, log)) else None
    except Exception:
        return None


def accepted_by_one(log: list[bytes]) -> bool:
    try:
        return audit(log).ok
    except MadeByPrereleaseVersion:  # of a first record that is not of this format
        return False


def accepted_by_two(log: list[bytes], most_ids: int | None = None) -> bool:
    auditor = Auditor(decides=False, most_ids=most_ids)
    try:
        if not all(map(auditor.take, log)):
            return False
    except MadeByPrereleaseVersion:
        return False
    state = auditor.partition
    if state is None or not auditor.report().ok:
        return False
    due = DecidedLog(auditor.requests, state.sequence, state.head, hash_of_rows(state))
    return decided(log, most_ids) == due


@given(worlds())
@settings(max_examples=examples(30))
def test_two_halves_accept_a_written_log(played: tuple[World, list[bytes]]) -> None:
    world, _ = played
    assert accepted_by_two(world.log, world.most_ids)


def test_two_halves_accept_a_log_that_goes_on_after_a_seal() -> None:
    world = World()
    world.open(epsilon="1", delta="1e-6")
    auditor = Auditor()
    assert all(map(auditor.take, world.log))
    assert auditor.partition is not None
    before = 1, hash_of(world.log[1])
    seal = next_seal(auditor.partition, auditor.counted, auditor.first, before)
    world.took(seal_log(world.draft, world.now, "the disk is full", seal))
    world.commit()
    world.send("admin", world.admin("amend", alert_at=["0.5"]))
    assert audit(world.log).ok
    assert accepted_by_two(world.log)


def test_two_halves_accept_no_forged_grant() -> None:
    def check_case(at: int, field: str) -> None:
        log = list(WORLD.log)
        log[at] = encode(forged(decode_decision(log[at]), field))
        assert not audit(log).ok
        assert not accepted_by_two(log)
        assert not accepted_by_two(rechained(log, at))

    check_each(check_case, [5, 12, 22], FIELDS)


@given(st.integers(0, len(LOG) - 1), st.integers(0, 2000), st.binary(min_size=1, max_size=1))
@example(0, LOG[0].index(b"version"), b" ")
def test_two_halves_accept_no_changed_byte(at: int, place: int, byte: bytes) -> None:
    value = LOG[at]
    place %= len(value)
    log = [*LOG[:at], value[:place] + byte + value[place + 1 :], *LOG[at + 1 :]]
    assert accepted_by_two(log) <= accepted_by_one(log)


def test_two_halves_accept_no_log_without_one_of_its_records() -> None:
    def check_case(at: int) -> None:
        log = [*LOG[:at], *LOG[at + 1 :]]
        assert accepted_by_two(log) <= accepted_by_one(log)
        assert accepted_by_two(rechained(log, at)) <= accepted_by_one(rechained(log, at))

    check_each(check_case, range(1, len(LOG)))


def test_the_decider_alone_finds_what_no_sum_shows() -> None:
    log = rechained(
        [*WORLD.log[:5], encode(forged(decode_decision(WORLD.log[5]), "crossed")), *WORLD.log[6:]],
        5,
    )
    halves = Auditor(decides=False)
    assert all(map(halves.take, log))
    assert decided(log) is None
