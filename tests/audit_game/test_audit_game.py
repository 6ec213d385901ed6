"""The auditor finds nothing in the answers of any question, and would find a claim that is too low.

The same games are judged twice: by the claim, which must hold, and by a part of it, which must not.
docs/explanation/leak-tests.md describes the game.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from accountant.policy import Neighbours
from tests.accountant.noise.laws import bits_of
from tests.audit_game.auditor import Games, audit, play_games
from tests.audit_game.executor import MIXED, Asked, ask
from tests.audit_game.floating_point import attacks
from tests.audit_game.neighbours import Row, other_units
from tests.audit_game.promises import promise_of
from tests.nightly import NIGHTLY, rounds

GAMES: Final = rounds(10_000, 100_000)
SESSION_GAMES: Final = rounds(6_000, 100_000)
FULL: Final = 100_000
FEW: Final = 4_000
RELATIONS: Final[tuple[Neighbours, ...]] = ("add_remove", "replace")
ADD: Final = RELATIONS[:1]
REPLACE: Final = RELATIONS[1:]
NIGHTS: Final = RELATIONS[:0]  # neither, but in `make nightly`
# Two candidates are about as good as each other, and a unit turns one against the other.
TWO: Final = other_units("ab" * 12)
MIDDLE: Final = other_units("a" * 44, ys=(1, *[-1, 3] * 5))
HIGH: Final = other_units("a" * 20 + "b" * 20, ys=(1, -1, -1, -1, -1))
Case = tuple[str, str, float, Sequence[Row], Sequence[Neighbours]]
# The question, its noise, the part of the claim that games must find too low, the other units, and
# the relations that `make test` tries: as many as find each planted bug. `make nightly` tries both.
CASES: Final[list[Case]] = [
    ("count where x > 2 rows 1", "epsilon: 1", 0.6, MIXED, NIGHTS),
    ("count by c, t", "epsilon: 1", 0.4, MIXED, REPLACE),
    ("count by c", "rho: 0.5, rounded_gaussian", 0.6, MIXED, REPLACE),
    ("histogram(c)", "sigma: 2", 0.6, MIXED, NIGHTS),
    ("histogram(c)", "sigma: 2, discrete_gaussian", 0.3, MIXED, NIGHTS),
    ("histogram(c)", "epsilon: 3", 0.6, MIXED, RELATIONS),
    ("sum(x)", "error: 10 at 0.9", 0.6, MIXED, ADD),
    ("sum(x)", "sigma: 6", 0.6, MIXED, RELATIONS),
    ("sum(x) by c", "rho: 0.5", 0.2, MIXED, NIGHTS),
    ("variance(x)", "rho: 1", 0.15, MIXED, REPLACE),
    ("sum(x) by c", "epsilon: 1", 0.3, MIXED, NIGHTS),
    ("sum(x) by c", "rho: 0.5, rounded_gaussian", 0.6, MIXED, NIGHTS),
    ("sum(fine)", "epsilon: 1", 0.6, MIXED, ADD),
    ("mean(x)", "epsilon: 2", 0.4, MIXED, REPLACE),
    ("mean(x)", "rho: 0.5, rounded_gaussian", 0.4, MIXED, NIGHTS),
    ("variance(x)", "epsilon: 3", 0.3, MIXED, NIGHTS),
    ("variance(x) by t", "epsilon: 3", 0.3, MIXED, NIGHTS),
    ("std(x)", "rho: 1", 0.15, MIXED, NIGHTS),
    ("count, mean(x), sum(fine)", "epsilon: 3, weights 1 2 1", 0.3, MIXED, RELATIONS),
    ("mean(x), sum(x) by c", "rho: 1", 0.15, MIXED, NIGHTS),
    ("median(y)", "rho: 1", 0.5, MIDDLE, REPLACE),
    ("median(y) by t", "epsilon: 2", 0.3, MIDDLE, NIGHTS),
    ("quantile(y, 0.9)", "epsilon: 1", 0.4, HIGH, ADD),
    ("quantile(y, 0.9) by c", "epsilon: 2", 0.3, HIGH, NIGHTS),
    ("top(c, 1)", "epsilon: 1", 0.4, TWO, ADD),
    ("top(c, 1) by t", "epsilon: 2", 0.3, TWO, NIGHTS),
    ("top(c, 2)", "epsilon: 6", 0.2, MIXED, ADD),
]
PLAIN: Final[list[Case]] = [
    ("count", "epsilon: 1", 0.8, MIXED, ADD),
    ("count", "sigma: 2", 0.8, MIXED, ADD),
    ("count", "rho: 0.5", 0.4, MIXED, ADD),
    ("median(y)", "epsilon: 1", 0.7, MIDDLE, ADD),
]


SESSIONS: Final[list[Case]] = [
    ("count", "epsilon: 2, laplace_reduction from 8", 0.6, MIXED, ADD),
    ("sum(x) by t", "epsilon: 2, laplace_reduction from 24", 0.5, MIXED, NIGHTS),
    ("count", "sigma: 2, gaussian_refinement from 6", 0.5, MIXED, ADD),
]


def with_relations(cases: Sequence[Case]) -> list[Any]:
    """Return the parameters: each case with the relations that this run tries."""
    return [
        pytest.param(case, relation, id=f"{case[0]} - {case[1]}-{relation}")
        for case in cases
        for relation in (RELATIONS if NIGHTLY else case[4])
    ]


def check_case(case: Case, relation: Neighbours, games: int) -> None:
    question, noise, part, others, _ = case
    asked = ask(question, noise, relation, others=others)
    bits = bits_of(1)
    check_promise(asked, play_games(lambda neighbour: asked.answer(neighbour, bits), games), part)


def check_promise(asked: Asked, played: Games, part: float) -> None:
    promise = promise_of(asked.derivation.claim)
    finding = audit(played, promise)
    assert not finding.is_leak, finding
    too_low = audit(played, promise.times(part))
    assert too_low.is_leak, ("the games would not find this claim too low", part, too_low)


@pytest.mark.parametrize(("case", "relation"), with_relations(CASES))
def test_answers_keep_what_their_claim_promises(case: Case, relation: Neighbours) -> None:
    check_case(case, relation, GAMES)


@pytest.mark.parametrize(
    "case", PLAIN if NIGHTLY else PLAIN[:1], ids=lambda case: f"{case[0]} - {case[1]}"
)
def test_a_hundred_thousand_answers_keep_what_their_claim_promises(case: Case) -> None:
    check_case(case, "add_remove", FULL)


@pytest.mark.parametrize(("case", "relation"), with_relations(SESSIONS))
def test_all_levels_of_a_session_keep_what_its_finest_promises(
    case: Case, relation: Neighbours
) -> None:
    question, noise, part, others, _ = case
    asked = ask(question, noise, relation, others=others)
    bits = bits_of(1)
    played = play_games(lambda neighbour: asked.levels(neighbour, bits), SESSION_GAMES)
    check_promise(asked, played, part)


@pytest.mark.parametrize("noise", ["epsilon: 1", "epsilon: 0.001", "rho: 0.5, rounded_gaussian"])
def test_answers_reveal_nothing_by_gaps_between_floats(noise: str) -> None:
    asked = ask("sum(fine)", noise)
    bits = bits_of(1)
    played = play_games(lambda neighbour: asked.answer(neighbour, bits), FEW)
    finding = audit(played, promise_of(asked.derivation.claim), attacks(asked))
    assert not finding.is_leak, finding
