"""Every state of a reservation against every record and the clock: outcome, reason, charge.

The expected values are those of the rules of reservations, written out. The reservation holds at
most 0.1 of epsilon 1; it lasts an hour.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import Any, Final

import pytest

from accountant.display.datasets import present_guarantee
from accountant.errors import RequestInvalid
from accountant.partition.draft import Draft
from accountant.partition.operate import reset_clock
from accountant.records.reservation_rows import check_until
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from accountant.views.datasets import view_of_ledger
from tests.accountant.reservations.scene import (
    ABOVE_FIRST,
    BEYOND,
    FULL,
    HOUR,
    LOWER,
    NOBODYS,
    NOISE_REDUCTION,
    Scene,
)
from tests.accountant.world import code
from tests.every_case import check_each, check_rows

RECORDS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "begin": ("begin", {}),
    "settle in full": ("settle", FULL),
    "settle lower": ("settle", LOWER),
    "settle above first": ("settle", ABOVE_FIRST),
    "settle beyond maximum": ("settle", BEYOND),
    "void by holder": ("void", {}),
    "void by owner": ("void", {"analyst": "owner"}),
    "void by stranger": ("void", {"analyst": "eve"}),
}
STATES: Final[dict[str, tuple[str, ...]]] = {
    "reserved": ("reserve",),
    "begun": ("reserve", "begin"),
    "settled in full": ("reserve", "begin", "settle"),
    "settled lower": ("reserve", "begin", "settle_lower"),
    "voided": ("reserve", "void"),
    "lapsed before begin": ("reserve", "to_deadline"),
    "final before begin": ("reserve", "to_final"),
    "lapsed after begin": ("reserve", "begin", "to_deadline"),
    "broken": ("reserve", "begin", "settle_beyond"),
}

# Of each state and record: outcome or reason, and what is charged after it.
NO_ROW: Final = dict.fromkeys(RECORDS, "not_open")
TABLE: Final[dict[str, tuple[str, dict[str, str | tuple[str, str]]]]] = {
    "reserved": (
        "0.1",
        {
            "begin": "begun",
            "settle in full": "not_begun",
            "settle lower": "not_begun",
            "settle above first": "not_begun",
            "settle beyond maximum": "not_begun",
            "void by holder": ("voided", "0"),
            "void by owner": ("voided", "0"),
            "void by stranger": "not_permitted",
        },
    ),
    "begun": (
        "0.1",
        {
            "begin": "already_begun",
            "settle in full": "settled",
            "settle lower": ("settled", "0.025"),
            "settle above first": "above_first",
            "settle beyond maximum": "beyond_maximum",
            "void by holder": "already_begun",
            "void by owner": "already_begun",
            "void by stranger": "not_permitted",
        },
    ),
    "settled in full": ("0.1", {**NO_ROW}),
    "settled lower": ("0.025", {**NO_ROW}),
    "voided": ("0", {**NO_ROW}),
    "lapsed before begin": (
        "0.1",
        {
            "begin": "lapsed",
            "settle in full": "lapsed",
            "settle lower": "lapsed",
            "settle above first": "lapsed",
            "settle beyond maximum": "lapsed",
            "void by holder": ("voided", "0"),
            "void by owner": ("voided", "0"),
            "void by stranger": "not_permitted",
        },
    ),
    "final before begin": ("0.1", {**NO_ROW}),
    "lapsed after begin": ("0.1", {**NO_ROW}),
    # It stays begun, at its maximum: what shows less afterwards is not believed.
    "broken": (
        "0.1",
        {
            "begin": "already_begun",
            "settle in full": "beyond_maximum",
            "settle lower": "beyond_maximum",
            "settle above first": "beyond_maximum",
            "settle beyond maximum": "beyond_maximum",
            "void by holder": "already_begun",
            "void by owner": "already_begun",
            "void by stranger": "not_permitted",
        },
    ),
}
OUTCOMES: Final = {"begun", "settled", "voided"}


def is_of(said: Any, expected: str) -> bool:
    """Tell whether a decision is an outcome, or `refused` for a reason."""
    if expected in OUTCOMES:
        return said.outcome == expected and said.reason is None
    return said.outcome == "refused" and said.reason == expected


def test_every_record_in_every_state() -> None:
    def check_case(state: str, record: str) -> None:
        scene = Scene()
        scene.do(*STATES[state])
        charged, cells = TABLE[state]
        cell = cells[record]
        expected, after = (cell, charged) if isinstance(cell, str) else cell
        kind, fields = RECORDS[record]
        said = scene.step(kind, **fields)
        assert is_of(said, expected), (said.outcome, said.reason)
        assert scene.total() == after
        assert scene.row("census")["totals"]["mechanisms"] == 1  # even when it was voided
        assert scene.rows() == state_rows(scene.replayed())
        assert audit(scene.log, genesis=scene.genesis).ok

    check_each(check_case, STATES, RECORDS)


def test_a_second_record_of_the_same_content_moves_nothing() -> None:
    def check_case(state: str, record: str) -> None:
        scene = Scene()
        scene.do(*STATES[state])
        kind, fields = RECORDS[record]
        first = scene.step(kind, **fields)
        after = scene.total()
        second = scene.step(kind, **fields)
        assert scene.total() == after
        if first.outcome in {"settled", "voided"}:
            assert code(second) == "not_open"
        elif first.outcome == "begun":
            assert code(second) == "already_begun"
        else:
            assert code(second) == code(first)

    check_each(check_case, STATES, RECORDS)


def test_a_deadline_is_the_first_moment_at_which_it_is_over() -> None:
    def check_case(
        before: tuple[str, ...], record: str, at: int, expected: str, charged: str
    ) -> None:
        scene = Scene()
        scene.do(*before)
        scene.tick(at)
        kind, fields = RECORDS[record]
        said = scene.step(kind, **fields)
        assert is_of(said, expected), (said.outcome, said.reason)
        assert scene.total() == charged

    check_rows(
        check_case,
        [
            (("reserve",), "begin", HOUR - 1, "begun", "0.1"),
            (("reserve",), "begin", HOUR, "lapsed", "0.1"),
            (("reserve",), "void by holder", HOUR - 1, "voided", "0"),
            (("reserve",), "void by holder", HOUR, "voided", "0"),
            (("reserve",), "void by owner", 2 * HOUR - 1, "voided", "0"),
            (("reserve",), "void by owner", 2 * HOUR, "not_open", "0.1"),
            (("reserve",), "settle in full", HOUR - 1, "not_begun", "0.1"),
            (("reserve", "begin"), "settle lower", HOUR - 1, "settled", "0.025"),
            (("reserve", "begin"), "settle lower", HOUR, "not_open", "0.1"),
            (("reserve", "begin"), "settle beyond maximum", HOUR - 1, "beyond_maximum", "0.1"),
            (("reserve", "begin"), "settle beyond maximum", HOUR, "not_open", "0.1"),
            (STATES["broken"], "settle in full", 9 * HOUR, "beyond_maximum", "0.1"),
        ],
    )


def test_no_total_moves_at_a_deadline() -> None:
    def check_case(hours: int, state: str) -> None:
        scene = Scene()
        scene.do(*STATES[state])
        before = scene.total()
        scene.tick(hours * HOUR)
        assert code(scene.ask("pure:5")) != "granted"
        assert scene.total() == before

    check_each(check_case, [1, 2, 5], STATES)


# What is taken while the dataset does not grant.

BRAKES: Final[dict[str, tuple[str, ...]]] = {
    "paused": ("pause",),
    "suspended": ("suspend",),
    "closed": ("close",),
    "halted": ("halt",),
    "exhausted": ("exhaust",),
}
TAKEN: Final = {
    "paused": ("paused", "paused"),
    "suspended": ("suspended", "suspended"),
    "closed": ("closed", "closed"),
    "halted": ("halted", "begun"),
    "exhausted": ("exhausted", "begun"),
}
"""Of each state of a dataset: the reason of a reservation, and what a `begin` is decided to be."""
OTHERS: Final = {"suspended": "0.1", "exhausted": "0.9"}


def braked(brake: str, *before: str) -> tuple[Scene, Any]:
    """Return a dataset with a reservation that grants nothing, and its total but for that."""
    halts = {"halt_on_refusal": True} if brake == "halted" else {}
    scene = Scene(filter="basic", epsilon="1", delta="1e-6", **halts)
    scene.do(*before)
    scene.do(*BRAKES[brake])
    return scene, OTHERS.get(brake, "0")


def total_of(own: str, others: str) -> str:
    return f"{(int(float(own) * 1000) + int(float(others) * 1000)) / 1000:g}"


@pytest.mark.parametrize("brake", BRAKES)
def test_nothing_is_reserved_on_a_dataset_that_grants_nothing(brake: str) -> None:
    scene, others = braked(brake, "reserve")
    assert code(scene.reserve()) == TAKEN[brake][0]
    assert scene.total() == total_of("0.1", others)
    assert not scene.decided.get("reservation")


@pytest.mark.parametrize("brake", BRAKES)
def test_begin_on_a_dataset_that_grants_nothing(brake: str) -> None:
    scene, others = braked(brake, "reserve")
    assert code(scene.begin()) == TAKEN[brake][1]
    assert scene.total() == total_of("0.1", others)
    assert scene.reservation()["stage"] == ("begun" if TAKEN[brake][1] == "begun" else "reserved")


def test_settle_is_taken_on_a_dataset_that_grants_nothing() -> None:
    def check_case(shown: dict[str, str], cost: str, brake: str) -> None:
        scene, others = braked(brake, "reserve", "begin")
        assert code(scene.settle(**shown)) == "settled"
        assert scene.total() == total_of(cost, others)

    check_rows(
        check_case,
        [
            (shown, cost, brake)
            for shown, cost in [(FULL, "0.1"), (LOWER, "0.025")]
            for brake in BRAKES
        ],
    )


def test_void_is_taken_on_a_dataset_that_grants_nothing() -> None:
    def check_case(by: str, brake: str) -> None:
        scene, others = braked(brake, "reserve")
        assert code(scene.void(analyst=by)) == "voided"
        assert scene.total() == total_of("0", others)

    check_each(check_case, ["ana", "owner"], BRAKES)


@pytest.mark.parametrize("brake", BRAKES)
def test_a_false_claim_is_refused_on_a_dataset_that_grants_nothing(brake: str) -> None:
    scene, others = braked(brake, "reserve", "begin")
    assert code(scene.settle(**BEYOND)) == "beyond_maximum"
    assert scene.total() == total_of("0.1", others)
    assert scene.reservation()["stage"] == "broken"


# Who may do what.

WHO: Final[dict[str, dict[str, object]]] = {
    "the analyst": {},
    "the engine": {"via": "engine-1"},
    "another engine": {"via": "engine-2"},
    "another analyst": {"analyst": "ben"},
    "another analyst by the engine": {"analyst": "ben", "via": "engine-1"},
    "an owner": {"analyst": "owner"},
    "another owner": {"analyst": "oda"},
    "an owner by the engine": {"analyst": "owner", "via": "engine-1"},
    "a stranger": {"analyst": "eve"},
}
HOLDERS: Final = {"the analyst", "the engine"}
MAY: Final = {
    "begin": HOLDERS,
    "settle": HOLDERS,
    "void": HOLDERS | {"an owner", "another owner"},
}


def peopled(*, via: str | None = None) -> Scene:
    """Return a dataset of members, with a reservation of ana's."""
    scene = Scene(filter="basic", epsilon="1", delta="1e-6", access="members")
    for name in ("ana", "ben"):
        scene.member(name, "analyst", team="red")
    for name in ("engine-1", "engine-2"):
        scene.member(name, "engine")
    fields = {} if via is None else {"via": via}
    assert code(scene.reserve(**fields)) == "reserved"
    return scene


def test_who_may_take_a_step() -> None:
    def check_case(kind: str, who: str) -> None:
        scene = peopled(via="engine-1")
        if kind == "settle":
            scene.begin()
        done = {"begin": "begun", "settle": "settled", "void": "voided"}[kind]
        expected = done if who in MAY[kind] else "not_permitted"
        assert code(scene.step(kind, **WHO[who])) == expected
        assert scene.total() == ("0" if expected == "voided" else "0.1")

    check_each(check_case, MAY, WHO)


@pytest.mark.parametrize("kind", MAY)
def test_an_engine_takes_no_step_of_what_the_analyst_reserved(kind: str) -> None:
    scene = peopled()
    if kind == "settle":
        scene.begin()
    assert code(scene.step(kind, via="engine-1")) == "not_permitted"


def remove(scene: Scene) -> None:
    assert code(scene.member("ana")) == "member_removed"


def expire(scene: Scene) -> None:
    scene.member("ana", "analyst", team="red", until=scene.until(1))
    scene.tick(1)


def demote(scene: Scene) -> None:
    assert code(scene.member("ana", "auditor")) == "member_set"


LEAVES: Final = {"removed": remove, "expired": expire, "no analyst any more": demote}


@pytest.mark.parametrize("way", LEAVES)
def test_a_former_member_neither_reserves_nor_begins_nor_voids(way: str) -> None:
    scene = peopled()
    LEAVES[way](scene)
    assert code(scene.reserve()) == "not_permitted"
    assert code(scene.begin()) == "not_permitted"
    assert code(scene.void()) == "not_permitted"
    assert scene.total() == "0.1"
    assert code(scene.void(analyst="owner")) == "voided"
    assert scene.total() == "0"


@pytest.mark.parametrize("way", LEAVES)
@pytest.mark.parametrize(("shown", "cost"), [(FULL, "0.1"), (LOWER, "0.025")])
def test_a_former_member_settles(way: str, shown: dict[str, str], cost: str) -> None:
    scene = peopled()
    scene.begin()
    LEAVES[way](scene)
    assert code(scene.settle(**shown)) == "settled"
    assert scene.total() == cost


@pytest.mark.parametrize("way", LEAVES)
def test_a_former_members_false_claim_suspends_nothing(way: str) -> None:
    scene = peopled()
    scene.begin()
    LEAVES[way](scene)
    assert code(scene.settle(**BEYOND)) == "beyond_maximum"
    assert scene.reservation()["stage"] == "begun"
    assert code(scene.ask("pure:0.01", analyst="ben")) == "granted"
    assert code(scene.settle(**LOWER)) == "settled"


def test_an_engine_that_is_none_any_more_settles_and_does_not_begin() -> None:
    scene = peopled(via="engine-1")
    scene.member("engine-1")
    assert code(scene.begin(via="engine-1")) == "not_permitted"
    assert code(scene.begin()) == "begun"
    assert code(scene.settle(via="engine-1", **LOWER)) == "settled"


@pytest.mark.parametrize("kind", ["begin", "settle", "void"])
def test_a_grant_without_a_row_is_not_open(kind: str) -> None:
    scene = peopled()
    assert code(scene.step(kind, grant=NOBODYS)) == "not_open"


def test_an_owner_reads_that_a_reservation_is_not_open() -> None:
    scene = peopled()
    assert code(scene.void(analyst="owner")) == "voided"
    assert code(scene.void(analyst="owner")) == "not_open"


def test_a_plain_grant_is_no_reservation() -> None:
    scene = Scene()
    scene.ask("pure:0.1")
    grant = f"sha256:{hashlib.sha256(scene.log[-1]).hexdigest()}"
    for kind in ("begin", "settle", "void"):
        assert code(scene.step(kind, grant=grant)) == "not_open"
    assert scene.total() == "0.1"


def test_a_reservation_of_another_dataset_is_not_open() -> None:
    scene = Scene()
    scene.reserve()
    scene.open("other", filter="basic", epsilon="1")
    for kind in ("begin", "settle", "void"):
        assert code(scene.step(kind, dataset="other")) == "not_open"
    assert code(scene.step("begin", dataset="nowhere")) == "unknown_dataset"


def test_a_limit_that_was_removed_stops_no_step() -> None:
    scene = Scene()
    scene.limit("analyst", "ana", part="0.5")
    scene.do("reserve")
    scene.limit("analyst", "ana")
    assert code(scene.begin()) == "begun"
    assert code(scene.settle(**LOWER)) == "settled"
    assert scene.total() == "0.025"
    assert code(scene.reserve()) == "reserved"
    scene.limit("analyst", "ana", part="0.2")
    assert code(scene.void()) == "voided"


# A settlement above the maximum.


def broken() -> Scene:
    scene = peopled()
    scene.begin()
    assert code(scene.settle(**BEYOND)) == "beyond_maximum"
    return scene


def test_a_false_claim_suspends_the_dataset() -> None:
    scene = broken()
    assert code(scene.ask("pure:0.01")) == "suspended"
    assert code(scene.reserve()) == "suspended"
    assert scene.total() == "0.1"
    assert scene.reservation()["stage"] == "broken"


def test_each_decision_says_void_until_the_last_broken_reservation_is_resolved() -> None:
    scene = Scene()
    scene.do("reserve", "begin", "settle_beyond")
    first = scene.grant
    assert scene.decided.get("guarantee") == "void"
    scene.commit()
    scene.ask("pure:0.01")
    assert scene.decided.get("guarantee") == "void"
    scene.pause()
    assert scene.decided.get("guarantee") == "void"
    assert "guarantee" not in scene.row("census")  # an owner may still explain it
    scene.owners("resolve", grant=first, mistaken="5 was sent for 50")
    assert scene.decided.get("guarantee") == "explained"
    assert scene.rows() == state_rows(scene.replayed())


def test_what_one_record_resolves_is_stored_while_another_reservation_is_broken() -> None:
    scene = peopled()
    scene.begin()
    first = scene.grant
    scene.do("reserve", "begin", "settle_beyond")
    second = scene.grant
    scene.settle(grant=first, **BEYOND)
    scene.owners("resolve", grant=first, mistaken="no")
    assert scene.decided.get("guarantee") == "void"
    assert scene.row("census")["guarantee"] == "explained"
    claim = {"type": "pure", "epsilon": "0.2"}
    scene.owners("resolve", grant=second, claim=claim)
    assert scene.decided.get("guarantee") == "if_bounded"
    assert scene.rows() == state_rows(scene.replayed())
    assert audit(scene.log, genesis=scene.genesis).ok


def test_every_view_of_a_suspended_dataset_says_void() -> None:
    scene = Scene()
    scene.do("reserve", "begin", "settle_beyond")
    scene.commit()
    for state in (scene.state, scene.replayed()):
        view = view_of_ledger(state.ledgers["census"])
        assert view.guarantee == "void"
        assert view.is_void
        assert view.state == "suspended"
        assert present_guarantee(view).startswith("none: a reservation released more")


def test_resume_ends_no_suspension() -> None:
    scene = broken()
    assert code(scene.owners("resume")) == "not_paused"
    assert code(scene.pause()) == "paused"
    assert code(scene.ask("pure:0.01")) == "suspended"
    assert code(scene.owners("resume")) == "resumed"
    assert code(scene.ask("pure:0.01")) == "suspended"


def test_time_ends_no_suspension() -> None:
    scene = broken()
    scene.tick(99 * HOUR)
    assert code(scene.ask("pure:0.01")) == "suspended"
    assert scene.reservation()["stage"] == "broken"


def test_an_owner_says_that_it_was_a_mistake() -> None:
    scene = broken()
    said = scene.owners("resolve", grant=scene.grant, mistaken="5 was sent for 50")
    assert said.outcome == "resolved"
    assert scene.total() == "0.1"
    assert not scene.reservation()
    assert code(scene.ask("pure:0.01")) == "granted"
    assert code(scene.settle(**LOWER)) == "not_open"


def test_an_owner_has_what_was_released_charged() -> None:
    scene = broken()
    claim = {"type": "pure", "epsilon": "0.2"}
    assert scene.owners("resolve", grant=scene.grant, claim=claim).outcome == "resolved"
    assert scene.total() == "0.3"
    assert scene.row("census")["guarantee"] not in {"", "void"}
    assert code(scene.ask("pure:0.01")) == "granted"


def test_a_resolve_that_is_sent_again_has_the_same_cost_before_and_after_a_replay() -> None:
    scene = broken()
    record = scene.admin("resolve", grant=scene.grant, claim={"type": "pure", "epsilon": "0.2"})
    scene.send("admin", record)
    scene.send("admin", record)
    live = scene.decided["first"]
    scene.commit()
    scene.state = scene.replayed()
    scene.draft = Draft(scene.state)
    scene.send("admin", record)
    assert scene.decided["first"] == live
    assert live["cost"] == {"epsilon": "0.2", "delta": "0"}
    assert audit(scene.log, genesis=scene.genesis).ok


@pytest.mark.parametrize("step", ["begin", "settle_lower", "void"])
def test_a_step_that_is_sent_again_after_a_replay_is_taken_once(step: str) -> None:
    scene = Scene()
    scene.do("reserve", *(["begin"] if step == "settle_lower" else []))
    first, record = getattr(scene, step)(), scene.last_step
    total = scene.total()
    scene.commit()
    scene.state = scene.replayed()
    scene.draft = Draft(scene.state)
    again = scene.send("requests", record)
    assert again.outcome == "repeated"
    assert again.first is not None
    assert again.first.outcome == first.outcome
    assert scene.total() == total


def test_the_guarantee_is_void_where_the_release_does_not_fit() -> None:
    scene = broken()
    claim = {"type": "pure", "epsilon": "0.91"}
    assert scene.owners("resolve", grant=scene.grant, claim=claim).outcome == "resolved"
    assert scene.row("census")["guarantee"] == "void"
    assert code(scene.ask("pure:0.01")) == "granted"


def test_a_void_guarantee_stays_void() -> None:
    scene = broken()
    scene.owners("resolve", grant=scene.grant, claim={"type": "pure", "epsilon": "0.95"})
    scene.do("reserve", "begin", "settle_beyond")
    scene.owners("resolve", grant=scene.grant, mistaken="nothing was shown")
    assert scene.row("census")["guarantee"] == "void"


def test_each_broken_reservation_is_resolved_by_itself() -> None:
    scene = peopled()
    scene.begin()
    first = scene.grant
    scene.do("reserve", "begin", "settle_beyond")
    second, scene.grant = scene.grant, first
    assert code(scene.settle(**BEYOND)) == "beyond_maximum"
    assert code(scene.owners("resolve", grant=second, mistaken="no")) == "resolved"
    assert code(scene.ask("pure:0.01")) == "suspended"
    assert code(scene.owners("resolve", grant=first, mistaken="no")) == "resolved"
    assert code(scene.ask("pure:0.01")) == "granted"


@pytest.mark.parametrize("brake", ["pause", "close"])
@pytest.mark.parametrize(
    "word", [{"mistaken": "no"}, {"claim": {"type": "pure", "epsilon": "0.2"}}], ids=str
)
def test_a_paused_or_closed_dataset_is_resolved_too(brake: str, word: dict[str, object]) -> None:
    scene = broken()
    scene.owners(brake)
    assert scene.owners("resolve", grant=scene.grant, **word).outcome == "resolved"
    assert scene.total() == ("0.3" if "claim" in word else "0.1")
    assert code(scene.ask("pure:0.01")) == f"{brake.removesuffix('e')}ed"


def test_resolve_takes_a_claim_or_a_reason_and_not_both() -> None:
    scene = broken()
    both = {"mistaken": "no", "claim": {"type": "pure", "epsilon": "0.2"}}
    for words in ({}, both, {"mistaken": ""}, {"mistaken": "x" * 201}):
        assert code(scene.owners("resolve", grant=scene.grant, **words)) == "invalid_field"
    assert scene.owners("resolve", grant=scene.grant, mistaken="no", follows=1).outcome == "refused"
    assert code(scene.ask("pure:0.01")) == "suspended"


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_release_is_charged_by_no_claim_for_other_neighbours(neighbours: str) -> None:
    policy = {"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6", "neighbours": neighbours}
    session = {"type": "brownian", "variance": "400", "sensitivity": "1", "first": "4000"}
    scene = Scene(session, **policy)
    assert code(scene.reserve(neighbours=neighbours)) == "reserved"
    scene.begin()
    assert code(scene.settle(shown="300")) == "beyond_maximum"
    before = scene.total("rho")
    # Sampling amplifies privacy where a unit is added or removed, and not where one is replaced.
    sampled = {"type": "subsampled_gaussian", "sigma": "4", "sensitivity": "1", "rate": "0.01"}
    claim = {"type": "repeat", "claim": sampled, "times": 2}
    said = scene.owners("resolve", grant=scene.grant, claim=claim)
    if neighbours == "add_remove":
        assert code(said) == "resolved"
        return
    assert code(said) == "claim_not_accepted"
    assert scene.total("rho") == before
    assert scene.reservation()["stage"] == "broken"
    assert code(scene.ask("pure:0.01", neighbours="replace")) == "suspended"


def test_a_release_that_breaks_a_promise_to_others_does_not_fit() -> None:
    scene = peopled()
    scene.limit("analyst", "ben", reserved="0.5")
    scene.do("begin", "settle_beyond")
    claim = {"type": "pure", "epsilon": "0.41"}
    scene.owners("resolve", grant=scene.grant, claim=claim)
    assert scene.row("census")["guarantee"] == "void"
    assert code(scene.ask("pure:0.5", analyst="ben")) == "granted"


@pytest.mark.parametrize("by", ["ana", "eve", "engine-1"])
def test_only_an_owner_resolves(by: str) -> None:
    scene = broken()
    said = scene.owners("resolve", grant=scene.grant, mistaken="no", by=by)
    assert code(said) == "not_permitted"
    assert code(scene.ask("pure:0.01")) == "suspended"


def test_only_a_broken_reservation_is_resolved() -> None:
    scene = peopled()
    assert code(scene.owners("resolve", grant=scene.grant, mistaken="no")) == "not_broken"
    scene.begin()
    assert code(scene.owners("resolve", grant=scene.grant, mistaken="no")) == "not_broken"
    scene.settle()
    assert code(scene.owners("resolve", grant=scene.grant, mistaken="no")) == "not_open"
    assert code(scene.owners("resolve", grant=NOBODYS, mistaken="no")) == "not_open"


def test_another_step_of_a_suspended_dataset() -> None:
    scene = peopled()
    scene.reserve()
    waiting = scene.grant
    scene.do("reserve", "begin")
    running = scene.grant
    scene.suspend()
    assert code(scene.begin(grant=waiting)) == "suspended"
    assert code(scene.settle(grant=running, **LOWER)) == "settled"
    assert code(scene.void(grant=waiting)) == "voided"


# Claims that settle in full.

WHOLE: Final[dict[str, dict[str, object]]] = {
    "pure": {"type": "pure", "epsilon": "0.1"},
    "laplace": {"type": "laplace", "scale": "10", "sensitivity": "1"},
    "ex_post without levels": {"type": "ex_post", "epsilon": "0.1"},
    "approximate": {"type": "approximate", "epsilon": "0.1", "delta": "1e-8"},
    "a batch of a session": {"type": "repeat", "times": 1, "claim": NOISE_REDUCTION},
    "interactive": {"type": "interactive", "claim": {"type": "pure", "epsilon": "0.1"}},
}


def test_only_a_session_settles_below_its_maximum() -> None:
    def check_case(shown: str, name: str) -> None:
        scene = Scene(WHOLE[name])
        scene.do("reserve", "begin")
        assert code(scene.settle(shown=shown)) == "settles_in_full"
        assert scene.total() == "0.1"
        assert code(scene.settle()) == "settled"
        assert scene.total() == "0.1"

    check_each(check_case, ["5", "10", "40", "1000"], WHOLE)


@pytest.mark.parametrize("name", WHOLE)
def test_what_never_began_is_voided_whatever_its_claim(name: str) -> None:
    scene = Scene(WHOLE[name])
    scene.do("reserve")
    assert scene.total() == "0.1"
    assert code(scene.void()) == "voided"
    assert (scene.total(), scene.total("delta")) == ("0", "0")


@pytest.mark.parametrize(
    ("shown", "expected", "cost"),
    [
        ("10", "settled", "0.1"),
        ("100", "settled", "0.01"),
        ("100.0", "settled", "0.01"),
        ("1e1", "settled", "0.1"),
        ("9.999999", "beyond_maximum", "0.1"),
        ("100.000001", "above_first", "0.1"),
    ],
)
def test_a_session_settles_between_its_first_and_its_least_level(
    shown: str, expected: str, cost: str
) -> None:
    scene = Scene()
    scene.do("reserve", "begin")
    assert is_of(scene.settle(shown=shown), expected)
    assert scene.total() == cost


def test_a_level_without_an_end_is_charged_no_less_than_it_costs() -> None:
    scene = Scene()
    scene.do("reserve", "begin")
    scene.settle(shown="30")
    total = Fraction(scene.total())
    assert Fraction(1, 30) <= total <= Fraction(1, 30) * (1 + Fraction(1, 10**19))


# Fields.


def test_a_time_that_is_none_or_too_long_is_invalid() -> None:
    def check_case(until: str) -> None:
        scene = Scene()
        assert code(scene.reserve(reserve={"until": until})) == "invalid_field"
        assert scene.total() == "0"

    check_each(check_case, ["P31D", "P0D", "PT0M", "P1W", "1D", "", "PT721H", "P1DT1H", "-P1D"])


def test_a_time_that_is_too_short_is_refused_with_both_bounds() -> None:
    with pytest.raises(RequestInvalid, match="P7D, from PT1M to P30D, got PT5S"):
        check_until("PT5S")


@pytest.mark.parametrize(
    ("until", "days"), [("P30D", 30), ("PT720H", 30), ("P1D", 1), ("PT1440M", 1)]
)
def test_a_deadline_is_so_long_after_the_decision(until: str, days: int) -> None:
    scene = Scene()
    scene.tick(12_345)
    scene.reserve(reserve={"until": until})
    assert scene.reservation()["deadline"] - scene.now == days * 24 * HOUR


def test_a_session_whose_levels_do_not_make_its_maximum_is_invalid() -> None:
    def check_case(claim: dict[str, Any]) -> None:
        scene = Scene()
        assert code(scene.reserve(claim)) == "invalid_field"

    check_each(
        check_case,
        [
            {**NOISE_REDUCTION, "epsilon": "0.2"},
            {**NOISE_REDUCTION, "epsilon": "0.05"},
            {**NOISE_REDUCTION, "delta": "1e-8"},
            {**NOISE_REDUCTION, "first": "9"},
            {name: value for name, value in NOISE_REDUCTION.items() if name != "first"},
            {name: value for name, value in NOISE_REDUCTION.items() if name != "least"},
            {name: value for name, value in NOISE_REDUCTION.items() if name != "sensitivity"},
            {"type": "brownian", "variance": "10", "sensitivity": "1", "first": "9"},
            {
                "type": "brownian",
                "variance": "10",
                "sensitivity": "1",
                "first": "20",
                "previous": "20",
            },
            {"type": "brownian", "variance": "10", "sensitivity": "1", "sampler": "uniform"},
        ],
    )


@pytest.mark.parametrize("field", ["cost", "epsilon", "paid", "returned", "rho", "sensitivity"])
def test_settle_takes_no_cost_that_a_runner_reports(field: str) -> None:
    scene = Scene()
    scene.do("reserve", "begin")
    assert code(scene.settle(**{field: "0.01"})) == "invalid_field"
    assert scene.total() == "0.1"


@pytest.mark.parametrize("shown", ["", "-1", "1/3", "inf", "nan", 40, None])
def test_a_level_that_is_no_amount_is_invalid(shown: object) -> None:
    scene = Scene()
    scene.do("reserve", "begin")
    assert code(scene.settle(shown=shown)) == "invalid_field"
    assert (scene.total(), scene.reservation()["stage"]) == ("0.1", "begun")


def test_a_grant_that_is_no_hash_is_invalid() -> None:
    def check_case(kind: str, grant: object) -> None:
        assert code(Scene().step(kind, grant=grant)) == "invalid_field"

    check_each(
        check_case,
        ["begin", "settle", "void"],
        ["", "0" * 64, "sha256:" + "0" * 63, "sha256:" + "G" * 64, 7],
    )


# Ids, numbers and clocks.


def test_deadlines_are_measured_by_the_log_and_by_no_machines_clock() -> None:
    scene = Scene()
    scene.do("reserve")
    written = scene.now + HOUR - 1
    scene.now += 3 * HOUR  # the clock of the machine that decides
    body = {"version": 1, "type": "begin", "analyst": "ana", "dataset": "census"}
    body |= {"request_id": scene.new_id(written), "grant": scene.grant}
    said = scene.send("requests", json.dumps(body).encode(), append_time=written)
    assert code(said) == "begun"


@pytest.mark.parametrize("kind", ["begin", "settle", "void"])
def test_a_step_that_is_sent_again_repeats_its_first_decision(kind: str) -> None:
    scene = Scene()
    scene.do("reserve")
    if kind == "settle":
        scene.begin()
    identity = scene.new_id()
    first = scene.step(kind, request_id=identity)
    after = scene.total()
    again = scene.step(kind, request_id=identity)
    assert (again.outcome, again.first.outcome) == ("repeated", first.outcome)
    assert scene.step(kind, request_id=identity, grant=NOBODYS).outcome == "conflict"
    assert scene.total() == after


def test_a_reservation_that_is_sent_again_is_charged_once() -> None:
    scene = Scene()
    identity = scene.new_id()
    scene.reserve(request_id=identity)
    assert scene.reserve(request_id=identity).outcome == "repeated"
    assert scene.total() == "0.1"
    assert scene.row("census")["held"]["count"] == 1


def test_what_had_lapsed_stays_lapsed_when_the_clock_is_set_back() -> None:
    scene = Scene()
    scene.do("reserve")
    scene.tick(HOUR)
    assert code(scene.begin()) == "lapsed"
    scene.tick(-HOUR // 2)
    scene.commit()
    scene.took(reset_clock(scene.draft, scene.now, "it was ahead"))
    scene.tick(400_000)
    assert code(scene.begin()) == "lapsed"
    assert code(scene.void()) == "voided"


def test_a_row_that_was_dropped_stays_dropped_when_the_clock_is_set_back() -> None:
    scene = Scene()
    scene.do("reserve")
    scene.tick(2 * HOUR)
    scene.ask("pure:0.01")
    scene.commit()
    scene.now -= HOUR
    scene.took(reset_clock(scene.draft, scene.now, "it was ahead"))
    scene.tick(400_000)
    assert code(scene.void()) == "not_open"
    assert scene.total() == "0.11"


def test_each_decision_drops_sixteen_rows_that_are_final() -> None:
    scene = Scene({"type": "pure", "epsilon": "0.01"})
    grants = []
    for minutes in [*range(20, 0, -1)]:
        scene.reserve(reserve={"until": f"PT{minutes}M"})
        grants.append(scene.grant)
    scene.tick(HOUR)
    # The first to lapse is dropped first. What comes later is final all the same.
    assert code(scene.void(grant=grants[0])) == "lapsed"
    assert scene.row("census")["held"]["count"] == 4
    assert {bool(scene.row(key(grant))) for grant in grants[:4]} == {True}
    assert {bool(scene.row(key(grant))) for grant in grants[4:]} == {False}
    assert code(scene.begin(grant=grants[0])) == "not_open"
    assert "held" not in scene.row("census")
    assert scene.total() == "0.2"


def key(grant: str) -> str:
    return f'{{"dataset":"census","grant":"{grant}"}}'


@pytest.mark.slow
def test_a_dataset_has_at_most_ten_thousand_open_reservations() -> None:
    scene = Scene({"type": "pure", "epsilon": "0.00001"})
    scene.batch = 1_000
    for _ in range(9_999):
        assert code(scene.reserve()) == "reserved"
    scene.reserve(reserve={"until": "PT1M"})
    assert code(scene.reserve()) == "too_many_open"
    assert code(scene.ask("pure:0.00001")) == "granted"
    scene.tick(60_000)
    assert code(scene.reserve()) == "too_many_open"  # its row is not final yet
    scene.tick(60_000)
    assert code(scene.reserve()) == "reserved"  # for this decision drops it first
    assert code(scene.void()) == "voided"


# What else counts a reservation.


def test_a_reservation_counts_as_a_grant_even_when_it_was_voided() -> None:
    scene = Scene()
    scene.do("reserve", "void")
    assert scene.row("census")["totals"]["mechanisms"] == 1
    policy = {"filter": "basic", "epsilon": "0.5", "delta": "1e-6"}
    assert code(scene.amend(policy=policy)) == "already_granted"


def test_a_refused_reservation_halts_as_a_refused_request_does() -> None:
    scene = Scene(filter="basic", epsilon="1", delta="1e-6", halt_on_refusal=True)
    assert code(scene.reserve({"type": "pure", "epsilon": "5"})) == "exhausted"
    assert code(scene.ask("pure:0.01")) == "halted"


def test_thresholds_stay_crossed_and_a_budget_that_was_used_up_has_room_again() -> None:
    scene = Scene({"type": "pure", "epsilon": "1"})
    assert scene.reserve().crossed == ("0.5", "0.8", "0.95", "1")
    assert scene.row("census")["exhausted"]
    assert code(scene.void()) == "voided"
    assert scene.row("census")["crossed"] == 4
    assert not scene.row("census")["exhausted"]
    assert code(scene.ask("pure:0.6")) == "granted"
    assert not scene.decided.get("crossed")


def test_an_amendment_that_leaves_the_thresholds_alone_uncrosses_none() -> None:
    scene = Scene({"type": "pure", "epsilon": "0.6"})
    assert scene.reserve().crossed == ("0.5",)
    assert code(scene.void()) == "voided"
    assert code(scene.owners("amend", visibility="members")) == "amended"
    assert scene.row("census")["crossed"] == 1
    assert scene.reserve().crossed == ()
    assert code(scene.void()) == "voided"
    assert code(scene.owners("amend", alert_at=["0.4", "0.9"])) == "amended"
    assert scene.row("census")["crossed"] == 1, "0.4 is below 0.5, which was reported"


def test_budget_that_was_given_back_is_granted_again_and_no_more() -> None:
    scene = Scene()
    scene.do("reserve", "begin", "settle_lower")
    assert code(scene.ask("pure:0.976")) == "exhausted"
    assert code(scene.ask("pure:0.975")) == "granted"
