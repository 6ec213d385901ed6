"""Records written from a plan's form are those that the codec writes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accountant.partition.draft import Draft
from accountant.records import decode_decision, decode_snapshot, encode
from accountant.records.members import is_member_row_key
from tests.accountant.histories import play, steps
from tests.accountant.strategies import POLICIES
from tests.accountant.world import World


@given(st.lists(steps, max_size=40), st.sampled_from(POLICIES))
def test_fast_decisions_equal_those_of_the_codec(
    history: list[tuple[Any, ...]], policy: Any
) -> None:
    world = World(batch=7)
    world.send("admin", world.admin("open", dataset="census", policy=policy))
    play(world, history)
    for value in world.log:
        assert encode(decode_decision(value)) == value


@given(st.lists(steps, max_size=40), st.sampled_from(POLICIES))
def test_fast_rows_equal_those_of_the_codec(history: list[tuple[Any, ...]], policy: Any) -> None:
    world = World(batch=10**6)
    world.send("admin", world.admin("open", dataset="census", policy=policy))
    play(world, history)
    for key, value in world.draft.rows()[:-1]:
        assert value is not None
        if is_member_row_key(key):
            continue
        row = decode_snapshot(value)
        assert encode(row) == value
        assert row.dataset.encode() == key


def test_a_grant_that_crosses_a_threshold_says_so_in_the_codec_s_bytes() -> None:
    world = World()
    world.send("admin", world.admin("open", dataset="census", policy={"epsilon": "1"} | BASIC))
    crossing = world.ask("pure:0.5", purpose='quotes " and \\ and é and ☃')
    assert crossing.crossed == ("0.5",)
    assert encode(decode_decision(world.log[-1])) == world.log[-1]


def test_a_decision_that_was_not_built_is_decoded_once() -> None:
    world = World()
    world.send("admin", world.admin("open", dataset="census", policy={"epsilon": "1"} | BASIC))
    world.commit()
    draft = Draft(world.state)
    encoded = draft.append_value(world.log[-1], None, *_OF_AN_OPENING)
    assert encoded.decision == decode_decision(encoded.value)
    assert encoded.decision is encoded.decision


BASIC = {"filter": "basic"}
_OF_AN_OPENING: Any = ("opened", None, "census", 1, None, None, False, None)
