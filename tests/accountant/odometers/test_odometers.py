"""Odometers read outward, and infinity where they promise nothing."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import mpmath
import msgspec
import pytest

from accountant import claims as c
from accountant.amounts import INFINITE, UNIT, Units
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.errors import RequestInvalid
from accountant.odometers import AnyOdometer, Odometer, Reader, sums_of
from accountant.odometers.advanced_2016 import Advanced2016
from accountant.odometers.advanced_2016_n import Advanced2016N
from accountant.odometers.basic import Basic
from accountant.odometers.combined import Combined
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from tests.accountant import exact
from tests.accountant.odometers import formulas
from tests.accountant.world import code, opened
from tests.every_case import check_each, check_rows

D, P = "1e-6", "0.01"
ALL: list[Odometer] = [
    Basic(),
    Advanced2016(D, P),
    Advanced2016N(D, 1000),
    Linear(D, P),
    Mixture(D, P),
    OneSidedMixture(D, P),
    OneSidedMixtureExact(D, P),
    Stitched(D, P),
    Combined((Linear(D, P), Advanced2016(D, P))),
]
LOSS = (
    "loss_time",
    "loss_epsilon",
    "loss_epsilon_squared",
    "loss_kl_mean",
    "loss_delta",
    "loss_shift",
)


def read(odometer: Odometer, claims: list[c.Claim], *, delta_for_claims: int = UNIT) -> float:
    sums = ("rho", *LOSS)
    assert set(sums_of(odometer)) <= set(sums)
    totals: list[Units] = [0] * len(sums)
    for claim in claims:
        totals = [
            a + b for a, b in zip(totals, price(check_claim(claim), sums).amounts, strict=True)
        ]
    return Reader(odometer, sums, delta_for_claims)(tuple(totals))


def test_the_stitched_odometer_is_infinite_below_v0_and_finite_from_v0_on() -> None:
    reader = Reader(Stitched(D, P), ("loss_time",), 0)
    v0 = UNIT // 100
    assert reader((v0 - v0 // 10**12,)) == math.inf
    assert reader((v0,)) < math.inf


class TestClaimsWithoutALossBound:
    def test_an_approximate_zcdp_claim_makes_the_reading_infinite(self) -> None:
        def check_case(odometer: Odometer) -> None:
            assert read(odometer, [c.ApproximateZcdp("0.01", "1e-9")]) == math.inf

        check_each(check_case, ALL)

    def test_a_claim_of_epsilon_0_with_a_delta_makes_the_reading_infinite(self) -> None:
        def check_case(odometer: Odometer) -> None:
            assert read(odometer, [c.Approximate("0", "1e-9")]) == math.inf
            assert read(odometer, [c.Probabilistic("0", "1e-9")]) == math.inf

        check_each(check_case, ALL)

    def test_a_delta_too_large_for_its_epsilon_makes_the_reading_infinite(self) -> None:
        def check_case(odometer: Odometer) -> None:
            assert read(odometer, [c.Approximate("0.01", "0.1")]) == math.inf

        check_each(check_case, ALL)

    def test_infinity_stays(self) -> None:
        def check_case(odometer: Odometer) -> None:
            claims = [c.ApproximateZcdp("0.01", "1e-9"), *[c.Pure("0.1")] * 3]
            assert read(odometer, claims) == math.inf

        check_each(check_case, ALL)

    def test_a_total_beyond_delta_for_claims_makes_the_reading_infinite(self) -> None:
        def check_case(odometer: Odometer) -> None:
            claim = [c.Probabilistic("0.3", "1e-9")]
            at = UNIT // 10**9
            assert read(odometer, claim, delta_for_claims=at) < math.inf
            assert read(odometer, claim, delta_for_claims=at - 1) == math.inf
            assert read(odometer, [c.Approximate("0.3", "1e-9")], delta_for_claims=at) == math.inf

        check_each(check_case, ALL)


@pytest.mark.parametrize("odometer", [Advanced2016(D, P), Advanced2016N(D, 1000)])
class TestTheOdometersOf2016:
    def test_a_claim_without_a_bound_on_its_loss_makes_the_reading_infinite(
        self, odometer: Odometer
    ) -> None:
        for claim in (c.Gaussian("10", "1"), c.Zcdp("0.01"), c.Gdp("0.1")):
            assert read(odometer, [claim]) == math.inf

    def test_laplace_and_bounded_range_claims_count_as_pure_claims(
        self, odometer: Odometer
    ) -> None:
        # Their proofs know no rho: a Laplace claim counts as the pure one that it is.
        assert read(odometer, [c.Laplace("10", "1")]) == read(odometer, [c.Pure("0.1")])
        assert read(odometer, [c.BoundedRange("0.1")]) == read(odometer, [c.Pure("0.1")])

    def test_claims_may_spend_half_of_its_delta(self, odometer: Odometer) -> None:
        assert read(odometer, [c.Probabilistic("0.3", "5e-7")]) < math.inf
        assert read(odometer, [c.Probabilistic("0.3", "5.000001e-7")]) == math.inf

    def test_the_shift_is_added(self, odometer: Odometer) -> None:
        claims: list[c.Claim] = [c.Probabilistic("0.3", "1e-7")]
        v, mean = exact.real("0.09"), exact.real("0.15") * mpmath.expm1(exact.real("0.3"))
        due = formulas.bound(odometer, v, mean) - mpmath.log1p(-exact.real("1e-7"))
        assert due <= mpmath.mpf(read(odometer, claims)) <= due * (1 + mpmath.mpf(10) ** -9)

    def test_its_delta_is_below_1_over_e(self, odometer: Odometer) -> None:
        for delta in ("0.36788", "0.5"):
            with pytest.raises(RequestInvalid, match="must be below 1/e"):
                msgspec.structs.replace(odometer, delta=delta).boundary()


def test_n_is_at_least_4() -> None:
    for n in (3, 0, -4, 10**12 + 1):
        with pytest.raises(RequestInvalid, match="n must be between 4 and"):
            Advanced2016N(D, n).boundary()


def test_sums_beyond_every_float_are_read_outward() -> None:
    def check_case(odometer: Odometer) -> None:
        # The loss is 2,000 nats; the sum of epsilon (e^epsilon - 1)/2 is about 1e437.
        assert read(odometer, [c.Pure("1000")] * 2) >= 2000 * math.tanh(500)

    check_each(check_case, ALL)


def test_a_sum_beyond_the_largest_float_is_logged_and_audited() -> None:
    huge, gaussian = c.Pure("1000"), c.Gaussian("1", "1")
    names = ("kl_mean", "loss_kl_mean")
    for claims in ((huge, gaussian), (gaussian, huge)):
        assert price(check_claim(c.AllOf(claims)), names).amounts == (INFINITE, INFINITE)
    odometers = [{"type": "advanced_2016", "delta": D, "beta": "0.01"}]
    world = opened(filter="zcdp", rho="1000000", delta="0", odometers=odometers)
    for claim in (gaussian, huge, c.Repeat(huge, 900), gaussian):
        assert code(world.ask(msgspec.to_builtins(claim))) == "granted"
    assert world.ledger().readings == (math.inf,)
    assert world.rows() == state_rows(world.replayed())
    assert audit(world.log).ok


class TestCombined:
    def test_its_delta_is_the_sum_of_its_parts(self) -> None:
        parts = (Linear("1e-6", P), Mixture("2e-6", P), Basic(), Advanced2016("2e-6", P))
        assert Combined(parts).failure() == Decimal("4e-6")

    def test_basic_is_read_without_the_shift_of_the_others(self) -> None:
        claims: list[c.Claim] = [c.Probabilistic("1e-12", "1e-3")]
        assert read(Combined((Basic(), Mixture(D, P))), claims) == read(Basic(), claims)

    def test_a_claim_that_one_part_cannot_take_leaves_the_other(self) -> None:
        claims: list[c.Claim] = [c.Gaussian("10", "1")]
        assert read(Combined((Basic(), Mixture(D, P))), claims) == read(Mixture(D, P), claims)

    @pytest.mark.parametrize(
        ("odometer", "message"),
        [
            (Combined((Basic(),)), "odometers must hold 2 to 8 odometers"),
            (Combined((Basic(),) * 9), "odometers must hold 2 to 8 odometers"),
            (Combined((Basic(), Linear("0", P))), r"odometers\[1\].delta must be greater than 0"),
            (Combined((Linear("0.5", P), Mixture("0.5", P))), "add up to less than 1"),
        ],
    )
    def test_an_invalid_combination_of_odometers_is_refused(
        self, odometer: Combined, message: str
    ) -> None:
        with pytest.raises(RequestInvalid, match=message):
            odometer.boundary()
        with pytest.raises(RequestInvalid, match=message):
            Reader(odometer, LOSS, 0)

    def test_a_policy_may_name_a_combined_odometer(self) -> None:
        parts: list[dict[str, Any]] = [
            {"type": "linear", "delta": "5e-7", "y": P},
            {"type": "advanced_2016_n", "delta": "1e-6", "n": 1000},
        ]
        written = [*parts, {"type": "combined", "odometers": parts}]
        world = opened(epsilon="1", delta="1e-6", odometers=written)
        shown = world.ask("pure:0.1").odometers
        assert shown is not None
        assert list(shown) == ["linear", "advanced_2016_n", "combined"]
        assert shown["combined"] == min(shown["linear"], shown["advanced_2016_n"], key=float)

    def test_a_combined_odometer_with_a_combined_part_is_refused(self) -> None:
        nested = {"type": "combined", "odometers": [{"type": "combined", "odometers": []}]}
        with pytest.raises(msgspec.ValidationError, match="Invalid value 'combined'"):
            msgspec.convert(nested, AnyOdometer)


class TestExPostClaims:
    """What a filter lets pay apart from the others is added to a reading, not to V."""

    CLAIMS = (c.Pure("0.3"), c.ExPost("0.5"), c.Laplace("10", "1"), c.ExPost("0.25", "1e-9"))

    def read(self, odometer: Odometer, *, apart: bool, limit: int = UNIT) -> float:
        sums = sums_of(odometer, with_ex_post=apart)
        totals: list[Units] = [0] * len(sums)
        for claim in self.CLAIMS:
            amounts = price(check_claim(claim), sums).amounts
            totals = [a + b for a, b in zip(totals, amounts, strict=True)]
        return Reader(odometer, sums, limit)(tuple(totals))

    def test_their_bounds_are_added_up(self) -> None:
        def check_case(odometer: Odometer) -> None:
            ours = self.read(odometer, apart=True)
            others: list[c.Claim] = [c.Pure("0.3"), c.Laplace("10", "1")]
            assert ours == pytest.approx(read(odometer, others) + 0.75, rel=1e-12)

        check_each(check_case, ALL)

    def test_their_deltas_count(self) -> None:
        def check_case(odometer: Odometer) -> None:
            billionth = UNIT // 10**9
            assert self.read(odometer, apart=True, limit=billionth) < math.inf
            assert self.read(odometer, apart=True, limit=billionth - 1) == math.inf
            # Bounded on both sides the loss fails to be with a little more.
            assert self.read(odometer, apart=False, limit=billionth) == math.inf
            assert self.read(odometer, apart=False, limit=2 * billionth) < math.inf

        check_each(check_case, ALL)

    def test_the_loss_is_bounded_on_both_sides_but_for_both_tails(self) -> None:
        sums = ("loss_delta", "loss_shift", "delta", "apart_loss_delta", "loss_ex_post_delta")
        both, shift, delta, others, own = price(check_claim(c.ExPost("0.25", "1e-3")), sums).amounts
        due = exact.real("1e-3") * (1 + mpmath.exp(-exact.real("0.25")))
        assert due <= exact.units(both) <= due * (1 + mpmath.mpf(10) ** -18)
        assert -mpmath.log1p(-due) <= exact.units(shift)
        assert (delta, others, own) == (UNIT // 1000, 0, UNIT // 1000)

    def test_an_ex_post_claim_without_separate_payment_counts_as_pure(self) -> None:
        (pure,) = price(check_claim(c.Pure("0.5")), ("loss_time",)).amounts
        assert price(check_claim(c.ExPost("0.5")), ("loss_time",)).amounts == (pure,)
        assert price(check_claim(c.ExPost("0.5")), ("apart_loss_time",)).amounts == (0,)
        assert price(check_claim(c.Pure("0.5")), ("apart_loss_time",)).amounts == (pure,)

    def test_a_split_policy_shows_them_apart(self) -> None:
        written = [{"type": "mixture", "delta": D, "r": P}]
        policy = {"filter": "split", "epsilon": "1", "delta": "1e-6", "epsilon_ex_post": "1"}
        world = opened(**policy, odometers=written)
        before = world.ask("pure:0.1").odometers
        shown = world.ask("ex_post:0.5").odometers
        assert before is not None
        assert shown is not None
        assert float(shown["mixture"]) == pytest.approx(float(before["mixture"]) + 0.5, rel=1e-9)


def test_a_log_with_every_odometer_is_decided_again_alike() -> None:
    written = [msgspec.to_builtins(odometer) for odometer in ALL if type(odometer) is not Linear]
    world = opened(
        filter="fully_adaptive",
        epsilon="2",
        delta="2e-6",
        delta_for_claims="1e-6",
        odometers=written,
    )
    claims = ("pure:0.1", "laplace:10,1", "probabilistic:0.1,1e-9", "pure:9", "gaussian:10,1")
    shown = [world.ask(claim).odometers for claim in claims]
    assert [reading is not None for reading in shown] == [True] * 5
    last = shown[-1]
    assert last is not None
    assert len(last) == 8
    # A Gaussian has no epsilon; the two of 2016 and basic have no bound from then on.
    infinite = {name for name, reading in last.items() if reading == "inf"}
    assert infinite == {"basic", "advanced_2016", "advanced_2016_n"}
    report = audit(world.log)
    assert report.ok, report.first_disagreement


def test_basic_needs_an_epsilon() -> None:
    assert read(Basic(), [c.Pure("0.1"), c.Laplace("10", "1")]) == pytest.approx(0.2, rel=1e-12)
    for claim in (c.Gaussian("10", "1"), c.Zcdp("0.01"), c.Gdp("0.1")):
        assert read(Basic(), [claim]) == math.inf


TIMES: list[tuple[c.Claim, Any]] = [
    (c.Pure("0.3"), 2 * exact.rho(c.Pure("0.3"))),
    (c.Gaussian("10", "1"), exact.real("0.01")),
    (c.Zcdp("0.01"), exact.real("0.02")),
    (c.BoundedRange("0.2"), exact.real("0.01")),
    # With a delta: epsilon squared, never 2 epsilon tanh(epsilon/2).
    (c.Probabilistic("0.3", "1e-9"), exact.real("0.09")),
    (c.RandomizedResponse("0.3", "1e-9"), exact.real("0.09")),
    (c.Approximate("0.3", "1e-9"), exact.real("0.36")),
    (c.Approximate("0.3", "0"), 2 * exact.rho(c.Pure("0.3"))),
]


def test_a_claim_adds_its_exact_intrinsic_time_rounded_up() -> None:
    def check_case(claim: c.Claim, time: Any) -> None:
        ours = exact.units(price(check_claim(claim), ("loss_time",)).amounts[0])
        assert time <= ours * (1 + mpmath.mpf(10) ** -70)
        assert ours <= time * (1 + mpmath.mpf(10) ** -18)

    check_rows(check_case, TIMES)


def test_a_delta_is_converted_and_shifts_the_reading() -> None:
    epsilon, delta = exact.real("0.3"), exact.real("1e-9")
    converted = 2 * delta / (1 - mpmath.exp(-epsilon))
    amounts = price(check_claim(c.Approximate("0.3", "1e-9")), LOSS).amounts
    loss_epsilon, squared, mean, loss_delta, loss_shift = map(exact.units, amounts[1:])
    assert loss_epsilon == exact.real("0.6")
    assert squared == exact.real("0.36")
    due = exact.real("0.3") * mpmath.expm1(exact.real("0.6"))
    assert due <= mean <= due * (1 + mpmath.mpf(10) ** -18)
    assert converted <= loss_delta <= converted * (1 + mpmath.mpf(10) ** -18)
    shift = -mpmath.log1p(-converted)
    assert shift <= loss_shift <= shift * (1 + mpmath.mpf(10) ** -17)
    claim = [c.Probabilistic("0.3", "1e-3")] * 5
    bare = formulas.bound(Mixture(D, P), 5 * exact.real("0.09"), 0)
    due = bare - 5 * mpmath.log1p(-exact.real("1e-3"))
    assert due <= mpmath.mpf(read(Mixture(D, P), claim)) <= due * (1 + mpmath.mpf(10) ** -9)
    # Basic adds epsilons and no shift.
    assert read(Basic(), claim) == pytest.approx(1.5, rel=1e-12)


def test_a_decision_shows_every_reading_rounded_up_to_10_digits() -> None:
    written = [{"type": "basic"}, {"type": "mixture", "delta": D, "r": P}]
    world = opened(epsilon="1", delta="1e-6", odometers=written)
    shown = world.ask("pure:0.1").odometers
    assert shown is not None
    assert list(shown) == ["basic", "mixture"]
    due = formulas.bound(Mixture(D, P), 2 * exact.rho(c.Pure("0.1")), 0)
    assert due <= mpmath.mpf(shown["mixture"]) <= due * (1 + mpmath.mpf(10) ** -8)
    shown = world.ask("zcdp:0.001").odometers
    assert shown is not None
    assert shown["basic"] == "inf"
