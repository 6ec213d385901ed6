"""Amounts are rounded to the safe side, and a percentage never says what is not so."""

from __future__ import annotations

from decimal import Decimal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from accountant.display.numbers import (
    counted,
    counting_amounts,
    counting_cost,
    counting_line,
    exact_percent,
    part_of,
    percents,
    remaining_amount,
    remaining_headline,
    remaining_line,
    remaining_percent,
    remaining_ratio,
    spent_amount,
    spent_line,
    spent_percent,
    unspent_percent,
)
from accountant.filters import FILTERS
from tests.accountant.filters.policies import POLICIES
from tests.accountant.world import opened
from tests.every_case import check_rows


def test_an_amount_has_four_digits_rounded_outward() -> None:
    def check_case(text: str, up: str, down: str) -> None:
        assert spent_amount(text) == up
        assert remaining_amount(text) == down

    check_rows(
        check_case,
        [
            ("0", "0", "0"),
            ("1", "1", "1"),
            ("0.1", "0.1", "0.1"),
            ("99.9999", "100", "99.99"),
            ("0.123456", "0.1235", "0.1234"),
            ("1234567", "1235000", "1234000"),
            ("1999999.9999", "2000000", "1999000"),
            ("0.00000123456", "1.235e-6", "1.234e-6"),
            ("1e-40", "1e-40", "1e-40"),
            ("999999999", "1e9", "9.999e8"),
            ("inf", "∞", "∞"),
        ],
    )


@given(st.decimals(Decimal("1e-39"), Decimal("1e9"), allow_nan=False, allow_infinity=False))
def test_a_short_amount_lies_on_its_side(value: Decimal) -> None:
    text = f"{value:f}"
    assert Decimal(remaining_amount(text)) <= value <= Decimal(spent_amount(text))


def test_a_percentage_is_100_only_if_the_ratio_is_1() -> None:
    def check_case(ratio: float | Decimal, spent: str, left: str, unspent: str) -> None:
        assert spent_percent(ratio) == spent
        assert remaining_percent(ratio) == left
        assert unspent_percent(ratio) == unspent

    check_rows(
        check_case,
        [
            (0.0, "0 %", "0 %", "100 %"),
            (1e-9, "0.1 %", "under 0.1 %", "99.9 %"),
            (0.1, "10 %", "10 %", "90 %"),
            (0.10000000000000002, "10 %", "10 %", "90 %"),
            (0.1234, "12.4 %", "12.3 %", "87.6 %"),
            (0.99996, "over 99.9 %", "99.9 %", "under 0.1 %"),
            (0.9999999999999999, "over 99.9 %", "over 99.9 %", "under 0.1 %"),
            (Decimal("0.1") + Decimal("1e-27"), "10 %", "10 %", "90 %"),
            (1 - Decimal("1e-27"), "over 99.9 %", "over 99.9 %", "under 0.1 %"),
            (1.0, "100 %", "100 %", "0 %"),
        ],
    )


OFF = Decimal("1e-14")  # what a float, or a cost, may be off


@given(st.decimals(0, 1, places=20))
def test_a_percentage_lies_on_its_side(ratio: Decimal) -> None:
    for text, is_above in ((spent_percent(ratio), True), (remaining_percent(ratio), False)):
        if text[0].isdigit():
            shown = Decimal(text.removesuffix(" %")) / 100
            assert shown >= ratio - OFF if is_above else shown <= ratio + OFF
        else:
            assert 0 < ratio < 1


def test_a_part_is_within_its_bounds() -> None:
    assert part_of("0.25", "1") == Decimal("0.25")
    assert part_of("2", "1") == 1
    assert part_of("inf", "1") == 1
    assert part_of("0", "0") == 1


def test_owners_words_are_exact() -> None:
    assert exact_percent("0.2") == "20 %"
    assert exact_percent("0.00125") == "0.125 %"
    assert exact_percent("1") == "100 %"
    assert percents(("0.5", "0.9")) == "50 %, 90 %"


def test_sums_have_their_signs() -> None:
    assert spent_line({"rho": "0.5", "loss_epsilon": "2", "delta": "0"}) == "ρ 0.5, loss epsilon 2"
    assert remaining_line({"epsilon": "0.5", "delta": "0"}) == "ε 0.5, δ 0"
    assert counting_line({"epsilon": "0", "delta": "0"}, {"epsilon": "1", "delta": "0"}) == "ε 0"
    assert counting_line({"rho": "0.1", "epsilon": "0"}, {"rho": "1", "epsilon": "1"}) == "ρ 0.1"
    assert spent_line(None) == remaining_line(None) == ""


CLAIMS: dict[str, str] = {
    "optimal_homogeneous": "pure:0.1",
    "gdp_residue": "gaussian:sigma=20,sensitivity=1",
    "zcdp": "gaussian:sigma=20,sensitivity=1",
    "renyi": "subsampled_gaussian:rate=0.01,sigma=1,sensitivity=1",
}


BESIDE = [
    name for name, policy in POLICIES.items() if FILTERS[name].takes_beside and policy.rho is None
]


def test_the_number_after_a_grant_agrees_with_the_spent_part_of_the_budget() -> None:
    def check_case(name: str, beside: bool) -> None:
        policy = {
            field: value
            for field, value in msgspec.to_builtins(POLICIES[name]).items()
            if value is not None
        }
        if beside:
            policy["beside"] = "basic"
        world = opened(**policy)
        for claim in (CLAIMS.get(name, "pure:0.05"), "pure:0.03", "pure:0.1"):
            decision = world.ask(claim)
            if not decision.granted:
                continue
            ratio = remaining_ratio(decision.left, decision.totals)
            exact = 1 - Decimal(str(world.ledger().spent_ratio))
            if name == "renyi_mixture":
                assert ratio is not None
                assert ratio <= exact + OFF
            else:
                assert ratio is not None
                assert abs(ratio - exact) <= Decimal("1e-12"), (name, ratio, exact)

    check_rows(
        check_case, [*((name, False) for name in POLICIES), *((name, True) for name in BESIDE)]
    )


def test_one_number_leads_after_a_grant() -> None:
    decision = opened(epsilon="1", filter="basic").ask("pure:0.0506")
    assert remaining_headline(decision.left, decision.totals) == "94.9 % left"
    assert remaining_headline(None, None) == ""


def test_a_sum_that_is_no_longer_counted_is_left_out() -> None:
    left = {"intrinsic_time": "0", "delta": "0.1", "epsilon": "0.4"}
    ended = {"intrinsic_time": "0.1", "filter_ended": "1", "without_epsilon": "0"}
    assert counting_amounts(left, ended) == {"delta": "0.1", "epsilon": "0.4"}
    without = {"filter_ended": "0", "without_epsilon": "3"}
    assert [*counting_amounts(left, without)] == ["intrinsic_time", "delta"]
    orders = {"renyi_8": "0.1", "renyi_32": "0"}
    assert [*counting_amounts(orders, {"renyi_8": "0.1", "renyi_32": "inf"})] == ["renyi_8"]
    assert counting_amounts({"renyi_8": "0"}, {"renyi_8": "inf"}) == {"renyi_8": "0"}
    # A preview has no totals: a half with nothing left has ended.
    assert [*counting_amounts(left)] == ["delta", "epsilon"]
    assert [*counting_amounts({"rho": "0", "epsilon": "0"})] == ["rho", "epsilon"]


def test_a_sum_without_a_budget_is_left_out() -> None:
    left = {"epsilon": "0.5", "delta": "0"}
    assert counting_amounts(left, {"epsilon": "0.5", "delta": "0"}) == {"epsilon": "0.5"}
    assert counting_amounts(left, None, {"epsilon": "1", "delta": "0"}) == {"epsilon": "0.5"}
    used_up = {"epsilon": "0.5", "delta": "1e-6"}
    assert counting_amounts(left, used_up) == left


def test_a_cost_shows_only_the_sums_that_the_filter_counts() -> None:
    left = {"rho": "0.1", "delta": "0", "epsilon": "0.5"}
    cost = {"rho": "0.001", "delta": "0", "epsilon": "inf", "mu": "1"}
    assert counting_cost(cost, left) == {"rho": "0.001"}
    assert counting_cost(cost | {"delta": "1e-9"}, left) == {"rho": "0.001", "delta": "1e-9"}
    assert counting_cost({"rho": "0"}, left) == {"rho": "0"}
    assert counting_cost(None, None) == {}


def test_a_cost_that_takes_all_that_is_left_is_shown() -> None:
    left = {"rho": "0", "epsilon": "0"}
    assert counting_cost({"rho": "0", "epsilon": "0.95"}, left) == {"epsilon": "0.95"}
    assert counting_cost({"rho": "0.02", "epsilon": "inf"}, left) == {"rho": "0.02"}


def test_one_thing_is_no_plural() -> None:
    assert [counted(n, "dataset") for n in (0, 1, 2_000)] == [
        "0 datasets",
        "1 dataset",
        "2,000 datasets",
    ]
