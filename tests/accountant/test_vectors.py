"""Our bounds against reference values of 34 digits, compared as fractions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import Any

import mpmath
import pytest

from tests.accountant.reference.bounds import BOUNDS, TOPICS
from tests.accountant.reference.common import ROWS, VECTORS, Bound, Inverse, Number
from tests.every_case import check_each

TOLERANCE = Fraction(1, 10**9)
# The values themselves are rounded to 34 digits (a few of them to 30).
PRINTED = Fraction(1, 10**29)
# Where only the logarithm of a value can be held: of the logarithm.
LOG_TOLERANCE = Fraction(1, 10**12)


def rows_of(topic: ModuleType, kind: type[Bound] | type[Inverse]) -> list[dict[str, Any]]:
    return [row for row in ROWS if isinstance(topic.BOUNDS.get(row["bound"]), kind)]


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.__name__.rpartition(".")[2])
def test_a_bound_brackets_its_reference(topic: ModuleType) -> None:
    def check_case(row: dict[str, Any]) -> None:
        bound = BOUNDS[row["bound"]]
        assert isinstance(bound, Bound)
        value, ours = row["value"], bound.ours(row["inputs"])
        if value == "null":
            assert ours is None, "this is to be refused"
            return
        assert ours is not None
        if value == "inf":
            assert ours == math.inf
        elif bound.log:
            check_log(bound.side, ours, value)
        elif isinstance(value, int):
            assert ours == value
        else:
            check(bound.side, Fraction(ours), Fraction(value))

    check_each(check_case, rows_of(topic, Bound))


def check(side: str, ours: Fraction, exact: Fraction) -> None:
    off = abs(exact)
    if side == "equal":
        assert abs(ours - exact) <= off * LOG_TOLERANCE
    elif side == "lower":
        assert exact - off * TOLERANCE <= ours <= exact + off * PRINTED
    else:
        assert exact - off * PRINTED <= ours <= exact + off * TOLERANCE


def check_log(side: str, ours: Number, value: str) -> None:
    """Compare a logarithm: of values so small that nothing else can be held."""
    with mpmath.workdps(60):
        text = mpmath.nstr(mpmath.log(mpmath.mpf(value)), 45)
    exact, log = Fraction(Decimal(text)), Fraction(ours)
    slack = abs(exact) * LOG_TOLERANCE
    if side == "upper":
        assert exact - PRINTED <= log <= exact + slack
    else:
        assert exact - slack <= log <= exact + PRINTED


def test_a_capacity_inverts_its_filter() -> None:
    def check_case(row: dict[str, Any]) -> None:
        inverse = BOUNDS[row["bound"]]
        assert isinstance(inverse, Inverse)
        ours, exact = inverse.ours(row["value"], row["inputs"])
        # The row's own rounding moves its inverse by a little more than itself.
        assert exact * (1 - TOLERANCE) <= ours <= exact * (1 + Fraction(1, 10**28))

    rows = [row for topic in TOPICS for row in rows_of(topic, Inverse)]
    # A value clamped at 0 says nothing about its inverse.
    check_each(check_case, [row for row in rows if row["value"] != "0.0"])


def test_two_run_length_lists_may_have_runs_of_different_lengths() -> None:
    bound = BOUNDS["filter_N_WRRW"]
    assert isinstance(bound, Bound)
    lists = {
        "rle_eps": [["0.01", 5], ["0.02", 5]],
        "rle_del": [["0", 7], ["1e-6", 1], ["3e-6", 2]],
    }
    assert bound.ours({**lists, "eg": "1", "d1": "1e-6", "d2": "3e-6"}) == 8


def test_no_bound_is_answered_twice() -> None:
    names = [name for topic in TOPICS for name in topic.BOUNDS]
    assert len(names) == len(set(names))


def test_every_bound_of_the_file_is_answered() -> None:
    unknown = {row["bound"] for row in ROWS} - set(BOUNDS)
    assert not unknown, f"{VECTORS.name} holds bounds that no function of ours answers: {unknown}"
