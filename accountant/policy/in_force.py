"""The budget in force of a dataset: a brake below the ceiling, which its policy fixes for ever."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Final

import msgspec

from accountant.amounts import Units, format_units, parse_in, parse_units
from accountant.claims.fields import MAX_EPSILON, MAX_RHO, MIN_EPSILON, MIN_RHO
from accountant.claims.price import Price
from accountant.errors import RequestInvalid
from accountant.field_rules import Amounts, EpsilonBudget, RhoBudget
from accountant.filters import Filter
from accountant.policy.cap import CappedFilter
from accountant.policy.policy import Policy

_BOUNDS: Final = {"epsilon": (MIN_EPSILON, MAX_EPSILON), "rho": (MIN_RHO, MAX_RHO)}
_WITHOUT_END: Final = 10**60
"""More claims than any log can hold: a brake that admits so many admits any number."""


class OneAmount(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """An amount in one of two parameters.

    Attributes:
        epsilon, rho: in nats; one of both.
    """

    epsilon: EpsilonBudget | None = None
    rho: RhoBudget | None = None

    @property
    def field(self) -> str:
        """Which of both it has."""
        return "rho" if self.epsilon is None else "epsilon"

    @property
    def amount(self) -> str:
        """The amount, as it was written."""
        return str(self.rho if self.epsilon is None else self.epsilon)


class BudgetInForce(OneAmount, frozen=True, kw_only=True):
    """What a dataset may spend for now, at most its ceiling.

    Attributes:
        epsilon, rho: in nats; the one that the dataset's policy has.
    """

    @property
    def text(self) -> str:
        """It in a word: `epsilon=1`."""
        return f"{self.field}={self.amount}"


class StoredBudgetInForce(BudgetInForce, frozen=True, forbid_unknown_fields=False, kw_only=True):
    """The budget in force as decisions and rows store it.

    Attributes:
        budget: what each sum of the filter may reach under it, rounded down.
    """

    budget: Amounts

    def __hash__(self) -> int:
        return hash((self.epsilon, self.rho, *self.budget.values()))

    def limits(self, capacity: tuple[Units, ...]) -> tuple[Units, ...]:
        """Return what each sum may reach, in units, at most its capacity."""
        amounts = map(parse_units, self.budget.values())
        return tuple([min(pair) for pair in zip(amounts, capacity, strict=True)])


def check_one_amount(budget: OneAmount, field: str = "budget") -> None:
    """Check that there is one amount of both, within its bounds.

    Raises: RequestInvalid.
    """
    if (budget.epsilon is None) is (budget.rho is None):
        rule = "must be given, or rho instead, but not both"
        raise RequestInvalid(f"{field}.epsilon", rule, budget.epsilon)
    least, most = _BOUNDS[budget.field]
    parse_in(
        budget.amount, field=f"{field}.{budget.field}", minimum=least, maximum=most, zero=False
    )


def policy_under(policy: Policy, budget: BudgetInForce) -> Policy | None:
    """Return the policy of a ceiling with a budget in force in its place, None if it is no such.

    It has the parameter of the policy, and is not above it.
    """
    ceiling = getattr(policy, budget.field)
    if ceiling is None or Decimal(budget.amount) > Decimal(ceiling):
        return None
    return msgspec.structs.replace(policy, **{budget.field: budget.amount})


def stored(
    budget: BudgetInForce, sums: tuple[str, ...], limits: tuple[Units, ...]
) -> StoredBudgetInForce:
    """Return a budget in force with what it allows of each sum, in units."""
    amounts = dict(zip(sums, map(format_units, limits), strict=True))
    return StoredBudgetInForce(epsilon=budget.epsilon, rho=budget.rho, budget=amounts)


class BrakedFilter:
    """A policy's filter, with its cap if it has one, below a budget in force.

    A request is within the brake if the totals after it obey the filter's rule at smaller limits.
    The filter charges from its full state, so its proof is untouched: a brake only refuses more
    (docs/theory.md, section 3).

    Args:
        offered: the filter, or the filter with its cap.
        kind: the filter.
        limits: what each of its sums may reach.

    Attributes:
        adds_up: as of `Filter`; a batch may be above the brake where its parts are not.
    """

    adds_up = False

    def __init__(
        self, offered: Filter | CappedFilter, kind: Filter, limits: tuple[Units, ...]
    ) -> None:
        self._offered = offered
        self._kind = kind
        self._limits = limits
        self.needs = kind.needs

    def admits(self, after: tuple[Units, ...]) -> bool:
        """Tell whether totals are within the brake."""
        return self._kind.within(self._limits, after)

    def fits(self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price) -> bool:
        """Tell whether such a request would be granted."""
        return self._offered.fits(capacity, spent, price) and self._is_within(
            capacity, spent, price, 1
        )

    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        """Return how many such requests fit one after another, None if any number does."""
        found = self._offered.count(capacity, spent, price)
        most = _WITHOUT_END if found is None else found
        if not most or not self._is_within(capacity, spent, price, 1):
            return 0
        minimum, above = 1, 2
        while above <= most and self._is_within(capacity, spent, price, above):
            minimum, above = above, 2 * above
        above = min(above, most + 1)
        while above - minimum > 1:
            middle = (minimum + above) // 2
            fits = self._is_within(capacity, spent, price, middle)
            minimum, above = (middle, above) if fits else (minimum, middle)
        return None if found is None and minimum == most else minimum

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        """As `Filter.excess`, of the budget left or of the brake, whichever is passed further."""
        of_left = self._offered.excess(capacity, spent, price)
        in_force = self._kind.excess(self._limits, spent, price)
        return None if of_left is None or in_force is None else max(of_left, in_force)

    def _is_within(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price, times: int
    ) -> bool:
        after = self._kind.charge(capacity, spent, _repeated(price, times))
        return after is not None and self.admits(after)


def _repeated(price: Price, times: int) -> Price:
    if times == 1:
        return price
    amounts = tuple([amount * times if amount else 0 for amount in price.amounts])
    parts = tuple([(promise, count * times) for promise, count in price.parts])
    return replace(price, mechanisms=price.mechanisms * times, amounts=amounts, parts=parts)
