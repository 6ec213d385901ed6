"""The experiment on counts through a ledger in a file: sessions that reserve, begin and settle.

`python -m research.live_experiment` runs it with exact noise, on the paper's counts and on those
of a real data set, and prints what the ledger charged beside the exact expectation.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import tempfile
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np

from accountant.amounts import UNIT, Units, format_units, parse_units, units_up
from accountant.claims import Brownian, Claim
from accountant.mechanisms import laplace_reduction
from accountant.mechanisms.brownian import BrownianSession
from accountant.mechanisms.doubling import DoublingSession
from accountant.mechanisms.laplace_reduction import LaplaceSession
from accountant.mechanisms.relative_error import deviation
from accountant.noise import GaussianRefinement, LaplaceReduction, RandomBits
from accountant.policy import Policy
from research.accuracy_first import (
    BROWNIAN,
    DOUBLING,
    LAPLACE,
    TRIALS,
    Measured,
    Method,
    capacity,
    expected,
)
from research.experiment import Run, Setting
from streams.client import Accountant, MechanismSession, NotGranted
from streams.settings import load_client

_DATASET: Final = "counts"

Draw = Callable[[str], Any]
"""From a variance or scale, as text, to the answer there."""


class NoiseSource(Protocol):
    """What the mechanisms draw from, once a session has begun."""

    def brownian(self, count: int) -> Draw: ...
    def doubling(self, count: int) -> Draw: ...
    def laplace_reduction(self, count: int, scales: Sequence[str]) -> Draw: ...


class ExactNoise:
    """NoiseSource of `accountant.noise`, on the integers."""

    def __init__(self, bits: RandomBits) -> None:
        self._bits = bits

    def brownian(self, count: int) -> Draw:
        return GaussianRefinement(count, self._bits).draw

    def doubling(self, count: int) -> Draw:
        return lambda variance: GaussianRefinement(count, self._bits).draw(variance)

    def laplace_reduction(self, count: int, scales: Sequence[str]) -> Draw:
        return LaplaceReduction(count, scales, self._bits).draw


class FloatNoise:
    """The same noise, in the same order, as the functions of `experiment` draw."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def brownian(self, count: int) -> Draw:
        session = BrownianSession(count, sensitivity="1", generator=self._generator)
        return lambda variance: float(session.show(variance))

    def doubling(self, count: int) -> Draw:
        session = DoublingSession(count, sensitivity="1", generator=self._generator)
        return lambda variance: float(session.show(variance))

    def laplace_reduction(self, count: int, scales: Sequence[str]) -> Draw:
        session = LaplaceSession(
            count,
            sensitivity="1",
            scales=[Fraction(scale) for scale in scales],
            generator=self._generator,
        )
        return lambda _: float(session.show())


class LiveDataset:
    """A dataset of a ledger in a file, with an analyst who runs sessions."""

    def __init__(self, client: Accountant, policy: Policy, results: Path) -> None:
        self._client = client
        self._results = results
        client.as_owner("owner").open(_DATASET, policy, as_given=True)

    def reserve(self, claim: Claim) -> MechanismSession:
        """Return a session for a `with` block, which raises `NotGranted` if it does not fit."""
        claimed = msgspec.to_builtins(claim)
        return self._client.reserve(_DATASET, claimed, until="PT1H", store=self._results)

    def spent(self) -> tuple[Units, ...]:
        """Return the filter's totals, in units of 1e-40, with what open reservations hold."""
        view = self._client.dataset(_DATASET)
        return tuple([parse_units(str(view.totals[name])) for name in view.budget])


LiveRun = Callable[[Setting, LiveDataset, NoiseSource], Run]


def brownian_live(setting: Setting, dataset: LiveDataset, noise: NoiseSource) -> Run:
    """Run the experiment with Brownian sessions, each reserved down to the finest that fits."""
    claims = [
        Brownian(variance=t, sensitivity=setting.sensitivity, first=setting.variances[0])
        for t in setting.variances
    ]
    scales = [deviation(Fraction(t)) for t in setting.variances]
    ladder = _Ladder(claims, setting.variances, scales, lambda count, _: noise.brownian(count))
    return _sessions(setting, dataset, ladder)


def laplace_reduction_live(setting: Setting, dataset: LiveDataset, noise: NoiseSource) -> Run:
    """Run the experiment with Laplace noise reduction, reserved down to the finest that fits."""
    texts = [format_units(units_up(scale)) for scale in setting.scales]
    claims = [
        msgspec.structs.replace(
            laplace_reduction.claim(sensitivity=setting.sensitivity, scale=scale),
            sensitivity=setting.sensitivity,
            first=texts[0],
            least=text,
        )
        for scale, text in zip(setting.scales, texts, strict=True)
    ]
    return _sessions(
        setting, dataset, _Ladder(claims, texts, setting.scales, noise.laplace_reduction)
    )


def doubling_live(setting: Setting, dataset: LiveDataset, noise: NoiseSource) -> Run:
    """Run the experiment with fresh noise at each step: a session a round, each in full."""
    answers, paid = [], []
    for count in setting.counts:
        draw, passed = noise.doubling(count), None
        for variance in setting.variances:
            claim = Brownian(variance=variance, sensitivity=setting.sensitivity)
            try:
                with dataset.reserve(claim) as session:
                    answer = session.run(partial(draw, variance))
            except NotGranted:
                break
            if setting.rule.passes(answer, deviation(Fraction(variance))):
                passed = answer
                break
        paid.append(dataset.spent()[0])
        if passed is not None:
            answers.append(passed)
        elif not setting.every:
            break
    return Run(tuple(answers), dataset.spent(), tuple(paid))


class _Ladder(NamedTuple):
    """The levels of a session.

    Attributes:
        claims: of sessions down to each level.
        levels: variances or scales, as `show` takes them.
        scales: what the rule compares an answer at each level with.
        open_session: from a count and levels to the function that draws an answer.
    """

    claims: Sequence[Claim]
    levels: Sequence[str]
    scales: Sequence[Fraction]
    open_session: Callable[[int, Sequence[str]], Draw]


def _sessions(setting: Setting, dataset: LiveDataset, ladder: _Ladder) -> Run:
    """Run one session a count: reserve, begin, show levels until the rule passes, settle."""
    answers, paid = [], []
    finest = len(ladder.claims) - 1
    for count in setting.counts:
        passed = None
        # A level that was refused once is never admitted again: what is left only falls.
        while finest >= 0:
            try:
                passed = _session(setting, dataset, ladder, count, finest)
                break
            except NotGranted:
                finest -= 1
        paid.append(dataset.spent()[0])
        if passed is not None:
            answers.append(passed)
        elif not setting.every:
            break
    return Run(tuple(answers), dataset.spent(), tuple(paid))


def _session(
    setting: Setting, dataset: LiveDataset, ladder: _Ladder, count: int, finest: int
) -> Any:
    """Return the answer that passes, None if none does. Raises: NotGranted: it does not fit."""
    levels = ladder.levels[: finest + 1]
    with dataset.reserve(ladder.claims[finest]) as session:
        session.run(partial(ladder.open_session, count, levels))
        for level, scale in zip(levels, ladder.scales, strict=False):
            answer = session.show(level)
            if setting.rule.passes(answer, scale):
                return answer
    return None


_LIVE: Final[dict[str, LiveRun]] = {
    BROWNIAN: brownian_live,
    DOUBLING: doubling_live,
    LAPLACE: laplace_reduction_live,
}


def run_live(
    method: Method, setting: Setting, policy: Policy, directory: Path, noise: NoiseSource
) -> Run:
    """Run the experiment through a new ledger in a directory."""
    directory = directory.resolve()
    settings = load_client(url=f"sqlite:///{directory / 'ledger.db'}", checkpoints="off")
    with Accountant(analyst="ana", settings=settings) as client:
        dataset = LiveDataset(client, policy, directory / "results.db")
        return _LIVE[method.mechanism](setting, dataset, noise)


def measure(
    trial: str, method: Method, *, runs: int, seed: int | None, report: Callable[[int], object]
) -> Measured:
    """Run a trial by one method, each run through a new ledger with exact noise.

    Args:
        seed: of reproducible noise; None takes the operating system's.
        report: called with the number of each run that is over.
    """
    one, exact = TRIALS[trial], expected(trial, method).moments
    results, shares = [], []
    for run in range(runs):
        bits: RandomBits = secrets.randbits
        if seed is not None:
            bits = random.Random(f"{seed} {trial} {method.name} {run}").getrandbits  # noqa: S311
        with tempfile.TemporaryDirectory() as directory:
            done = run_live(
                method,
                one.setting_of(method),
                one.policy_of(method),
                Path(directory),
                ExactNoise(bits),
            )
        whole = float(int(done.spent[0]) / UNIT)
        results.append(whole if one.setting.every else len(done.answers))
        # The count that ends a run is not answered.
        paid = done.paid if one.setting.every else done.paid[: len(done.answers)]
        shares.append([int(total) / UNIT / float(capacity(trial, method)) for total in paid])
        report(run + 1)
    asked = min(map(len, shares))
    return Measured(
        trial=trial,
        method=method.name,
        runs=runs,
        expected=exact.mean,
        deviation=exact.deviation,
        mean=float(np.mean(results)),
        shares=tuple(np.mean([each[:asked] for each in shares], axis=0).round(6).tolist()),
    )


def main() -> None:
    """Run each trial by each method, and print what it measured beside the exact expectation."""
    parser = argparse.ArgumentParser(prog="python -m research.live_experiment", description=__doc__)
    parser.add_argument("--only", action="append", choices=TRIALS, help="may be repeated")
    parser.add_argument(
        "--runs", type=int, help="of each; by default as many as 1 %% are four deviations of"
    )
    parser.add_argument("--seed", type=int, help="of reproducible noise")
    parser.add_argument("--out", type=Path, help="file for the record, as figures show it")
    given = parser.parse_args()
    sys.stdout.write(
        "| counts | mechanism, filter | exact | live | runs | differs | 4 deviations |\n"
    )
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    found = []
    for trial in dict.fromkeys(given.only or TRIALS):
        for name, method in TRIALS[trial].methods.items():
            runs = given.runs or max(10, expected(trial, method).moments.runs(0.01))

            def report(run: int, of: str = f"{trial}: {name}", runs: int = runs) -> None:
                sys.stderr.write(f"\r{of}: run {run} of {runs}\x1b[K" + "\n" * (run == runs))
                sys.stderr.flush()

            done = measure(trial, method, runs=runs, seed=given.seed, report=report)
            found.append(done)
            sys.stdout.write(
                f"| {trial} | {name} | {done.expected:.5g} | {done.mean:.5g} | {runs} "
                f"| {done.difference:+.2%} | {done.tolerance:.2%} |\n"
            )
            sys.stdout.flush()
    if given.out is not None:
        lines = b",\n".join(msgspec.json.encode(each) for each in found)
        given.out.write_bytes(b"[\n" + lines + b"\n]\n")


if __name__ == "__main__":
    main()
