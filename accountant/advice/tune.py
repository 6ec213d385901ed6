"""Parameters, tuned to a policy's budget, for filters and odometers that the policy lacks.

Every parameter fixed in advance is valid; these are near the best for a budget that many small
requests spend.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import msgspec

from accountant.amounts import format_units, precise, units_down
from accountant.conversions.renyi_order import best_order
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.filters.renyi import MIN_ORDER
from accountant.odometers import AnyOdometer
from accountant.odometers.advanced_2016 import Advanced2016
from accountant.odometers.advanced_2016_n import Advanced2016N
from accountant.odometers.basic import Basic
from accountant.odometers.combined import Combined
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from accountant.policy import PARAMETERS, ParsedBudget, Policy, filter_of, parse_budget

USUAL_DELTA: Final = Decimal("1e-6")
"""The delta of the odometers, where the policy's filter keeps no delta for itself."""

_N: Final = 1000  # n of Rogers 2016 Thm 6.5; any public constant of 4 or more
_SMALL_RHO: Final = Decimal("1e-6")
"""rho of a request so small that the best Renyi order no longer depends on it."""


def replace_filter(policy: Policy, name: str) -> Policy:
    """Return the policy with another filter: its budget, units and thresholds stay.

    Raises: RequestInvalid: no order lets filter renyi spend this delta, or only an owner can say
        a parameter: what each claim may be.
    """
    plain = dict.fromkeys(PARAMETERS, msgspec.UNSET)
    made = msgspec.structs.replace(policy, filter=name, **plain)
    kind = FILTERS[name]
    if not kind.takes_beside:
        made = msgspec.structs.replace(made, beside=msgspec.UNSET)
    if "epsilon_each" in kind.parameters:
        rule = "must be declared, by a policy of its own"
        raise RequestInvalid("policy.epsilon_each", rule, None)
    if "order" in kind.parameters:
        made = msgspec.structs.replace(made, order=_order(policy))
    if "orders" in kind.parameters:
        made = msgspec.structs.replace(made, orders=_orders(_order(policy)))
    return made


def _order(policy: Policy) -> str:
    """Return the order at which the most small Gaussian requests fit."""
    if policy.epsilon is None:
        raise RequestInvalid("policy.epsilon", "must be given for filter renyi", None)
    order = best_order(
        epsilon=Decimal(policy.epsilon),
        delta=Decimal(policy.delta) or USUAL_DELTA,
        curve=lambda order: order * _SMALL_RHO,
        minimum=MIN_ORDER,
        maximum=Decimal(1000),
    )
    if order is None:
        raise RequestInvalid("policy.delta", "must be larger for filter renyi", policy.delta)
    return f"{order.normalize():f}"


def _orders(best: str) -> tuple[str, ...]:
    """Return orders from the best one upward: each gets a part of delta, so needs to be larger."""
    lowest = Decimal(best)
    orders = [1 + (lowest - 1) * factor for factor in map(Decimal, ("1", "1.25", "1.5", "2"))]
    return tuple(f"{order.normalize():f}" for order in orders)


def odometers_for(policy: Policy) -> tuple[AnyOdometer, ...]:
    """Return every kind of odometer, tuned to a resolved policy; its own odometers unchanged."""
    own = {type(odometer): odometer for odometer in policy.odometers or ()}
    return tuple(own.get(type(odometer), odometer) for odometer in _tune(parse_budget(policy)))


def _tune(budget: ParsedBudget) -> tuple[AnyOdometer, ...]:
    delta = budget.delta_for_filter or USUAL_DELTA
    with precise():
        log = -delta.ln()
        if budget.epsilon is None:
            time = 2 * (budget.rho or Decimal(0))
        else:
            # The end of filter fully_adaptive: the largest V that its budget admits.
            root = 2 * budget.epsilon / ((2 * log).sqrt() + (2 * log + 2 * budget.epsilon).sqrt())
            time = root * root
        mixed, first, half = time / (2 * log), time / 1000, delta / 2
        # The choice of Rogers 2016 for a budget, epsilon^2/(28.04 ln(1/delta)).
        beta = time / 14
    whole, part = _text(delta), _text(half)
    found: list[AnyOdometer] = [
        Basic(),
        Advanced2016(delta=whole, beta=_short(beta)),
        Advanced2016N(delta=whole, n=_N),
        Linear(delta=whole, y=_short(time)),
        Mixture(delta=whole, r=_short(mixed)),
        OneSidedMixture(delta=whole, r=_short(mixed)),
        OneSidedMixtureExact(delta=whole, r=_short(mixed)),
        Stitched(delta=whole, v0=_short(first)),
        Combined(
            odometers=(
                OneSidedMixtureExact(delta=part, r=_short(mixed)),
                Stitched(delta=part, v0=_short(first)),
            )
        ),
    ]
    return tuple(odometer for odometer in found if _valid(odometer))


def _valid(odometer: AnyOdometer) -> bool:
    """Return whether an odometer's parameters are in bounds, such as delta below 1/e for some."""
    try:
        odometer.boundary()
    except RequestInvalid:
        return False
    return True


def _text(value: Decimal) -> str:
    return format_units(units_down(value))


def _short(value: Decimal) -> str:
    return _text(max(Decimal(f"{value:.3g}"), Decimal("1e-25")))


def guaranteed_epsilon(policy: Policy) -> Decimal | None:
    """Return the epsilon of a policy's guarantee, None if the policy guarantees a rho."""
    promised = filter_of(policy).guarantee(parse_budget(policy))
    return promised.amount if promised.name == "epsilon" else None
