"""A refusal names every limit that has too little left, in the words of its owner."""

from __future__ import annotations

import pytest

from accountant.display.binding_limits import binding_words, short_sum
from accountant.display.refusals import refusal_words, when_more
from accountant.records.limit_records import LimitName, LimitRemaining
from accountant.views.limit_views import PeriodLimitView, ScopeView
from tests.accountant.display.test_refusals import AT, refused

ENDS = "2026-12-08T00:00:00.000Z"
LEFT_AT = (
    LimitRemaining("team", "blue", {"epsilon": "0.018", "delta": "0"}),
    LimitRemaining("each", "blue", None, {"epsilon": "0.008", "delta": "0"}, AT),
)
TEAM, EACH = LimitName("team", "blue", "limit"), LimitName("each", "blue", "pace")


def views(part: str = "0.05", budget: str = "0.05") -> tuple[ScopeView, ...]:
    pace = PeriodLimitView(
        part=part,
        period="P7D",
        budget={"epsilon": budget},
        used={},
        left={},
        spent_ratio=0.0,
        begins_at="2026-12-01T00:00:00.000Z",
        ends_at=ENDS,
    )
    return (
        ScopeView(scope="team", name="blue", version=1, part="0.06", budget={"epsilon": "0.06"}),
        ScopeView(scope="each", name="blue", version=1, pace=pace),
    )


def test_both_limits_that_bind_are_named_with_their_own_words() -> None:
    decision = refused(asked={"epsilon": "0.02"}, level=TEAM, left_at=LEFT_AT)
    assert refusal_words(decision, levels=views()) == (
        "The limit of team blue has too little left: the request costs ε 0.02, and 0.018 is left. "
        "It allows 6 % of the budget; 4.2 % is used. "
        "The period limit of each analyst of team blue has too little left in this period, too: "
        "ε 0.008 is left. It allows 5 % of the budget every 7 days; 4.2 % is used; the period ends "
        "at 2026-12-08 00:00 UTC."
    )


def test_a_limit_with_room_is_not_named() -> None:
    decision = refused(asked={"epsilon": "0.01"}, level=EACH, left_at=LEFT_AT)
    words = refusal_words(decision)
    assert "The limit of team blue" not in words
    assert words.endswith("0.008 is left. The period ends at 2026-12-01 10:00 UTC.")


def test_a_limit_that_binds_beside_the_dataset_is_named() -> None:
    decision = refused(asked={"epsilon": "0.5"}, left={"epsilon": "0.4"}, left_at=LEFT_AT[:1])
    assert "The limit of team blue has too little left, too: ε 0.018 is left." in (
        refusal_words(decision)
    )


def test_waiting_does_not_help_where_another_limit_binds() -> None:
    found = when_more(refused(asked={"epsilon": "0.02"}, level=EACH, left_at=LEFT_AT))
    assert found is not None
    assert (
        "an owner (whoever runs the ledger can name them) would have to raise the limit"
        in found.text
    )


def test_a_limit_is_shown_as_fully_used_only_when_it_is() -> None:
    left_at = (LimitRemaining("each", "blue", None, {"epsilon": "0.00001"}, AT),)
    decision = refused(asked={"epsilon": "0.02"}, level=EACH, left_at=left_at)
    assert "; almost 5 % is used;" in binding_words(decision, views())
    # A limit that was replaced since says nothing about what was used.
    assert "is used" not in binding_words(decision, views("0.000001", "0.000001"))


@pytest.mark.parametrize(
    ("asked", "left", "short"),
    [
        ({"epsilon": "0.3", "delta": "0"}, {"epsilon": "0.2", "delta": "0"}, "epsilon"),
        ({"epsilon": "0.1", "delta": "1e-7"}, {"epsilon": "0.2", "delta": "1e-8"}, "delta"),
        # One half that fits is enough, and so is one Renyi order.
        ({"rho": "0.3", "epsilon": "0.1"}, {"rho": "0.2", "epsilon": "0.2"}, None),
        ({"rho": "0.3", "epsilon": "0.1"}, {"rho": "0.2", "epsilon": "0"}, "rho"),
        ({"renyi_2": "1", "renyi_8": "0.1"}, {"renyi_2": "0.5", "renyi_8": "0.2"}, None),
        ({"renyi_2": "1", "renyi_8": "1"}, {"renyi_2": "0.5", "renyi_8": "0.2"}, "renyi_2"),
        (
            {"epsilon_squared": "0", "kl_mean": "1"},
            {"epsilon_squared": "1", "kl_mean": "0.5"},
            "kl_mean",
        ),
    ],
)
def test_the_sum_that_is_short(
    asked: dict[str, str], left: dict[str, str], short: str | None
) -> None:
    assert short_sum(asked, left) == short


def test_the_use_of_a_limit_that_was_lowered_since_is_shown_as_it_is() -> None:
    team = ScopeView(
        scope="team",
        name="blue",
        version=2,
        part="0.01",
        budget={"epsilon": "0.01"},
        used={"epsilon": "0.049"},
    )
    decision = refused(
        level=LimitName("team", "blue", "limit"),
        left_at=(LimitRemaining("team", "blue", {"epsilon": "0"}),),
        asked={"epsilon": "0.02"},
    )
    assert "It allows 1 % of the budget; 4.9 % is used." in binding_words(decision, (team,))
