"""What is tightest of somebody's limits, and whether waiting gives more."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec

from accountant.advice.room import tightest
from accountant.views.limit_views import AnalystBudget, PeriodLimitView, ScopeView
from tests.every_case import check_rows

MONDAY, TUESDAY = "2026-11-23T00:00:00.000Z", "2026-11-24T00:00:00.000Z"


def limit(left: str, unit: str = "epsilon") -> ScopeView:
    return ScopeView(scope="team", name="blue", version=1, left={unit: left})


def pace(left: str, ends_at: str, used: str = "0.1") -> ScopeView:
    shown = PeriodLimitView(
        part="0.1",
        period="P1D",
        budget={"epsilon": "1"},
        used={"epsilon": used},
        left={"epsilon": left},
        spent_ratio=float(used),
        begins_at="2026-11-23T00:00:00.000Z",
        ends_at=ends_at,
    )
    return ScopeView(scope="dataset", version=1, pace=shown)


def test_a_part_of_the_ceiling_is_a_larger_part_of_the_budget_in_force() -> None:
    half = AnalystBudget(
        dataset="census",
        analyst="ana",
        budget={"rho": "0.01", "epsilon": "0.5"},
        ceiling={"rho": "0.02", "epsilon": "1"},
        left={"rho": "0.01", "epsilon": "0.5"},
        spent_ratio=0.0,
        levels=(
            ScopeView(
                scope="team",
                name="blue",
                version=1,
                part="0.2",
                spent_ratio=0.5,
                left={"rho": "0.002", "epsilon": "0.1"},
            ),
        ),
    )
    assert tightest(half).room.part == Fraction(1, 5)
    whole = msgspec.structs.replace(half, budget=half.ceiling, left=half.ceiling, ceiling={})
    assert tightest(whole).room.part == Fraction(1, 10)


def test_the_tightest_limit_is_named_with_a_time_only_if_waiting_helps() -> None:
    def check_case(levels: Any, left: str, what: str, more_at: str | None) -> None:
        budget = AnalystBudget(
            dataset="census",
            analyst="ana",
            budget={"epsilon": "1"},
            left={"epsilon": "0.5"},
            spent_ratio=0.5,
            levels=levels,
        )
        found = tightest(budget)
        assert (found.room.unit, found.room.left, found.room.what) == (
            "epsilon",
            Decimal(left),
            what,
        )
        assert found.more_at == more_at

    check_rows(
        check_case,
        [
            ((), "0.5", "dataset", None),
            ((limit("0.7"),), "0.5", "dataset", None),
            ((limit("0.2"),), "0.2", "limit", None),
            ((limit("0.2", "rho"),), "0.5", "dataset", None),  # of another sum
            ((limit("0.2"), pace("0.1", MONDAY)), "0.1", "pace", MONDAY),
            ((pace("0", MONDAY), pace("0", TUESDAY)), "0", "pace", TUESDAY),
            ((limit("0"), pace("0", MONDAY)), "0", "limit", None),
            ((pace("0.1", MONDAY, used="0"),), "0.1", "pace", None),  # the next is no better
        ],
    )
