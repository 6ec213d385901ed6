"""Adds the noise of a derivation to exact statistics: what leaves here may be released.

Nothing here depends on the statistics but the noisy values and choices: how many there are follows
from schema and question. Numbers are integers and fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from accountant.noise import RandomBits, choose
from accountant.questions import (
    CheckedQuestion,
    Derivation,
    Draw,
    Level,
    Stop,
    levels_of,
    session_law,
    stops,
)
from accountant.questions.laws import LAWS, OneAnswerLaw
from accountant.questions.sensitivity import SelectionStatistic, VectorStatistic

Exact = Sequence[Fraction]
"""An exact statistic, as `accountant.questions.evaluate` returns it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noisy:
    """What one draw of a derivation shows.

    Attributes:
        draw: as derived; of a session with the scale or the variance of the last level shown.
        values: noisy numbers, one for each group, in units of the answer; () for a choice.
        places: of the candidates chosen, in the order of the choices, for each group; () for
            numbers.
    """

    draw: Draw
    values: tuple[Fraction, ...] = ()
    places: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSession:
    """What a session showed.

    Attributes:
        draw: as derived.
        stop: its rule.
        shown: each level with its noisy numbers, one for each group.
        stopped: the rule was reached at the last of them.
    """

    draw: Draw
    stop: Stop
    shown: tuple[tuple[Level, tuple[Fraction, ...]], ...]
    stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a question's answer is computed from: noisy values alone.

    Attributes:
        checked: the question.
        noisy: for each draw of the derivation; of a session, at the last level shown.
        session: None without one.
    """

    checked: CheckedQuestion
    noisy: tuple[Noisy, ...]
    session: ShownSession | None = None


def run_question(
    checked: CheckedQuestion,
    derivation: Derivation,
    statistics: Sequence[Exact],
    bits: RandomBits,
    stop: Stop | None = None,
) -> Result:
    """Return the noisy values of a question, each drawn by its exact law.

    Args:
        derivation: of this question.
        statistics: exact, in the order of the derivation's draws.
        bits: the source of the noise, `secrets.randbits`. The same bits give the same result.
        stop: the rule of a session, and of nothing else.
    Raises: ValueError: the statistics are not the question's, and the message leaves them out; or
        the noise is that of a session and `stop` is missing, or the other way round.
    """
    if len(statistics) != len(derivation.draws):
        raise ValueError(f"the question has {len(derivation.draws)} statistics")
    pairs = zip(derivation.draws, statistics, strict=True)
    draw = derivation.draws[0]
    if (draw.first is None) is not (stop is None):
        raise ValueError(f"{draw.law} must {'have a' if stop is None else 'not have a'} stop rule")
    if stop is not None:
        (exact,) = statistics
        return _run_session(checked, draw, exact, bits, stop)
    noisy = [_noisy(draw, exact, bits) for draw, exact in pairs]
    return Result(checked=checked, noisy=tuple(noisy))


def _noisy(draw: Draw, exact: Exact, bits: RandomBits) -> Noisy:
    if isinstance(draw.statistic, SelectionStatistic):
        return Noisy(draw=draw, places=_choices(draw, draw.statistic, exact, bits))
    grid = draw.statistic.grid
    steps = _steps(draw.statistic, exact)
    return Noisy(draw=draw, values=tuple([grid * _add(draw, grid, each, bits) for each in steps]))


def _run_session(
    checked: CheckedQuestion, draw: Draw, exact: Exact, bits: RandomBits, stop: Stop
) -> Result:
    """Show all groups with less and less noise, until the rule stops them together."""
    assert isinstance(draw.statistic, VectorStatistic), "a choice has no levels"
    grid, levels = draw.statistic.grid, levels_of(draw)
    steps = _steps(draw.statistic, exact)
    samplers = session_law(draw).samplers(steps, levels, grid=grid, bits=bits)
    return show_levels(
        checked, draw, stop, lambda level: tuple([sample(level.noise) for sample in samplers])
    )


def show_levels(
    checked: CheckedQuestion,
    draw: Draw,
    stop: Stop,
    values_at: Callable[[Level], tuple[Fraction, ...]],
) -> Result:
    """Return a session that shows level after level, until its rule stops it or none is left.

    Args:
        values_at: what a level shows, one number for each group; called for one after another.
    """
    shown = list[tuple[Level, tuple[Fraction, ...]]]()
    stopped = False
    for level in levels_of(draw):
        values = values_at(level)
        shown.append((level, values))
        if stopped := stops(stop, draw, level, values):
            break
    last, values = shown[-1]
    return Result(
        checked=checked,
        noisy=(Noisy(draw=draw.with_spread(last.noise), values=values),),
        session=ShownSession(draw=draw, stop=stop, shown=tuple(shown), stopped=stopped),
    )


def _steps(statistic: VectorStatistic | SelectionStatistic, exact: Exact) -> list[int]:
    """Return exact numbers in steps of their grid.

    Raises: ValueError: their number is another one, or one is no multiple of the grid.
    """
    if len(exact) != statistic.size:
        raise ValueError(f"{statistic.name} must have {statistic.size} numbers")
    steps = [each / statistic.grid for each in exact]
    if any(each.denominator != 1 for each in steps):
        raise ValueError(f"{statistic.name} must be multiples of {statistic.grid}")
    return [each.numerator for each in steps]


def _add(draw: Draw, grid: Fraction, steps: int, bits: RandomBits) -> int:
    """Return one number with its noise, both in steps of the grid."""
    law = LAWS[draw.law]
    if not isinstance(law, OneAnswerLaw):
        raise TypeError(f"{draw.law} adds noise to no single number")
    return law.add(steps, draw.spread, grid=grid, bits=bits)


def _choices(
    draw: Draw, statistic: SelectionStatistic, exact: Exact, bits: RandomBits
) -> tuple[tuple[int, ...], ...]:
    each = statistic.candidates
    whole = _steps(statistic, exact)
    scale = draw.spread / statistic.grid
    return tuple(
        [
            _choose(whole[i * each : (i + 1) * each], statistic.times, scale, bits)
            for i in range(statistic.groups)
        ]
    )


def _choose(scores: list[int], times: int, scale: Fraction, bits: RandomBits) -> tuple[int, ...]:
    """Return the places of scores chosen one after another, none of them twice."""
    places = list(range(len(scores)))
    chosen = list[int]()
    for _ in range(times):
        place = places.pop(choose([scores[each] for each in places], scale, bits))
        chosen.append(place)
    return tuple(chosen)
