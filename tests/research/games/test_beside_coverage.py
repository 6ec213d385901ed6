"""Basic composition beside every filter, against every adaptive adversary over a menu: P13."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import pytest

from accountant import claims as c
from accountant.filters import FILTERS
from accountant.policy import Policy
from research.games.ledgers import FilterLedger, Offer, Totals
from research.games.optimal_stopping import solve
from research.games.payoffs import Curve, hockey_stick
from tests.nightly import NIGHTLY
from tests.research.games import menus as m

TAKERS: Final = sorted(name for name, kind in FILTERS.items() if kind.takes_beside)
CUTS: Final = (-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
BUDGETS: Final[dict[str, tuple[dict[str, str], str, str]]] = {
    # (epsilon, delta), a Gaussian that takes about half of it, and the best order for it
    "1, .05": ({"epsilon": "1", "delta": "0.05"}, "0.35", "4.5"),
    "1, 1e-6": ({"epsilon": "1", "delta": "1e-6"}, "0.12", "22"),
    "3, 1e-3": ({"epsilon": "3", "delta": "1e-3"}, "0.5", "4.5"),
}


def responses(epsilon: str) -> list[Offer]:
    """Return randomized responses of parts of a budget, the whole one among them."""
    whole = int(epsilon)
    return [m.pure(f"{whole * part / 100:g}") for part in (3, 10, 25, 50, 100)]


def policy_of(name: str, budget: dict[str, str], order: str) -> Policy:
    more: dict[str, Any] = {}
    if name == "renyi":
        more["order"] = order
    elif name in {"renyi_weighted", "renyi_mixture"}:
        more["orders"] = (order, str(float(order) * 2))
    elif name == "optimal_homogeneous":
        more["epsilon_each"] = f"{float(budget['epsilon']) / 10:g}"
    elif name == "split":
        half = {"epsilon": str(float(budget["epsilon"]) / 2)}
        more = {**half, "epsilon_ex_post": half["epsilon"]}
    return Policy(filter=name, beside="basic", **{**budget, **more})


@pytest.mark.parametrize("budget", BUDGETS if NIGHTLY else ["1, 1e-6"])
@pytest.mark.parametrize("name", TAKERS)
def test_no_adversary_gets_beyond_the_delta_of_the_filter(name: str, budget: str) -> None:
    fields, mu, order = BUDGETS[budget]
    delta, shame = float(fields["delta"]), f"{float(fields['delta']) / 4:.20f}".rstrip("0")
    policy = policy_of(name, fields, order)
    menu = [*responses(fields["epsilon"]), m.gaussian(mu, CUTS), m.ex_post_response("0.3")]
    if not name.startswith("renyi") and name != "advanced_2016":
        policy = policy_of(name, {**fields, "delta_for_claims": shame}, order)
        menu.append(m.shame(shame))
    ledger = FilterLedger(policy)
    value = best(ledger, menu, fields["epsilon"], depth=3) / delta
    assert value <= 1.0000001
    if name == "gdp_residue":
        assert value > 0.98


def best(ledger: FilterLedger, menu: Sequence[Offer], epsilon: str, *, depth: int) -> float:
    """Return the largest hockey-stick at epsilon, with all that is left as the last move."""
    ends = (
        m.last_gaussian("1.2" if ledger.guarantee.delta > Decimal("1e-5") else "0.3"),
        m.last_response(epsilon),
        m.last_response(epsilon, c.ExPost),
    )

    def last(spent: Totals) -> list[Curve]:
        rungs = [(end, ledger.maximum(spent, end.claims)) for end in ends]
        return [end.curves[rung] for end, rung in rungs if rung is not None]

    return solve(
        ledger.start,
        lambda spent: ledger.moves(spent, menu),
        hockey_stick(float(epsilon), last),
        depth=depth,
    ).value


@pytest.mark.parametrize("name", ["zcdp_tight", "gdp_residue", "fully_adaptive"])
def test_many_small_rounds_before_a_large_one_gain_no_more(name: str) -> None:
    """Hundreds of pure 0.01, with a response that ends the filter at any time."""
    ledger = FilterLedger(Policy(filter=name, epsilon="1", delta="1e-6", beside="basic"))
    menu = [m.pure("0.01"), m.pure("0.5")]
    assert 0 < best(ledger, menu, "1", depth=250) <= 1e-6 * 1.0000001
