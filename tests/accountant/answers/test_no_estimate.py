"""A mean or variance of a group that may have no rows has no estimate, by its noisy count alone."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest

from accountant.answers import NoisyAnswer, decode_answer, encode_answer
from accountant.display.answers import (
    NO_ESTIMATE,
    answer_chart,
    answer_html,
    answer_in_short,
    answer_text,
)
from accountant.questions.draw_errors import half_width
from accountant.questions.error_at_confidence import confidence_of_each
from accountant.questions.parts import middle_of
from streams.client.questions.answers import PrivateAnswer
from tests.accountant.answers.runs import answer, ask, run, zeros
from tests.accountant.noise.laws import bits_of
from tests.nightly import NIGHTLY, rounds

QUOTIENTS = [("mean(income) by region", 2), ("variance(age) by region", 3)]
NOISES = ["epsilon: 0.5", "rho: 0.1", "rho: 0.1, rounded_gaussian"]


def of_counts(counts: list[int], text: str = "mean(income) by region") -> NoisyAnswer:
    """Return an answer about groups of so many rows, each of which is 100."""
    question = ask(text, "epsilon: 4")
    from_middle = 100 - middle_of(question.checked.numbers)
    statistics = [[Fraction(n) for n in counts], [n * from_middle for n in counts]]
    return answer(question, statistics, bits_of(1))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("text", "parts"), QUOTIENTS)
def test_an_empty_table_is_hardly_ever_estimated(text: str, parts: int, noise: str) -> None:
    question, bits = ask(text, noise), bits_of(7)
    draws = rounds(60, 200)
    found = [answer(question, zeros(question), bits).values for _ in range(draws)]
    estimated = sum(each is not None for values in found for each in values)
    # The count's interval misses 0 on one side with a fortieth of its groups' draws at most.
    assert estimated <= 0.025 * 3 * draws / (parts / 2) + 12


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("text", "parts"), QUOTIENTS)
def test_the_rule_reads_the_released_count_alone(text: str, parts: int, noise: str) -> None:
    question, bits = ask(text, noise), bits_of(3)
    for rows in range(0, 400, 8 if NIGHTLY else 24):
        statistics = [[Fraction(rows)] * 3, *zeros(question)[1:]]
        result = run(question, statistics, bits)
        found = answer(question, statistics, bits_of(rows))
        released = found.statistics[0].values
        width = half_width(result.noisy[0].draw, confidence_of_each(Decimal("0.95"), parts))
        expected = [Fraction(each) - width >= 1 for each in released]
        assert [each is not None for each in found.values] == expected
        assert [each is not None for each in found.low] == expected
        assert [each is not None for each in found.high] == expected


def test_a_group_without_rows_is_shown_as_no_estimate() -> None:
    found = of_counts([5_000, 0, 7_000])
    assert [each is None for each in found.values] == [False, True, False]
    assert decode_answer(encode_answer(found)) == found
    lines = answer_text(found).splitlines()
    assert lines[0] == "mean(income) by region, 95 % intervals of the bounded rows"
    assert lines[3].split(maxsplit=1)[1] == NO_ESTIMATE
    assert f"{NO_ESTIMATE}: the noisy count may be of no rows at all" in lines
    html = answer_html(found)
    assert f"<td>{NO_ESTIMATE}</td>" in html
    assert "None" not in html
    assert answer_chart(found).count("<rect") == 2
    alone = of_counts([0], "mean(income)")
    assert answer_in_short(alone) == NO_ESTIMATE


@pytest.mark.parametrize("field", ["values", "low", "high"])
def test_an_interval_without_its_estimate_is_no_answer(field: str) -> None:
    found = of_counts([5_000, 0, 7_000])
    changed = msgspec.structs.replace(found, **{field: ("1", "1", "1")})
    with pytest.raises(ValueError, match="an interval for each estimate"):
        decode_answer(encode_answer(changed))


def test_a_program_reads_none_and_a_frame_nan() -> None:
    found = PrivateAnswer(of_counts([5_000, 0, 7_000]))
    assert found.values[1] is None
    assert found.intervals[1] is None
    frame = found.to_pandas()
    assert list(frame["value"].isna()) == [False, True, False]
    assert list(frame["low"].isna()) == [False, True, False]
    assert found.to_arrow()["value"].null_count == 1
    alone = PrivateAnswer(of_counts([0], "mean(income)"))
    assert (alone.value, alone.interval) == (None, None)
    with pytest.raises(ValueError, match="there is no estimate"):
        float(alone)


@pytest.mark.parametrize("text", ["median(age) by region", "top(job, 1) by region"])
def test_a_choice_says_that_it_is_made_without_rows_too(text: str) -> None:
    question = ask(text, "epsilon: 1")
    shown = answer_text(answer(question, zeros(question), bits_of(1)))
    assert "a value is chosen even where there are no rows: a count says about" in shown
