"""Sessions: their claims, their levels, and what a ledger charges for each."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.amounts import is_wire
from accountant.claims import Brownian, Claim, ExPost, check_claim
from accountant.errors import RequestInvalid
from accountant.questions import (
    Draw,
    Noise,
    Schema,
    check_schema,
    derive,
    is_session,
    levels_of,
    noise_text,
    parse_noise,
    parse_question,
)
from accountant.questions.error_at_confidence import laplace_half_width, refined_half_width
from accountant.questions.schema import CategoryColumn, NumberColumn
from tests.accountant.questions.schemas import CENSUS, SOURCE, replaced, small_schema
from tests.accountant.reservations.scene import Scene
from tests.accountant.world import code
from tests.every_case import check_each, check_rows

ADDED = small_schema(rows=3)
REPLACED = small_schema(rows=3, neighbours="replace")
SQRT_18 = "4.2426406871192851464050661726290942357091"
ONE_UNIT = Fraction(1, 10**40)


def draw_of(question: str, noise: str, schema: object = ADDED) -> Draw:
    (draw,) = derive(parse_question(question, schema), parse_noise(noise)).draws  # type: ignore[arg-type]
    return draw


@pytest.mark.parametrize(
    ("question", "noise", "added", "replaced"),
    [
        (
            "count",
            "rho: 0.01, gaussian_refinement",
            *[Brownian(variance="450", sensitivity="3", first="460800")] * 2,
        ),
        (
            "count by c",
            "sigma: 20, gaussian_refinement from 100",
            Brownian(variance="400", sensitivity="3", first="6400"),
            Brownian(variance="400", sensitivity=SQRT_18, first="6400"),
        ),
        (
            "histogram(c)",
            "epsilon: 0.5, laplace_reduction",
            ExPost(epsilon="0.5", sensitivity="3", first="6144", least="6"),
            ExPost(epsilon="0.5", sensitivity="6", first="12288", least="12"),
        ),
        (
            "sum(x)",
            "epsilon: 0.5, laplace_reduction from 100",
            ExPost(epsilon="0.5", sensitivity="9", first="72", least="18"),
            ExPost(epsilon="0.5", sensitivity="15", first="60", least="30"),
        ),
        (
            "sum(x) by c",
            "sigma: 7, gaussian_refinement from 7",
            Brownian(variance="49", sensitivity="9", first="49"),
            Brownian(variance="49", sensitivity="15", first="49"),
        ),
    ],
)
def test_each_statistic_with_sessions_has_its_claim(
    question: str, noise: str, added: Claim, replaced: Claim
) -> None:
    for schema, expected in ((ADDED, added), (REPLACED, replaced)):
        draw = draw_of(question, noise, schema)
        check_claim(draw.claim)
        assert draw.claim == expected
        assert draw.law == parse_noise(noise).law


def test_claims_are_never_below_what_runs() -> None:
    def check_case(schema: object, question: str, noise: str) -> None:
        draw, wanted = draw_of(question, noise, schema), parse_noise(noise)
        statistic, last = draw.statistic, levels_of(draw)[-1]
        if isinstance(draw.claim, Brownian):
            assert draw.variance is not None
            true = statistic.l2_squared / (2 * draw.variance)  # type: ignore[union-attr]
            assert draw.claim.rho() == last.cost
        else:
            assert draw.scale is not None
            assert isinstance(draw.claim, ExPost)
            true = statistic.l1 / draw.scale  # type: ignore[union-attr]
            assert last.cost <= Fraction(draw.claim.epsilon) < last.cost + ONE_UNIT
        assert true <= last.cost <= true * (1 + Fraction(1, 10**30))
        if wanted.form in {"rho", "epsilon"}:
            assert Fraction(wanted.amount) * (1 - Fraction(1, 10**15)) <= last.cost
            assert last.cost <= Fraction(wanted.amount)
        elif wanted.form == "sigma":
            assert (
                last.noise <= Fraction(wanted.amount) ** 2 <= last.noise * (1 + Fraction(1, 10**15))
            )
        else:
            width = laplace_half_width if draw.scale else refined_half_width
            name = "scale" if draw.scale else "variance"
            kept = width(
                confidence=Decimal("0.95"),
                grid=statistic.grid,  # type: ignore[union-attr]
                **{name: last.noise},
            )
            assert 45 < kept <= Fraction("50.001")

    check_each(
        check_case,
        [ADDED, REPLACED],
        ["count", "sum(x) by c", "count by c, t"],
        [
            "rho: 0.3, gaussian_refinement",
            "sigma: 20.123456789012345678901234567890123456789, gaussian_refinement",
            "error: 50 at 0.95, gaussian_refinement from 1e4",
            "epsilon: 0.7, laplace_reduction",
            "error: 50 at 0.95, laplace_reduction from 1e4",
        ],
    )


@st.composite
def draws(pick: st.DrawFn) -> tuple[Noise, Draw]:
    """Draws of sessions over all sizes of noise and answers."""
    amount = f"{pick(st.integers(1, 99_999))}e{pick(st.integers(-24, 4))}"
    form, law = pick(
        st.sampled_from(
            [
                ("rho", "gaussian_refinement"),
                ("sigma", "gaussian_refinement"),
                ("error", "gaussian_refinement"),
                ("error", "laplace_reduction"),
                ("epsilon", "laplace_reduction"),
            ]
        )
    )
    text = f"{form}: {amount}" + (" at 0.9" if form == "error" else "") + f", {law}"
    if pick(st.booleans()):
        text += f" from {pick(st.integers(1, 99_999))}e{pick(st.integers(-15, 4))}"
    upper = pick(st.sampled_from(["1", "250000.5", "999999999999999", "0.000000000003"]))
    columns = (NumberColumn(name="x", lower="0", upper=upper, places=12),)
    schema = replaced(small_schema(rows=pick(st.sampled_from([1, 7, 1_000_000]))), columns=columns)
    noise = parse_noise(text)
    question = parse_question(pick(st.sampled_from(["count", "sum(x)"])), schema)
    return noise, derive(question, noise).draws[0]


def check_levels(draw: Draw) -> None:
    levels, claim = levels_of(draw), draw.claim
    assert 1 <= len(levels) <= 64
    assert all(larger.noise == 2 * smaller.noise for larger, smaller in pairwise(levels))
    finest = draw.variance if draw.scale is None else draw.scale
    assert (levels[0].noise, levels[-1].noise) == (draw.first, finest)
    assert isinstance(claim, Brownian | ExPost)
    least = claim.variance if isinstance(claim, Brownian) else claim.least
    assert (levels[0].text, levels[-1].text) == (claim.first, least)
    unit = Fraction(draw.unit) ** (2 if isinstance(claim, Brownian) else 1)
    sensitivity = Fraction(str(claim.sensitivity))
    for level in levels:
        assert is_wire(level.text)
        assert Fraction(level.text) * unit == level.noise
        noise = Fraction(level.text)
        gaussian = isinstance(claim, Brownian)
        assert level.cost == (sensitivity**2 / noise / 2 if gaussian else sensitivity / noise)
    check_claim(claim)


@given(st.data())
def test_levels_halve_exactly_and_have_exact_texts(data: st.DataObject) -> None:
    try:
        noise, draw = data.draw(draws())
    except RequestInvalid as refused:
        assert refused.field.startswith("noise.")  # noqa: PT017
        return
    check_levels(draw)
    if noise.first is not msgspec.UNSET:
        power = 1 if draw.scale else 2
        first = Fraction(noise.first) ** power
        assert draw.first is not None
        assert draw.first * (1 - Fraction(1, 10**8)) <= first < 2 * draw.first


@pytest.mark.parametrize(
    ("question", "noise", "unit"),
    [
        ("sum(income)", "rho: 0.01, gaussian_refinement", 10_000),
        ("sum(income)", "epsilon: 0.01, laplace_reduction", 100),
        ("sum(income) by region", "sigma: 100000, gaussian_refinement", 1_000),
        ("count", "sigma: 1000, gaussian_refinement from 10000", 1),
    ],
)
def test_large_sums_are_claimed_in_larger_units(question: str, noise: str, unit: int) -> None:
    draw = draw_of(question, noise, CENSUS)
    assert draw.unit == unit
    check_levels(draw)


def test_sixty_four_levels_are_the_most() -> None:
    noise = "epsilon: 3, laplace_reduction"
    assert len(levels_of(draw_of("count", noise))) == 11
    small = "sigma: 1e-1, gaussian_refinement from 3e8"
    assert len(levels_of(draw_of("count", small))) == 63
    assert len(levels_of(draw_of("count", small.replace("3e8", "4e8")))) == 64
    with pytest.raises(RequestInvalid, match="leave at most 64 levels, got 5e8"):
        draw_of("count", small.replace("3e8", "5e8"))
    (only,) = levels_of(draw_of("count", f"{noise} from 1"))
    assert (only.noise, only.text, only.cost) == (1, "1", 3)
    with pytest.raises(ValueError, match="shows one answer"):
        levels_of(draw_of("count", "epsilon: 3"))


def test_a_session_of_many_groups_has_fewer_levels() -> None:
    categories = tuple([f"c{i}" for i in range(1_000)])
    columns = (
        CategoryColumn(name="a", categories=categories),
        CategoryColumn(name="b", categories=categories[:10]),
    )
    wide = check_schema(Schema(source=SOURCE, columns=columns, neighbours="add_remove"))
    text, noise = "count by a, b", "epsilon: 1, laplace_reduction"
    assert len(levels_of(draw_of(text, noise, wide))) == 11
    assert len(levels_of(draw_of(text, f"{noise} from 32767", wide))) == 15
    with pytest.raises(RequestInvalid, match="leave at most 15 levels of 10000 numbers, got 32768"):
        draw_of(text, f"{noise} from 32768", wide)
    assert len(levels_of(draw_of("count by b", f"{noise} from 32768", wide))) == 16


def test_sessions_that_a_question_cannot_have_are_refused() -> None:
    def check_case(question: str, noise: str, error: str) -> None:
        with pytest.raises(RequestInvalid) as raised:
            draw_of(question, noise)
        assert error in str(raised.value)

    check_rows(
        check_case,
        [
            ("mean(x)", "epsilon: 1, laplace_reduction", "noise.law must be of one answer"),
            ("variance(x) by c", "rho: 1, gaussian_refinement", "noise.law must be of one answer"),
            ("mean(x)", "sigma: 1, gaussian_refinement", "noise.sigma must be left out"),
            (
                "median(x)",
                "epsilon: 1, laplace_reduction",
                "noise.law must be left out for a choice",
            ),
            ("top(c, 2)", "rho: 1, gaussian_refinement", "noise.law must be left out for a choice"),
            (
                "count",
                "epsilon: 1, gaussian_refinement",
                "noise.law must be discrete_laplace or lap",
            ),
            ("count", "rho: 1, laplace_reduction", "noise.law must be discrete_gaussian or"),
            (
                "count",
                "epsilon: 1, laplace_reduction from 1",
                "noise.first must be at least the fine",
            ),
            ("count", "epsilon: 1, laplace_reduction from 0", "noise.first must be greater than 0"),
            (
                "count",
                "epsilon: 1, laplace_reduction from x",
                "noise.first must be a plain decimal",
            ),
            ("count", "epsilon: 1, discrete_laplace from 9", "noise.first must be left out unless"),
            ("count", "error: 0.5 at 0.9, gaussian_refinement", "noise.error must leave the claim"),
            ("count", "sigma: 1e-9, gaussian_refinement", "noise.sigma must leave the claim"),
            ("count", "sigma: 1e-30, gaussian_refinement", "noise.sigma must leave the claim"),
        ],
    )


@pytest.mark.parametrize(
    "text",
    [
        "rho: 0.01, gaussian_refinement",
        "error: 50 at 0.95, laplace_reduction from 3000",
        "sigma: 20, gaussian_refinement from 1e4",
    ],
)
def test_noise_of_a_session_is_read_back_from_its_text(text: str) -> None:
    noise = parse_noise(text)
    assert is_session(noise)
    assert noise_text(noise) == text
    assert msgspec.json.decode(msgspec.json.encode(noise), type=Noise) == noise


ZCDP = {"filter": "zcdp", "rho": "1", "delta": "1e-6"}


@pytest.mark.parametrize(
    ("question", "noise", "policy", "total"),
    [
        ("count by c", "rho: 0.003, gaussian_refinement from 1000", ZCDP, "rho"),
        ("sum(x)", "sigma: 123.456789, gaussian_refinement from 1000", ZCDP, "rho"),
        (
            "count",
            "epsilon: 0.07, laplace_reduction from 400",
            {"filter": "basic", "epsilon": "1", "delta": "1e-6"},
            "epsilon",
        ),
        (
            "sum(x) by c",
            "error: 300 at 0.9, laplace_reduction from 900",
            {"filter": "ex_post", "epsilon": "1", "delta": "1e-6"},
            "ex_post_only",
        ),
    ],
)
def test_a_ledger_charges_each_level_its_cost(
    question: str, noise: str, policy: dict[str, object], total: str
) -> None:
    draw = draw_of(question, noise, REPLACED)
    claim = msgspec.to_builtins(draw.claim)
    levels = levels_of(draw)
    assert len(levels) >= 3
    for level in levels:
        scene = Scene(claim, **policy)
        assert code(scene.reserve()) == "reserved"
        scene.do("begin")
        decision = scene.settle(shown=level.text)
        assert code(decision) == "settled"
        charged = Fraction(scene.total(total))
        assert level.cost <= charged <= level.cost * (1 + Fraction(1, 10**15))
    for shown, reason in ((2 * levels[0].noise, "above_first"), (1, "beyond_maximum")):
        scene = Scene(claim, **policy)
        scene.do("reserve", "begin")
        assert code(scene.settle(shown=str(float(shown)))) == reason
