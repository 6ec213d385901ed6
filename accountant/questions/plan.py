"""The plan of a question: each exact statistic that it draws once, and which values come from it.

Statistics of one question share a part where it is the same number of the same rows.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

from msgspec import UNSET

from accountant.errors import RequestInvalid
from accountant.questions.noise import Noise
from accountant.questions.parts import ExactPart
from accountant.questions.question import CheckedQuestion
from accountant.questions.sensitivity import VectorStatistic
from accountant.questions.statistics import EstimateQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPart:
    """An exact statistic that is drawn once.

    Attributes:
        owner: the place of the first of the question's statistics that is computed from it.
        scope: that statistic, as if it was asked alone: its rows are those of the part.
    """

    part: ExactPart
    owner: int
    scope: CheckedQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a question draws.

    Attributes:
        parts: in the order of the draws.
        of_each: for each of the question's statistics, the places of its parts.
    """

    parts: tuple[PlannedPart, ...]
    of_each: tuple[tuple[int, ...], ...]

    def shares(self, noise: Noise) -> tuple[Fraction, ...]:
        """Return the part of the noise's amount that each draw gets; they add up to 1.

        Source: docs/theory.md P15. A statistic divides its weight equally among its parts. One
        draw of a shared part serves all its owners, so it gets the sum of what they give.

        Raises: RequestInvalid: the weights are not those of the question's statistics.
        """
        weights = check_weights(noise, len(self.of_each))
        shares, total = [Fraction(0)] * len(self.parts), sum(weights)
        for weight, places in zip(weights, self.of_each, strict=True):
            for place in places:
                shares[place] += Fraction(weight, total * len(places))
        return tuple(shares)


def check_weights(noise: Noise, statistics: int) -> tuple[int, ...]:
    """Return the weight of each statistic of a question, 1 by default.

    Raises: RequestInvalid: there are weights of one statistic, or not one for each.
    """
    if noise.weights is UNSET:
        return (1,) * statistics
    if statistics == 1:
        rule = "must be left out for one statistic"
        raise RequestInvalid("noise.weights", rule, " ".join(map(str, noise.weights)))
    if len(noise.weights) != statistics:
        rule = f"must be {statistics} whole numbers, one for each statistic"
        raise RequestInvalid("noise.weights", rule, " ".join(map(str, noise.weights)))
    return noise.weights


def plan_of(checked: CheckedQuestion) -> Plan:
    """Return what a question draws."""
    places = dict[Hashable, int]()
    parts, of_each = list[PlannedPart](), list[tuple[int, ...]]()
    for owner, scope in enumerate(checked.alone):
        of_one = list[int]()
        for part in scope.statistic.drawn_parts(scope):
            place = places.setdefault(_identity(scope, part, owner), len(parts))
            if place == len(parts):
                parts.append(PlannedPart(part=part, owner=owner, scope=scope))
            of_one.append(place)
        of_each.append(tuple(of_one))
    return Plan(parts=tuple(parts), of_each=tuple(of_each))


def shows_its_draw(checked: CheckedQuestion) -> bool:
    """Tell whether an answer's values are the noisy numbers of the only draw, if there is one."""
    return not checked.each and not isinstance(checked.question, EstimateQuestion)


def _identity(scope: CheckedQuestion, part: ExactPart, owner: int) -> Hashable:
    """Return what two parts have in common that are the same number of the same rows.

    The same rows: one filter, groups and bound, and a row without a value is left out by the same
    column, or by none.
    """
    statistic, column = part.sensitivity(scope), scope.column
    if not isinstance(statistic, VectorStatistic):
        return owner, part  # a choice is of its own
    left_out_by = None if column is None or column.missing is not UNSET else column.name
    rows = scope.filter, scope.groups, scope.rows, scope.rows_per_group, left_out_by
    question = scope.statistic
    given = tuple(getattr(question, argument.name) for argument in question.arguments)
    return rows, statistic, None if statistic.name == "count" else column, given
