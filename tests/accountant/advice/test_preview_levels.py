"""A preview counts limits: it answers as the request would be, and says how often it fits."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.advice.preview import Preview, decode_preview, preview
from accountant.claims.text import parse_claim
from accountant.policy import Policy
from accountant.records import encode
from accountant.records.previews import PreviewRequest, check_preview
from accountant.views.datasets import view_of_ledger
from accountant.views.limit_views import DatasetLimits
from tests.accountant.filters.policies import POLICIES
from tests.accountant.partition.division import days, divide, divided
from tests.accountant.strategies import claims
from tests.accountant.world import World
from tests.every_case import check_each
from tests.nightly import examples

SAME: Final = ("reason", "cost", "asked", "left", "fits", "ends", "level", "left_at")
LEVELS: Final[dict[str, list[dict[str, Any]]]] = {
    "a team's part": [{"scope": "team", "name": "blue", "part": "0.5"}],
    "a default's part and a pace": [
        {"scope": "dataset", "pace": {"part": "0.75", "period": "P1D"}},
        {"scope": "each", "name": "blue", "part": "0.6"},
    ],
    "budgets of their own": [
        {"scope": "team", "name": "blue", "policy": {"filter": "zcdp", "rho": "0.2"}},
        {"scope": "analyst", "name": "ana", "policy": {"filter": "basic", "epsilon": "0.7"}},
    ],
    "shares of others": [{"scope": "team", "name": "red", "reserved": "0.5"}],
    "a share, a part and a pace": [
        {"scope": "team", "name": "red", "reserved": "0.3"},
        {"scope": "team", "name": "blue", "part": "0.6", "reserved": "0.2"},
        {
            "scope": "analyst",
            "name": "ana",
            "reserved": "0.1",
            "pace": {"part": "0.55", "period": "P1D"},
        },
    ],
}


def divided_by(name: str, levels: str) -> World | None:
    """Return a world with limits, None where its filter lets itself not be divided so."""
    world = divided(msgspec.to_builtins(POLICIES[name]))
    for fields in LEVELS[levels]:
        decision = world.send("admin", world.admin("limit", **fields))
        if decision.reason == "limit_not_possible":
            return None
        assert decision.outcome == "limit_set", decision
    return world


def previewed(world: World, asked: PreviewRequest) -> Preview:
    world.commit()
    state, ledger = world.state, world.ledger()
    at = max(world.now, state.decided_at)
    divided_now = DatasetLimits(ledger, state.levels, at, state.resets)
    return preview(view_of_ledger(ledger), asked, divided_now, state.members.get)


def preview_request(claim: str, analyst: str | None = "ana") -> PreviewRequest:
    return PreviewRequest(parse_claim(claim), "person", "add_remove", analyst)


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=examples(4), deadline=None)
@given(data=st.data())
def test_a_preview_under_limits_equals_the_next_decision(
    name: str, levels: str, data: st.DataObject
) -> None:
    world = divided_by(name, levels)
    if world is None:
        return
    for claim in data.draw(st.lists(claims(), min_size=1, max_size=5)):
        analyst = data.draw(st.sampled_from(["ana", "ben", "cy", "eve"]))
        world.now += data.draw(st.sampled_from([0, 0, days(1)]))
        rows = world.rows()
        shown = previewed(world, PreviewRequest(claim, "person", "add_remove", analyst))
        assert world.rows() == rows
        decision = world.ask(msgspec.to_builtins(claim), analyst=analyst)
        assert decision.sequence is not None
        assert (shown.granted, shown.sequence) == (decision.granted, decision.sequence - 1)
        reported = [getattr(decision, field) for field in SAME]
        assert [getattr(shown, field) for field in SAME] == reported


def test_a_preview_under_limits_counts_how_many_more_requests_are_granted() -> None:
    def check_case(name: str, levels: str, claim: str) -> None:
        world = divided_by(name, levels)
        if world is None:
            return
        shown = previewed(world, preview_request(claim))
        if not shown.granted:
            assert shown.more == 0
            return
        assert shown.more is not None
        for left in range(shown.more + 1, 0, -1):
            now = previewed(world, preview_request(claim))
            assert now.more is not None
            assert now.more >= left - 1  # gdp_residue counts from below: it may have promised fewer
            assert world.ask(claim, analyst="ana").granted
        if name != "gdp_residue":
            refused = world.ask(claim, analyst="ana")
            assert refused.reason == "exhausted"
            again = previewed(world, preview_request(claim))
            assert (again.more, again.level, again.fits) == (0, refused.level, refused.fits)

    check_each(
        check_case,
        POLICIES,
        LEVELS,
        ["pure:0.05", "gaussian:sigma=20,sensitivity=1", "2*pure:0.02"],
    )


def test_no_more_than_the_tightest_of_all_levels_has_room_for() -> None:
    world = divided()
    more = [previewed(world, preview_request("pure:0.01")).more]
    for scope, name, fields in (
        ("team", "blue", {"part": "0.5"}),
        ("analyst", "ana", {"part": "0.3"}),
        ("dataset", None, {"pace": {"part": "0.2", "period": "P1D"}}),
        ("analyst", "zoe", {"reserved": "0.9"}),
    ):
        divide(world, scope, name, **fields)
        more.append(previewed(world, preview_request("pure:0.01")).more)
    assert more == [99, 49, 29, 19, 9]
    assert previewed(world, preview_request("pure:0.01", "zoe")).more == 19


def test_a_granted_preview_says_what_its_analyst_s_limits_have_left() -> None:
    world = divided()
    assert previewed(world, preview_request("pure:0.1")).limits_left is msgspec.UNSET
    divide(world, "analyst", "ana", part="0.3")
    shown = previewed(world, preview_request("pure:0.1"))
    assert shown.limits_left is not msgspec.UNSET
    (own,) = shown.limits_left
    assert (own.name, own.left) == ("ana", {"epsilon": "0.2", "delta": "0"})
    assert previewed(world, preview_request("pure:0.4")).limits_left is msgspec.UNSET
    assert previewed(world, preview_request("pure:0.1", None)).limits_left is msgspec.UNSET


def test_one_s_own_share_counts_for_oneself() -> None:
    world = divided()
    divide(world, "analyst", "ana", reserved="0.4")
    assert previewed(world, preview_request("pure:0.1", "ana")).more == 9
    assert previewed(world, preview_request("pure:0.1", "ben")).more == 5
    assert previewed(world, preview_request("pure:0.7", "ben")).left_at[0].left == {
        "epsilon": "0.6",
        "delta": "0",
    }


def test_a_preview_without_an_analyst_equals_that_of_an_analyst_without_a_team() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.1")
    divide(world, "dataset", pace={"part": "0.5", "period": "P1D"})
    assert previewed(world, preview_request("pure:0.1", None)).more == 4
    assert previewed(world, preview_request("pure:0.1", "eve")).more == 4
    assert previewed(world, preview_request("pure:0.1")).more == 0
    assert previewed(world, preview_request("pure:0.2", None)).granted


def test_a_claim_of_epsilon_0_fits_any_number_of_times_under_limits() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.1", pace={"part": "0.05", "period": "P1D"})
    shown = previewed(world, preview_request("pure:0"))
    assert (shown.granted, shown.more) == (True, None)


def test_a_cap_counts_beside_the_levels() -> None:
    world = divided({"filter": "basic", "epsilon": "1", "most_per_request": "0.2"})
    divide(world, "team", "blue", part="0.5")
    shown = previewed(world, preview_request("pure:0.3"))
    assert (shown.reason, shown.fits, shown.level) == ("above_cap", "pure:0.2", None)
    assert previewed(world, preview_request("pure:0.2")).more == 1


def test_a_limit_lowered_below_its_use_refuses_with_epsilon_0_left() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.5")
    assert world.ask("pure:0.3", analyst="ben").granted
    divide(world, "team", "blue", part="0.2")
    shown = previewed(world, preview_request("pure:0.01"))
    assert (shown.granted, shown.reason, shown.fits, shown.more) == (False, "exhausted", None, 0)
    (team,) = shown.left_at
    assert team.left == {"epsilon": "0", "delta": "0"}


def test_a_preview_survives_encoding_and_decoding() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.1", pace={"part": "0.05", "period": "P1D"})
    for claim in ("pure:0.01", "pure:0.2", "pure:3"):
        shown = previewed(world, preview_request(claim))
        assert decode_preview(encode(shown)) == shown


def test_the_answer_of_an_earlier_server_is_read() -> None:
    reported = {
        "dataset": "census",
        "sequence": 1,
        "granted": True,
        "reason": None,
        "asked": None,
        "cost": {"epsilon": "0.1"},
        "left": {"epsilon": "0.9"},
        "fits": None,
        "more": 9,
    }
    shown = decode_preview(json.dumps(reported).encode())
    assert (shown.level, shown.left_at) == (None, ())


def test_a_preview_request_without_an_analyst_is_sent_without_that_field() -> None:
    body = json.loads(encode(preview_request("pure:0.1", None)))
    assert body.keys() == {"claim", "unit", "neighbours"}
    assert check_preview(encode(preview_request("pure:0.1", None))) == preview_request(
        "pure:0.1", None
    )
    assert check_preview(encode(preview_request("pure:0.1"))) == preview_request("pure:0.1")


@pytest.mark.parametrize("policy", [Policy(filter="basic", epsilon="1")])
def test_the_view_s_ledger_decides_where_nothing_is_known_of_limits(policy: Policy) -> None:
    world = divided(msgspec.to_builtins(policy))
    claim = preview_request("pure:0.1", None)
    assert preview(view_of_ledger(world.ledger()), claim) == previewed(world, claim)
