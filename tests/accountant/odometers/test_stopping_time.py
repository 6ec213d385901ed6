"""Odometers against the adversary who stops when they look worst for the ledger.

Randomized response, round after round: the loss is a walk of +-epsilon, so the probability
that it ever stands above a boundary is computed exactly, without sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from accountant import claims as c
from accountant.amounts import UNIT
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.odometers import Odometer, Reader, sums_of
from accountant.odometers.advanced_2016 import Advanced2016
from accountant.odometers.advanced_2016_n import Advanced2016N
from accountant.odometers.combined import Combined
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from research.games.stopping_time import crossing_probability

EPSILON, DELTA, ROUNDS = 0.1, 0.05, 10_000


def crossing(boundary: Callable[[int], float]) -> float:
    """Return P(exists n <= ROUNDS: loss after n > boundary(n))."""
    return crossing_probability(EPSILON, np.array([boundary(n) for n in range(1, ROUNDS + 1)]))


V = ROUNDS * EPSILON**2
D = str(DELTA)
KNOWN = {
    "linear": (Linear(D, f"{V / 2:g}"), 0.043543),
    "mixture": (Mixture(D, f"{V / 20:g}"), 0.013458),
    "stitched": (Stitched(D, f"{EPSILON**2:.2g}"), 0.001905),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_adversary_crosses_an_odometer_as_often_as_computed_elsewhere(name: str) -> None:
    odometer, known = KNOWN[name]
    u = odometer.boundary()
    # Stitched begins at V = v0, exactly reached by the first round.
    probability = crossing(lambda n: u(n * EPSILON**2 * (1 + 1e-12)))
    assert probability == pytest.approx(known, abs=2e-6)
    assert probability < DELTA


def test_the_ledgers_own_time_and_default_odometer_stay_below_delta() -> None:
    # The ledger counts 2 rho = 2 epsilon tanh(epsilon/2) for pure claims, less than epsilon^2.
    time = int(price(check_claim(c.Pure(str(EPSILON))), ("loss_time",)).amounts[0]) / UNIT
    assert time < EPSILON**2
    u = OneSidedMixture(D, f"{V / 20:g}").boundary()
    tight, wide = (crossing(lambda n, t=t: u(n * t)) for t in (time, EPSILON**2))
    # Between the exact mixture (.029504 with this time) and the two-sided one.
    assert 0.013458 < wide < tight < 0.029504 < DELTA


def test_the_exact_one_sided_mixture_is_the_one_closest_to_its_delta() -> None:
    u = OneSidedMixtureExact(D, f"{V / 20:g}").boundary()
    tight = 2 * EPSILON * math.tanh(EPSILON / 2)
    assert crossing(lambda n: u(n * tight)) == pytest.approx(0.029504, abs=2e-6)
    assert crossing(lambda n: u(n * EPSILON**2)) == pytest.approx(0.029239, abs=2e-6)


@pytest.mark.parametrize("odometer", [Advanced2016(D, f"{V / 20:g}"), Advanced2016N(D, 1000)])
def test_the_odometers_of_2016_are_hardly_ever_crossed(odometer: Odometer) -> None:
    sums = sums_of(odometer, with_deltas=False)
    each = price(check_claim(c.Pure(str(EPSILON))), sums).amounts
    read = Reader(odometer, sums, 0)
    assert crossing(lambda n: read(tuple([n * amount for amount in each]))) < DELTA / 20


def test_combined_parts_share_one_delta() -> None:
    quarter = str(DELTA / 4)
    parts = (
        Linear(quarter, f"{V / 2:g}"),
        Linear(quarter, f"{V / 50:g}"),
        OneSidedMixtureExact(quarter, f"{V / 20:g}"),
        OneSidedMixtureExact(quarter, f"{V / 2000:g}"),
    )
    time = int(price(check_claim(c.Pure(str(EPSILON))), ("loss_time",)).amounts[0])
    read = Reader(Combined(parts), ("loss_time",), 0)
    alone = [Reader(part, ("loss_time",), 0) for part in parts]
    together = crossing(lambda n: read((n * time,)))
    assert max(crossing(lambda n, r=r: r((n * time,))) for r in alone) < together < DELTA
    # At an undivided delta each, the smallest of four is crossed too often.
    whole = [msgspec.structs.replace(part, delta=D).boundary() for part in parts]
    side_by_side = crossing(lambda n: min(u(n * time / UNIT) for u in whole))
    assert side_by_side > DELTA


def test_advanced_composition_read_as_an_odometer_is_not_valid() -> None:
    log = math.log(1 / DELTA)

    def advanced(n: int) -> float:
        v = n * EPSILON**2
        return n * EPSILON * math.tanh(EPSILON / 2) + math.sqrt(2 * v * log)

    assert crossing(advanced) == pytest.approx(0.142373, abs=2e-6)


@pytest.mark.parametrize("name", KNOWN)
def test_no_odometer_lies_below_the_filters_formula(name: str) -> None:
    # That formula holds at one time fixed in advance only.
    u = KNOWN[name][0].boundary()
    log = math.log(1 / DELTA)
    for exponent in range(-40, 41):
        v = V * 10 ** (exponent / 10)
        assert u(v) >= math.sqrt(2 * log * v) + v / 2
