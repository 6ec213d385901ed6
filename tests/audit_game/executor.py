"""The real path from a question to an answer, played on two neighbouring tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from accountant.answers import run_question
from accountant.noise import RandomBits
from accountant.policy import Neighbours
from accountant.questions import (
    CheckedQuestion,
    Derivation,
    Stop,
    VectorStatistic,
    derive,
    parse_noise,
    parse_question,
)
from tests.audit_game.auditor import Outcome
from tests.audit_game.neighbours import Pair, Row, game_schema, other_units, worst_pair

MIXED: Final = other_units("abd" * 4)
NEVER: Final = Stop(error="0.000001")
"""A rule that no session of the games reaches, so that it shows all its levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question with its derivation, and the tables on which it is played."""

    checked: CheckedQuestion
    derivation: Derivation
    pair: Pair

    def answer(self, neighbour: bool, bits: RandomBits) -> Outcome:
        """Return an answer on one of the tables.

        Numbers are in steps of their grid, so that they are whole; of candidates, their places.
        """
        result = run_question(self.checked, self.derivation, self._statistics(neighbour), bits)
        outcome: list[int | Fraction] = []
        for noisy in result.noisy:
            outcome += [place for group in noisy.places for place in group]
            if isinstance(noisy.draw.statistic, VectorStatistic):
                outcome += [_whole(each / noisy.draw.statistic.grid) for each in noisy.values]
        return tuple(outcome)

    def levels(self, neighbour: bool, bits: RandomBits, stop: Stop = NEVER) -> Outcome:
        """Return what a session shows on one of the tables, one level after another."""
        result = run_question(
            self.checked, self.derivation, self._statistics(neighbour), bits, stop
        )
        assert result.session is not None
        return tuple([number for _, values in result.session.shown for number in values])

    def _statistics(self, neighbour: bool) -> tuple[tuple[Fraction, ...], ...]:
        return self.pair.after if neighbour else self.pair.before


def _whole(steps: Fraction) -> int:
    assert steps.denominator == 1, "an answer is not on its grid"
    return int(steps)


def ask(
    question: str,
    noise: str,
    neighbours: Neighbours = "add_remove",
    *,
    others: Sequence[Row] = MIXED,
    rows: int = 2,
) -> Asked:
    """Return a question that is asked of the schema of the games.

    Args:
        others: rows of the other units.
        rows: the most rows of a unit.
    """
    checked = parse_question(question, game_schema(neighbours, rows=rows))
    derivation = derive(checked, parse_noise(noise))
    pair = worst_pair(checked, derivation, others)
    return Asked(checked=checked, derivation=derivation, pair=pair)
