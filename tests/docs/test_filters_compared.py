"""What the pages about filters state about filters and odometers is what they do."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from accountant.advice.choose_filter import choose
from accountant.advice.fit import fit, unspent
from accountant.claims import ATOMS, BoundedRange, Gaussian, Pure, check_claim
from accountant.claims.price import price
from accountant.claims.text import parse_claim
from accountant.conversions.gdp import gdp_capacity
from accountant.filters import FILTERS
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import open_plan
from research.figures import PICTURES, filters, odometers
from research.figures.admitted import LABELS, admitted, best_order_for, optima
from tests.every_case import check_each, check_rows

OPENS = ("docs/**",)

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("how-to/choose-a-filter.md", "explanation/filters-compared.md")
PAGE = "\n".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)


def table(heading: str) -> list[dict[str, str]]:
    """Return the first table below a heading, a row a dictionary."""
    lines = PAGE.split(f"\n## {heading}\n", 1)[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


COUNTS = {row["claim"].strip("`"): row for row in table("How many fit")}
FITTED = [(claim, name, row[f"`{name}`"]) for claim, row in COUNTS.items() for name in LABELS]


def test_each_count_of_the_filter_table_equals_that_of_the_filter():
    def check(claim, name, stated):
        if stated == "–":
            plan = open_plan(resolve(Policy(filter=name, epsilon="1", delta="1e-6")))
            assert not fit(parse_claim(claim), unspent(plan)).accepted
        else:
            assert admitted(name, parse_claim(claim)) == int(stated)

    check_rows(check, FITTED)


def test_the_columns_are_all_the_filters_that_count_claims_of_every_kind():
    assert {f"`{name}`" for name in LABELS} < set(COUNTS["pure:0.01"])
    assert len(FITTED) == 36


def test_a_declared_epsilon_admits_the_stated_count():
    def check(claim):
        policy = Policy(filter="optimal_homogeneous", epsilon="1", delta="1e-6")
        found = choose(policy, parse_claim(claim)).fit
        stated = COUNTS[claim]["`optimal_homogeneous`"]
        assert ("–" if not found.accepted else str(found.count)) == stated
        optimum = COUNTS[claim]["optimum"]
        if claim.startswith("pure"):
            assert stated == optimum

    check_each(check, COUNTS)


def test_a_smaller_claim_counts_as_the_declared_one_and_a_larger_one_is_refused():
    policy = Policy(filter="optimal_homogeneous", epsilon="1", delta="1e-6", epsilon_each="0.01")
    assert choose(policy, Pure("0.005")).fit.count == choose(policy, Pure("0.01")).fit.count
    assert not choose(policy, Pure("0.011")).fit.accepted


def test_the_optima_are_as_stated():
    pure = ("0.01", "0.1")
    assert [COUNTS[f"pure:{e}"]["optimum"] for e in pure] == [str(n) for n in optima(pure)]
    (claim,) = [claim for claim in COUNTS if claim.startswith("gaussian")]
    gaussian = parse_claim(claim)
    assert isinstance(gaussian, Gaussian)
    square = (Fraction(gaussian.sensitivity) / Fraction(gaussian.sigma)) ** 2
    most = gdp_capacity(epsilon=Decimal(1), delta=Decimal("1e-6"))
    assert int(COUNTS[claim]["optimum"]) == math.floor(Fraction(most) ** 2 / square)


def test_the_best_renyi_orders_are_as_stated():
    assert best_order_for(Pure("0.01")) == "22"
    assert best_order_for(Pure("0.1")) == "1584"
    policy = resolve(Policy(filter="renyi", epsilon="1", delta="1e-6", order="22", odometers=()))
    assert fit(Pure("0.1"), unspent(open_plan(policy))).count == 7


def test_exponential_mechanisms_fit_gdp_residue_as_often_as_stated():
    sentence = re.search(r"(\d+) of η = ([\d.]+) fit, (.*) and (\d+) of ([\d.]+)\.\n", PAGE)
    first, eta, between, last, largest = sentence.groups()
    counts = [(eta, first), *[(e, n) for n, e in re.findall(r"(\d+) of ([\d.]+)", between)]]
    counts.append((largest, last))
    assert len(counts) == 4
    for eta, count in counts:
        assert admitted("gdp_residue", BoundedRange(eta)) == int(count)
        assert admitted("gdp_residue", Pure(f"{Decimal(eta) / 2:f}")) == int(count)


def test_several_orders_admit_the_stated_counts():
    stated = {
        ("renyi_mixture", ("16", "22", "32", "64"), "0.01"): 449,
        ("renyi_weighted", ("16", "22", "32", "64"), "0.01"): 430,
    }
    for name in ("renyi_mixture", "renyi_weighted"):
        stated |= {(name, ("22", "2000"), "0.01"): 460, (name, ("22", "2000"), "0.1"): 10}
    for (name, orders, epsilon), count in stated.items():
        policy = Policy(filter=name, epsilon="1", delta="1e-6", orders=orders, odometers=())
        assert fit(Pure(epsilon), unspent(open_plan(resolve(policy)))).count == count
        assert f" {count}" in PAGE


def test_claims_that_add_up_on_paper_fit():
    sentence = re.search(r"What adds up on paper fits: .*", PAGE)[0]
    claims = re.findall(r"(\w+)(?: requests)? of `(\w+:[\w=,]+)`", sentence)
    assert len(claims) == 3
    for count, claim in claims:
        budget = {"rho": "1"} if claim.startswith("gaussian") else {"epsilon": "1"}
        policy = Policy(filter="zcdp" if "rho" in budget else "basic", odometers=(), **budget)
        found = fit(parse_claim(claim), unspent(open_plan(resolve(policy)))).count
        assert found == (3 if count == "three" else int(count))


def test_basic_composition_overtakes_where_stated():
    assert admitted("basic", Pure("0.055")) == 18 > admitted("gdp_residue", Pure("0.055"))
    assert admitted("basic", Pure("0.05")) < admitted("gdp_residue", Pure("0.05"))
    more = admitted("gdp_residue", Pure("0.01")) / admitted("zcdp_tight", Pure("0.01"))
    assert 1.14 < more < 1.16
    assert filters.needed("basic", 23) < filters.needed("zcdp_tight", 23)
    assert filters.needed("basic", 24) > filters.needed("zcdp_tight", 24)


def test_zcdp_tight_admits_at_least_as_many_as_the_filters_of_the_papers():
    for epsilon in ("0.001", "0.02", "0.1", "0.2"):
        most = admitted("zcdp_tight", Pure(epsilon))
        assert most >= admitted("fully_adaptive", Pure(epsilon)), epsilon
        assert most >= admitted("advanced_2016", Pure(epsilon)), epsilon


EXAMPLES = {
    "pure": "pure:0.01",
    "laplace": "laplace:scale=100,sensitivity=1",
    "bounded_range": "bounded_range:0.01",
    "randomized_response": "randomized_response:epsilon=0.01,delta=0",
    "gaussian": "gaussian:sigma=100,sensitivity=1",
    "gdp": "gdp:0.01",
    "brownian": "brownian:variance=10000,sensitivity=1",
    "subsampled_gaussian": "subsampled_gaussian:rate=0.01,sigma=100,sensitivity=1",
    "zcdp": "zcdp:0.0001",
    "approximate_zcdp": "approximate_zcdp:rho=0.0001,delta=1e-9",
    "approximate": "approximate:epsilon=0.01,delta=1e-9",
    "probabilistic": "probabilistic:epsilon=0.01,delta=1e-9",
    "ex_post": "ex_post:epsilon=0.01,delta=0",
}
BUDGETS: dict[str, dict[str, object]] = {
    "zcdp": {"rho": "0.02", "delta": "1e-6"},
    "split": {"epsilon": "1", "delta": "1e-6", "epsilon_ex_post": "1", "delta_ex_post": "1e-7"},
    "renyi": {"epsilon": "1", "delta": "1e-6", "order": "22"},
    "renyi_weighted": {"epsilon": "1", "delta": "1e-6", "orders": ("22", "33")},
    "renyi_mixture": {"epsilon": "1", "delta": "1e-6", "orders": ("22", "33")},
    "optimal_homogeneous": {"epsilon": "1", "delta": "1e-6", "epsilon_each": "0.01"},
}


def test_the_table_of_claims_is_complete():
    assert set(EXAMPLES) == {str(kind.__struct_config__.tag) for kind in ATOMS}
    rows = table("Which claims each takes")
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row["claim"])]
    assert sorted(named) == sorted(EXAMPLES)
    heads = [name for head in rows[0] for name in re.findall(r"`(\w+)`", head)]
    assert sorted(heads) == sorted(FILTERS)


def test_each_filter_takes_the_claims_of_its_column():
    def check(name):
        budget = BUDGETS.get(name, {"epsilon": "1", "delta": "1e-6"})
        kind = open_plan(resolve(Policy(filter=name, odometers=(), **budget))).kind
        for row in rows:
            (stated,) = [row[head] for head in row if f"`{name}`" in head]
            for claim in re.findall(r"`(\w+)`", row["claim"]):
                takes = kind.accepts(price(check_claim(parse_claim(EXAMPLES[claim])), kind.needs))
                assert takes == (stated == "yes"), claim

    rows = table("Which claims each takes")
    check_each(check, FILTERS)


def test_the_odometers_compare_as_stated():
    exact, closed = odometers.ONE_SIDED_EXACT.boundary(), odometers.ONE_SIDED.boundary()
    for time in (0.001, 0.1, 1.0, 10.0):
        assert 1 < closed(time) / exact(time) < 1 + 1e-7
    small = OneSidedMixture(delta="0.05", r="0.05").boundary()(0.001)
    assert 1.01 < small / OneSidedMixtureExact(delta="0.05", r="0.05").boundary()(0.001) < 1.02
    others = [o.boundary() for o in (odometers.LINEAR, odometers.MIXTURE, odometers.ONE_SIDED)]
    stitched = odometers.STITCHED.boundary()
    assert stitched(0.0099) == math.inf
    assert stitched(0.16) < min(other(0.16) for other in others)
    assert stitched(0.2) > min(other(0.2) for other in others)
    late = Stitched(delta="1e-6", v0="0.01").boundary()
    for other in (Mixture(delta="1e-6", r="0.05"), OneSidedMixture(delta="1e-6", r="0.05")):
        assert late(1e4) > other.boundary()(1e4)
        assert late(1e5) < other.boundary()(1e5)
    # The first thirty requests of epsilon = 0.1: basic reads 3.0 at V = 0.3.
    assert all(other(0.3) > 3.0 for other in (*others, stitched))


def test_every_figure_is_shown_once():
    page = PAGE + (DOCS / "explanation/accuracy-first-costs.md").read_text(encoding="utf-8")
    shown = re.findall(r"\(\.\./figures/(\w+)\.png\)", page)
    assert sorted(shown) == sorted(PICTURES)
