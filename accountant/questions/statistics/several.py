"""Several statistics in one question: one request, one decision, and one answer of columns."""

from __future__ import annotations

from typing import Final

from accountant.questions.statistics.base import QuestionClauses
from accountant.questions.statistics.table import Statistic

MAX_STATISTICS: Final = 10


class SeveralQuestion(QuestionClauses, frozen=True, tag="several"):
    """Several statistics with the same filter, groups and bound on rows.

    Attributes:
        statistics: each without clauses of its own.
    """

    statistics: tuple[Statistic, ...]

    @property
    def alone(self) -> tuple[Statistic, ...]:
        """Each of its statistics, as if it was asked alone."""
        return tuple([each.with_clauses_of(self) for each in self.statistics])


Question = Statistic | SeveralQuestion
