"""The numbers that the page on filters and odometers states are what the ledger would show."""

from __future__ import annotations

from pathlib import Path

import pytest

from accountant.claims import Pure, Repeat, check_claim
from accountant.claims.price import price
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import open_plan

OPENS = ("docs/explanation/filters-and-odometers.md",)

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "filters-and-odometers.md").read_text(
    "utf-8"
)


def test_the_default_odometer_reads_more_than_the_epsilon_of_a_healthy_filter():
    assert "487 requests of epsilon 0.01" in PAGE
    assert "reads 1.25 at the end" in PAGE
    plan = open_plan(resolve(Policy(epsilon="1", delta="1e-6")))
    totals = price(check_claim(Repeat(Pure("0.01"), 487)), plan.sums).amounts
    assert plan.kind.holds(plan.capacity, totals[: plan.width])
    (reading,) = plan.readings(totals)
    assert reading == pytest.approx(1.25, abs=0.005)
    assert plan.reader_names == ("one_sided_mixture",)
