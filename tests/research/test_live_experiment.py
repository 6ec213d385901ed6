"""The experiment on counts, through a ledger in a file with real sessions."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from accountant.replay.audit import audit
from research.accuracy_first import MAIN_METHODS, METHODS, TRIALS, expected
from research.figures.accuracy_first import live_runs
from research.live_experiment import ExactNoise, FloatNoise, measure, run_live
from streams.embedded.ledger_file import reader
from tests.nightly import NIGHTLY, rounds

FIRST_COUNTS = rounds(8, 400)
PAPER = TRIALS["paper"]


def live(method, setting, directory, noise):
    return run_live(method, setting, PAPER.policy_of(method), directory, noise)


def same(method, setting, directory, seed):
    """Compare a live run with that of the functions; return how many counts both answer."""
    directory.mkdir()
    found = live(method, setting, directory, FloatNoise(np.random.default_rng(seed)))
    plain = method.by_functions(setting, PAPER.policy_of(method), np.random.default_rng(seed))
    assert found.answers == plain.answers
    assert len(found.paid) == len(plain.paid)
    # Both round each cost up to 1e-40, one at each answer and the other at each session.
    pairs = [*zip(found.spent, plain.spent, strict=True), *zip(found.paid, plain.paid, strict=True)]
    assert all(abs(int(a) - int(b)) <= 10_000 for a, b in pairs)
    return len(found.answers)


@pytest.mark.parametrize("name", METHODS)
def test_a_live_ledger_answers_the_same_counts_at_the_same_cost(name, tmp_path):
    setting = PAPER.setting_of(METHODS[name])
    setting = replace(setting, counts=setting.counts[:FIRST_COUNTS])
    answered = same(METHODS[name], setting, tmp_path / "run", seed=11)
    assert answered >= min(FIRST_COUNTS, 50)


@pytest.mark.parametrize("name", MAIN_METHODS)
def test_a_count_that_never_passes_ends_the_run_unless_every_count_is_asked(name, tmp_path):
    method = MAIN_METHODS[name]
    setting = replace(PAPER.setting_of(method), counts=(0, 30_000), first=Decimal(900), levels=3)
    assert same(method, setting, tmp_path / "first", seed=5) == 0
    assert same(method, replace(setting, every=True), tmp_path / "every", seed=5) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["Brownian, zcdp_tight", *(["Brownian, gdp_residue"] if NIGHTLY else [])]
)
def test_a_live_ledger_answers_as_many_counts_as_the_functions_and_their_laws(name, tmp_path):
    method, runs = METHODS[name], rounds(1, 20)
    setting = PAPER.setting_of(method)
    answered = [same(method, setting, tmp_path / str(seed), seed) for seed in range(runs)]
    law = expected("paper", method).moments
    assert abs(sum(answered) / runs - law.mean) < 4 * law.deviation / runs**0.5 + 0.04


@pytest.mark.parametrize("name", MAIN_METHODS)
def test_every_decision_of_a_live_run_is_audited(name, tmp_path):
    method = MAIN_METHODS[name]
    setting = replace(PAPER.setting_of(method), counts=(30_000, 17_838, 13_160))
    noise = ExactNoise(random.Random(3).getrandbits)
    assert len(live(method, setting, tmp_path, noise).answers) == 3
    with reader(tmp_path / "ledger.db") as db:
        log = [value for (value,) in db.execute("SELECT value FROM decisions ORDER BY sequence")]
    assert audit(log).ok
    outcomes = [value.split(b'"outcome":"')[1].split(b'"')[0] for value in log]
    reserved = outcomes.count(b"reserved")
    assert reserved == outcomes.count(b"begun") == outcomes.count(b"settled")
    assert reserved == 3 or (reserved > 3 and name.startswith("doubling"))


RUNS = rounds(1, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trial", "name"),
    [
        *(("digits", name) for name in MAIN_METHODS),
        *(
            ("every pixel", name)
            for name in (MAIN_METHODS if NIGHTLY else ["Brownian, zcdp_tight"])
        ),
    ],
)
def test_live_runs_with_exact_noise_cost_what_their_law_says(trial, name):
    """The noise is the operating system's, so a mean is off by six deviations once in 10^9."""
    done, method = [], MAIN_METHODS[name]
    measured = measure(trial, method, runs=RUNS, seed=None, report=done.append)
    assert done == list(range(1, RUNS + 1))
    law, rounding = expected(trial, method)
    # A number of counts that hardly varies is no normal number: it differs by 1, seldom.
    deviation = law.deviation if TRIALS[trial].setting.every else max(law.deviation, 0.25)
    assert abs(measured.mean - law.mean) < 6 * deviation / RUNS**0.5 + rounding


def test_the_recorded_live_runs_are_within_one_percent_of_the_exact_expectation():
    recorded = live_runs()
    methods = [(trial, name) for trial, one in TRIALS.items() for name in one.methods]
    assert [(one.trial, one.method) for one in recorded] == methods
    for one in recorded:
        assert one.tolerance <= 0.01
        assert abs(one.difference) <= one.tolerance


@pytest.mark.slow
def test_the_record_states_the_exact_expectations_of_the_laws():
    # The law of Laplace noise reduction on many counts takes nine seconds.
    dear = [("paper", "Laplace noise reduction, ex_post")]
    for one in live_runs():
        if (one.trial, one.method) in dear and not NIGHTLY:
            continue
        law = expected(one.trial, METHODS[one.method]).moments
        assert (one.expected, one.deviation) == pytest.approx((law.mean, law.deviation), rel=1e-9)
