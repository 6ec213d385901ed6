"""An analyst's remaining budget: how much, the deciding limit, and when more is available."""

from __future__ import annotations

import pytest

from accountant.records.members import Member
from accountant.views.datasets import view_of_ledger
from accountant.views.limit_views import AnalystBudget, ShareView
from streams.pages.dataset.bars import scopes_of
from streams.pages.dataset.headline import own_budget
from tests.accountant.world import World
from tests.streams.pages.dataset.view_examples import NOW, budget, level, pace


def test_without_limits_an_analyst_may_use_the_remaining_budget() -> None:
    result = own_budget(budget(left="0.25"), "open", NOW)
    assert (result.may_use.percent, result.may_use.amount) == ("25 %", "ε 0.25")
    assert result.may_use.by == "what remains of the dataset and is not reserved for others"
    assert result.may_use.more_at is None
    assert result.team == ""


def test_the_tightest_limit_is_named() -> None:
    team, own = level("team", "red", "0.15"), level("each", "red", "0.05", analyst="ana")
    result = own_budget(budget(team, own, team="red"), "open", NOW)
    assert result.may_use.percent == "5 %"
    assert result.may_use.by == "the limit of each analyst of team red"
    assert result.team == "Your team, red, has 15 % of the budget (ε 0.15) left."
    assert result.may_use.more_at is None


def test_a_deciding_period_limit_shows_when_more_is_available() -> None:
    own = level("analyst", "ana", "0.15", pace=pace("0.02"))
    result = own_budget(budget(own), "open", NOW)
    assert (result.may_use.percent, result.may_use.by) == ("2 %", "the period limit of analyst ana")
    assert result.may_use.more_at == "2026-11-22T00:00:00.000Z"
    assert result.more_in == "in 12 hours"


def test_a_period_limit_that_does_not_decide_shows_no_time() -> None:
    own = level("analyst", "ana", "0.01", pace=pace("0.05"))
    result = own_budget(budget(own), "open", NOW)
    assert result.may_use.by == "the limit of analyst ana"
    assert result.may_use.more_at is None


def test_of_two_exhausted_period_limits_the_later_end_counts() -> None:
    team = level("team", "red", pace=pace("0", ends_at="2026-11-25T00:00:00.000Z"))
    own = level("analyst", "ana", pace=pace("0"))
    result = own_budget(budget(team, own), "open", NOW)
    assert result.may_use.percent == "0 %"
    assert result.may_use.more_at == "2026-11-25T00:00:00.000Z"


def test_an_exhausted_limit_beside_a_period_limit_shows_no_time() -> None:
    team, own = level("team", "red", pace=pace("0")), level("analyst", "ana", "0")
    result = own_budget(budget(team, own), "open", NOW)
    assert result.may_use.by == "the limit of analyst ana"
    assert result.may_use.more_at is None


def test_a_closed_dataset_leaves_an_analyst_nothing_to_use() -> None:
    result = own_budget(budget(level("analyst", "ana", pace=pace("0"))), "closed", NOW)
    assert (result.may_use.percent, result.may_use.amount) == ("0 %", "ε 0")
    assert result.may_use.by == "nothing more is granted: the dataset is closed"
    assert result.may_use.more_at is None


def test_a_separate_budget_is_shown_in_its_own_unit() -> None:
    own = level(
        "analyst",
        "ana",
        policy={"filter": "zcdp", "rho": "0.5"},
        budget={"rho": "0.5"},
        used={"rho": "0.2"},
        left={"rho": "0.3"},
        spent_ratio=0.4,
    )
    result = own_budget(budget(own), "open", NOW)
    assert result.may_use.percent == "50 %"
    assert result.own == ("of the budget of analyst ana, ρ 0.3 is left",)
    (shown,) = result.levels
    assert shown.limit is not None
    assert shown.limit.said == "a budget of its own, ρ 0.5"


def test_each_kind_of_limit_has_its_bar() -> None:
    reserved_share = ShareView(
        part="0.4", budget={"epsilon": "0.4"}, left={"epsilon": "0.1"}, team="red"
    )
    views = [
        level("dataset", pace=pace("0")),
        level("analyst", "ana", "0.03", reserved=reserved_share),
        level("each", "red", part="0.1", budget={"epsilon": "0.1"}),
    ]
    whole, own, each = scopes_of(views, NOW)
    assert whole.limit is None
    assert whole.pace is not None
    assert whole.pace.limit.said == "10 % of the budget each day"
    assert whole.pace.limit.bar is not None
    assert whole.pace.limit.bar.tone == "full"
    assert own.limit is not None
    assert own.limit.bar is not None
    assert (own.limit.bar.used, own.limit.bar.tone) == ("85 %", "near")
    assert own.share is not None
    assert own.share.said == "40 % of the budget, within the share of team red"
    assert own.share.bar.left == "25 %"
    assert each.limit is not None
    assert each.limit.bar is None, "nobody uses a default"


@pytest.mark.parametrize(
    ("found", "waiting"),
    [
        (budget(left="0.25"), "a dataset's budget is fixed."),
        (
            budget(level("analyst", "ana", "0.05")),
            "can name them) would have to raise the limit of analyst ana.",
        ),
        # Nothing is used of this period: the next one allows no more.
        (
            budget(level("dataset", pace=pace("0.1"))),
            "a whole period allows the whole dataset no more.",
        ),
        (budget(level("dataset", pace=pace("0.02"))), ""),
        (
            budget(level("analyst", "ana", "0.01", pace=pace("0.05"))),
            "raise the limit of analyst ana.",
        ),
    ],
)
def test_the_reason_why_waiting_does_not_help_matches_the_tightest_limit(
    found: AnalystBudget, waiting: str
) -> None:
    result = own_budget(found, "open", NOW)
    assert result.may_use.waiting.endswith(waiting)
    assert (result.may_use.waiting == "") is (result.may_use.more_at is not None)
    assert ("period" in result.may_use.by) is (
        "period" in result.may_use.waiting or result.may_use.more_at is not None
    )
    closed = own_budget(found, "closed", NOW)
    assert closed.may_use.waiting == "Waiting will not help: the dataset is closed."


def test_an_owner_may_raise_a_budget_below_its_ceiling() -> None:
    world = World()
    policy = {"filter": "basic", "epsilon": "2"}
    world.send("admin", world.admin("open", policy=policy, budget={"epsilon": "1"}))
    view = view_of_ledger(world.ledger())
    result = own_budget(budget(left="0.25"), "open", NOW, "an owner (olga)", view=view)
    assert result.may_use.waiting == (
        "Waiting will not help: an owner (olga) may raise the budget in force, ε 1, to at most 2: "
        "`accountant dataset set-budget census --epsilon 2`."
    )


def test_a_default_says_that_it_applies_to_each_analyst_separately() -> None:
    default, used = scopes_of([level("each", "red"), level("each", "red", analyst="ana")], NOW)
    assert default.about.startswith("for each analyst separately; `accountant mine --analyst NAME`")
    assert used.about == "as used by ana"


def test_a_limit_of_a_team_without_members_is_remarked() -> None:
    members = [Member(member="ana", roles=("analyst",), team="red")]
    for scope in ("team", "each"):
        right, wrong = scopes_of([level(scope, "red"), level(scope, "rde")], NOW, members)
        assert "team rde has no members yet" in wrong.about
        assert "did you mean red?" in wrong.about
        assert "no members" not in right.about
