"""The claims of measurements, compared with closed forms, and measurements without a claim."""

from __future__ import annotations

import math
from fractions import Fraction

import opendp.prelude as dp
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from accountant.claims import Approximate, ApproximateZcdp, Pure, Zcdp, check_claim
from accountant.errors import RequestInvalid
from accountant.records.coerce import coerce_claim
from streams.client import Accountant
from streams.engines.opendp import opendp_claim
from tests.every_case import every_case

dp.enable_features("contrib", "honest-but-curious")

RECORDS = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
TEN = dp.vector_domain(dp.atom_domain(bounds=(0, 10)), size=100)
NEXT_TO = Fraction(1, 10**12)


def laplace(scale=20.0):
    return dp.t.make_count(*RECORDS) >> dp.m.then_laplace(scale=scale)


def gaussian(scale=20.0):
    return dp.t.make_count(*RECORDS) >> dp.m.then_gaussian(scale=scale)


def user_made(measure, value, metric=RECORDS[1]):
    """A measurement with a user's own map."""
    domain = RECORDS[0]
    return dp.m.make_user_measurement(domain, metric, measure, lambda _: 0, lambda _: value)


def near(text: str, exact: Fraction) -> bool:
    return exact <= Fraction(text) <= exact * (1 + NEXT_TO)


@every_case("scale", [0.3, 6.0, 20.0, 1e5])
@every_case("d_in", [1, 2, 7])
def test_pure_is_distance_over_scale(scale, d_in):
    claim, unit, neighbours = opendp_claim(laplace(scale), unit="patient", d_in=d_in)
    assert (unit, neighbours) == ("patient", "add_remove")
    assert type(claim) is Pure
    assert near(claim.epsilon, d_in / Fraction(scale))


@every_case("scale", [0.3, 6.0, 20.0, 1e5])
def test_zcdp_is_half_the_squared_ratio(scale):
    claim = opendp_claim(gaussian(scale), unit="patient", d_in=3).claim
    assert type(claim) is Zcdp
    assert near(claim.rho, 9 / (2 * Fraction(scale) ** 2))


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """The exact epsilon of a Gaussian (Balle and Wang 2018, Thm 5)."""

    def excess(epsilon: float) -> float:
        a, b = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
        return norm.cdf(a) - math.exp(epsilon) * norm.cdf(b) - delta

    return brentq(excess, 1e-9, 10)


@every_case("delta", ["1e-6", 1e-6, "0.001"])
def test_a_curve_is_read_at_a_delta(delta):
    curve = dp.c.make_zCDP_to_approxDP(gaussian())
    claim = opendp_claim(curve, unit="patient", delta=delta).claim
    assert type(claim) is Approximate
    # The discrete Gaussian of this width is as good as the continuous one; zCDP gives some away.
    rho = 1 / (2 * 20.0**2)
    worst = rho + 2 * math.sqrt(rho * math.log(1 / float(delta)))
    assert gaussian_epsilon(20.0, float(delta)) <= float(claim.epsilon) <= worst
    assert float(claim.delta) == float(delta)


def test_epsilon_is_read_at_no_greater_delta_than_is_claimed():
    # The float of 0.3 is below it, that of 0.1 above.
    for text in ("0.3", "0.1", "1e-6"):
        curve = dp.c.make_zCDP_to_approxDP(gaussian(0.5))
        claim = opendp_claim(curve, unit="patient", delta=text).claim
        at = float(text)
        below = at if Fraction(at) <= Fraction(text) else math.nextafter(at, 0)
        assert Fraction(claim.delta) == Fraction(text)
        assert Fraction(claim.epsilon) >= Fraction(curve.map(1).epsilon(below))


def test_a_fixed_point_of_a_privacy_curve_becomes_an_approximate_claim():
    fixed = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian()), 1e-6)
    claim = opendp_claim(fixed, unit="patient").claim
    epsilon, delta = fixed.map(1)
    assert type(claim) is Approximate
    assert near(claim.epsilon, Fraction(epsilon))
    assert near(claim.delta, Fraction(delta))


def test_with_a_delta_of_0_the_claim_has_none():
    assert type(opendp_claim(dp.c.make_approximate(laplace()), unit="patient").claim) is Pure
    assert type(opendp_claim(dp.c.make_approximate(gaussian()), unit="patient").claim) is Zcdp


def test_approximate_zcdp_keeps_its_delta():
    made = user_made(dp.approximate(dp.zero_concentrated_divergence()), (0.5, 1e-7))
    claim = opendp_claim(made, unit="patient").claim
    assert type(claim) is ApproximateZcdp
    assert claim.rho == "0.5"
    assert near(claim.delta, Fraction(1e-7))


@every_case("metric", [dp.change_one_distance(), dp.hamming_distance()])
def test_a_metric_of_changed_records_is_for_replaced_units(metric):
    records = dp.t.make_metric_unbounded(TEN, metric)
    if metric == dp.hamming_distance():
        records = records >> dp.t.then_unordered()
    total = records >> dp.t.then_sum() >> dp.m.then_laplace(scale=20.0)
    claim, _, neighbours = opendp_claim(total, unit="patient")
    assert neighbours == "replace"
    assert claim.epsilon == "0.5"  # one value moves by 10 at most
    with pytest.raises(RequestInvalid, match="neighbours must be replace"):
        opendp_claim(total, unit="patient", neighbours="add_remove")


def test_inserted_and_deleted_records_are_added_and_removed():
    domain = dp.vector_domain(dp.atom_domain(T=int))
    count = dp.t.make_unordered(domain, dp.insert_delete_distance()) >> dp.t.then_count()
    made = opendp_claim(count >> dp.m.then_laplace(scale=20.0), unit="patient")
    assert made.neighbours == "add_remove"
    assert near(made.claim.epsilon, Fraction(0.05))


def test_a_replaced_record_is_one_removed_and_one_added():
    made = opendp_claim(laplace(), unit="patient", d_in=2, neighbours="replace")
    assert made.neighbours == "replace"
    assert near(made.claim.epsilon, Fraction(0.1))
    for odd in (1, 3):
        with pytest.raises(RequestInvalid, match="d_in must be even"):
            opendp_claim(laplace(), unit="patient", d_in=odd, neighbours="replace")


@every_case("d_in", [0, -1])
def test_a_distance_is_at_least_1(d_in):
    with pytest.raises(RequestInvalid, match="d_in must be at least 1"):
        opendp_claim(laplace(), unit="patient", d_in=d_in)


@every_case("d_in", [1.0, 1.5, True, "1", None, math.nan])
def test_a_distance_is_a_whole_number(d_in):
    with pytest.raises(RequestInvalid, match="d_in must be a whole number"):
        opendp_claim(laplace(), unit="patient", d_in=d_in)


@every_case("d_in", [2**31, 2**40])
def test_a_distance_beyond_the_map_is_refused(d_in):
    # An older OpenDP maps any distance: the claim is then too large.
    with pytest.raises(RequestInvalid, match=r"d_in must be a distance|claim\.epsilon must be"):
        opendp_claim(laplace(), unit="patient", d_in=d_in)


def test_no_noise_has_no_claim():
    with pytest.raises(RequestInvalid, match="epsilon must be finite"):
        opendp_claim(laplace(0.0), unit="patient")


@every_case(
    ("value", "said"),
    [
        (math.inf, "finite"),
        (math.nan, "finite"),
        (-1.0, "0 or greater"),
        (1e300, "less than 1e9"),
        (1001.0, "between 1E-12 and 1E\\+3"),
    ],
)
def test_a_map_that_says_nonsense_is_refused(value, said):
    with pytest.raises(RequestInvalid, match=said):
        opendp_claim(user_made(dp.max_divergence(), value), unit="patient")


def test_the_least_map_costs_the_least_claim_and_0_costs_0():
    tiny = opendp_claim(user_made(dp.max_divergence(), 1e-300), unit="patient").claim
    assert check_claim(tiny)
    assert tiny == Pure("0.000000000001")
    nothing = opendp_claim(user_made(dp.max_divergence(), 0.0), unit="patient").claim
    assert nothing == Pure("0")
    least = opendp_claim(user_made(dp.zero_concentrated_divergence(), 1e-300), unit="patient")
    assert Fraction(least.claim.rho) == Fraction(1, 10**25)


def test_a_delta_of_1_promises_nothing():
    made = user_made(dp.approximate(dp.max_divergence()), (0.1, 1.0))
    with pytest.raises(RequestInvalid, match="delta must be less than 1"):
        opendp_claim(made, unit="patient")


def test_metrics_that_do_not_count_records_are_refused_with_what_to_do():
    numbers = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    with pytest.raises(RequestInvalid, match=r"count records.* chain the measurement to"):
        opendp_claim(dp.m.make_laplace(*numbers, scale=1.0), unit="patient")
    with pytest.raises(RequestInvalid, match="got DiscreteDistance"):
        opendp_claim(dp.m.make_randomized_response_bool(0.75), unit="patient")


def test_a_metric_or_measure_that_only_has_the_name_is_refused():
    # Both print as the real ones do.
    metric = dp.user_distance("SymmetricDistance")
    assert str(metric) == "SymmetricDistance"
    with pytest.raises(RequestInvalid, match="input_metric must count records"):
        opendp_claim(user_made(dp.max_divergence(), 0.1, metric), unit="patient")
    with pytest.raises(RequestInvalid, match="output_measure must be MaxDivergence"):
        opendp_claim(user_made(dp.user_divergence("MaxDivergence"), 0.1), unit="patient")


def test_a_measure_without_a_claim_is_refused():
    with pytest.raises(RequestInvalid, match="got RenyiDivergence"):
        opendp_claim(user_made(dp.renyi_divergence(), lambda alpha: alpha), unit="patient")


def test_delta_is_for_a_curve_and_only_for_one():
    with pytest.raises(RequestInvalid, match="delta must be left out for MaxDivergence"):
        opendp_claim(laplace(), unit="patient", delta="1e-6")
    curve = dp.c.make_zCDP_to_approxDP(gaussian())
    with pytest.raises(RequestInvalid, match="delta must be passed"):
        opendp_claim(curve, unit="patient")
    with pytest.raises(RequestInvalid, match="epsilon must be finite"):
        opendp_claim(curve, unit="patient", delta="0")
    for delta in ("1", "-0.1", "lots", math.nan, 2.0):
        with pytest.raises(RequestInvalid, match="delta"):
            opendp_claim(curve, unit="patient", delta=delta)


class Pretends:
    """Answers as a measurement does."""

    input_metric = dp.symmetric_distance()
    output_measure = dp.max_divergence()
    __class__ = dp.Measurement

    def map(self, _):
        return 0.0


class Cheap(dp.Measurement):
    """Has a map of its own."""

    _type_ = dp.Measurement._type_

    def map(self, _):
        return 0.0


CONTEXT = dp.Context.compositor(
    data=[1, 2, 3],
    privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(epsilon=1.0),
    split_evenly_over=2,
    domain=RECORDS[0],
)


def test_a_query_of_a_context_is_claimed_once_it_is_a_measurement():
    query = CONTEXT.query().count().laplace()
    with pytest.raises(TypeError, match=r"Pass query\.resolve\(\)"):
        opendp_claim(query, unit="patient")
    assert near(opendp_claim(query.resolve(), unit="patient").claim.epsilon, Fraction(1, 2))


@every_case(
    ("value", "said"),
    [
        (Pretends(), "got Pretends"),
        (Cheap(), "got Cheap"),
        (None, "got NoneType"),
        (0.05, "got float"),
        ("laplace", "measurement must be an OpenDP Measurement, got str. Pass what a constructor"),
        (dp.t.make_count(*RECORDS), "got Transformation. It adds no noise yet"),
        (dp.m.then_laplace(scale=1.0), "PartialConstructor. Chain it to a data set"),
        (
            dp.c.make_fully_adaptive_composition(*RECORDS, dp.max_divergence()),
            "got Odometer. It has no bound of its own",
        ),
    ],
)
def test_a_non_measurement_is_refused(value, said):
    with pytest.raises(TypeError, match=said):
        opendp_claim(value, unit="patient")


def test_a_measurement_in_place_of_a_claim_is_refused_with_what_takes_it():
    said = r"got a Measurement of opendp: use ledger\.measure\("
    with pytest.raises(RequestInvalid, match=said):
        coerce_claim(laplace())


def test_the_unit_has_no_default():
    with pytest.raises(TypeError, match="unit"):
        opendp_claim(laplace())


def test_a_ledger_grants_a_measurement_only_for_its_own_neighbours(ledger: Accountant):
    replaced = opendp_claim(laplace(), unit="person", d_in=2, neighbours="replace")
    added = opendp_claim(laplace(), unit="person")
    replies = [ledger.ask("census", claim, analyst="ana") for claim in (replaced, added)]
    assert [reply.granted for reply in replies] == [True, False]
    assert replies[1].reason == "unit_mismatch"


def test_the_mechanism_that_was_claimed_runs(ledger: Accountant, tmp_path):
    counted = laplace()
    claim = opendp_claim(counted, unit="person", d_in=2, neighbours="replace")
    store = tmp_path / "answers.db"
    again = {"request_id": ledger.new_request_id(), "analyst": "ana", "store": store}
    first = ledger.release("census", claim, lambda: counted([1] * 50), **again)
    assert ledger.release("census", claim, lambda: counted([1] * 50), **again) == first
    with pytest.raises(RequestInvalid, match="unit must be person, which the engine"):
        ledger.release("census", claim, lambda: counted([1]), analyst="ana", unit="row")
