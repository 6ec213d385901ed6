"""Every number that docs/residue.md states, computed again."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from pathlib import Path

import mpmath

from accountant.claims import BoundedRange, Gaussian, Pure
from accountant.claims.text import parse_claim
from accountant.conversions.gdp import gdp_capacity, mu_of_pure
from research.figures.admitted import admitted, optima
from research.figures.residue import cost
from tests.every_case import every_case

OPENS = ("docs/residue.md",)

PAGE = (Path(__file__).parents[2] / "docs" / "residue.md").read_text(encoding="utf-8")
M_SQUARED = gdp_capacity(epsilon=Decimal(1), delta=Decimal("1e-6")) ** 2
ROWS = {
    cells[0].strip(" `"): [cell.strip() for cell in cells[1:]]
    for cells in (line.strip("|").split("|") for line in PAGE.splitlines() if "`" in line)
    if re.fullmatch(r"[a-z_]+:[\w.=,]+", cells[0].strip(" `"))
}


def test_the_table_has_its_rows() -> None:
    assert len(ROWS) == 7
    head = next(line for line in PAGE.splitlines() if line.startswith("| claim | `basic`"))
    columns = [cell.strip(" `") for cell in head.strip("|").split("|")]
    assert columns[1:] == ["basic", "zcdp_tight", "as a Gaussian", "gdp_residue", "optimum"]


@every_case("text", ROWS)
def test_each_count_of_the_residue_table_equals_that_of_the_filter(text: str) -> None:
    basic, tight, as_gaussian, residue, optimum = ROWS[text]
    claim = parse_claim(text)
    assert admitted("zcdp_tight", claim) == int(tight)
    assert admitted("gdp_residue", claim) == int(residue)
    if isinstance(claim, Gaussian):
        alone = (Decimal(claim.sensitivity) / Decimal(claim.sigma)) ** 2
        assert basic == "–"
        assert int(optimum) == int(M_SQUARED / alone)
    else:
        assert admitted("basic", claim) == int(basic)
        assert isinstance(claim, Pure | BoundedRange)
        pure = Decimal(claim.epsilon) if isinstance(claim, Pure) else Decimal(claim.eta) / 2
        alone = mu_of_pure(pure) ** 2
    assert int(M_SQUARED / alone) == int(as_gaussian)
    if isinstance(claim, Pure):
        assert optima((claim.epsilon,)) == (int(optimum),)
    if isinstance(claim, BoundedRange):
        assert optimum == "–"


def test_the_counts_of_the_first_section() -> None:
    assert ROWS["pure:0.01"][4] == "562"
    assert ROWS["pure:0.01"][1] == "487"
    assert "admits 562 randomized responses of ε = 0.01" in PAGE
    assert "with a tight conversion 487" in PAGE
    small = [text for text in ROWS if text in {"pure:0.005", "pure:0.01"}]
    assert all(int(ROWS[text][3]) > 0.99 * int(ROWS[text][4]) for text in small)
    assert "within 1 % for small pure ones" in PAGE


def test_the_natural_filter() -> None:
    p = math.exp(0.1) / (1 + math.exp(0.1))
    assert f"{2 - p:.3f} δ_g" in PAGE


def test_the_state_and_the_costs_on_the_residue_page_are_exact() -> None:
    assert f"m² = {M_SQUARED:.4f}" in PAGE
    for kappa in (100, 10, 3):
        found = cost(kappa)
        assert found is not None
        assert f"{found:.3f} ε²" in PAGE
    first = cost(float(M_SQUARED) * 1e4, Decimal("0.01"))
    assert first is not None
    assert f"takes {first:.4f} ε²" in PAGE
    for epsilon in (Decimal("0.01"), Decimal("0.1")):
        assert f"up to {mu_of_pure(epsilon) ** 2 / epsilon**2:.2f} ε²" in PAGE
    last = cost(float(mu_of_pure(Decimal("0.1")) ** 2) * 100 * (1 + 1e-6))
    assert last is not None
    assert 1.5 < last < 1.571


def test_the_largest_request() -> None:
    assert "refuses a pure request of ε = 0.189 " in PAGE
    assert admitted("gdp_residue", Pure("0.189")) == 0
    assert admitted("gdp_residue", Pure("0.188")) == 1


def delta(x: mpmath.mpf, m: mpmath.mpf) -> mpmath.mpf:
    upper = mpmath.ncdf(-x / m + m / 2)
    return upper - mpmath.exp(x) * mpmath.ncdf(-x / m - m / 2)


@every_case(("epsilon", "m"), [("0.1", "0.24"), ("0.01", "0.1"), ("0.5", "1.3")])
def test_the_residue_step_holds_at_every_threshold_and_is_the_largest(epsilon: str, m: str) -> None:
    with mpmath.workdps(40):
        e, state = mpmath.mpf(epsilon), mpmath.mpf(m)
        target = (1 + mpmath.exp(e)) * mpmath.ncdf(state / 2) - mpmath.exp(e)
        left = mpmath.findroot(
            lambda x: delta(e, x) - target,
            (state / 2, state * (1 - mpmath.mpf(10) ** -9)),
            solver="anderson",
        )
        likely = mpmath.exp(e) / (1 + mpmath.exp(e))

        def both(x: mpmath.mpf, of: mpmath.mpf) -> mpmath.mpf:
            return likely * delta(x - e, of) + (1 - likely) * delta(x + e, of)

        assert 0 < left < state
        for k in range(-30, 61):
            x = mpmath.mpf(k) / 10 * state
            assert both(x, left) <= delta(x, state) + mpmath.mpf(10) ** -30
        assert both(mpmath.mpf(0), left * (1 + mpmath.mpf(10) ** -6)) > delta(mpmath.mpf(0), state)
