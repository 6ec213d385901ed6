"""A sealed log: what is kept of it, with the snapshot, comes to the state of the whole log."""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.errors import LogDamaged, RequestInvalid
from accountant.partition import Partition, hash_of
from accountant.partition.operate import seal_log
from accountant.records import decode_decision, encode
from accountant.records.outcomes import Outcome
from accountant.replay.audit import Auditor, AuditReport, audit
from accountant.replay.replay import Replay, state_rows
from accountant.replay.sealed_log import (
    SealedReplay,
    SealSnapshot,
    next_seal,
    parse_usage,
    sealed_state,
    sealed_usage,
)
from accountant.times import from_iso, iso
from tests.accountant.world import SKEW, WINDOW, World, opened
from tests.nightly import examples

HOUR = 3_600_000


class Archived(NamedTuple):
    """A world's log with its beginning archived.

    Attributes:
        archive: the decisions up to the last archived one, decision 0 among them.
        log: decision 0 and what follows the archive.
    """

    archive: list[bytes]
    log: list[bytes]
    sealed: SealSnapshot


def sealed(world: World) -> Archived:
    """Seal a world's log: everything that its ids no longer need goes to the archive."""
    auditor = Auditor(genesis=world.genesis)
    assert all(map(auditor.take, world.log)), auditor.disagreement
    partition = auditor.partition
    assert partition is not None
    since = partition.floor - SKEW
    times = [from_iso(decode_decision(value).decided_at) for value in world.log]
    kept_from = next(n for n, at in enumerate(times) if at >= since)
    archived = world.log[:kept_from]
    snapshot = SealSnapshot(sealed_state(partition), sealed_usage(auditor.counted))
    before = kept_from - 1, hash_of(archived[-1])
    seal = next_seal(partition, auditor.counted, auditor.first, before)
    world.commit()
    world.took(seal_log(world.draft, world.now, "the disk is full", seal))
    world.commit()
    return Archived(archived, [world.log[0], *world.log[kept_from:]], snapshot)


def folded(world: World, log: list[bytes], snapshot: SealSnapshot) -> Partition:
    refold = SealedReplay(world.genesis, snapshot)
    for value in log:
        refold.take_decision(value)
    return refold.finish()


def audited(world: World, log: list[bytes], snapshot: SealSnapshot | None) -> AuditReport:
    return audit(log, genesis=world.genesis, sealed=snapshot)


def busy() -> World:
    """Return a world of some hours with two datasets, refusals, repeats and an amendment."""
    world = opened(filter="zcdp", rho="0.5", alert_at=["0.1"])
    assert world.open("survey", filter="basic", epsilon="1").outcome is Outcome.OPENED
    for hour in range(5):
        for n in range(4):
            analyst = f"a{n}"
            world.ask("gaussian:sigma=9,sensitivity=1", analyst=analyst, purpose=f"p{hour}")
            world.ask("pure:0.06", dataset="survey", analyst=analyst)
            world.now += HOUR // 5
        world.amend(alert_at=["0.1", f"0.{hour + 2}"])
    return world


def after(world: World, archived: Archived) -> list[bytes]:
    """Return the kept log with what the world has decided since."""
    kept_from = len(archived.archive)
    return [world.log[0], *world.log[kept_from:]]


def test_a_sealed_log_continues_like_the_whole_log() -> None:
    world = busy()
    last = world.request("pure:0.01", dataset="survey")
    assert world.send("requests", last).granted
    archived = sealed(world)
    assert len(archived.archive) > 30
    assert len(archived.log) > 10
    # An id from before the seal is still known, and everything goes on.
    assert world.send("requests", last).outcome is Outcome.REPEATED
    assert world.ask("pure:0.01", dataset="survey").outcome is Outcome.GRANTED
    world.open("later", filter="basic", epsilon="2")
    world.ask("pure:0.5", dataset="later")
    log = after(world, archived)
    whole, kept = world.replayed(), folded(world, log, archived.sealed)
    assert state_rows(kept) == state_rows(whole) == world.rows()
    assert len(kept.ids) == len(whole.ids) == len(world.state.ids)

    report = audited(world, log, archived.sealed)
    assert report.right
    assert not report.ok
    assert report.sealed == decode_decision(archived.log[-1]).partition_sequence
    assert report.records == 5
    full = audited(world, world.log, None)
    assert full.ok, full.first_disagreement
    assert full.sealed is None
    assert (full.sequence, full.head) == (report.sequence, report.head)
    assert audit([*archived.archive, *log[1:]], genesis=world.genesis) == full


def test_a_sealed_log_continues_with_its_open_reservations() -> None:
    world = busy()
    world.open("later", filter="basic", epsilon="1")
    reserved = world.ask("pure:0.1", dataset="later", reserve={"until": "P1D"})
    assert reserved.outcome is Outcome.RESERVED
    grant = hash_of(world.log[-1])
    world.now += 3 * HOUR
    archived = sealed(world)
    step = {"version": 1, "type": "void", "analyst": "ana", "dataset": "later", "grant": grant}
    body = json.dumps(step | {"request_id": world.new_id()}).encode()
    assert world.send("requests", body).outcome is Outcome.VOIDED
    log = after(world, archived)
    assert state_rows(folded(world, log, archived.sealed)) == world.rows()
    assert audited(world, log, archived.sealed).right


def test_a_log_is_sealed_again_and_again() -> None:
    world = busy()
    first = sealed(world)
    world.now += 3 * HOUR
    world.ask("pure:0.01", dataset="survey")
    auditor = Auditor(genesis=world.genesis, sealed=first.sealed)
    assert all(map(auditor.take, after(world, first))), auditor.disagreement
    whole = Auditor(genesis=world.genesis)
    assert all(map(whole.take, world.log))
    # From the seal on, or from decision 0 on: the next snapshot is the same.
    assert auditor.partition is not None
    assert whole.partition is not None
    assert sealed_state(auditor.partition) == sealed_state(whole.partition)
    assert sealed_usage(auditor.counted) == sealed_usage(whole.counted)
    assert auditor.first == whole.first
    second = sealed(world)
    assert len(second.archive) > len(first.archive)
    world.ask("pure:0.01", dataset="survey")
    log = after(world, second)
    assert state_rows(folded(world, log, second.sealed)) == world.rows()
    assert audited(world, log, second.sealed).right
    assert audited(world, world.log, None).ok
    with pytest.raises(LogDamaged):
        folded(world, log, first.sealed)


@given(st.lists(st.sampled_from(["ask", "repeat", "wait", "amend", "seal"]), max_size=30))
@settings(max_examples=examples(60), deadline=None)
def test_a_sealed_log_and_the_whole_log_agree_after_any_steps(steps: list[str]) -> None:
    world = opened(filter="basic", epsilon="1")
    body, archived = world.request("pure:0.02"), None
    for step in steps:
        if step == "ask":
            body = world.request("pure:0.02", analyst="bo", purpose=str(world.now))
            world.send("requests", body)
        elif step == "repeat":
            world.send("requests", body)
        elif step == "wait":
            world.now += WINDOW // 2
        elif step == "amend":
            world.amend(alert_at=["0.5"])
        elif from_iso(world.decisions[-1].floor) - SKEW > from_iso(world.decisions[0].decided_at):
            archived = sealed(world)
    if archived is None:
        return
    log = after(world, archived)
    kept = folded(world, log, archived.sealed)
    assert state_rows(kept) == world.rows()
    assert len(kept.ids) == len(world.state.ids)
    assert audited(world, log, archived.sealed).right
    assert audited(world, world.log, None).ok


def test_usage_is_read_back() -> None:
    world = busy()
    auditor = Auditor()
    assert all(map(auditor.take, world.log))
    lines = sealed_usage(auditor.counted)
    assert sealed_usage(parse_usage(lines)) == lines
    assert auditor.counted.requests == 40
    with pytest.raises(LogDamaged, match="usage"):
        parse_usage([b"{}"])


@pytest.mark.parametrize("part", ["state", "usage"])
def test_another_snapshot_is_refused(part: str) -> None:
    world = busy()
    archived = sealed(world)
    lines = list(getattr(archived.sealed, part))
    forged = lines[0].replace(b'"sequence":', b'"sequence": ')
    if forged == lines[0]:
        forged = lines[0].replace(b'"generation":', b'"generation": ')
    assert forged != lines[0]
    other = archived.sealed._replace(**{part: [forged, *lines[1:]]})
    with pytest.raises(LogDamaged, match="another snapshot"):
        folded(world, archived.log, other)
    report = audited(world, archived.log, other)
    assert not report.right


def test_a_snapshot_that_is_missing_cut_or_of_no_log_is_refused() -> None:
    world = busy()
    archived = sealed(world)
    refold = Replay(world.genesis)
    refold.take_decision(archived.log[0])
    with pytest.raises(LogDamaged, match="snapshot of an archived log is missing"):
        refold.take_decision(archived.log[1])
    assert not audited(world, archived.log, None).right
    for state in ([], archived.sealed.state[:-1], archived.sealed.state[1:], [b"x"]):
        with pytest.raises(LogDamaged):
            folded(world, archived.log, archived.sealed._replace(state=state))
    with pytest.raises(LogDamaged, match="ends before"):
        folded(world, archived.log[:-1], archived.sealed)
    for without in (1, 2, len(archived.log) - 2):
        log = [*archived.log[:without], *archived.log[without + 1 :]]
        with pytest.raises(LogDamaged):
            folded(world, log, archived.sealed)
        assert not audited(world, log, archived.sealed).right


@pytest.mark.parametrize("field", ["first", "archived", "head", "state", "usage"])
def test_a_seal_that_lies_is_found(field: str) -> None:
    world = busy()
    archived = sealed(world)
    decision = decode_decision(world.log[-1])
    assert decision.seal is not None
    value = getattr(decision.seal, field)
    lie = value + 1 if field == "archived" else "sha256:" + "1" * 64
    seal = msgspec.structs.replace(decision.seal, **{field: lie})
    forged = encode(msgspec.structs.replace(decision, seal=seal))
    with pytest.raises(LogDamaged):
        folded(world, [*archived.log[:-1], forged], archived.sealed)
    assert not audited(world, [*archived.log[:-1], forged], archived.sealed).right
    if field not in {"archived", "head"}:  # a reader of archive and log compares those two
        wrong = audited(world, [*world.log[:-1], forged], None).first_disagreement
        assert wrong is not None
        assert wrong.what == f"seal.{field}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("floor", iso(0)),
        ("decided_at", iso(0)),
        ("note", None),
        ("seal", None),
        ("dataset", "census"),
        ("totals", {"mechanisms": 0}),
        ("rules", 0),
    ],
)
def test_a_seal_changes_nothing_else(field: str, value: object) -> None:
    world = busy()
    sealed(world)
    decision = decode_decision(world.log[-1])
    forged = encode(msgspec.structs.replace(decision, **{field: value}))
    report = audited(world, [*world.log[:-1], forged], None)
    wrong = report.first_disagreement
    assert wrong is not None
    assert wrong.what == field


def test_other_decisions_hold_no_seal() -> None:
    world = busy()
    seal = decode_decision(sealed(world).log[-1]).seal
    decision = world.ask("pure:0.01", dataset="survey")
    forged = encode(msgspec.structs.replace(decision, seal=seal))
    wrong = audited(world, [*world.log[:-1], forged], None).first_disagreement
    assert wrong is not None
    assert wrong.what == "seal"


@pytest.mark.parametrize("note", ["", "x" * 201])
def test_a_note_is_wanted(note: str) -> None:
    world = busy()
    seal = decode_decision(sealed(world).log[-1]).seal
    assert seal is not None
    with pytest.raises(RequestInvalid, match="reason must be 1 to 200"):
        seal_log(world.draft, world.now, note, seal)


def test_a_request_that_waits_is_approved_after_its_decision_was_archived() -> None:
    world = World()
    policy = {"filter": "basic", "epsilon": "1", "approve_above": "0.1"}
    world.send("admin", world.admin("open", policy=policy, owners=["olga", "otto"]))
    asks = [world.request("pure:0.3") for _ in range(3)]
    waiting = [world.send("requests", body) for body in asks]
    named = [hash_of(encode(each)) for each in waiting]
    world.send("admin", world.admin("approve", by="olga", pending=named[0]))
    world.now += 5 * HOUR
    for _ in range(3):
        world.ask("pure:0.01")
    archived = sealed(world)
    assert len(archived.archive) > 4
    for hash_, kind in zip(named[1:], ("approve", "deny"), strict=True):
        world.send("admin", world.admin(kind, by="otto", pending=hash_))
    said = [world.send("requests", body).first for body in asks]
    assert [each and each.outcome for each in said] == ["granted", "granted", "refused"]
    log = after(world, archived)
    assert state_rows(folded(world, log, archived.sealed)) == world.rows()
    assert audited(world, log, archived.sealed).right
    assert audited(world, world.log, None).ok
