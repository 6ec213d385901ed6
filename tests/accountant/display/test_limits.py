"""A limit reads the same as an owner sets it, as a table lists it, and where it refuses."""

from __future__ import annotations

import pytest

from accountant.display.limits import left_at_words, limit_sentence, scope_words
from accountant.records.limit_records import (
    LimitRecord,
    LimitRemaining,
    PeriodLimitRecord,
    ReservedRecord,
)


def test_the_scope_of_a_limit_in_words() -> None:
    assert scope_words("each", "red") == "each analyst of team red"
    assert scope_words("dataset", None) == "the whole dataset"


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (LimitRecord("team", "red"), "team red has no limit any more"),
        (
            LimitRecord("team", "red", part="0.2", budget={"epsilon": "0.2"}),
            "team red may use 20 % of the budget",
        ),
        (
            LimitRecord("analyst", "ana", policy={"epsilon": "1"}, budget={"epsilon": "1"}),
            "analyst ana may use a budget of its own, ε 1",
        ),
        (
            LimitRecord("dataset", pace=PeriodLimitRecord("0.01", "P1D", {})),
            "the whole dataset may use 1 % of the budget each day",
        ),
        (
            LimitRecord("analyst", "ana", reserved=ReservedRecord("0.1", {}, "red")),
            "analyst ana has 10 % of the budget, within the share of team red reserved",
        ),
    ],
)
def test_a_limit_is_described_in_one_sentence(limit: LimitRecord, said: str) -> None:
    assert limit_sentence(limit) == said


def test_the_amounts_left_at_each_limit_are_described() -> None:
    left_at = (
        LimitRemaining("dataset", None, {"epsilon": "0.5"}),
        LimitRemaining("team", "red", {"epsilon": "0.29999"}, {"epsilon": "0"}),
    )
    assert left_at_words(left_at, {"epsilon": "0.7"}) == (
        "the whole dataset: ε 0.5 left and not reserved for others",
        "team red: ε 0.2999 left of the limit, ε 0 left in this period",
    )
    assert left_at_words(left_at[:1], {"epsilon": "0.5"}) == ("the whole dataset: ε 0.5 left",)
