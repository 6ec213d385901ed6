"""What a reservation returns, and what goes wrong where it returns more."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import mpmath
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import UNIT, Units
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.conversions.gdp import mu_of_pure
from accountant.filters import FILTERS
from accountant.filters.settlement import noise_reduction_cost, voidable_price
from accountant.fractional import PARTS, parts_of
from accountant.ledger.adjudicate import adjudicate
from accountant.policy import Policy
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records import decode_policy
from accountant.records.outcomes import Outcome
from tests.accountant import exact
from tests.accountant.filters.policies import POLICIES, opened, plan_of
from tests.accountant.returned import by_paying, by_showing, by_voiding
from tests.every_case import check_each
from tests.nightly import examples

EVERY_ODOMETER = (
    {"type": "basic"},
    {"type": "mixture", "delta": "1e-6", "r": "0.01"},
)
SESSION = c.Brownian("400", "1", "2500")
SHOWN = c.ExPost("0.25", "1e-8")
RESIDUE = POLICIES["gdp_residue"]


def charge_of(policy: Policy, claim: c.Claim) -> tuple[CompiledPolicy, tuple[Units, ...]]:
    """Return the plan and what its totals grow by when a claim is granted."""
    ledger = opened(policy)
    ledger, verdict = adjudicate(ledger, check_claim(claim), "person", "add_remove", 1)
    assert verdict.outcome is Outcome.GRANTED
    return ledger.plan, ledger.totals


def by_name(plan: CompiledPolicy, returned: tuple[Units, ...]) -> dict[str, Units]:
    return {n: a for n, a in zip(plan.sums, returned, strict=True) if a}


class TestExPost:
    @pytest.mark.parametrize(
        ("name", "sums"),
        [
            ("basic", {"epsilon"}),
            ("ex_post", {"ex_post_only"}),
            ("split", {"ex_post_epsilon", "loss_ex_post"}),
        ],
    )
    def test_filters_with_settlement_return_the_unpaid_part(
        self, name: str, sums: set[str]
    ) -> None:
        plan, _ = charge_of(POLICIES[name], SHOWN)
        settled = by_paying(plan, SHOWN, Decimal("0.1"))
        assert by_name(plan, settled) == dict.fromkeys(sums, 15 * UNIT // 100)

    def test_filters_without_settlement_return_nothing(self) -> None:
        def check_case(name: str) -> None:
            plan = plan_of(POLICIES[name])
            settled = by_paying(plan, SHOWN, Decimal("0.1"))
            assert by_name(plan, settled) == {}

        check_each(check_case, sorted(set(FILTERS) - {"basic", "ex_post", "split"}))

    def test_odometers_get_the_unpaid_epsilon_back_but_no_delta(self) -> None:
        wire = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "odometers": EVERY_ODOMETER}
        policy = decode_policy(msgspec.json.encode(wire))
        plan, totals = charge_of(policy, SHOWN)
        settled = by_paying(plan, SHOWN, Fraction(1, 10))
        assert set(by_name(plan, settled)) == {"epsilon", "loss_epsilon", "loss_ex_post"}
        after = tuple(a - b for a, b in zip(totals, settled, strict=True))
        basic, mixture = plan.readings(after)
        assert basic == pytest.approx(0.1, rel=1e-12)
        before = plan.readings(totals)[1]
        assert mixture == pytest.approx(before - 0.15, rel=1e-12)
        # Of the deltas nothing comes back.
        assert after[plan.sums.index("delta")] == UNIT // 10**8

    @settings(max_examples=examples(100))
    @given(st.fractions(0, Fraction("0.25")))
    def test_a_settled_claim_stays_charged_its_payment_rounded_up(self, paid: Fraction) -> None:
        plan, totals = charge_of(POLICIES["ex_post"], SHOWN)
        returned = by_paying(plan, SHOWN, paid)[0]
        kept = Fraction(parts_of(int(totals[0]) - returned), PARTS)
        assert paid <= kept / UNIT <= paid * (1 + Fraction(1, 10**12)) + Fraction(1, UNIT)

    def test_noise_reduction_pays_for_the_last_scale_shown(self) -> None:
        assert noise_reduction_cost(sensitivity=Fraction(2), scale=Fraction(16)) == Fraction(1, 8)


class TestBrownian:
    @pytest.mark.parametrize("name", ["zcdp", "zcdp_tight", "unified_brownian", "split"])
    def test_a_session_returns_the_rho_of_the_answers_it_did_not_show(self, name: str) -> None:
        plan, totals = charge_of(POLICIES[name], SESSION)
        settled = by_showing(plan, SESSION, "1000")
        assert settled[0] == (Fraction(1, 800) - Fraction(1, 2000)) * UNIT
        kept = Fraction(int(totals[0]) - int(settled[0]), UNIT)
        assert kept == Fraction(1, 2000) - Fraction(1, 5000)

    def test_fully_adaptive_returns_twice_that(self) -> None:
        plan = plan_of(POLICIES["fully_adaptive"])
        settled = by_showing(plan, SESSION, "1000")
        assert settled[0] == (Fraction(1, 400) - Fraction(1, 1000)) * UNIT

    def test_gdp_residue_returns_mu_squared(self) -> None:
        plan, totals = charge_of(RESIDUE, SESSION)
        settled = by_showing(plan, SESSION, "1000")
        assert by_name(plan, settled)["mu_squared"] == (Fraction(1, 400) - Fraction(1, 1000)) * UNIT
        kept = Fraction(int(totals[0]) - int(settled[0]), UNIT)
        assert kept == Fraction(1, 1000) - Fraction(1, 2500)

    def test_a_session_stopped_just_after_its_start_pays_only_the_difference(self) -> None:
        plan, totals = charge_of(POLICIES["zcdp_tight"], SESSION)
        shown = "2499.999999999999999999999999999999"
        settled = by_showing(plan, SESSION, shown)
        due = (1 / Fraction(shown) - Fraction(1, 2500)) / 2
        kept = Fraction(int(totals[0]) - int(settled[0]), UNIT)
        assert due <= kept < due + Fraction(1, UNIT)

    def test_to_the_end_nothing_comes_back(self) -> None:
        plan = plan_of(POLICIES["zcdp_tight"])
        settled = by_showing(plan, SESSION, "400")
        assert by_name(plan, settled) == {}

    def test_an_answer_hardly_coarser_than_the_last_raises_no_total(self) -> None:
        """The maximum is charged exactly; what was shown has more digits, and is rounded up."""

        def check_case(name: str) -> None:
            shown = "99.0000000000000000000000001"
            settled = by_showing(plan_of(POLICIES[name]), c.Brownian("99", "1"), shown)
            assert min(settled) >= 0

        check_each(check_case, sorted(POLICIES))

    def test_consecutive_sessions_cost_as_much_as_one_whole_session(self) -> None:
        """From nothing to 2500, reserved to 400 and stopped at 1000, on to 400."""
        plan, first = charge_of(POLICIES["zcdp"], c.Brownian("2500", "1"))
        _, second = charge_of(POLICIES["zcdp"], SESSION)
        back = by_showing(plan, SESSION, "1000")
        _, third = charge_of(POLICIES["zcdp"], c.Brownian("400", "1", "1000"))
        total = int(first[0]) + int(second[0]) - int(back[0]) + int(third[0])
        assert total == Fraction(1, 800) * UNIT


class TestVoiding:
    def test_voiding_a_claim_before_it_began_returns_its_whole_charge(self) -> None:
        def check_case(name: str) -> None:
            claim = c.ExPost("0.01") if name == "ex_post" else c.Pure("0.01")
            plan, totals = charge_of(POLICIES[name], claim)
            voided = by_voiding(plan, check_claim(claim), totals)
            assert voided == totals
            assert voidable_price(plan.kind, plan.priced, check_claim(claim)) is price(
                check_claim(claim), plan.priced
            )

        check_each(check_case, sorted(set(FILTERS) - {"gdp_residue"}))

    def test_gdp_residue_returns_a_gaussian(self) -> None:
        plan, totals = charge_of(RESIDUE, SESSION)
        voided = by_voiding(plan, check_claim(SESSION), totals)
        assert voided == totals

    def test_gdp_residue_returns_a_cost_of_its_state_to_that_state_alone(self) -> None:
        claim = c.Pure("0.01")
        plan, totals = charge_of(RESIDUE, claim)
        voided = by_voiding(plan, check_claim(claim), totals)
        assert "mu_squared" not in by_name(plan, voided)
        same = by_voiding(plan, check_claim(claim), totals, same_state=True)
        assert same == totals

    def test_gdp_residue_returns_a_pure_claim_that_was_charged_as_a_gaussian(self) -> None:
        claim = check_claim(c.Pure("0.01"))
        plan = plan_of(RESIDUE)
        asked = voidable_price(plan.kind, plan.priced, claim)
        nothing = (0,) * plan.width
        spent = plan.kind.charge(plan.capacity, nothing, asked)
        assert spent is not None
        mu = mu_of_pure(Fraction(1, 100))
        assert 0 <= Fraction(int(spent[0]), UNIT) - Fraction(mu) ** 2 <= Fraction(1, 10**20)
        at_cost = plan.kind.charge(plan.capacity, nothing, price(claim, plan.priced))
        assert at_cost is not None
        assert at_cost[0] < spent[0]
        charged = spent + asked.amounts[plan.needed :]
        voided = by_voiding(plan, claim, charged)
        assert voided == charged


def hockey_stick_of_settling_by_outcome() -> mpmath.mpf:
    """Outcome a with P = .01, L = -3, or b, each settled at its own epsilon tanh(epsilon/2).

    Asked again and again while its maximum fits what is left of (20.55, 1e-6).
    """
    capacity = exact.units(plan_of(Policy(epsilon="20.55", delta="1e-6")).capacity[0])
    rare = mpmath.mpf("0.01")
    loss = mpmath.log((1 - rare) / (1 - rare * mpmath.exp(3)))
    maximum, minimum = (x * mpmath.tanh(x / 2) for x in (mpmath.mpf(3), loss))
    found = mpmath.mpf(0)
    going = {0: mpmath.mpf(1)}  # by how often a came
    for played in range(400):
        further: defaultdict[int, mpmath.mpf] = defaultdict(mpmath.mpf)
        for a, probability in going.items():
            b = played - a
            if a * maximum + b * minimum + maximum <= capacity:
                further[a + 1] += probability * rare
                further[a] += probability * (1 - rare)
            else:
                over = 1 - mpmath.exp(mpmath.mpf("20.55") - (b * loss - 3 * a))
                found += probability * max(over, 0)
        going = dict(further)
    assert not going
    return found


def test_settling_rho_by_outcome_would_give_away_a_fifth() -> None:
    assert hockey_stick_of_settling_by_outcome() == pytest.approx(0.21, abs=0.005)


def normal_hockey_stick(mu: mpmath.mpf, x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.ncdf(mu / 2 - x / mu) - mpmath.exp(x) * mpmath.ncdf(-mu / 2 - x / mu)


def randomized_hockey_stick(epsilon: mpmath.mpf, x: mpmath.mpf) -> mpmath.mpf:
    p = 1 / (1 + mpmath.exp(-epsilon))
    return max(p - mpmath.exp(x) * (1 - p), 0) + max(1 - p - mpmath.exp(x) * p, 0)


@pytest.mark.slow
@pytest.mark.parametrize("returned", ["residue cost", "mu squared"])
def test_returning_the_residue_cost_would_cost_1_08_delta(returned: str) -> None:
    """Reserve a pure mechanism; a Gaussian takes all the rest; void or run by what it showed.

    What was charged out of a full state and comes back to an empty one is a Gaussian there,
    and its hockey-stick is above randomized response's at some of the Gaussian's outcomes.
    """
    epsilon = "0.0756"
    plan = plan_of(Policy(filter="gdp_residue", epsilon="1", delta="1e-6"))
    claim = check_claim(c.Pure(epsilon))
    by_state = returned == "residue cost"
    asked = price(claim, plan.priced) if by_state else voidable_price(plan.kind, plan.priced, claim)
    spent = plan.kind.charge(plan.capacity, (0, 0), asked)
    assert spent is not None
    with mpmath.workdps(25):
        back = mpmath.sqrt(exact.units(spent[0]))
        rest = mpmath.sqrt(exact.units(plan.capacity[0]) - back**2)

        def best(y: mpmath.mpf) -> mpmath.mpf:
            x = 1 - y
            run = randomized_hockey_stick(mpmath.mpf(epsilon), x)
            return mpmath.npdf(y, rest**2 / 2, rest) * max(run, normal_hockey_stick(back, x))

        edges = [mpmath.mpf(k) / 50 for k in range(25, 76)]
        spent_delta = mpmath.quad(best, [mpmath.mpf("0.2"), *edges, mpmath.mpf("1.8"), 3])
    if by_state:
        assert spent_delta / mpmath.mpf("1e-6") == pytest.approx(1.081, abs=0.002)
    else:
        assert spent_delta <= mpmath.mpf("1e-6")


def test_a_payment_rounded_up_above_the_reservation_returns_nothing() -> None:
    # The reservation lies on the grid; what was paid lies below it, and 20 digits of it above.
    maximum = "0.1000000000000000000000000000000000000001"
    plan = plan_of(Policy(filter="basic", epsilon=maximum))
    paid = Fraction(1, 10) + Fraction(1, 101 * 10**40)
    settled = by_paying(plan, c.ExPost(maximum), paid)
    assert set(settled) == {0}
