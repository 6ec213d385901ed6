"""How many rows there are."""

from __future__ import annotations

from accountant.questions.parts import ExactPart, row_count
from accountant.questions.scope import Scope
from accountant.questions.statistics.base import StatisticQuestion


class CountQuestion(StatisticQuestion, frozen=True, tag="count"):
    """How many rows there are."""

    label = "Count of rows"

    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the number of rows."""
        return (row_count(),)
