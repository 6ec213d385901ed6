"""Rounding of engines' numbers; and only an adapter imports its engine."""

from __future__ import annotations

import ast
import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.claims import Pure, SubsampledGaussian
from accountant.errors import RequestInvalid
from streams.engines.rounding import (
    float_down,
    pure_or_approximate,
    text_down,
    text_up,
)
from streams.engines.scoped_claim import scoped_claim
from tests.every_case import every_case

ROOT = Path(__file__).parents[3]
ENGINES = {"diffprivlib", "dp_accounting", "opendp", "snsql"}


@given(st.floats(min_value=0, max_value=999_999_999))
def test_a_cost_is_rounded_up_and_noise_down_by_next_to_nothing(value):
    up = Fraction(Decimal(text_up(value, "epsilon")))
    assert value <= up <= Fraction(value) * (1 + Fraction(1, 10**19)) + Fraction(1, 10**40)
    if value >= 1e-20:
        down = Fraction(Decimal(text_down(value, "sigma")))
        assert Fraction(value) * (1 - Fraction(1, 10**19)) <= down <= value


@given(st.decimals(min_value=0, max_value=1, allow_nan=False, allow_infinity=False))
def test_a_float_is_rounded_down(value):
    below = float_down(value)
    assert Fraction(below) <= Fraction(value) < Fraction(math.nextafter(below, math.inf))


def test_a_decimal_whose_nearest_float_is_above_it_is_rounded_down():
    assert Fraction(0.1) > Fraction(1, 10)
    assert float_down(Decimal("0.1")) == math.nextafter(0.1, 0)
    assert float_down(Decimal("0.3")) == 0.3  # its nearest float is below it


THIRD = np.longdouble(1) / 3  # wider than a double where the platform has such floats


@every_case(
    ("value", "exact"),
    [
        (3, Fraction(3)),
        (np.int64(3), Fraction(3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.1"), Fraction(1, 10)),
        (np.float32(0.1), Fraction(13421773, 2**27)),
        (np.float64(0.1), Fraction(0.1)),
        (THIRD, Fraction(*map(int, THIRD.as_integer_ratio()))),
    ],
)
def test_numbers_of_every_kind_are_exact(value, exact):
    assert 0 <= Fraction(Decimal(text_up(value, "epsilon"))) - exact <= exact / 10**19


@every_case("value", [math.nan, math.inf, -math.inf, np.float32("inf")])
@every_case("text", [text_up, text_down])
def test_a_non_finite_number_is_refused(value, text):
    with pytest.raises(RequestInvalid, match="epsilon must be finite"):
        text(value, "epsilon")
    with pytest.raises(RequestInvalid, match="epsilon must be finite"):
        text(Decimal(float(value)), "epsilon")


@every_case("value", ["0.1", None, True, np.True_, 1j, object(), [0.1]])
def test_a_non_number_is_refused(value):
    with pytest.raises(RequestInvalid, match="epsilon must be a number"):
        text_up(value, "epsilon")


def test_a_number_below_0_or_too_large_is_refused():
    for value in (-1, -1e-300, Fraction(-1, 3)):
        with pytest.raises(RequestInvalid, match="0 or greater"):
            text_up(value, "epsilon")
    for value in (1e300, 1e9, 10**400):
        with pytest.raises(RequestInvalid, match="less than 1e9"):
            text_up(value, "epsilon")


def test_a_number_below_the_smallest_claim_is_rounded_up_to_that_claim():
    assert pure_or_approximate(1e-300, 0) == Pure("0.000000000001")
    assert pure_or_approximate(5e-324, 5e-324).delta == "0." + "0" * 39 + "1"
    assert pure_or_approximate(0, 0) == Pure("0")


def test_noise_is_never_overstated():
    assert text_down(1e300, "sigma") == "999999999"
    for value in (0, 0.0, 1e-300):
        with pytest.raises(RequestInvalid, match="sigma must be greater than 0"):
            text_down(value, "sigma")


def test_a_lying_float_is_taken_at_its_value():
    class Lying(float):
        def as_integer_ratio(self):
            return 0, 1

        def __float__(self):
            return 0.0

    assert text_up(Lying(0.5), "epsilon") == "0.5"


@every_case("unit", ["", None, 3, b"person"])
def test_a_claim_has_a_unit(unit):
    with pytest.raises(RequestInvalid, match="unit must be text"):
        scoped_claim(Pure("0.1"), unit=unit, neighbours="replace")


def test_a_claim_has_neighbours_that_it_is_valid_for():
    with pytest.raises(RequestInvalid, match="neighbours must be one of add_remove, replace"):
        scoped_claim(Pure("0.1"), unit="person", neighbours="bounded")
    with pytest.raises(RequestInvalid, match="must be add_remove for this claim"):
        scoped_claim(SubsampledGaussian("1", "1", "0.1"), unit="person", neighbours="replace")


def test_a_claim_is_within_the_bounds_of_claims():
    with pytest.raises(RequestInvalid, match="epsilon must be 0 or between"):
        scoped_claim(Pure("1001"), unit="person", neighbours="replace")


def test_importing_the_client_imports_no_engine():
    code = f"import sys, streams.client, streams.engines; print({ENGINES!r} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"


def test_each_engine_is_imported_by_its_adapter_alone():
    adapters = ("diffprivlib", "dp_accounting", "opendp", "smartnoise")
    files = {f"{name}.py": name for name in adapters}
    files |= {"diffprivlib_blocks.py": "diffprivlib", "opendp_constructors.py": "opendp"}
    for package in ("accountant", "streams"):
        for path in (ROOT / package).rglob("*.py"):
            nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
            names = [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
            names += [n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)]
            engines = {name.split(".")[0] for name in names} & ENGINES
            if path.parent == ROOT / "streams/engines" and path.name in files:
                own = {"smartnoise": "snsql"}.get(files[path.name], files[path.name])
                assert engines == {own}, path
            else:
                assert not engines, path
