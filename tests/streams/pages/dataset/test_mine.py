"""An analyst's remaining budget: how much, the deciding limit, and when more is available."""

from __future__ import annotations

from accountant.views.limit_views import ShareView
from streams.pages.bars import levels_of
from streams.pages.headline import own_budget
from tests.streams.pages.dataset.shown_views import NOW, budget, level, pace


def test_without_limits_all_that_is_left_may_be_used() -> None:
    result = own_budget(budget(left="0.25"), "open", NOW)
    assert (result.percent, result.amount) == ("25 %", "ε 0.25")
    assert result.by == "what is left of the dataset, and not reserved for others"
    assert result.more_at is None
    assert result.team == ""


def test_the_tightest_limit_is_named() -> None:
    team, own = level("team", "red", "0.15"), level("each", "red", "0.05", analyst="ana")
    result = own_budget(budget(team, own, team="red"), "open", NOW)
    assert result.percent == "5 %"
    assert result.by == "the limit of each analyst of team red"
    assert result.team == "15 % of the budget (ε 0.15)"
    assert result.more_at is None


def test_more_comes_when_the_pace_ends_that_holds_back() -> None:
    own = level("analyst", "ana", "0.15", pace=pace("0.02"))
    result = own_budget(budget(own), "open", NOW)
    assert (result.percent, result.by) == ("2 %", "the period limit of analyst ana")
    assert result.more_at == "2026-11-22T00:00:00.000Z"
    assert result.more_in == "in 12 hours"


def test_a_pace_that_holds_nobody_back_promises_no_more() -> None:
    own = level("analyst", "ana", "0.01", pace=pace("0.05"))
    result = own_budget(budget(own), "open", NOW)
    assert result.by == "the limit of analyst ana"
    assert result.more_at is None


def test_of_two_empty_paces_the_later_one_counts() -> None:
    team = level("team", "red", pace=pace("0", ends_at="2026-11-25T00:00:00.000Z"))
    own = level("analyst", "ana", pace=pace("0"))
    result = own_budget(budget(team, own), "open", NOW)
    assert result.percent == "0 %"
    assert result.more_at == "2026-11-25T00:00:00.000Z"


def test_a_pace_beside_a_limit_that_is_as_empty_promises_no_more() -> None:
    team, own = level("team", "red", pace=pace("0")), level("analyst", "ana", "0")
    result = own_budget(budget(team, own), "open", NOW)
    assert result.by == "the limit of analyst ana"
    assert result.more_at is None


def test_of_a_closed_dataset_nothing_may_be_used() -> None:
    result = own_budget(budget(level("analyst", "ana", pace=pace("0"))), "closed", NOW)
    assert (result.percent, result.amount) == ("0 %", "ε 0")
    assert result.by == "nothing more is granted: the dataset is closed"
    assert result.more_at is None


def test_a_separate_budget_is_shown_in_its_own_sum() -> None:
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
    assert result.percent == "50 %"
    assert result.own == ("of the budget of analyst ana, ρ 0.3 is left",)
    (shown,) = result.levels
    assert shown.limit is not None
    assert shown.limit.said == "a budget of its own, ρ 0.5"


def test_bars_of_each_kind() -> None:
    kept = ShareView(part="0.4", budget={"epsilon": "0.4"}, left={"epsilon": "0.1"}, team="red")
    views = [
        level("dataset", pace=pace("0")),
        level("analyst", "ana", "0.03", reserved=kept),
        level("each", "red", part="0.1", budget={"epsilon": "0.1"}),
    ]
    whole, own, each = levels_of(views, NOW)
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
