"""The distinguishing game: from answers on two neighbouring tables to a leak, if there is one.

The auditor sees answers alone. With the first of them it makes scores, with the next it chooses
one event, and with the last it measures that event's probability on both tables. So only one event
is measured, and its exact confidence bounds hold whatever led to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, combinations
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.special import logit
from scipy.stats import beta

from tests.audit_game.promises import Promise

FALSE_ALARM: Final = 1e-9
"""The most probable that an audit may find a leak where there is none."""
Outcome = tuple[int | Fraction, ...]
"""What one game shows: every number of every answer, in order."""
Play = Callable[[bool], Outcome]
"""Plays one game on the first table, or (True) on its neighbour."""

_THRESHOLDS: Final = 100
_LEAST_SEEN: Final = 10
_MOST_PARTS: Final = 6
_LAST_DIGITS: Final = 8
_LARGEST: Final = 10**100
"""A number beyond it is a leak whatever it is exactly."""
Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Score = Callable[[Sequence[Outcome]], Numbers]
NOTHING_MORE: Final[Mapping[str, Score]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Games:
    """The outcomes of many games.

    Attributes:
        tables: of the games on the first table, and of those on its neighbour.
    """

    tables: tuple[list[Outcome], list[Outcome]]

    def part(self, first: float, last: float) -> Games:
        """Return a part of the games of each table, in fractions of all."""
        low, high = (int(each * len(self.tables[0])) for each in (first, last))
        return Games((self.tables[0][low:high], self.tables[1][low:high]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One event, measured on games that did not lead to its choice.

    Attributes:
        event: in words.
        least: probability of the event on one table, at least.
        other: probability of the event on the other table, at most.
        promised: the most probable that the claim allows with `other`.
    """

    event: str
    least: float
    other: float
    promised: float

    @property
    def is_leak(self) -> bool:
        """Whether the claim is broken, but for a chance of `FALSE_ALARM`."""
        return self.least > self.promised


def play_games(play: Play, games: int) -> Games:
    """Play games on both tables in turn, half of them on each."""
    tables: tuple[list[Outcome], list[Outcome]] = ([], [])
    for _ in range(games // 2):
        for neighbour in (False, True):
            tables[neighbour].append(play(neighbour))
    return Games(tables)


def audit(games: Games, promise: Promise, more: Mapping[str, Score] = NOTHING_MORE) -> Finding:
    """Return the event that says most against a promise, as measured.

    Args:
        more: scores of an attacker who knows how the noise may be made, by name.
    """
    learned, chosen, measured = games.part(0, 0.2), games.part(0.2, 0.5), games.part(0.5, 1)
    best: tuple[float, str, Score, float, bool, int] | None = None
    for name, score in chain(_scores(learned), more.items()):
        values = [score(table) for table in chosen.tables]
        pooled = np.unique(np.concatenate(values))
        if len(pooled) > _THRESHOLDS:
            pooled = np.unique(np.quantile(pooled, np.linspace(0, 1, _THRESHOLDS)))
        for above in (True, False):
            counts = [_counts(each, pooled, above=above) for each in values]
            for table in (0, 1):
                bounds = _bounds(counts[table], counts[1 - table], len(values[0]), promise)
                with np.errstate(divide="ignore", invalid="ignore"):
                    evidence = np.nan_to_num(
                        logit(bounds[0]) - logit(bounds[2]), nan=-np.inf, posinf=np.inf
                    )
                at = int(np.argmax(evidence))
                if best is None or evidence[at] > best[0]:
                    best = (float(evidence[at]), name, score, float(pooled[at]), above, table)
    assert best is not None
    _, name, score, threshold, above, table = best
    values = [score(each) for each in measured.tables]
    counts = [_counts(each, np.array([threshold]), above=above) for each in values]
    least, other, promised = _bounds(counts[table], counts[1 - table], len(values[0]), promise)
    sign = ">=" if above else "<"
    return Finding(
        event=f"{name} {sign} {threshold:g}, on table {table}",
        least=float(least[0]),
        other=float(other[0]),
        promised=float(promised[0]),
    )


def _counts(values: Numbers, thresholds: Numbers, *, above: bool) -> Counts:
    below = np.searchsorted(np.sort(values), thresholds, side="left")
    return np.asarray(len(values) - below if above else below)


def _bounds(
    one: Counts, other: Counts, games: int, promise: Promise
) -> tuple[Numbers, Numbers, Numbers]:
    """Return bounds for events counted on two tables.

    Returns: the least probability on one, the largest on the other, and what is promised with it.
    """
    least, most = probability_bounds(one, other, games)
    return least, most, promise.most(most)


def probability_bounds(one: Counts, other: Counts, games: int) -> tuple[Numbers, Numbers]:
    """Return the least probability of events on one table, and the largest on the other.

    Both hold, but for a chance of `FALSE_ALARM`. Source: Clopper and Pearson 1934.

    Args:
        one, other: int64[n], how often each event was seen on each table.
        games: on each table.
    """
    with np.errstate(invalid="ignore"):
        least = np.where(one == 0, 0, beta.ppf(FALSE_ALARM / 2, one, games - one + 1))
        most = np.where(other == games, 1, beta.isf(FALSE_ALARM / 2, other + 1, games - other))
    return least, most


def _scores(learned: Games) -> Iterator[tuple[str, Score]]:
    """Yield functions of outcomes, larger where the neighbour is likelier if they know how."""
    before, after = (_numbers(table) for table in learned.tables)
    for i in range(min(before.shape[1], _MOST_PARTS)):
        yield f"number {i}", partial(_number, i)
    spread = np.maximum(np.std(np.concatenate([before, after]), axis=0), 1e-9)
    direction = (after.mean(axis=0) - before.mean(axis=0)) / spread**2
    yield "projection", lambda table: _numbers(table) @ direction
    middle, moved = np.median(before, axis=0), np.median(after, axis=0)
    yield (
        "distance",
        lambda table: ((abs(_numbers(table) - middle) - abs(_numbers(table) - moved)) / spread).sum(
            axis=1
        ),
    )
    for name, key in _keys(before.shape[1]):
        yield name, _likelihood(learned, key)


def _numbers(table: Sequence[Outcome]) -> Numbers:
    return np.array([[_float(each) for each in outcome] for outcome in table], dtype=np.float64)


def _number(i: int, table: Sequence[Outcome]) -> Numbers:
    return np.array([_float(outcome[i]) for outcome in table], dtype=np.float64)


def _float(number: int | Fraction) -> float:
    return float(min(max(number, -_LARGEST), _LARGEST))


def _keys(parts: int) -> Iterator[tuple[str, Callable[[Outcome], Hashable]]]:
    """Yield what may take a few values, each likelier on one of the tables."""
    yield "likelihood of the outcome", lambda outcome: outcome
    yield (
        "likelihood of the last digits",
        lambda outcome: tuple(
            each % _LAST_DIGITS for each in outcome[:_MOST_PARTS] if isinstance(each, int)
        ),
    )
    if parts > 1:
        for i in range(min(parts, _MOST_PARTS)):
            yield f"likelihood of number {i}", itemgetter(i)
        for i, j in combinations(range(min(parts, _MOST_PARTS)), 2):
            name = f"likelihood of the difference of numbers {i} and {j}"
            yield name, partial(_difference, i, j)


def _difference(i: int, j: int, outcome: Outcome) -> int | Fraction:
    return outcome[j] - outcome[i]


def _likelihood(learned: Games, key: Callable[[Outcome], Any]) -> Score:
    """Return how much likelier a key is on the neighbour, 0 where it was seldom seen."""
    before, after = (Counter(map(key, table)) for table in learned.tables)
    scores = {
        each: float(np.log((after[each] + 1) / (before[each] + 1)))
        for each in before.keys() | after.keys()
        if before[each] + after[each] >= _LEAST_SEEN
    }
    return lambda table: np.array([scores.get(key(outcome), 0.0) for outcome in table])
