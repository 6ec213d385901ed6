"""When a session's answer is accurate enough to stop: a rule on released values alone."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import parse_part
from accountant.errors import RequestInvalid
from accountant.field_rules import Confidence, NoiseAmount, Ratio
from accountant.questions.accuracy_first import Level
from accountant.questions.draw import Draw
from accountant.questions.error_at_confidence import confidence_of_each
from accountant.questions.levels import levels_of, session_law
from accountant.questions.noise import check_confidence
from accountant.questions.sensitivity import VectorStatistic
from accountant.suggest import did_you_mean
from accountant.values_to_write import part_to_write

StopForm = Literal["relative_error", "error"]
_FORMS: Final[tuple[StopForm, ...]] = ("relative_error", "error")
_EXAMPLES: Final = "relative_error: 0.1, or error: 50 at 0.95"


class Stop(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """How accurate an answer must be: exactly one of the two errors, and a confidence.

    Attributes:
        relative_error: each number is within this part of its exact value, above 0, at most 1.
        error: each number is within this distance of its exact value, in its units.
        confidence: the probability with which this holds for all numbers of the answer at once.
    """

    relative_error: Ratio | UnsetType = UNSET
    error: NoiseAmount | UnsetType = UNSET
    confidence: Confidence = "0.95"

    @property
    def form(self) -> StopForm:
        """Which error it limits."""
        return "error" if self.relative_error is UNSET else "relative_error"

    @property
    def text(self) -> str:
        """The error's limit."""
        return str(getattr(self, self.form))


def check_stop(stop: Stop) -> Stop:
    """Return the rule if each of its fields obeys its own.

    Raises: RequestInvalid: naming field, rule and value.
    """
    forms = [form for form in _FORMS if getattr(stop, form) is not UNSET]
    if len(forms) != 1:
        rule = f"must be one of {' and '.join(_FORMS)}"
        raise RequestInvalid("stop", rule, ", ".join(forms) or "none of them")
    field = f"stop.{stop.form}"
    limit = parse_part(stop.text, field=field)
    if not limit:
        raise RequestInvalid(field, "must be greater than 0", stop.text)
    if stop.form == "relative_error" and limit > 1:
        hint = partial(part_to_write, stop.text)
        raise RequestInvalid(field, "must be at most 1", stop.text, hint=hint)
    check_confidence(stop.confidence, field="stop.confidence")
    return stop


def parse_stop(text: str) -> Stop:
    """Return the rule of a text such as `relative_error: 0.1` or `error: 50 at 0.9`.

    Raises: RequestInvalid.
    """
    form, colon, rest = (part.strip() for part in text.partition(":"))
    limit, at, confidence = (part.strip() for part in rest.partition(" at "))
    if form not in _FORMS or not colon:
        hint = did_you_mean(form, _FORMS)
        raise RequestInvalid("stop", f"must have the form {_EXAMPLES}", text, hint=hint)
    fields = {form: limit} | ({"confidence": confidence} if at else {})
    return check_stop(Stop(**fields))


def stop_text(stop: Stop) -> str:
    """Return the text of a checked rule, from which `parse_stop` makes an equal one."""
    return f"{stop.form}: {stop.text} at {stop.confidence}"


def half_width(stop: Stop, draw: Draw, level: Level) -> Fraction:
    """Return the error of each number at a level, rounded up, in units of the answer.

    With the rule's confidence, no number of the answer is farther from its exact value: for a
    relative error at no level of the session, for an absolute one at this level.
    """
    assert isinstance(draw.statistic, VectorStatistic)
    confidence = confidence_of_each(Decimal(stop.confidence), _intervals(stop, draw))
    grid = draw.statistic.grid
    return session_law(draw).half_width(level.noise, confidence=confidence, grid=grid)


def _intervals(stop: Stop, draw: Draw) -> int:
    """Return how many intervals must hold at once."""
    assert isinstance(draw.statistic, VectorStatistic)
    # Values decide at which level a relative error stops, so the intervals of all levels count.
    # The level at which an absolute one stops follows from the claim: it is one and the same.
    levels = len(levels_of(draw)) if stop.form == "relative_error" else 1
    return draw.statistic.cells * levels


def stops(stop: Stop, draw: Draw, level: Level, values: Sequence[Fraction]) -> bool:
    """Tell whether a level's released values are accurate enough to stop there.

    A session stops at the first level where they are. With the rule's confidence, all of its
    values are then within the error. docs/reference/accuracy-first.md has the proof. If they are
    not accurate enough at the finest level, the session ends without reaching the error.

    Args:
        values: of all numbers of the answer, exactly as they are released.
    Raises: ValueError: another number of values, or the draw is no session.
    """
    width = half_width(stop, draw, level)
    return width <= _error_allowed(stop, draw, values, width)


def _error_allowed(stop: Stop, draw: Draw, values: Sequence[Fraction], width: Fraction) -> Fraction:
    """Return the absolute error that the rule allows where each value's error is at most `width`.

    A relative error r is one of r |f| for the exact value f, and |f| >= |value| - width.
    """
    assert isinstance(draw.statistic, VectorStatistic)
    if len(values) != draw.statistic.cells:
        raise ValueError(f"there must be {draw.statistic.cells} values, got {len(values)}")
    limit = Fraction(stop.text)
    return limit if stop.form == "error" else limit * (min(map(abs, values)) - width)


def fixed_noise_cost(
    stop: Stop, draw: Draw, level: Level, values: Sequence[Fraction]
) -> Fraction | None:
    """Return what one ordinary answer costs that reaches a rule's error with its confidence.

    For a relative error that is the absolute error which the released values allow. Nobody knows
    it before: whoever fixes the noise beforehand pays for the smallest value that may come.

    Args:
        level, values: where `stops` was true.
    Returns: of rounded Gaussian noise the rho, where the session is a Gaussian refinement; of
        discrete Laplace noise the epsilon, where it is Laplace noise reduction. In nats, of noise
        with six digits. None where the rule does not stop, or no noise is so small.
    """
    width = half_width(stop, draw, level)
    error = _error_allowed(stop, draw, values, width)
    if width > error:
        return None
    statistic = draw.statistic
    assert isinstance(statistic, VectorStatistic)
    confidence = confidence_of_each(Decimal(stop.confidence), statistic.cells)
    return session_law(draw).fixed_cost(statistic, error=error, confidence=confidence)
