"""Differences and ratios of two groups of one answer: post-processing of what it shows.

Source: docs/theory.md P17. The intervals are by the law of both groups' noise. They hold with their
confidence for a pair that is named before the answer is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal

from msgspec import UNSET

from accountant.answers.answer import GroupValue, NoisyAnswer, StatisticNoise
from accountant.answers.intervals import carries_estimate, outward_decimals
from accountant.errors import RequestInvalid
from accountant.questions.decimals import decimal_text, round_half_up
from accountant.questions.draw_errors import CONFIDENCE, SumOfNoises
from accountant.questions.error_at_confidence import confidence_of_each
from accountant.questions.quotients import QUOTIENT_PLACES, Interval, QuotientSet
from accountant.questions.schema import NumberColumn
from accountant.questions.statistics import EstimateQuestion, SeveralQuestion

Group = GroupValue | tuple[GroupValue, ...]
"""A declared value; of several columns of groups, one of each."""
Comparison = Literal["difference", "ratio"]
_BOTH: Final = 2
_ONE: Final = Fraction(1)
_CELLS: Final = 32  # of the range that both intervals leave, which is narrow


@dataclass(frozen=True, slots=True)
class PairEstimate:
    """A difference or a ratio of two groups.

    Attributes:
        comparison: which of the two.
        groups: the two, in the order asked.
        value: None without an estimate: a group has none, or the second one of a ratio may be 0.
        interval: which contains the number without noise, None without an estimate.
        confidence: with which the interval holds, or those of all pairs at once.
        simultaneous: whether it holds with those of all pairs.
    """

    comparison: Comparison
    groups: tuple[Group, Group]
    value: Decimal | None
    interval: tuple[Decimal, Decimal] | None
    confidence: Decimal
    simultaneous: bool


def compare_groups(
    answer: NoisyAnswer,
    comparison: Comparison,
    first: Group,
    second: Group,
    *,
    simultaneous: bool = False,
) -> PairEstimate:
    """Return first - second, or first / second, of an answer to one statistic.

    Args:
        simultaneous: let the intervals of all pairs of groups hold at once, so that any pair may
            be named after looking.
    Raises: RequestInvalid: there is no such group, or the answer has no intervals of one answer.
    """
    _check(answer)
    groups = [row.group for row in answer.rows()]
    places = _place(groups, first, "first"), _place(groups, second, "second")
    if places[0] == places[1]:
        raise RequestInvalid("second", "must be another group than the first one", _text(second))
    confidence = Decimal(CONFIDENCE)
    if simultaneous:
        confidence = confidence_of_each(confidence, math.comb(len(groups), _BOTH))
    pair = _Pair(answer, places, confidence)
    found = pair.difference() if comparison == "difference" else pair.ratio()
    value = interval = None
    if found is not None:
        digits = pair.digits if comparison == "difference" else QUOTIENT_PLACES
        nearest = round_half_up(found[0], Fraction(1, 10**digits))
        low, high = outward_decimals(found[1], digits)
        value = _decimal(nearest, digits)
        interval = _decimal(min(low, nearest), digits), _decimal(max(high, nearest), digits)
    return PairEstimate(
        comparison, (first, second), value, interval, Decimal(CONFIDENCE), simultaneous
    )


def group_of_text(answer: NoisyAnswer, text: str, *, field: str) -> Group:
    """Return the group that a text names, such as `north`, or `north, true` of two columns.

    Raises: RequestInvalid: the answer has no such group.
    """
    groups = [row.group for row in answer.alone[0].rows()]
    named = [each for each in groups if _text(each) == text]
    return named[0] if named else groups[_place(groups, text, field)]


class _Pair:
    """Two groups of an answer, and the noise of both."""

    def __init__(self, answer: NoisyAnswer, places: tuple[int, int], confidence: Decimal) -> None:
        self._answer, self._places, self._confidence = answer, places, confidence
        self._each = confidence_of_each(confidence, _BOTH)
        self._parts = [_noise_of(each) for each in answer.statistics]
        question = answer.question
        self._estimate = question if isinstance(question, EstimateQuestion) else None

    @property
    def digits(self) -> int:
        """How many digits after the point a difference has."""
        if self._estimate is not None:
            return self._estimate.places(self._column)
        return len(self._answer.statistics[0].grid.partition(".")[2])

    @property
    def _column(self) -> NumberColumn:
        """The column as the question reads it; the grid of its sums is its own."""
        bounds, sums = self._answer.bounds, self._answer.statistics[1]
        assert bounds is not UNSET, "an answer has its bounds"
        assert bounds.lower is not UNSET, "a number column has bounds"
        assert bounds.upper is not UNSET, "a number column has bounds"
        places = len(sums.grid.partition(".")[2])
        return NumberColumn(name="x", lower=bounds.lower, upper=bounds.upper, places=places)

    def difference(self) -> tuple[Fraction, Interval] | None:
        values = self._values()
        if values is None:
            return None
        first, second = values
        if self._estimate is None:
            # The noise is on the grid: above the multiple below the width, it is above the width.
            (_, (_, grid)), both = self._parts[0], self._both
            width = both.half_width((_ONE, -_ONE), self._confidence) // grid * grid
            return first - second, (first - second - width, first - second + width)
        one, other = self._intervals(self._estimate)
        return first - second, (one[0] - other[1], one[1] - other[0])

    def ratio(self) -> tuple[Fraction, Interval] | None:
        values = self._values()
        if values is None:
            return None
        first, second = values
        if self._estimate is not None:
            one, other = self._intervals(self._estimate)
            # The value has few digits, and may be 0 where its interval is not.
            return (
                None if _has_zero(other) or not second else (first / second, _corners(one, other))
            )
        width = self._both.half_width((_ONE,), self._each)
        within = second - width, second + width
        if _has_zero(within) or (self._is_count and not carries_estimate(within)):
            return None
        if second < 0:
            first, second = -first, -second
            within = -within[1], -within[0]
        # By the union bound the ratio is in here, too: the error is at most that of either way.
        most = _corners((first - width, first + width), within)
        if most[0] == most[1]:
            return first / second, most

        def error(r: Fraction) -> Fraction:
            return min(self._both.half_width((_ONE, r), self._confidence), width * (1 + r))

        return first / second, QuotientSet(most, error, cells=_CELLS).hull(first, second)

    @property
    def _is_count(self) -> bool:
        return self._answer.statistics[0].statistic == "count"

    @property
    def _both(self) -> SumOfNoises:
        """The noises of the same number of two groups."""
        law, noise = self._parts[0]
        return SumOfNoises(law, (noise, noise))

    def _values(self) -> tuple[Fraction, Fraction] | None:
        first, second = (self._answer.values[place] for place in self._places)
        return None if first is None or second is None else (Fraction(first), Fraction(second))

    def _intervals(self, question: EstimateQuestion) -> Sequence[Interval]:
        """Return the interval of each group, which misses with half of the probability."""
        (law,) = {law for law, _ in self._parts}
        noisy = [each.values for each in self._answer.statistics]
        return question.intervals(
            self._column,
            [[Fraction(each[place]) for each in noisy] for place in self._places],
            confidence=self._each,
            noises=SumOfNoises(law, tuple([noise for _, noise in self._parts])),
        )


def _noise_of(noise: StatisticNoise) -> tuple[str, tuple[Fraction, Fraction]]:
    spread = noise.variance if noise.scale is UNSET else noise.scale
    return noise.law, (Fraction(str(spread)), Fraction(noise.grid))


def _check(answer: NoisyAnswer) -> None:
    question, rule = answer.question, "must be an answer to one statistic of numbers"
    if isinstance(question, SeveralQuestion):
        raise RequestInvalid("answer", f"{rule}: take one of its columns", "several")
    if not answer.low:
        raise RequestInvalid("answer", rule, question.name)
    if answer.levels:
        # Its values have decided where it stopped, so the law of its last level is not theirs.
        raise RequestInvalid("answer", "must be one answer, not a session's", question.name)


def _place(groups: Sequence[tuple[GroupValue, ...]], group: Group, field: str) -> int:
    wanted = group if isinstance(group, tuple) else (group,)
    if wanted not in groups:
        some = "; ".join([_text(each) for each in groups[:5]]) or "none"
        several = ', in Python a tuple such as ("north", True)' if len(groups[0]) > 1 else ""
        rule = "must be a group of this answer"
        raise RequestInvalid(field, rule, _text(group), hint=lambda: f"it has {some}{several}")
    return groups.index(wanted)


def _text(group: Group) -> str:
    each = group if isinstance(group, tuple) else (group,)
    return ", ".join([str(one).lower() if isinstance(one, bool) else str(one) for one in each])


def _decimal(value: Fraction, places: int) -> Decimal:
    return Decimal(decimal_text(value, places))


def _has_zero(interval: Interval) -> bool:
    return interval[0] <= 0 <= interval[1]


def _corners(numerator: Interval, denominator: Interval) -> Interval:
    quotients = [a / b for a in numerator for b in denominator]
    return min(quotients), max(quotients)
