"""How many requests each filter admits, and how near that is to the optimum."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Final

from accountant.advice.fit import fit, unspent
from accountant.claims import Claim, Gaussian, Pure
from accountant.claims.promises import Amount, promise
from accountant.conversions.renyi_order import best_order
from accountant.errors import RequestInvalid
from accountant.filters.renyi import MAX_ORDER, MIN_ORDER
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import open_plan
from research.comparators import optimal_count
from research.figures.picture import Curve, Panel, Picture, logarithmic

EPSILON: Final = "1"
DELTA: Final = "1e-6"
"""The budget."""

LABELS: Final = {
    "basic": "basic",
    "advanced_2016": "advanced_2016",
    "fully_adaptive": "fully_adaptive",
    "renyi": "renyi, each time at its best order",
    "zcdp_tight": "zcdp_tight",
    "gdp_residue": "gdp_residue",
}
OPTIMUM: Final = "optimum, for parameters fixed in advance"
_OF_GAUSSIANS: Final = ("fully_adaptive", "renyi", "zcdp_tight", "gdp_residue")


def admitted(name: str, claim: Claim, *, epsilon: str = EPSILON, delta: str = DELTA) -> int:
    """Return how many such claims fit (epsilon, delta) under a filter; renyi: at its best order.

    Raises: RequestInvalid: the budget is none for this filter.
    """
    order = best_order_for(claim, epsilon, delta) if name == "renyi" else None
    policy = Policy(filter=name, epsilon=epsilon, delta=delta, odometers=())
    if order is not None:
        policy = Policy(filter=name, epsilon=epsilon, delta=delta, odometers=(), order=order)
    found = fit(claim, unspent(open_plan(resolve(policy)))).count
    if found is None:
        raise RequestInvalid("claim", "must cost something", "0")
    return found


def best_order_for(claim: Claim, epsilon: str = EPSILON, delta: str = DELTA) -> str:
    """Return the order at which the most such claims fit."""
    worth = promise(claim).renyi

    def curve(order: Decimal) -> Amount:
        assert worth is not None
        cost = worth(order)
        assert cost is not None
        return cost

    order = best_order(
        epsilon=Decimal(epsilon),
        delta=Decimal(delta),
        curve=curve,
        minimum=MIN_ORDER,
        maximum=MAX_ORDER,
    )
    assert order is not None
    return f"{order:f}"


def text(value: float) -> str:
    """Return a number as the field of a claim, to three digits."""
    return f"{Decimal(f'{value:.3g}'):f}"


@lru_cache(maxsize=16)
def counts(name: str, epsilons: tuple[str, ...]) -> tuple[int, ...]:
    """Return how many pure requests of each epsilon fit (1, 1e-6)."""
    return tuple(admitted(name, Pure(epsilon)) for epsilon in epsilons)


@lru_cache(maxsize=4)
def optima(epsilons: tuple[str, ...]) -> tuple[int, ...]:
    """Return how many would fit if all of them had been fixed in advance."""
    target, delta = Decimal(EPSILON), Decimal(DELTA)
    return tuple(
        optimal_count(epsilon=Decimal(epsilon), target=target, delta=delta) for epsilon in epsilons
    )


def requests() -> tuple[str, ...]:
    """Return the epsilons of a request that the figures are drawn over."""
    return tuple(dict.fromkeys((*map(text, logarithmic(0.005, 0.4, 49)), "0.01", "0.1")))


def _pure() -> Panel:
    epsilons = tuple(sorted(requests(), key=float))
    x = tuple(map(float, epsilons))
    curves = [_counted(name, x, counts(name, epsilons)) for name in LABELS]
    optimum = tuple(map(float, optima(epsilons)))
    curves.append(Curve(key="optimum", label=OPTIMUM, x=x, y=optimum, adaptive=False))
    return Panel(
        title="pure ε-DP requests",
        x_label="ε of one request  (nats)",
        y_label="requests admitted",
        curves=tuple(curves),
        x_scale="log",
        y_scale="log",
        y_range=(0.8, 3000),
    )


def _counted(name: str, x: tuple[float, ...], found: tuple[int, ...]) -> Curve:
    # A log axis has no place for 0: the curve ends where nothing is admitted any more.
    kept = [(at, float(count)) for at, count in zip(x, found, strict=True) if count]
    return Curve(
        key=name,
        label=LABELS[name],
        x=tuple(at for at, _ in kept),
        y=tuple(count for _, count in kept),
    )


def _gaussian() -> Panel:
    sigmas = tuple(dict.fromkeys(map(text, logarithmic(4.0, 200.0, 49))))
    x = tuple(map(float, sigmas))
    curves = []
    for name in _OF_GAUSSIANS:
        found = tuple(admitted(name, Gaussian(sigma=sigma, sensitivity="1")) for sigma in sigmas)
        curves.append(_counted(name, x, found))
    return Panel(
        title="Gaussian requests",
        x_label="noise σ of one request  (in units of its sensitivity)",
        y_label="requests admitted",
        curves=tuple(curves),
        x_scale="log",
        y_scale="log",
        y_range=(0.8, 3000),
    )


def admitted_by_filter() -> Picture:
    """Return how many requests fit (1, 1e-6) under each filter."""
    return Picture(
        name="admitted",
        title="Requests that fit a budget of ε = 1, δ = 1e-6",
        source="theory sections 3 and 6, each filter at its defaults",
        panels=(_pure(), _gaussian()),
    )
