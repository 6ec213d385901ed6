"""A draft's rows are the state's, and what it undoes is undone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from accountant.partition.decide import decide
from accountant.partition.draft import Draft, genesis_decision
from accountant.records import Genesis, decode_decision
from accountant.records.inputs import Input
from accountant.replay.replay import state_rows
from tests.accountant.histories import worlds
from tests.accountant.world import START, WINDOW, World, code, opened
from tests.nightly import examples

BASIC = {"filter": "basic", "epsilon": "1", "delta": "0"}


@settings(max_examples=examples(100), deadline=None)
@given(worlds())
def test_the_rows_that_drafts_write_are_the_rows_of_the_state(
    history: tuple[World, list[bytes]],
) -> None:
    world, _ = history
    world.commit()
    for _ in range(2):
        for dataset in ("census", "nowhere", "fresh"):
            world.batch = 100
            world.open(dataset, **BASIC)
            world.ask("pure:0.1", dataset=dataset)
            world.ask("pure:5", dataset=dataset)
        written = dict(state_rows(world.state))
        written |= dict(world.draft.rows())
        assert sorted(written.items()) == sorted(world.rows())


def draft_state(draft: Draft) -> tuple[object, ...]:
    return (
        draft.sequence,
        draft.head,
        draft.decided_at,
        draft.floor,
        dict(draft.next),
        dict(draft.ledgers),
        draft.rows(),
    )


@pytest.mark.parametrize("dataset", ["census", "survey", "fresh"])
def test_a_decision_that_cannot_be_written_is_undone_with_its_charge(dataset: str) -> None:
    world = opened(**BASIC)
    world.open("survey", **BASIC)
    world.batch = 100
    world.ask("pure:0.1")  # census is touched already, survey is not, fresh is not open
    draft = world.draft
    before = draft_state(draft)
    mark = draft.mark()
    if dataset == "fresh":
        body = world.admin("open", dataset="fresh", policy=BASIC)
        record = Input("admin", draft.next["admin"], None, body, world.now + 10)
    else:
        body = world.request("pure:0.5", dataset=dataset)
        record = Input("requests", draft.next["requests"], None, body, world.now + 10)
    assert code(decide(draft, record, world.now + 10).decision) in {"granted", "opened"}
    assert draft_state(draft) != before
    draft.rewind(mark)
    assert draft_state(draft) == before
    # Its id is forgotten too: asked again it is decided, not repeated.
    again = decide(draft, record, world.now + 10)
    world.took(again)
    assert code(again.decision) in {"granted", "opened"}
    world.commit()
    assert state_rows(world.replayed()) == world.rows()


@pytest.mark.parametrize("after", [0, 2 * WINDOW])
@pytest.mark.parametrize("body", [b"[", None], ids=["undecodable", "the same again"])
def test_undoing_an_uncharged_decision_leaves_the_decision_before_it(
    body: bytes | None, after: int
) -> None:
    world = opened(**BASIC)
    world.batch = 100
    first = world.request("pure:0.1")
    assert code(world.send("requests", first)) == "granted"
    draft, now = world.draft, world.now + after
    before = draft_state(draft)
    mark = draft.mark()
    decide(draft, Input("requests", draft.next["requests"], None, body or first, now), now)
    draft.rewind(mark)
    assert draft_state(draft) == before
    # Nor is its id forgotten: asked again it is not charged again.
    assert code(world.send("requests", first)) == "repeated"
    assert state_rows(world.replayed()) == world.rows()


def test_the_genesis_record_fixes_the_settings_of_a_log() -> None:
    genesis = Genesis("app", 3, 8, 1000, 100)
    written = genesis_decision(genesis, START)
    decision = decode_decision(written.value)
    assert (decision.genesis, decision.partition_sequence) == (genesis, 0)
    assert decision.previous == "sha256:" + "0" * 64
    assert (written.key, written.decided_at) == (None, START)


def test_ids_that_left_the_window_take_no_memory() -> None:
    world = opened(**BASIC)
    for _ in range(3):
        world.ask("pure:0.1")
    assert len(world.state.ids) == 4  # the opening's, too
    world.now += WINDOW + 1_000
    world.ask("pure:0.1")
    assert len(world.state.ids) == 1
