"""The claims of events, compared with dp-accounting's own sums, and events without a claim."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, MixtureOfGaussiansDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from accountant.claims import (
    AllOf,
    Gaussian,
    Laplace,
    Pure,
    Repeat,
    SubsampledGaussian,
    Zcdp,
    atoms,
)
from accountant.claims.promises import promise
from accountant.errors import RequestInvalid
from streams.client import Accountant
from streams.engines.dp_accounting import event_claim
from tests.every_case import every_case
from tests.streams.engines.laws import covers, discrete_laplace

ORDERS = [2, 3, 5, 8, 16, 32, 64]


CLAIMED = {
    "ComposedDpEvent",
    "DiscreteLaplaceDpEvent",
    "GaussianDpEvent",
    "LaplaceDpEvent",
    "NoOpDpEvent",
    "PoissonSampledDpEvent",
    "SelfComposedDpEvent",
    "ZCDpEvent",
}
REFUSED = {
    "DpEvent",
    "MixtureOfGaussiansDpEvent",
    "NonPrivateDpEvent",
    "RandomizedResponseDpEvent",
    "RepeatAndSelectDpEvent",
    "SampledWithReplacementDpEvent",
    "SampledWithoutReplacementDpEvent",
    "SingleEpochTreeAggregationDpEvent",
    "TruncatedSubsampledGaussianDpEvent",
    "UnsupportedDpEvent",
}


def test_every_event_of_the_installed_version_is_claimed_or_refused():
    found = {
        name
        for name, value in vars(dp_event).items()
        if isinstance(value, type) and issubclass(value, dpa.DpEvent)
    }
    assert found - CLAIMED - REFUSED == set()


def claim_of(event):
    made = event_claim(event, unit="person")
    assert (made.unit, made.neighbours) == ("person", "add_remove")
    return made.claim


def training(noise=1.1, rate=0.01, steps=1000):
    sample = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(noise))
    return dpa.SelfComposedDpEvent(sample, steps)


@every_case(
    "event",
    [
        dpa.GaussianDpEvent(1.1),
        dpa.GaussianDpEvent(0.3),
        dpa.LaplaceDpEvent(2.0),
        dpa.ZCDpEvent(0.125),
        dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.1)),
        dpa.PoissonSampledDpEvent(0.5, dpa.GaussianDpEvent(0.7)),
        dpa.PoissonSampledDpEvent(1.0, dpa.GaussianDpEvent(2.0)),
        training(),
        training(noise=4.0, rate=0.2, steps=17),
        dpa.ComposedDpEvent([training(steps=3), dpa.GaussianDpEvent(2.0), dpa.LaplaceDpEvent(4.0)]),
    ],
)
def test_its_renyi_curve_is_that_of_the_engine(event):
    engine = RdpAccountant(ORDERS).compose(event)
    ours = [
        float(
            sum(n * Fraction(promise(atom).renyi(Decimal(a))) for atom, n in atoms(claim_of(event)))
        )
        for a in ORDERS
    ]
    # Ours is rounded up, theirs to the nearest.
    for order, mine, theirs in zip(ORDERS, ours, engine._rdp, strict=True):
        assert theirs * (1 - 1e-9) <= mine <= theirs * (1 + 1e-6), order


@every_case(("parameter", "sensitivity"), [(0.1, 1), (0.25, 3)])
def test_discrete_laplace_is_pure(parameter, sensitivity):
    event = DiscreteLaplaceDpEvent(parameter, sensitivity)
    claim = claim_of(event)
    assert type(claim) is Pure
    assert Fraction(claim.epsilon) >= Fraction(parameter) * sensitivity
    laws = (discrete_laplace(place, 1 / parameter) for place in (0, sensitivity))
    assert covers(claim, *laws)
    engine = PLDAccountant().compose(event)
    assert float(claim.epsilon) == pytest.approx(engine.get_epsilon(0), rel=1e-3)


def test_noise_is_rounded_down_and_the_rate_up():
    claim = claim_of(training(noise=1.1, rate=0.01))
    assert isinstance(claim, Repeat)
    assert isinstance(claim.claim, SubsampledGaussian)
    assert Fraction(claim.claim.sigma) <= Fraction(1.1)
    assert Fraction(claim.claim.rate) >= Fraction(0.01)


def test_a_no_op_event_costs_nothing():
    assert claim_of(dpa.NoOpDpEvent()) == Pure("0")


def test_a_composition_of_one_is_that_one():
    assert claim_of(dpa.ComposedDpEvent([dpa.GaussianDpEvent(2.0)])) == Gaussian("2", "1")
    two = dpa.ComposedDpEvent([dpa.GaussianDpEvent(2.0), dpa.LaplaceDpEvent(4.0)])
    assert claim_of(two) == AllOf((Gaussian("2", "1"), Laplace("4", "1")))


def test_numpy_counts_are_counts():
    claim = claim_of(dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(2.0), np.int64(3)))
    assert claim == Repeat(Gaussian("2", "1"), 3)


@every_case(
    "event",
    [
        dpa.NonPrivateDpEvent(),
        dpa.UnsupportedDpEvent(),
        dpa.RandomizedResponseDpEvent(0.5, 2),
        dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(1.0), 1.0, 1.0),
        dpa.SampledWithReplacementDpEvent(100, 10, dpa.GaussianDpEvent(1.0)),
        dpa.SampledWithoutReplacementDpEvent(100, 10, dpa.GaussianDpEvent(1.0)),
        dpa.SingleEpochTreeAggregationDpEvent(1.0, 10),
        dpa.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 1.0),
        MixtureOfGaussiansDpEvent(1.0, [1.0], [1.0]),
        dpa.ZCDpEvent(0.1, xi=0.1),
        dpa.ZCDpEvent(0.1, xi=math.nan),
        dpa.PoissonSampledDpEvent(0.1, dpa.LaplaceDpEvent(1.0)),
        dpa.PoissonSampledDpEvent(0.1, dpa.NonPrivateDpEvent()),
        dpa.PoissonSampledDpEvent(0.1, dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1.0), 2)),
        dpa.PoissonSampledDpEvent(0.1, dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(1.0))),
    ],
)
@every_case("around", [lambda e: e, lambda e: dpa.ComposedDpEvent([e])])
def test_an_event_without_a_claim_is_refused(event, around):
    with pytest.raises(RequestInvalid, match="must be a Gaussian, Laplace or"):
        event_claim(around(event), unit="person")


@every_case("noise", [0.0, -1.0, math.inf, math.nan, 1e-300, "1", None, True])
@every_case("kind", [dpa.GaussianDpEvent, dpa.LaplaceDpEvent])
def test_noise_is_a_finite_number_above_0(kind, noise):
    with pytest.raises(RequestInvalid, match=r"event\.noise_multiplier must be"):
        event_claim(kind(noise), unit="person")


def test_too_little_noise_is_refused():
    with pytest.raises(RequestInvalid, match="claim"):
        event_claim(dpa.GaussianDpEvent(1e-20), unit="person")


def test_much_noise_is_claimed_as_the_largest_sigma():
    assert claim_of(dpa.GaussianDpEvent(1e300)) == Gaussian("999999999", "1")


@every_case("rate", [-0.1, 1.1, math.nan, math.inf, "0.1", True])
def test_a_rate_is_a_probability(rate):
    event = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(1.0))
    with pytest.raises(RequestInvalid, match=r"rate|sampling_probability"):
        event_claim(event, unit="person")


@every_case("rate", [0, 0.0, 1e-300])
def test_a_rate_that_is_next_to_0_is_the_least(rate):
    event = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(1.0))
    assert Fraction(claim_of(event).rate) == Fraction(1, 10**12)


@every_case("count", [0, -1, 10**7, 1.0, math.nan, True, "3"])
def test_a_count_is_a_whole_number_that_a_claim_takes(count):
    with pytest.raises(RequestInvalid, match=r"count|times"):
        event_claim(dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1.0), count), unit="person")


@every_case("rho", [-0.1, math.inf, math.nan, 1e300])
def test_a_rho_is_finite(rho):
    with pytest.raises(RequestInvalid, match="rho"):
        event_claim(dpa.ZCDpEvent(rho), unit="person")
    assert claim_of(dpa.ZCDpEvent(1e-300)) == Zcdp("0." + "0" * 24 + "1")


@every_case(("parameter", "sensitivity"), [(0.0, 1), (0.1, -1), (0.1, 1.5), (1e300, 1)])
def test_a_discrete_laplace_has_noise_and_a_sensitivity(parameter, sensitivity):
    with pytest.raises(RequestInvalid, match=r"noise_parameter|sensitivity|epsilon"):
        event_claim(DiscreteLaplaceDpEvent(parameter, sensitivity), unit="person")


def test_batches_and_nesting_have_bounds():
    with pytest.raises(RequestInvalid, match="1 to 100 claims"):
        event_claim(dpa.ComposedDpEvent([]), unit="person")
    with pytest.raises(RequestInvalid, match="1 to 100 claims"):
        event_claim(dpa.ComposedDpEvent([dpa.GaussianDpEvent(1.0)] * 101), unit="person")
    deep = dpa.GaussianDpEvent(1.0)
    for _ in range(5000):
        deep = dpa.SelfComposedDpEvent(deep, 1)
    with pytest.raises(RequestInvalid, match="nest"):
        event_claim(deep, unit="person")
    with pytest.raises(RequestInvalid, match="nest at most 3 deep"):
        event_claim(nested(4), unit="person")


def nested(depth):
    event = dpa.GaussianDpEvent(1.0)
    for _ in range(depth):
        event = dpa.SelfComposedDpEvent(event, 2)
    return event


class Gentle(dpa.GaussianDpEvent):
    """A user's own mechanism."""


class Pretends:
    __class__ = dpa.GaussianDpEvent
    noise_multiplier = 1e9


def test_a_subclass_of_an_event_is_refused():
    with pytest.raises(RequestInvalid, match="got Gentle"):
        event_claim(Gentle(1.0), unit="person")
    with pytest.raises(RequestInvalid, match="got Pretends"):
        event_claim(Pretends(), unit="person")


@every_case("value", [None, 1.1, "gaussian", (), RdpAccountant()])
def test_a_non_event_is_refused(value):
    with pytest.raises(
        TypeError, match=r"event must be a DpEvent of dp-accounting, got .* Pass an event"
    ):
        event_claim(value, unit="person")


def test_a_renyi_ledger_grants_an_event(tmp_path):
    with Accountant(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        policy = {"filter": "renyi", "epsilon": "8", "delta": "1e-6", "order": "8"}
        ledger.as_owner("owner").open("census", policy, as_given=True)
        assert ledger.ask("census", event_claim(training(), unit="person"), analyst="ana").granted
