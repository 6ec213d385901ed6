"""A clock that was ahead is set back once; live state, refold and audit then agree on every id."""

from __future__ import annotations

import msgspec
import pytest

from accountant.errors import RequestInvalid
from accountant.partition.operate import reset_clock
from accountant.records import Decision, decode_decision, encode
from accountant.records.header import decode_header
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.audit import audit
from accountant.replay.replay import Replay, state_rows
from accountant.times import from_iso, iso
from accountant.views.counted_decisions import counted_decisions
from accountant.views.datasets import view_of_ledger
from accountant.views.usage import UsageTable
from tests.accountant.world import SKEW, START, WINDOW, World, opened

DAY = 86_400_000
YEARS = 3650 * DAY
ONE = {"filter": "basic", "epsilon": "1"}


def reset(world: World, at: int | None = None) -> Decision:
    world.commit()
    decided = world.took(reset_clock(world.draft, world.now if at is None else at, "it was ahead"))
    world.commit()
    return decided


def of_rows(world: World) -> list[tuple[bytes, bytes]]:
    """Return the state of a refold from rows and the decisions that its look-back asks for."""
    refold = Replay(world.genesis, most_ids=world.most_ids)
    for key, value in world.rows():
        refold.take_row(key, value)
    since = refold.start
    assert since is not None
    times = [from_iso(decode_decision(value).decided_at) for value in world.log]
    first = next((n for n, at in enumerate(times) if at >= since), len(times) - 1)
    for value in world.log[first:]:
        refold.take_decision(value)
    partition = refold.finish()
    assert len(partition.ids) == len(world.state.ids)
    return state_rows(partition)


def check_everywhere(world: World) -> None:
    """Check that live state, both refolds and the audit agree, ids included."""
    rows, live = world.rows(), world.state
    whole = world.replayed()
    assert state_rows(whole) == rows
    assert len(whole.ids) == len(live.ids)
    assert of_rows(world) == rows
    report = audit(world.log, genesis=world.genesis, most_ids=world.most_ids)
    assert report.ok, report.first_disagreement


@pytest.fixture
def ahead() -> World:
    """A ledger that was right for an hour, then ten years ahead for two, and is right again."""
    world = opened(**ONE)
    world.ask("pure:0.1")
    world.now += WINDOW
    world.right = world.request("pure:0.1")  # type: ignore[attr-defined]
    assert world.send("requests", world.right).granted  # type: ignore[attr-defined]
    world.now += YEARS
    world.early = world.request("pure:0.1")  # type: ignore[attr-defined]
    assert world.send("requests", world.early).granted  # type: ignore[attr-defined]
    world.now += 2 * WINDOW
    world.late = world.request("pure:0.1")  # type: ignore[attr-defined]
    assert world.send("requests", world.late).granted  # type: ignore[attr-defined]
    world.now -= YEARS
    return world


def test_the_clock_and_the_floor_are_the_right_ones_again(ahead: World) -> None:
    assert ahead.ask("pure:0.1").outcome is Outcome.EXPIRED  # frozen
    decision = reset(ahead)
    assert decision.outcome is Outcome.CLOCK_RESET
    assert (decision.decided_at, decision.floor) == (iso(ahead.now), iso(ahead.now + SKEW))
    assert (decision.dataset, decision.source, decision.note) == (None, None, "it was ahead")
    assert ahead.ask("pure:0.1").outcome is Outcome.EXPIRED
    ahead.now += SKEW + 1
    assert ahead.ask("pure:0.1").granted
    check_everywhere(ahead)


def test_after_a_clock_reset_old_ids_expire_and_are_decided_again_later(ahead: World) -> None:
    reset(ahead)
    ahead.now += SKEW + 1
    right, early, late = ahead.right, ahead.early, ahead.late  # type: ignore[attr-defined]
    assert ahead.send("requests", right).outcome is Outcome.EXPIRED
    assert ahead.send("requests", late).reason is Reason.ISSUED_IN_FUTURE
    check_everywhere(ahead)
    spent = ahead.ledger().totals[0]
    ahead.now += YEARS - SKEW - 2 * WINDOW  # the clock comes to where it once was
    again = ahead.send("requests", early)
    assert again.granted  # decided again, and charged again
    assert ahead.ledger().totals[0] - spent == spent // 4
    check_everywhere(ahead)
    ahead.now += 2 * WINDOW
    repeat = ahead.send("requests", late)
    assert repeat.outcome is Outcome.REPEATED
    check_everywhere(ahead)


def test_a_forgotten_owners_record_that_follows_a_decision_acts_once(ahead: World) -> None:
    ahead.now += YEARS
    follows = ahead.ledger().sequence
    named = ahead.admin("amend", alert_at=["0.5"], follows=follows)
    free = ahead.admin("amend", horizon="P9D")
    assert ahead.send("admin", named).outcome is Outcome.AMENDED
    assert ahead.send("admin", free).outcome is Outcome.AMENDED
    ahead.now += 2 * WINDOW
    ahead.ask("pure:0.1")  # raises the floor above both ids
    ahead.now -= YEARS + 2 * WINDOW
    reset(ahead)
    ahead.now += YEARS
    again = ahead.send("admin", named)
    assert (again.outcome, again.reason) == (Outcome.REFUSED, Reason.OUT_OF_DATE)
    assert ahead.send("admin", free).outcome is Outcome.AMENDED  # names none: acts again
    check_everywhere(ahead)


def test_a_batch_and_a_small_table_agree_too() -> None:
    world = World(most_ids=20, batch=3)
    world.open(**ONE)
    world.now += YEARS
    for _ in range(30):
        world.ask("pure:0.01")
        world.now += 10_000
    world.now -= YEARS
    reset(world)
    world.now += SKEW + 1
    for _ in range(30):
        world.ask("pure:0.01")
        world.now += 10_000
    check_everywhere(world)


def test_a_second_reset_is_one_more_decision(ahead: World) -> None:
    reset(ahead)
    ahead.now += SKEW + YEARS
    ahead.ask("pure:0.1")
    ahead.now -= YEARS - SKEW
    reset(ahead)
    check_everywhere(ahead)


def test_a_reset_that_sets_nothing_back_is_refused(ahead: World) -> None:
    reset(ahead)
    with pytest.raises(RequestInvalid, match="time must be before"):
        reset_clock(ahead.draft, ahead.now, "again")
    for note in ("", "x" * 201):
        with pytest.raises(RequestInvalid, match="reason"):
            reset_clock(ahead.draft, ahead.now - 1, note)


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("decided_at", {"decided_at": iso(START + 2 * YEARS), "floor": iso(START)}),
        ("floor", {"floor": iso(START)}),
        ("note", {"note": None}),
        ("rules", {"rules": 0}),
        ("sequence", {"sequence": 9}),
        ("totals", {"totals": {"mechanisms": 0}}),
        ("dataset", {"dataset": "census"}),
        ("request", {"request": msgspec.Raw(b"{}")}),
    ],
)
def test_an_audit_names_each_forged_field_of_a_clock_reset(
    ahead: World, what: str, changes: dict[str, object]
) -> None:
    forged = msgspec.structs.replace(reset(ahead), **changes)
    found = audit([*ahead.log[:-1], encode(forged)]).first_disagreement
    assert found is not None
    assert found.what == what


def test_no_other_decision_sets_the_clock_back_or_has_a_note(ahead: World) -> None:
    ahead.now += YEARS
    last = ahead.ask("pure:0.1")
    for changes, what in (
        ({"decided_at": iso(ahead.now - YEARS)}, "decided_at"),
        ({"note": "x"}, "note"),
    ):
        forged = encode(msgspec.structs.replace(last, **changes))
        found = audit([*ahead.log[:-1], forged]).first_disagreement
        assert found is not None
        assert found.what == what


def test_after_a_clock_reset_views_follow_the_number_of_the_decision(ahead: World) -> None:
    reset(ahead)
    ahead.now += SKEW + 1
    ahead.ask("pure:0.1")
    table = UsageTable()
    for value in ahead.log:
        table.take(counted_decisions(decode_header(value)), lambda _: ("epsilon", 1))
    (usage,) = table.rows["census"].values()
    assert usage.decided_at == ahead.now
    view = view_of_ledger(ahead.replayed().ledgers["census"])
    assert view.last_decided_at == iso(ahead.now)
    assert view.totals["mechanisms"] == 5
