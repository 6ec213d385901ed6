"""The residue filter against states of 60 digits, kept by mpmath from docs/theory.md P6."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest

from accountant import claims as c
from accountant.amounts import INFINITE, UNIT, Units, cost_up, units_down
from accountant.claims.price import Price
from accountant.errors import RequestInvalid
from tests.accountant.conversions import gaussian
from tests.accountant.conversions.gaussian import real
from tests.accountant.filters.residue import KIND, capacity, price_of
from tests.every_case import check_rows

CLOSE = mpmath.mpf(10) ** -12


def one_by_one(limits: tuple[Units, ...], claim: c.Claim) -> tuple[int, tuple[Units, ...]]:
    one, count = price_of(claim), 0
    spent: tuple[Units, ...] = (0, 0)
    while (after := KIND.charge(limits, spent, one)) is not None:
        spent, count = after, count + 1
    return count, spent


def test_how_many_fit_1_and_a_millionth() -> None:
    def check_case(claim: c.Claim, count: int) -> None:
        limits = capacity()
        assert one_by_one(limits, claim)[0] == count
        assert KIND.count(limits, (0, 0), price_of(claim)) == count
        if count:
            assert KIND.charge(limits, (0, 0), price_of(c.Repeat(claim, count))) is not None
        assert KIND.charge(limits, (0, 0), price_of(c.Repeat(claim, count + 1))) is None

    check_rows(
        check_case,
        [
            (c.Pure("0.01"), 558),
            (c.Pure("0.1"), 4),
            (c.Laplace("100", "1"), 558),
            (c.BoundedRange("0.02"), 558),
            (c.BoundedRange("0.05"), 88),
            (c.BoundedRange("0.1"), 21),
            (c.BoundedRange("0.2"), 4),
            (c.Gdp("0.0316227766"), 56),
            (c.Gaussian("100", "3.1622776"), 56),
            (c.Brownian("1000", "1"), 56),
            (c.Pure("0.2"), 0),
        ],
    )


def test_no_fewer_fit_than_the_default_filter_admits() -> None:
    """A Gaussian of rho has mu^2 = 2 rho; zcdp_tight admits 48 of them, and 487 pure ones."""
    assert one_by_one(capacity(), c.Gdp("0.0316227766"))[0] > 48
    assert one_by_one(capacity(), c.Pure("0.01"))[0] > 487


def test_the_budget_is_the_square_of_the_largest_mu_rounded_down() -> None:
    for epsilon, own in (("1", "1e-6"), ("0.01", "1e-12"), ("10", "0.1"), ("1000", "1e-30")):
        stored = real(Fraction(int(capacity(epsilon, own)[0]), UNIT))
        with mpmath.workdps(80):
            log = mpmath.log(real(own))
            close = mpmath.mpf(10) ** -18
            within = gaussian.delta(mpmath.sqrt(stored), real(epsilon))
            beyond = gaussian.delta(mpmath.sqrt(stored * (1 + close)), real(epsilon))
            assert mpmath.log(within) <= log < mpmath.log(beyond)


@pytest.mark.parametrize(
    "claim",
    [
        c.Zcdp("1e-9"),
        c.ApproximateZcdp("1e-9", "1e-9"),
        c.AllOf((c.Pure("0.001"), c.Zcdp("1e-9"))),
        c.Repeat(c.Zcdp("1e-9"), 3),
    ],
)
def test_a_claim_that_is_neither_pure_nor_gaussian_is_not_accepted(claim: c.Claim) -> None:
    limits, one = capacity(claims="1e-6"), price_of(claim)
    assert not KIND.accepts(one)
    assert KIND.charge(limits, (0, 0), one) is None
    assert not KIND.fits(limits, (0, 0), one)
    assert KIND.count(limits, (0, 0), one) == 0


def test_a_claim_with_delta_pays_as_pure_and_its_delta() -> None:
    limits = capacity(claims="3e-7")
    plain = KIND.charge(limits, (0, 0), price_of(c.Pure("0.02")))
    with_delta = KIND.charge(limits, (0, 0), price_of(c.Approximate("0.02", "1e-7")))
    assert plain is not None
    assert with_delta == (plain[0], UNIT // 10**7)
    assert KIND.count(limits, (0, 0), price_of(c.Approximate("0.02", "1e-7"))) == 3
    assert KIND.count(limits, (0, 0), price_of(c.Approximate("0", "1e-7"))) == 3
    assert KIND.charge(capacity(), (0, 0), price_of(c.Approximate("0.02", "1e-7"))) is None
    assert not KIND.fits(capacity(), (0, 0), price_of(c.Approximate("0.02", "1e-7")))


def test_gdp_residue_without_delta_is_refused() -> None:
    with pytest.raises(RequestInvalid, match="delta"):
        capacity(own="0", claims="1e-6")


def test_a_batch_costs_as_much_as_its_mechanisms_one_by_one_in_order() -> None:
    limits = capacity()
    three = c.Repeat(c.Laplace("40", "1"), 3)
    parts = (c.Pure("0.02"), c.Gdp("0.05"), three, c.BoundedRange("0.04"), c.Pure("0"))
    spent: tuple[Units, ...] | None = (0, 0)
    for part in (*parts[:2], *[c.Laplace("40", "1")] * 3, c.BoundedRange("0.04")):
        assert spent is not None
        spent = KIND.charge(limits, spent, price_of(part))
    assert spent is not None
    assert KIND.charge(limits, (0, 0), price_of(c.AllOf(parts))) == spent
    # The pure ones are dearer once the Gaussian has run, by what P10 says.
    other = KIND.charge(limits, (0, 0), price_of(c.AllOf((parts[1], parts[0], *parts[2:]))))
    assert other is not None
    assert spent[0] < other[0]


def test_a_batch_with_a_part_that_does_not_fit_spends_nothing() -> None:
    limits = capacity()
    for parts in (
        (c.Gdp("0.2"), c.Pure("0.15")),
        (c.Pure("0.15"), c.Gdp("0.2")),
        (c.Pure("0.1"), c.Repeat(c.Pure("0.05"), 10**6)),
    ):
        assert KIND.charge(limits, (0, 0), price_of(c.AllOf(parts))) is None
        assert KIND.charge(limits, (0, 0), price_of(parts[0])) is not None


@pytest.mark.parametrize(("epsilon", "times"), [("1e-3", 50_000), ("1e-5", 10**6)])
def test_a_large_batch_costs_a_millionth_more_at_most(epsilon: str, times: int) -> None:
    """Between the cost of the first and of the last, as often as it ran (P10)."""
    limits = capacity()
    after = KIND.charge(limits, (0, 0), price_of(c.Repeat(c.Pure(epsilon), times)))
    assert after is not None
    first = KIND.charge(limits, (0, 0), price_of(c.Pure(epsilon)))
    then = KIND.charge(limits, after, price_of(c.Pure(epsilon)))
    assert first is not None
    assert then is not None
    assert times * first[0] * (1 - 1e-12) <= after[0]
    assert after[0] <= times * (then[0] - after[0]) * (1 + 2e-6)
    if epsilon == "1e-3":  # and not below its parts, one after another
        spent: tuple[Units, ...] = (0, 0)
        for _ in range(times):
            charged = KIND.charge(limits, spent, price_of(c.Pure(epsilon)))
            assert charged is not None
            spent = charged
        assert spent[0] <= after[0] <= spent[0] * (1 + 2e-6)


@pytest.mark.slow
def test_hundreds_of_thousands_of_tiny_requests_do_not_drift() -> None:
    """All of them together cost between n times the first and n times the last, exactly."""
    limits, one = capacity(), price_of(c.Pure("1e-7"))
    spent: tuple[Units, ...] = (0, 0)
    times = 200_000
    for _ in range(times):
        after = KIND.charge(limits, spent, one)
        assert after is not None
        spent = after
    with mpmath.workdps(80):
        room = mpmath.mpf(int(limits[0])) / UNIT
        total = mpmath.mpf(int(spent[0])) / UNIT
        first = gaussian.pure_cost(room, real("1e-7"))
        last = gaussian.pure_cost(room - total, real("1e-7"))
        assert first is not None
        assert last is not None
        assert times * first <= total <= times * last * (1 + CLOSE)


def test_the_count_of_a_mixed_batch_equals_the_number_of_its_charges() -> None:
    limits = capacity(claims="1e-6")
    mixed = c.AllOf((c.Pure("0.02"), c.Gdp("0.01"), c.Approximate("0.01", "1e-8")))
    count, spent = one_by_one(limits, mixed)
    assert KIND.count(limits, (0, 0), price_of(mixed)) == count > 50
    assert KIND.count(limits, spent, price_of(mixed)) == 0
    for free in (c.Pure("0"), c.AllOf((c.Pure("0"), c.Gdp("0"))), c.Gdp("0")):
        assert KIND.count(limits, spent, price_of(free)) is None
        assert KIND.charge(limits, spent, price_of(free)) == spent


def test_the_count_of_batches_with_fractions_never_exceeds_the_charges() -> None:
    """At budgets at which a batch lacks one unit: each charge finds a state rounded down."""
    ninth, small = c.Gaussian("3", "1"), c.Gaussian("7", "1")
    for batch in (c.AllOf((ninth, c.Pure("0.1"), small)), c.AllOf((small, c.Pure("0.05"), ninth))):
        for many in (2, 3):
            below, minimum = 0, UNIT
            while minimum - below > 1:
                middle = (below + minimum) // 2
                fits = one_by_one((middle, 0), batch)[0] >= many
                below, minimum = (below, middle) if fits else (middle, minimum)
            assert KIND.count((below, 0), (0, 0), price_of(batch)) == many - 1
            assert KIND.count((minimum, 0), (0, 0), price_of(batch)) == many


def test_the_count_of_large_batches_is_proved_to_fit() -> None:
    limits = capacity(claims="1e-6")
    for large in (
        c.Repeat(c.Pure("1e-4"), 50_000),
        c.AllOf((c.Repeat(c.Pure("1e-3"), 900), c.Repeat(c.Laplace("1000", "1"), 900))),
    ):
        count, _ = one_by_one(limits, large)
        found = KIND.count(limits, (0, 0), price_of(large))
        assert found is not None
        assert count - 1 <= found <= count
        assert count > 20


def test_as_many_batches_as_no_one_could_run_are_counted() -> None:
    limits = capacity()
    room = Fraction(int(limits[0]), UNIT)
    for epsilon, times in (("1e-12", 10**6), ("1e-9", 1000), ("1e-7", 2)):
        found = KIND.count(limits, (0, 0), price_of(c.Repeat(c.Pure(epsilon), times)))
        assert found is not None
        # The cost of each is epsilon^2 but for 1e-10 of it, until next to nothing is left.
        maximum = room / (times * Fraction(epsilon) ** 2)
        assert maximum * (1 - Fraction(11, 10**6)) < found < maximum


def test_batches_of_many_sizes_are_counted_nearly_exactly() -> None:
    limits = capacity()
    for batch in (
        c.AllOf(tuple(c.Pure(f"1e-{2 + k % 10}") for k in range(100))),
        c.AllOf((c.Pure("0.5"), c.Pure("1e-4"))),
        c.Repeat(c.Pure("0.003"), 3),
    ):
        count, _ = one_by_one(limits, batch)
        found = KIND.count(limits, (0, 0), price_of(batch))
        assert found is not None
        assert count - 1 <= found <= count


def test_the_remaining_amount_fits_as_one_gaussian() -> None:
    limits = capacity(claims="1e-6")
    spent = KIND.charge(limits, (0, 0), price_of(c.Approximate("0.1", "1e-7")))
    assert spent is not None
    left = KIND.remaining(limits, spent)
    whole = Price(1, (*left, INFINITE), {})
    assert KIND.charge(limits, spent, whole) == limits
    assert KIND.charge(limits, spent, Price(1, (left[0] + 1, 0, INFINITE), {})) is None
    assert KIND.progress(limits, limits) == limits[0]


@pytest.mark.parametrize("epsilon", ["1e-12", "0.01", "0.1"])
def test_a_smaller_state_or_a_larger_epsilon_never_costs_less(epsilon: str) -> None:
    limits, before = capacity(), 0
    for tenths in range(10):
        spent = int(limits[0]) * tenths // 12
        after = KIND.charge(limits, (spent, 0), price_of(c.Pure(epsilon)))
        if after is None:
            break
        cost = int(after[0]) - spent
        assert cost * (1 + 1e-12) >= before
        before = cost
        more = price_of(c.Pure(f"{Decimal(epsilon) * Decimal('1.001'):f}"))
        dearer = KIND.charge(limits, (spent, 0), more)
        assert dearer is None or dearer[0] > after[0]
    assert before


def test_a_pure_claim_costs_less_than_the_gaussian_that_dominates_it() -> None:
    """The sheet's wasteful conversion: what a reservation that may be voided would pay."""
    limits = capacity()
    for epsilon in ("1e-9", "0.01", "0.15"):
        after = KIND.charge(limits, (0, 0), price_of(c.Pure(epsilon)))
        assert after is not None
        half = real(epsilon) / 2
        with mpmath.workdps(60):
            mu = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(half))
            assert after[0] < mu**2 * UNIT < after[0] * mpmath.mpf("1.6")


def test_an_epsilon_that_is_no_decimal_is_rounded_up() -> None:
    limits = capacity()
    third = KIND.charge(limits, (0, 0), price_of(c.Laplace("30", "1")))
    assert third is not None
    exactly = gaussian.pure_cost(real(Fraction(int(limits[0]), UNIT)), real(Fraction(1, 30)))
    assert exactly is not None
    assert exactly * UNIT <= third[0] <= exactly * UNIT * (1 + CLOSE)
    assert cost_up(Fraction(1, 30)) > units_down(Fraction(1, 30))
