"""Basic composition beside another filter, both at the whole delta."""

from __future__ import annotations

from decimal import Decimal
from operator import add, gt
from typing import Final

from accountant.amounts import INFINITE, UNIT, Units, units_down
from accountant.claims.price import Price
from accountant.errors import RequestInvalid
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import DELTAS, Budget, Filter, Guarantee
from accountant.filters.basic import BasicFilter
from accountant.filters.summed import log_ratio

BESIDE: Final = "basic"
"""The value of a policy's `beside`."""
EPSILON: Final = "epsilon"
"""The sum of the epsilons of all granted claims that have one."""
WITHOUT: Final = "without_epsilon"
"""The total that counts the granted claims without an epsilon."""
ENDED: Final = "filter_ended"
"""The total that is 1 once basic composition alone has let a claim in."""


class BesideBasic(Filter):
    """Admit while the filter admits, or while sum epsilon <= epsilon_g of everything granted.

    Basic composition needs no delta of its own, so the guarantee is the filter's
    (docs/theory.md P13). Three rules make that true:

    - Both halves share the limits on the claims' deltas.
    - What basic composition alone lets in ends the filter for ever: its sums stay as they are,
      and from then on basic composition alone admits. The total `filter_ended` is then 1.
    - A claim without an epsilon ends basic composition: the total `without_epsilon` counts them.

    The sums are the filter's, then `epsilon`, and `delta` where the filter has none.

    Args:
        kind: the filter; it must promise an epsilon.

    Raises: RequestInvalid: basic composition adds nothing to the filter.
    """

    def __init__(self, kind: Filter) -> None:
        if not kind.takes_beside:
            rule = f"must be left out for filter {kind.name}"
            raise RequestInvalid("beside", rule, BESIDE)
        self.kind = kind
        self.name, self.budget_fields = kind.name, ("epsilon",)
        self.error_law = BasicFilter.error_law
        self.settles_ex_post, self.adds_up = kind.settles_ex_post, kind.adds_up
        self._compares_sums = isinstance(kind, AdditiveFilter)
        self._width = len(kind.sums)
        self._amount = len(kind.needs)  # the place of epsilon in a price
        own_delta = () if DELTAS & set(kind.sums) else ("delta",)
        self.sums = (*kind.sums, EPSILON, *own_delta)
        self._needs = (*kind.needs, EPSILON, *own_delta)
        # Of each delta its place in the totals, and in a price.
        self._deltas = [
            (i, self._needs.index(name)) for i, name in enumerate(self.sums) if name in DELTAS
        ]
        self._without = len(self.sums)

    @property
    def limited_by_filter(self) -> tuple[str, ...]:
        """Names of the sums that the filter alone limits: all of its own but the deltas."""
        return tuple([name for name in self.kind.sums if name not in DELTAS])

    def has_ended(self, spent: tuple[Units, ...]) -> bool:
        """Tell whether basic composition alone admits from here on."""
        return bool(spent[-1])

    @property
    def state(self) -> tuple[str, ...]:
        return (*self.sums, WITHOUT, ENDED)

    @property
    def needs(self) -> tuple[str, ...]:
        return self._needs

    def default_for_claims(self, delta: Decimal, *, budget_field: str) -> Decimal:
        return self.kind.default_for_claims(delta, budget_field=budget_field)

    def delta_for_claims(self, budget: Budget) -> Decimal:
        return self.kind.delta_for_claims(budget)

    def guarantee(self, budget: Budget) -> Guarantee:
        return self.kind.guarantee(budget)

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        own = [*self.kind.capacity(budget), units_down(self.guarantee(budget).amount)]
        if len(self.sums) > len(own):
            own.append(units_down(budget.delta_for_claims))
        return tuple(own)

    def charge(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> tuple[Units, ...] | None:
        """Return the spent totals after the claim, None if both halves refuse it."""
        without, ended = spent[self._without], spent[-1]
        if self._compares_sums and not ended:
            # Each sum has its limit: where none is passed, both halves admit.
            both = tuple(map(add, spent, price.amounts))
            if not any(map(gt, both, capacity)):
                return (*both[: self._without], without, ended)
        width = self._width
        by_filter = None if ended else self.kind.charge(capacity[:width], spent[:width], price)
        epsilon = price.amounts[self._amount]
        if by_filter is None:
            if not self._basic_admits(capacity, spent, price):
                return None
            after = list(spent[: self._without])
            for i, amount in self._deltas:
                after[i] += price.amounts[amount]
            after[width] += epsilon
            return (*after, without, UNIT)
        rest = spent[width + 1 : self._without]  # a delta that no claim of this filter has
        if epsilon == INFINITE:
            return (*by_filter, spent[width], *rest, without + UNIT, ended)
        return (*by_filter, spent[width] + epsilon, *rest, without, ended)

    def add(self, spent: tuple[Units, ...], price: Price) -> tuple[Units, ...]:
        """As `Filter.add`: both halves count the claim, and one that cannot ends."""
        width, at, ended = self._width, self._without, spent[-1]
        own = spent[:width] if ended else self.kind.add(spent[:width], price)
        if INFINITE in own:
            own, ended = spent[:width], UNIT
        after = [*own, *spent[width:at]]
        for i, amount in self._deltas:
            after[i] = spent[i] + price.amounts[amount]
        epsilon = price.amounts[self._amount]
        bounded = epsilon != INFINITE
        if bounded:
            after[width] = spent[width] + epsilon
        return (*after, spent[at] + (0 if bounded else UNIT), ended)

    def _basic_admits(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> bool:
        if spent[self._without] or price.amounts[self._amount] == INFINITE:
            return False
        return all(
            spent[i] + price.amounts[amount] <= capacity[i] for i, amount in self._basic_sums()
        )

    def _basic_sums(self) -> list[tuple[int, int]]:
        """Return the places of basic composition's sums among the totals, and in a price."""
        return [(self._width, self._amount), *self._deltas]

    def fits(self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price) -> bool:
        by_filter = self.filter_fits(capacity, spent, price)
        return by_filter or self._basic_admits(capacity, spent, price)

    def filter_fits(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> bool:
        """Tell whether the filter itself would admit the claim, and so not end."""
        width = self._width
        return not spent[-1] and self.kind.fits(capacity[:width], spent[:width], price)

    def remaining(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> tuple[Units, ...]:
        """Return the amount by which each sum may still grow; of a half that has ended, 0."""
        width = self._width
        remaining = [*self.kind.remaining(capacity[:width], spent[:width])]
        remaining += [0] * (self._without - width)
        if spent[-1]:
            remaining[:width] = [0] * width
        for i, _ in self._deltas:
            remaining[i] = max(0, capacity[i] - spent[i])
        if not spent[self._without]:
            remaining[width] = max(0, capacity[width] - spent[width])
        return tuple(remaining)

    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        """Return how many such claims fit one after another, None if any number does.

        All count against both halves until the filter ends, so it is the larger count.
        """
        by_filter = self.count_by_filter(capacity, spent, price)
        by_basic = self._basic_count(capacity, spent, price)
        return None if by_filter is None or by_basic is None else max(by_filter, by_basic)

    def count_by_filter(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        """Return how many such claims fit one after another without ending the filter."""
        width = self._width
        return 0 if spent[-1] else self.kind.count(capacity[:width], spent[:width], price)

    def _basic_count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        if not self._basic_admits(capacity, spent, price):
            return 0
        fits = [
            int((capacity[i] - spent[i]) // price.amounts[amount])
            for i, amount in self._basic_sums()
            if price.amounts[amount]
        ]
        return min(fits, default=None)

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        remaining = self.remaining(capacity, spent)
        basic = max(
            log_ratio(price.amounts[amount], remaining[i]) for i, amount in self._basic_sums()
        )
        if spent[-1]:
            return basic
        width = self._width
        by_filter = self.kind.excess(capacity[:width], spent[:width], price)
        return None if by_filter is None else min(basic, by_filter)

    def accepts(self, price: Price) -> bool:
        own = [price.amounts[amount] for _, amount in self._basic_sums()]
        return self.kind.accepts(price) or INFINITE not in own

    def holds(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> bool:
        """Tell whether the half that still admits holds, and what the other one has spent held."""
        width = self._width
        ended, without = spent[-1], spent[self._without]
        if not self.kind.holds(capacity[:width], spent[:width]):
            return False
        if not ended:
            return without % UNIT == 0
        basic = all(spent[i] <= capacity[i] for i, _ in self._basic_sums())
        return basic and ended == UNIT and not without

    def within(self, limits: tuple[Units, ...], spent: tuple[Units, ...]) -> bool:
        """Tell whether a half that still admits is within smaller limits."""
        width = self._width
        if not spent[-1] and self.kind.within(limits[:width], spent[:width]):
            return True
        basic = all(spent[i] <= limits[i] for i, _ in self._basic_sums())
        return basic and not spent[self._without]

    def progress(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> Units:
        """Return the smaller spent part of the halves that admit, in units of `capacity[0]`."""
        width, maximum = self._width, int(capacity[0])
        by_basic = min(maximum, -(-int(spent[width]) * maximum // int(capacity[width])))
        if spent[-1]:
            return by_basic
        by_filter = self.kind.progress(capacity[:width], spent[:width])
        return by_filter if spent[self._without] else min(by_basic, by_filter)
