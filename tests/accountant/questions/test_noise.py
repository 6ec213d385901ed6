"""From the noise that is wanted to scales and claims, compared with exact tails."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import mpmath
import pytest

from accountant.claims import (
    AllOf,
    BoundedRange,
    Gaussian,
    Pure,
    Repeat,
    Zcdp,
    check_claim,
)
from accountant.claims.promises import promise
from accountant.errors import RequestInvalid
from accountant.questions import Noise, derive, noise_text, parse_noise, parse_question
from accountant.questions.error_at_confidence import (
    largest_rounded_sigma,
    least_gaussian_rho,
    least_laplace_epsilon,
)
from accountant.questions.schema import NumberColumn
from tests.accountant.questions.schemas import replaced, small_schema
from tests.every_case import check_each, check_rows

ADDED = small_schema(rows=3)
REPLACED = small_schema(rows=3, neighbours="replace")
SQRT_18 = "4.2426406871192851464050661726290942357091"


def test_each_form_of_noise_has_its_claim() -> None:
    def check_case(text: str, noise: str, added: object, replaced: object) -> None:
        for schema, claim in ((ADDED, added), (REPLACED, replaced)):
            derivation = derive(parse_question(text, schema), parse_noise(noise))
            assert derivation.claim == claim
            check_claim(derivation.claim)

    check_rows(
        check_case,
        [
            ("count", "epsilon: 0.5", Pure("0.5"), Pure("0.5")),
            ("count", "rho: 0.01", Zcdp("0.01"), Zcdp("0.01")),
            ("count", "sigma: 20", Gaussian("20", "3"), Gaussian("20", "3")),
            ("count", "sigma: 2, discrete_gaussian", Zcdp("1.125"), Zcdp("1.125")),
            ("count by c", "sigma: 20", Gaussian("20", "3"), Gaussian("20", SQRT_18)),
            ("sum(x)", "sigma: 20", Gaussian("20", "9"), Gaussian("20", "15")),
            ("count", "sigma: 3, discrete_gaussian", Zcdp("0.5"), Zcdp("0.5")),
            ("mean(x)", "epsilon: 0.5", *[AllOf((Pure("0.25"), Pure("0.25")))] * 2),
            ("variance(x)", "rho: 0.3", *[AllOf((Zcdp("0.1"),) * 3)] * 2),
            ("median(x)", "epsilon: 0.5", BoundedRange("0.5"), BoundedRange("0.5")),
            ("median(x)", "rho: 0.5", BoundedRange("2"), BoundedRange("2")),
            ("top(c, 2)", "epsilon: 0.5", *[Repeat(BoundedRange("0.25"), 2)] * 2),
        ],
    )


def test_each_form_of_noise_has_its_scale() -> None:
    def check_case(text: str, noise: str, added: list[object], replaced: list[object]) -> None:
        for schema, expected in ((ADDED, added), (REPLACED, replaced)):
            draws = derive(parse_question(text, schema), parse_noise(noise)).draws
            assert [
                draw.variance if draw.scale is None else draw.scale for draw in draws
            ] == expected

    check_rows(
        check_case,
        [
            ("count", "epsilon: 0.5", [6], [6]),
            ("count by c", "epsilon: 0.5", [6], [12]),
            ("count", "rho: 0.01", [450], [450]),
            ("count by c", "rho: 0.01", [450], [900]),
            ("count", "rho: 0.5, rounded_gaussian", [9], [9]),
            ("sum(x)", "epsilon: 0.5", [18], [30]),
            ("variance(x)", "epsilon: 1.5", [6, 18, 30], [6, 30, 54]),
            ("median(x)", "epsilon: 0.5", [6], [12]),
            ("quantile(x, 0.1)", "epsilon: 0.5", [Fraction(54, 5)], [12]),
            ("top(c, 2)", "epsilon: 0.5", [12], [24]),
        ],
    )


def test_a_cost_without_a_decimal_form_is_rounded_to_the_safe_side() -> None:
    (draw,) = derive(
        parse_question("count", ADDED), parse_noise("sigma: 7, discrete_gaussian")
    ).draws
    assert isinstance(draw.claim, Zcdp)
    excess = Fraction(draw.claim.rho) - Fraction(9, 2 * 49)
    assert 0 < excess < Fraction(1, 10**40)
    shares = derive(parse_question("variance(x)", ADDED), parse_noise("epsilon: 1"))
    charged = [
        Fraction(draw.claim.epsilon) for draw in shares.draws if isinstance(draw.claim, Pure)
    ]
    assert 1 - Fraction(3, 10**40) <= sum(charged) <= 1
    for draw, epsilon in zip(shares.draws, charged, strict=True):
        assert draw.statistic.l1 / draw.scale == epsilon  # type: ignore[union-attr, operator]
    for noise in ("rho: 0.01", "rho: 0.3, rounded_gaussian"):
        question = parse_question("sum(x) by c", REPLACED)
        derivation = derive(question, parse_noise(noise))
        rho = Fraction(promise(derivation.claim).rho or 0)
        wanted = Fraction(noise.split()[1].strip(","))
        assert wanted * (1 - Fraction(1, 10**30)) <= rho <= wanted
        (draw,) = derivation.draws
        assert draw.variance is not None
        assert draw.statistic.l2_squared / (2 * draw.variance) <= rho  # type: ignore[union-attr]
    choice = derive(parse_question("median(x)", ADDED), parse_noise("rho: 0.01")).claim
    assert Fraction(promise(choice).rho or 0) <= Fraction("0.01")


def test_noise_that_a_question_cannot_have_is_refused() -> None:
    def check_case(text: str, noise: str, error: str | None) -> None:
        checked = parse_question(text, ADDED)
        if error is None:
            derive(checked, parse_noise(noise))
            return
        with pytest.raises(RequestInvalid) as raised:
            derive(checked, parse_noise(noise))
        assert error in str(raised.value)

    check_rows(
        check_case,
        [
            ("mean(x)", "sigma: 2", "noise.sigma must be left out for a quotient"),
            ("variance(x)", "error: 2 at 0.9", "noise.error must be left out for a quotient"),
            ("median(x)", "sigma: 2", "noise.sigma must be left out for a choice of candidates"),
            ("top(c, 1)", "error: 2 at 0.9", "noise.error must be left out for a choice"),
            (
                "top(c, 1)",
                "epsilon: 2, discrete_laplace",
                "noise.law must be left out for a choice",
            ),
            ("count", "epsilon: 1001", "noise.epsilon must be 0 or between"),
            ("count", "epsilon: 0", "noise.epsilon must be greater than 0"),
            (
                "mean(x)",
                "epsilon: 1e-12",
                "noise.epsilon must leave the claim of this question in its",
            ),
            ("count", "sigma: 1e-9", "noise.sigma must leave the claim"),
            ("count", "error: 0.1 at 0.999999999, rounded_gaussian", None),
            ("count", "error: 0 at 0.9", "noise.error must be greater than 0"),
            ("count", "error: 5 at 0.4", "noise.confidence must be between 0.5 and 0.999999999"),
            ("count", "error: 5 at 1", "noise.confidence must be between 0.5 and 0.999999999"),
            ("count", "error: 5 at 95%", "noise.confidence must be a plain decimal"),
            ("count", "error: 5", "noise must have the form epsilon: 0.5, rho: 0.01"),
            ("count", "epsilon 5", "noise must have the form"),
            ("count", "epsilom: 5", "noise epsilom: 5: did you mean epsilon?"),
            ("count", "epsilon: 5, gaussian", "noise.law must be discrete_laplace or"),
            ("count", "rho: 5, rounded_gausian", "did you mean rounded_gaussian?"),
            ("count", "epsilon: -1", "noise.epsilon must be a plain decimal without a sign"),
        ],
    )


@pytest.mark.parametrize(
    ("noise", "error"),
    [
        (Noise(), "noise must be one of epsilon, rho, sigma, error, got none of them"),
        (Noise(epsilon="1", rho="1"), "got epsilon, rho"),
        (Noise(error="1"), "must be given with error, and with nothing else"),
        (Noise(rho="1", confidence="0.9"), "noise.confidence must be given with error"),
    ],
)
def test_noise_has_one_form(noise: Noise, error: str) -> None:
    with pytest.raises(RequestInvalid, match=error):
        derive(parse_question("count", ADDED), noise)


@pytest.mark.parametrize(
    "text", ["epsilon: 0.5", "rho: 0.01, rounded_gaussian", "sigma: 20", "error: 50 at 0.95"]
)
def test_noise_is_read_back_from_its_text(text: str) -> None:
    assert noise_text(parse_noise(text)) == text


def laplace_tail(steps: int, t: Fraction) -> mpmath.mpf:
    """P(|K| > steps) of discrete Laplace noise, term by term."""
    a = mpmath.exp(-mpmath.mpf(t.numerator) / t.denominator)
    within = power = mpmath.mpf(1)
    for _ in range(steps):
        power *= a
        within += 2 * power
    return 1 - within * (1 - a) / (1 + a)


def discrete_gaussian_tail(steps: int, variance: Fraction) -> mpmath.mpf:
    v = mpmath.mpf(variance.numerator) / variance.denominator
    last = int(30 * mpmath.sqrt(v)) + steps + 10
    terms = [mpmath.exp(-mpmath.mpf(k * k) / (2 * v)) for k in range(last)]
    return 2 * mpmath.fsum(terms[steps + 1 :]) / (2 * mpmath.fsum(terms) - 1)


def one_cheaper(value: Decimal) -> Fraction:
    return Fraction(Context(prec=6).next_minus(value))


ERRORS = [("1", "0.5"), ("2.5", "0.9"), ("50", "0.95"), ("0.4", "0.99"), ("300", "0.999999999")]


def test_discrete_laplace_noise_keeps_an_error_and_no_cheaper_does() -> None:
    def check_case(grid: str, l1: str, error: str, confidence: str) -> None:
        e, g, d = Fraction(error), Fraction(grid), Fraction(l1)
        found = least_laplace_epsilon(error=e, confidence=Decimal(confidence), grid=g, l1=d)
        assert found is not None
        with mpmath.workdps(40):
            allowed = 1 - mpmath.mpf(confidence)
            steps = int(e // g)
            assert laplace_tail(steps, g * Fraction(found) / d) <= allowed
            assert laplace_tail(steps, g * one_cheaper(found) / d) > allowed

    check_rows(
        check_case,
        [
            (grid, l1, error, confidence)
            for grid, l1 in [("1", "1"), ("1", "6"), ("0.25", "5"), ("0.01", "0.03")]
            for error, confidence in ERRORS
        ],
    )


def test_discrete_gaussian_noise_keeps_an_error_and_no_cheaper_does() -> None:
    def check_case(grid: str, l2_squared: str, error: str, confidence: str) -> None:
        e, g, d = Fraction(error), Fraction(grid), Fraction(l2_squared)
        found = least_gaussian_rho(error=e, confidence=Decimal(confidence), grid=g, l2_squared=d)
        assert found is not None
        with mpmath.workdps(40):
            allowed = 1 - mpmath.mpf(confidence)
            steps = int(e // g)
            variance = d / (2 * Fraction(found) * g**2)
            assert discrete_gaussian_tail(steps, variance) <= allowed
            cheaper = d / (2 * one_cheaper(found) * g**2)
            if variance <= 10_000:
                assert discrete_gaussian_tail(steps, cheaper) > allowed
            else:  # a bound, which costs 1.5 % more at most
                assert discrete_gaussian_tail(steps, variance * Fraction("1.015")) > allowed

    check_rows(
        check_case,
        [
            (grid, l2_squared, error, confidence)
            for grid, l2_squared in [("1", "1"), ("1", "18"), ("0.25", "5")]
            for error, confidence in [*ERRORS[:4], ("120", "0.5"), ("400", "0.95")]
        ],
    )


def test_rounded_gaussian_noise_keeps_an_error_and_no_larger_noise_does() -> None:
    def check_case(grid: str, error: str, confidence: str) -> None:
        e, g = Fraction(error), Fraction(grid)
        found = largest_rounded_sigma(error=e, confidence=Decimal(confidence), grid=g)
        assert found is not None
        with mpmath.workdps(40):
            allowed = 1 - mpmath.mpf(confidence)
            limit = (e // g + Fraction(1, 2)) * g
            larger = Context(prec=6).next_plus(found)
            tails = [
                mpmath.erfc(mpmath.mpf(x.numerator) / x.denominator / mpmath.sqrt(2))
                for x in (limit / Fraction(found), limit / Fraction(larger))
            ]
            assert tails[0] <= allowed < tails[1]

    check_rows(
        check_case,
        [
            (grid, error, confidence)
            for grid in ["1", "0.25", "0.01"]
            for error, confidence in ERRORS
        ],
    )


def test_the_bound_on_wide_discrete_gaussians_holds() -> None:
    for deviation in (Fraction(1, 3), Fraction(1), Fraction(9, 2), Fraction(101)):
        for m in (0, 1, 2, 5, int(3 * deviation)):
            tail = discrete_gaussian_tail(m, deviation**2)
            assert tail <= mpmath.erfc(m / mpmath.sqrt(2) / (float(deviation)))


@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian", "rounded_gaussian"])
def test_an_error_out_of_every_claims_range_is_refused(law: str) -> None:
    schema = small_schema(rows=1_000_000)
    with pytest.raises(RequestInvalid, match=r"noise\.error must leave the claim"):
        derive(parse_question("count", schema), parse_noise(f"error: 1e-9 at 0.999999999, {law}"))


def test_an_error_at_a_confidence_is_charged_as_its_law() -> None:
    question = parse_question("count where x > 1", small_schema(rows=1))
    derived = {
        law: derive(question, parse_noise(f"error: 50 at 0.95, {law}"))
        for law in ("discrete_laplace", "discrete_gaussian", "rounded_gaussian")
    }
    assert derived["discrete_laplace"].claim == Pure("0.0593128")
    assert derived["discrete_gaussian"].claim == Zcdp("0.000753059")
    assert derived["rounded_gaussian"].claim == Gaussian("25.7657", "1")
    assert derive(question, parse_noise("error: 50 at 0.95")) == derived["discrete_laplace"]


def test_the_most_extreme_errors_are_derived_or_refused() -> None:
    def check_case(places: int, error: str, law: str) -> None:
        columns = (NumberColumn(name="x", lower="0", upper="999999999999999", places=places),)
        schema = replaced(small_schema(rows=1_000_000), columns=columns)
        for text in ("count", "sum(x)"):
            try:
                derived = derive(
                    parse_question(text, schema), parse_noise(f"error: {error} at 0.9, {law}")
                )
            except RequestInvalid as refused:
                assert refused.field == "noise.error"  # noqa: PT017
            else:
                check_claim(derived.claim)

    check_each(
        check_case,
        [0, 12],
        ["1e-40", "0.001", "1e9"],
        ["discrete_laplace", "discrete_gaussian", "rounded_gaussian"],
    )
