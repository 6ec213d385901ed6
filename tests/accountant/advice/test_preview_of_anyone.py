"""A preview checks the caller: in any state, role and engine it equals the next decision."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.advice.preview import Preview, preview
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.records import encode
from accountant.records.members import ROLES
from accountant.records.previews import PreviewRequest, check_preview
from accountant.times import iso
from accountant.views.datasets import view_of_ledger
from accountant.views.limit_views import DatasetLimits
from tests.accountant.partition.circle import member, opened
from tests.accountant.partition.division import days, limit
from tests.accountant.world import World, code

SAME: Final = ("reason", "cost", "asked", "left", "fits", "ends", "level", "left_at")
NAMES: Final = ("ana", "ben", "eng", "stranger", "owner")
CLAIMS: Final = (
    *("pure:0.05", "pure:0.4", "pure:30", "3*pure:0.1", "gaussian:sigma=20,sensitivity=1"),
    *("approximate:0.01,1e-9", "approximate:0.01,1e-3", "approximate_zcdp:1e-4,1e-9"),
    *("2*approximate:0.01,4e-7", "pure:0.01+approximate:0.01,1e-9"),
)
POLICIES: Final[tuple[dict[str, Any], ...]] = (
    {"epsilon": "1", "delta": "1e-6", "beside": "basic", "most_per_request": "0.1"},
    {"epsilon": "1", "delta": "1e-6", "delta_for_claims": "5e-7"},
    {"filter": "basic", "epsilon": "1", "delta": "1e-6", "most_per_request": "0.2"},
    {"filter": "basic", "epsilon": "1", "halt_on_refusal": True},
    {"filter": "zcdp", "rho": "0.1"},
)

names = st.sampled_from(NAMES)
steps = st.one_of(
    st.tuples(st.just("member"), names, st.lists(st.sampled_from(ROLES), max_size=2, unique=True),
              st.sampled_from([None, "blue"]), st.sampled_from([None, 1, days(2)])),
    st.tuples(st.just("limit"), st.sampled_from(["dataset", "team", "each", "analyst"]),
              st.sampled_from(["part", "policy", "pace", "reserved"])),
    st.tuples(st.just("amend"), st.sampled_from(["members", "anyone"])),
    st.tuples(st.just("close")),
    st.tuples(st.just("wait"), st.sampled_from([1, days(1), days(3)])),
    st.tuples(st.just("ask"), names, st.one_of(st.none(), names), st.sampled_from(CLAIMS),
              st.sampled_from(["person", "household"])),
)  # fmt: skip
SAID: Final[dict[str, Any]] = {
    "part": "0.3",
    "policy": {"filter": "basic", "epsilon": "0.2"},
    "pace": {"part": "0.1", "period": "P1D"},
    "reserved": "0.2",
}


def take_step(world: World, step: tuple[Any, ...]) -> None:
    """Take a step that is no request; refused ones stand as well."""
    match step:
        case "member", name, roles, team, until:
            more = {} if until is None else {"until": iso(world.now + until)}
            more |= {} if team is None else {"team": team}
            member(world, name, *roles, **(more if roles else {}))
        case "limit", scope, what:
            name = {"dataset": None, "analyst": "ana"}.get(scope, "blue")
            limit(world, scope, name, **{what: SAID[what]})
        case "amend", access:
            world.amend(access=access)
        case ("close",):
            world.close()
        case "wait", time:
            world.now += time


def previewed(world: World, asked: PreviewRequest) -> Preview:
    world.commit()
    state, ledger = world.state, world.ledger()
    at = max(world.now, state.decided_at)
    divided = DatasetLimits(ledger, state.levels, at, state.resets)
    return preview(view_of_ledger(ledger), asked, divided, state.members.get)


@pytest.mark.parametrize("access", ["members", "anyone"])
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=8, deadline=None)
@given(moves=st.lists(steps, min_size=1, max_size=20))
def test_a_preview_for_any_member_or_engine_equals_the_next_decision(
    policy: dict[str, Any], access: str, moves: list[tuple[Any, ...]]
) -> None:
    world = opened({**policy, "access": access})
    for step in [*moves, ("ask", "ana", None, CLAIMS[0], "person")]:
        if step[0] != "ask":
            take_step(world, step)
            continue
        _, analyst, via, claim, unit = step
        engine = msgspec.UNSET if via is None else via
        wish = PreviewRequest(parse_claim(claim), unit, "add_remove", analyst, engine)
        rows = world.rows()
        shown = previewed(world, check_preview(encode(wish)))
        assert world.rows() == rows
        more = {} if via is None else {"via": via}
        decision = world.ask(claim, analyst=analyst, unit=unit, **more)
        assert decision.sequence is not None
        assert (shown.granted, shown.sequence) == (decision.granted, decision.sequence - 1)
        reported = [getattr(decision, field) for field in SAME]
        assert [getattr(shown, field) for field in SAME] == reported


def test_a_stranger_to_a_members_only_dataset_is_not_permitted() -> None:
    world = opened({"filter": "basic", "epsilon": "1", "access": "members"})
    wish = PreviewRequest(parse_claim("pure:0.01"), "person", "add_remove", "stranger")
    assert previewed(world, wish).reason == "not_permitted"
    member(world, "stranger", "analyst", until=iso(world.now + 10))
    assert previewed(world, wish).granted
    world.now += 10
    assert previewed(world, wish).reason == "not_permitted"
    # Without a name it answers as for somebody who may ask.
    nobody = PreviewRequest(wish.claim, "person", "add_remove")
    assert previewed(world, nobody).granted


def test_a_preview_with_via_but_without_an_analyst_is_refused() -> None:
    wish = {"claim": {"type": "pure", "epsilon": "1"}, "unit": "person", "neighbours": "replace"}
    with pytest.raises(RequestInvalid, match="via must be left out where analyst is"):
        check_preview(encode({**wish, "via": "eng"}))


@pytest.mark.parametrize("claim", ["approximate:0.01,1e-9", "7*approximate:0.01,1e-9"])
def test_a_delta_that_no_claim_may_have_is_no_question_of_the_cap(claim: str) -> None:
    world = opened(POLICIES[0])
    wish = PreviewRequest(parse_claim(claim), "person", "add_remove", "ana")
    assert previewed(world, wish).reason == "claim_not_accepted"
    assert code(world.ask(claim)) == "claim_not_accepted"
    assert code(world.ask("pure:30")) == "above_cap"


def test_a_batch_whose_deltas_exceed_the_budget_is_offered_a_shorter_batch() -> None:
    world = opened(POLICIES[2] | {"most_per_request": "1"})
    decision = world.ask("5*approximate:0.01,4e-7")
    assert (decision.reason, decision.fits) == (
        "exhausted",
        "2*approximate:epsilon=0.01,delta=4e-7",
    )
    assert code(world.ask("approximate:0.01,2e-6")) == "claim_not_accepted"


def test_a_limit_with_its_own_filter_refuses_a_claim_with_more_delta() -> None:
    world = opened({"filter": "basic", "epsilon": "1", "delta": "1e-6"})
    limit(world, "analyst", "ana", policy={"filter": "basic", "epsilon": "0.5"})
    decision = world.ask("approximate:0.01,1e-9")
    assert decision.reason == "claim_not_accepted"
    assert decision.level is not None
    assert (decision.level.scope, decision.level.what) == ("analyst", "limit")
