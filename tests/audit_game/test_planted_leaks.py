"""Every planted leak is found: without this, an auditor that finds nothing says nothing."""

from __future__ import annotations

import hashlib
import hmac
import math
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Final, Protocol

import pytest

from accountant.noise import GaussianRefinement, LaplaceReduction, RandomBits
from accountant.questions import VectorStatistic, levels_of
from tests.accountant.noise.laws import bits_of
from tests.audit_game.auditor import FALSE_ALARM, Outcome, audit, play_games
from tests.audit_game.executor import Asked, ask
from tests.audit_game.floating_point import attacks
from tests.audit_game.promises import Promise, promise_of, together
from tests.nightly import rounds

GAMES: Final = 10_000
MANY: Final = rounds(10_000, 100_000)


def is_found(play: Callable[[bool], Outcome], promise: Promise, games: int = GAMES) -> bool:
    return audit(play_games(play, games), promise).is_leak


# What a question claims with one row of each unit, and two rows that enter.


@pytest.mark.parametrize(
    ("question", "noise"),
    [
        ("count", "epsilon: 1"),
        ("count by c", "sigma: 1"),
        ("sum(x)", "rho: 0.5, rounded_gaussian"),
        ("mean(x)", "epsilon: 2"),
        ("variance(x)", "epsilon: 3"),
        ("count, mean(x)", "epsilon: 2, weights 2 1"),
        ("median(y)", "epsilon: 1"),
        ("top(c, 1)", "epsilon: 1"),
    ],
)
def test_a_row_too_many_is_found(question: str, noise: str) -> None:
    claimed, entered = ask(question, noise, rows=1), ask(question, noise, rows=2)
    leaking, bits = replace(claimed, pair=entered.pair), bits_of(1)
    promise = promise_of(claimed.derivation.claim)
    assert is_found(lambda neighbour: leaking.answer(neighbour, bits), promise)


# Executors: what answers each grant.


class Executor(Protocol):
    """Answers grants, each as often as it is read."""

    def read(self, grant: str, request_id: str, asked: Asked, neighbour: bool) -> Outcome:
        """Return the answer of a grant."""
        ...


class StoredAnswers:
    """Draws each grant once, from bits of no one's choice, and reads what it stored."""

    def __init__(self) -> None:
        self._bits = bits_of(1)
        self._stored: dict[str, Outcome] = {}

    def read(self, grant: str, request_id: str, asked: Asked, neighbour: bool) -> Outcome:
        if grant not in self._stored:
            self._stored[grant] = asked.answer(neighbour, self._bits)
        return self._stored[grant]


class SecondDraws:
    """Draws again whenever a grant is read, as after a crash between draw and store."""

    def __init__(self) -> None:
        self._bits = bits_of(1)

    def read(self, grant: str, request_id: str, asked: Asked, neighbour: bool) -> Outcome:
        return asked.answer(neighbour, self._bits)


class NoiseByRequestId:
    """Makes the noise from a secret and the request's id, so that a replay draws the same."""

    def read(self, grant: str, request_id: str, asked: Asked, neighbour: bool) -> Outcome:
        digest = hmac.new(b"secret", request_id.encode(), hashlib.sha256).digest()
        return asked.answer(neighbour, random.Random(digest).getrandbits)


class StoredByRequestId(StoredAnswers):
    """Finds stored answers by the request's id, which a later grant may have again."""

    def read(self, grant: str, request_id: str, asked: Asked, neighbour: bool) -> Outcome:
        return super().read(request_id, request_id, asked, neighbour)


def play_grants(
    executor: Executor, asked: list[Asked], *, reads: int, repeat_id: bool = False
) -> Callable[[bool], Outcome]:
    """Return a game in which each question is granted, and each grant is read so many times."""
    game = 0

    def play(neighbour: bool) -> Outcome:
        nonlocal game
        game += 1
        outcome: list[int | Fraction] = []
        for i, each in enumerate(asked):
            request_id = f"{game}" if repeat_id else f"{game}-{i}"
            for _ in range(reads):
                outcome += executor.read(f"grant {game}-{i}", request_id, each, neighbour)
        return tuple(outcome)

    return play


@cache
def counts() -> list[Asked]:
    """The unit is in the first of them alone, so their difference shows it once noise cancels."""
    return [ask("count", "epsilon: 1"), ask("count where c = 'd'", "epsilon: 1")]


def promised(asked: list[Asked]) -> Promise:
    return together([promise_of(each.derivation.claim) for each in asked])


def test_a_second_draw_is_found() -> None:
    play = play_grants(SecondDraws(), counts()[:1], reads=8)
    assert is_found(play, promised(counts()[:1]))


def test_noise_by_an_id_that_repeats_is_found() -> None:
    play = play_grants(NoiseByRequestId(), counts(), reads=1, repeat_id=True)
    assert is_found(play, promised(counts()))


def test_stored_answers_show_no_more_however_often_they_are_read() -> None:
    for repeat_id in (False, True):
        play = play_grants(StoredAnswers(), counts(), reads=4, repeat_id=repeat_id)
        played = play_games(play, MANY)
        assert not audit(played, promised(counts())).is_leak
        assert audit(played, promised(counts()).times(0.3)).is_leak


# Noise of floats.


Draw = Callable[[Fraction], int]


def logarithm_of_a_float(scale: Fraction) -> int:
    """Return Laplace noise as textbooks draw it, rounded to the grid."""
    return round(float(scale) * SOURCE.choice((-1, 1)) * math.log(1 - SOURCE.random()))


def exact_product_with_a_float(scale: Fraction) -> int:
    """Return the same where the float is multiplied exactly: its gaps are no powers of two."""
    return int(SOURCE.choice((-1, 1)) * scale * Fraction(math.log(1 - SOURCE.random())))


SOURCE: Final = random.Random(1)


@pytest.mark.parametrize("noise", [logarithm_of_a_float, exact_product_with_a_float])
def test_floating_point_noise_is_found_where_floats_have_gaps(noise: Draw) -> None:
    asked = ask("sum(fine)", "epsilon: 0.1")
    (draw,) = asked.derivation.draws
    assert isinstance(draw.statistic, VectorStatistic)
    assert draw.scale is not None
    grid, scale = draw.statistic.grid, draw.scale / draw.statistic.grid

    def play(neighbour: bool) -> Outcome:
        ((value,),) = asked.pair.after if neighbour else asked.pair.before
        return (int(value / grid) + noise(scale),)

    promise = promise_of(asked.derivation.claim)
    assert audit(play_games(play, 2_000), promise, attacks(asked)).is_leak


# Sessions: every level is shown, and the last one is charged.


def independent_levels(asked: Asked, neighbour: bool, bits: RandomBits) -> Outcome:
    """Return levels that each have noise of their own."""
    (draw,) = asked.derivation.draws
    ((value,),) = asked.pair.after if neighbour else asked.pair.before
    return tuple(
        [
            GaussianRefinement(value, bits).draw(each.noise)
            if draw.law == "gaussian_refinement"
            else LaplaceReduction(int(value), [each.noise], bits).draw(each.noise)
            for each in levels_of(draw)
        ]
    )


@pytest.mark.parametrize(
    "noise", ["epsilon: 2, laplace_reduction from 16", "sigma: 2, gaussian_refinement from 8"]
)
def test_levels_of_independent_noise_are_found(noise: str) -> None:
    asked, bits = ask("count", noise), bits_of(1)
    promise = promise_of(asked.derivation.claim)
    assert is_found(lambda neighbour: independent_levels(asked, neighbour, bits), promise)


def test_chance_alone_is_no_leak() -> None:
    assert FALSE_ALARM <= 1e-9
    source = random.Random(1)
    for _ in range(50):
        played = play_games(lambda _: (source.randrange(50), source.randrange(2)), 500)
        assert not audit(played, Promise(epsilon=0)).is_leak
