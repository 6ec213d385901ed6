"""Questions that are run in the tests of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from accountant.answers import Granted, NoisyAnswer, Result, answer_of, run_question
from accountant.answers.run import Exact
from accountant.noise import RandomBits
from accountant.questions import (
    CheckedQuestion,
    Derivation,
    Noise,
    Schema,
    Stop,
    derive,
    parse_noise,
    parse_question,
    parse_stop,
)
from accountant.questions.sensitivity import SelectionStatistic
from tests.accountant.questions.schemas import CENSUS

COUNTS = ["count", "count by region, smoker", "histogram(region)", "histogram(region) by smoker"]
SUMS = ["sum(income)", "sum(age) by smoker"]
QUOTIENTS = [
    *("mean(income)", "mean(age) by region", "variance(income)", "variance(age) by smoker"),
    "std(age) by region",
]
CHOICES = ["median(age)", "quantile(age, 0.9) by smoker", "top(region, 2)", "top(job, 1) by region"]
SEVERAL = [
    "count, mean(income), median(age) by region",
    "mean(age), std(age), count, sum(income)",
    "top(region, 1), count, mean(income)",
]
AMOUNTS = ["epsilon: 0.5", "rho: 0.1", "rho: 0.1, rounded_gaussian"]
OF_EACH = ["sigma: 5e3", "sigma: 5e3, discrete_gaussian", "error: 1e4 at 0.95"]
RUNS = [
    *((text, noise) for text in COUNTS + SUMS for noise in AMOUNTS + OF_EACH),
    *((text, noise) for text in QUOTIENTS for noise in AMOUNTS[:2]),
    # A `gaussian` claim takes no sensitivity as large as that of squares of incomes.
    *((text, AMOUNTS[2]) for text in QUOTIENTS if text != "variance(income)"),
    *((text, noise) for text in CHOICES for noise in AMOUNTS[:2]),
    *((text, noise) for text in SEVERAL for noise in AMOUNTS),
]
"""Each kind of question, grouped or not, with each law that it may have."""


SESSIONS = [
    (text, noise, stop)
    for text in COUNTS + SUMS
    for noise in ("rho: 0.5, gaussian_refinement", "epsilon: 2, laplace_reduction")
    for stop in ("relative_error: 0.1", "error: 5e4 at 0.9")
]
"""Each kind of question that has sessions, with both laws and both rules."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its noise, and a session's rule."""

    checked: CheckedQuestion
    noise: Noise
    derivation: Derivation
    stop: Stop | None = None

    @property
    def granted(self) -> Granted:
        return Granted(
            dataset="census",
            request_id="0197a5c0-0000-7000-8000-000000000000",
            analyst="ana",
            grant="sha256:" + "ab" * 32,
            question=self.checked.question,
            noise=self.noise,
            claim=self.derivation.claim,
            stop=self.stop,
        )


def ask(text: str, noise: str, stop: str | None = None, *, schema: Schema = CENSUS) -> Asked:
    checked, wanted = parse_question(text, schema), parse_noise(noise)
    rule = None if stop is None else parse_stop(stop)
    return Asked(checked, wanted, derive(checked, wanted), rule)


def zeros(question: Asked) -> list[list[Fraction]]:
    """Return the statistics of an empty table."""
    sizes = [
        each.statistic.groups * each.statistic.candidates
        if isinstance(each.statistic, SelectionStatistic)
        else each.statistic.cells
        for each in question.derivation.draws
    ]
    return [[Fraction(0)] * size for size in sizes]


def run(question: Asked, statistics: Sequence[Exact], bits: RandomBits) -> Result:
    return run_question(question.checked, question.derivation, statistics, bits, question.stop)


def answer(question: Asked, statistics: Sequence[Exact], bits: RandomBits) -> NoisyAnswer:
    result = run(question, statistics, bits)
    return answer_of(question.granted, result, zone_rules="tzdata 2026.6")
