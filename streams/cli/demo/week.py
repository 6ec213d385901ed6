"""What five analysts ask in a week, drawn from a seeded generator: the same week every time.

Each request is one of a handful of habits: a kind of question, on a dataset, with a claim
whose noise varies. With more requests each asks for less, so that any number of them tells
the same story: the budgets last until about Friday, and small questions still fit after that.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from accountant.claims import (
    BoundedRange,
    Claim,
    Gaussian,
    Laplace,
    RandomizedResponse,
    Repeat,
)
from accountant.odometers.basic import Basic
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.policy import Policy

USUAL: Final = 400
"""Requests of a week at full cost each."""

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_BUSY: Final = (20, 22, 20, 18, 14, 4, 2)  # how much of the week's work each day sees
_RETRIED: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A dataset, and the policy that its owner opens it with."""

    dataset: str
    by: str
    reason: str
    policy: Policy


DATASETS: Final = (
    Opening(
        dataset="census",
        by="registrar",
        reason="resident survey, this year's release",
        policy=Policy(
            filter="zcdp_tight",
            epsilon="1.5",
            delta="1e-6",
            unit="person",
            access="members",
            odometers=(
                OneSidedMixture(delta="1e-6", r="0.0052"),
                Mixture(delta="1e-6", r="0.0052"),
            ),
            horizon="P365D",
        ),
    ),
    Opening(
        dataset="clinic",
        by="data-office",
        reason="anonymous patient questionnaires",
        policy=Policy(
            filter="basic",
            epsilon="4.6",
            delta="1e-7",
            unit="patient",
            access="members",
            odometers=(Basic(),),
        ),
    ),
    Opening(
        dataset="shop",
        by="growth-team",
        reason="purchases, last quarter",
        policy=Policy(
            filter="fully_adaptive",
            epsilon="2.1",
            delta="1e-6",
            unit="customer",
            access="members",
            odometers=(
                Linear(delta="1e-6", y="0.2"),
                OneSidedMixture(delta="1e-6", r="0.008"),
            ),
        ),
    ),
)

_UNITS: Final = {opening.dataset: opening.policy.unit for opening in DATASETS}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRequest:
    """One request of the week.

    Attributes:
        day: index in `DAYS`.
        purpose: begins with the simulated day and time; ids are minted when it is sent.
        again: the same bytes as the request before it: a program that retries.
    """

    day: int
    analyst: str
    dataset: str
    question: str
    claim: Claim
    unit: str
    purpose: str
    again: bool = False


def _text(value: float) -> str:
    """Return a parameter with 3 digits, as the wire has it."""
    return f"{Decimal(f'{value:.3g}'):f}"


@dataclass(frozen=True, slots=True)
class _Habit:
    """What an analyst keeps asking.

    `claim` gets the draw (about 1, larger costs more) times the scale of the week.
    """

    analyst: str
    dataset: str
    question: str
    weight: int
    claim: Callable[[float], Claim]


def _gaussian(epsilon_like: float) -> Claim:
    return Gaussian(sigma=_text(1 / epsilon_like), sensitivity="1")


def _laplace(sensitivity: str, epsilon: float) -> Claim:
    return Laplace(scale=_text(float(sensitivity) / epsilon), sensitivity=sensitivity)


_HABITS: Final = (
    _Habit("ana", "census", "histogram of age by district", 16, lambda x: _gaussian(0.023 * x)),
    _Habit("ana", "census", "histogram of household size", 10, lambda x: _gaussian(0.016 * x)),
    _Habit("ana", "shop", "histogram of basket size", 6, lambda x: _gaussian(0.033 * x)),
    _Habit("ben", "census", "mean income", 9, lambda x: _laplace("1", 0.012 * x)),
    _Habit("ben", "clinic", "mean waiting time", 11, lambda x: _laplace("60", 0.055 * x)),
    _Habit("ben", "shop", "mean spend", 7, lambda x: _laplace("500", 0.04 * x)),
    _Habit("chloe", "census", "median commute", 7, lambda x: BoundedRange(eta=_text(0.024 * x))),
    _Habit("chloe", "shop", "quartiles of spend", 8, lambda x: _quartiles(0.027 * x)),
    _Habit("chloe", "clinic", "median age", 5, lambda x: BoundedRange(eta=_text(0.05 * x))),
    _Habit("dev", "shop", "most bought category", 8, lambda x: BoundedRange(eta=_text(0.065 * x))),
    _Habit("dev", "clinic", "smoker? (randomized)", 10, lambda x: _randomized(0.06 * x)),
    _Habit("dev", "census", "largest district", 4, lambda x: BoundedRange(eta=_text(0.028 * x))),
    _Habit("eve", "shop", "histogram of visits", 5, lambda x: _gaussian(0.05 * x)),
    _Habit("eve", "clinic", "histogram of diagnoses", 2, lambda x: _gaussian(0.08 * x)),
    _Habit("eve", "census", "histogram of everything", 2, lambda x: _gaussian(0.1 * x)),
)


def _randomized(epsilon: float) -> Claim:
    return RandomizedResponse(epsilon=_text(epsilon), delta="0")


def _quartiles(eta: float) -> Claim:
    return Repeat(BoundedRange(eta=_text(eta)), 3)


def week(requests: int = USUAL, *, seed: int = 20) -> list[DemoRequest]:
    """Return the week's requests in the order in which they are made.

    Args:
        requests: how many, retries included; at least 1.
        seed: of the generator; another one is another week.
    """
    # Not for noise: the demo draws a load, and has to draw the same one every time.
    draw = random.Random(seed)
    days = sorted(draw.choices(range(7), weights=_BUSY, k=requests))
    minutes = sorted((day, draw.randrange(8 * 60, 18 * 60)) for day in days)
    weights = [habit.weight for habit in _HABITS]
    asks: list[DemoRequest] = []
    for day, minute in minutes:
        before = asks[-1] if asks else None
        # Eve's laptop has a bad connection, so her program sends some requests twice.
        retries = before and before.analyst == "eve" and not before.again and before.day == day
        if before and retries and draw.random() < _RETRIED:
            asks.append(replace(before, again=True))
            continue
        habit = draw.choices(_HABITS, weights=weights)[0]
        asks.append(_ask(draw, habit, day, minute, requests))
    return asks


def _ask(draw: random.Random, habit: _Habit, day: int, minute: int, requests: int) -> DemoRequest:
    # Costs that add up as squares (rho) shrink with the root of the number of requests.
    power = 1.0 if habit.dataset == "clinic" else 0.5
    scale = (USUAL / max(requests, 40)) ** power
    size = draw.choice((0.5, 0.8, 1, 1, 1, 1.5, 2.5)) * scale
    unit = _UNITS[habit.dataset]
    dataset = habit.dataset
    if habit.analyst == "eve":
        # Eve is new: she mixes up units, and asks for what is not there.
        unit = draw.choice((unit, unit, unit, "person"))
        dataset = draw.choice((dataset, dataset, dataset, dataset, "payroll"))
    when = f"{DAYS[day]} {minute // 60:02d}:{minute % 60:02d}"
    return DemoRequest(
        day=day,
        analyst=habit.analyst,
        dataset=dataset,
        question=habit.question,
        claim=habit.claim(size),
        unit=unit,
        purpose=f"{when} {habit.question}",
    )
