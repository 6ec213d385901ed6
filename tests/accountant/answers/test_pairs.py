"""Differences and ratios of two groups hold with their probability, by the law of both noises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product

import msgspec
import pytest
from scipy.stats import binom

from accountant.answers import NoisyAnswer, PairEstimate, compare_groups
from accountant.answers.pairs import Comparison
from accountant.display.answers import pair_text
from accountant.errors import RequestInvalid
from streams.client.questions.answers import PrivateAnswer
from tests.accountant.answers.runs import Asked, answer, ask, zeros
from tests.accountant.noise import laws
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import small_schema
from tests.nightly import rounds

pytestmark = pytest.mark.timeout(1200)

LAWS = ["epsilon: 1", "rho: 0.1", "rho: 0.1, rounded_gaussian"]
COMPARISONS: list[Comparison] = ["difference", "ratio"]


def answer_about(question: Asked, values: Sequence[int]) -> NoisyAnswer:
    """Return an answer to a question on counts or sums that shows these numbers."""
    found = answer(question, zeros(question), bits_of(1))
    return msgspec.structs.replace(found, values=tuple(map(str, values)))


def misses(pair: PairEstimate, true: Fraction) -> bool:
    if pair.interval is None:  # without an estimate it misses nothing
        return False
    assert pair.value is not None
    low, high = pair.interval
    assert low <= pair.value <= high
    return not low <= true <= high


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("noise", ["epsilon: 1.4", "rho: 0.5"])
def test_a_pair_of_counts_holds_by_the_law_of_both_noises(
    comparison: Comparison, noise: str
) -> None:
    question = ask("count by c", noise, schema=small_schema(rows=1))
    (draw,) = question.derivation.draws
    reach = range(-9, 10) if draw.law == "discrete_laplace" else range(-5, 6)
    law = laws.laplace if draw.law == "discrete_laplace" else laws.discrete_gaussian
    exact = 13, 8
    true = Fraction(5) if comparison == "difference" else Fraction(13, 8)
    chances = []
    for i, j in product(reach, repeat=2):
        found = answer_about(question, [exact[0] + i, exact[1] + j])
        if misses(compare_groups(found, comparison, "a", "b"), true):
            chances.append(law(float(draw.spread), i) * law(float(draw.spread), j))
    assert 0 < math.fsum(chances) <= 0.05


@pytest.mark.parametrize("noise", LAWS)
@pytest.mark.parametrize("text", ["count by c", "sum(x) by c", "mean(x) by c", "variance(x) by c"])
def test_pairs_hold_in_repetitions(text: str, noise: str) -> None:
    question = ask(text, noise, schema=small_schema(rows=1))
    groups = [[Fraction(each) for each in values] for values in ([1, 2, 3] * 90, [0, 2, 3] * 50)]
    parts = question.checked.statistic.parts(question.checked)
    exact = [part.exact(question.checked, groups) for part in parts]
    first, second = (true_value(text, each) for each in groups)
    true = {"difference": first - second, "ratio": first / second}
    bits, runs = bits_of(4), rounds(60, 20_000)
    missed = dict.fromkeys(COMPARISONS, 0)
    for _ in range(runs):
        found = answer(question, exact, bits)
        for each in COMPARISONS:
            missed[each] += misses(compare_groups(found, each, "a", "b"), true[each])
    # So many of an interval that misses with 0.05 have at least this chance.
    assert binom.sf(max(missed.values()) - 1, runs, 0.05) > 1e-6


def true_value(text: str, values: Sequence[Fraction]) -> Fraction:
    n, total = len(values), sum(values, Fraction(0))
    if text.startswith("variance"):
        return sum((each**2 for each in values), Fraction(0)) / n - (total / n) ** 2
    return {"coun": Fraction(n), "sum(": total, "mean": total / n}[text[:4]]


def test_both_groups_add_their_noise() -> None:
    question = ask("count by c", "rho: 0.001", schema=small_schema(rows=1))
    deviation = math.sqrt(question.derivation.draws[0].spread)
    found = answer_about(question, [100_000, 50_000])
    low, high = compare_groups(found, "difference", "a", "b").interval or (0, 0)
    assert 1 <= float(high - low) / 2 / (1.959964 * deviation * math.sqrt(2)) <= 1.04
    low, high = compare_groups(found, "ratio", "a", "b").interval or (0, 0)
    expected = 1.959964 * deviation * math.sqrt(1 + 2**2) / 50_000
    assert 1 <= float(high - low) / 2 / expected <= 1.04


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("text", ["count by region", "mean(income) by region"])
def test_all_pairs_at_once_share_the_probability_to_miss(text: str, comparison: Comparison) -> None:
    question = ask(text, "epsilon: 4")
    statistics = [[Fraction(900)] * 3, [Fraction(90_000_000)] * 3]
    found = answer(question, statistics[: len(question.derivation.draws)], bits_of(2))
    for first, second in combinations(("north", "south", "it's"), 2):
        one = compare_groups(found, comparison, first, second)
        all_pairs = compare_groups(found, comparison, first, second, simultaneous=True)
        assert one.interval is not None
        assert all_pairs.interval is not None
        assert all_pairs.interval[0] < one.interval[0] < one.interval[1] < all_pairs.interval[1]
        assert (all_pairs.value, all_pairs.confidence) == (one.value, one.confidence)


def test_a_ratio_by_what_may_be_nothing_has_no_estimate() -> None:
    question = ask("count by c", "epsilon: 1", schema=small_schema(rows=1))
    few = answer_about(question, [500, 3])
    ratio = compare_groups(few, "ratio", "a", "b")
    assert (ratio.value, ratio.interval) == (None, None)
    assert pair_text(ratio) == "a / b: no estimate, 95 % interval"
    assert compare_groups(few, "ratio", "b", "a").value == Decimal("0.006")
    assert compare_groups(few, "difference", "a", "b").value == 497
    below = compare_groups(
        answer_about(ask("sum(x) by c", "epsilon: 9", schema=small_schema(rows=1)), [-900, -600]),
        "ratio",
        "a",
        "b",
    )
    assert below.value == Decimal("1.5")
    assert below.interval is not None
    assert 1.4 < below.interval[0] < below.interval[1] < 1.6


def test_a_ratio_is_the_inverse_of_the_other_one() -> None:
    question = ask("count by c", "rho: 0.1", schema=small_schema(rows=1))
    found = answer_about(question, [400, 100])
    one, other = (compare_groups(found, "ratio", *pair) for pair in (("a", "b"), ("b", "a")))
    assert one.interval is not None
    assert other.interval is not None
    for end, of_other in zip(one.interval, reversed(other.interval), strict=True):
        assert math.isclose(end, 1 / of_other, rel_tol=2e-3)


def test_pairs_of_several_columns_and_of_columns_of_groups() -> None:
    question = ask("count, mean(income), std(age), median(age) by region, smoker", "epsilon: 90")
    exact = [[Fraction(700)] * each.statistic.size for each in question.derivation.draws]
    found = PrivateAnswer(answer(question, exact, bits_of(1)))
    for name, column in found.columns.items():
        pair = ("north", True), ("it's", False)
        if name.startswith("quantile"):
            with pytest.raises(RequestInvalid, match="one statistic of numbers"):
                column.difference(*pair)
        else:
            assert column.difference(*pair).interval is not None
            assert column.ratio(*pair, simultaneous=True).interval is not None
    with pytest.raises(ValueError, match="ratio"):
        found.ratio("north", "south")


def test_only_groups_of_one_answer_are_compared() -> None:
    found = PrivateAnswer(
        answer(question := ask("count by smoker", "rho: 1"), zeros(question), bits_of(1))
    )
    assert found.difference(True, False).groups == (True, False)
    with pytest.raises(RequestInvalid, match="second must be another group") as caught:
        found.difference(True, True)
    with pytest.raises(RequestInvalid, match="first must be a group of this answer") as caught:
        found.ratio("yes", False)
    assert caught.value.hint == "it has false; true"
    session = ask("count by smoker", "rho: 0.5, gaussian_refinement", "error: 5e4 at 0.9")
    with pytest.raises(RequestInvalid, match="not a session's"):
        PrivateAnswer(answer(session, zeros(session), bits_of(1))).ratio(True, False)


def test_a_pair_as_text() -> None:
    question = ask("count by c", "epsilon: 1", schema=small_schema(rows=1))
    found = PrivateAnswer(answer_about(question, [160, 100]))
    assert pair_text(found.difference("a", "b")) == "a - b: 60 ± 5, 95 % interval"
    text = pair_text(found.ratio("a", "b", simultaneous=True))
    assert text == "a / b: 1.600 (1.533 to 1.671), 95 % intervals of all pairs"


def test_a_mean_that_is_shown_as_0_divides_nothing() -> None:
    """Its interval does not contain 0, but six digits after the point do not show it."""
    asked = ask("mean(x) by c", "epsilon: 1000", schema=small_schema(lower="-1", upper="1", rows=1))
    rows = 10**7
    sums: dict[str, tuple[int, ...]] = {"count": (rows, rows), "sum_about_middle": (1000, 2)}
    exact = [tuple(map(Fraction, sums[d.statistic.name])) for d in asked.derivation.draws]
    found = answer(asked, exact, bits_of(1))
    found = msgspec.structs.replace(found, values=("0.000100", "0.000000"))
    assert compare_groups(found, "ratio", "a", "b").value is None
