"""A budget of some filter: its admissions, charges and remaining amounts, for any capacities.

A limit may have a part of a dataset's capacities, so each question is asked with its own.
"""

from __future__ import annotations

import copy
import json
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Self

from tests.faults.oracle import filters, halves, mixture, residue
from tests.faults.oracle.amounts import INFINITE, Range, as_text, rounded_up, units, whole_up
from tests.faults.oracle.expected import AmountRanges
from tests.faults.oracle.policies import PARAMETERS
from tests.faults.oracle.worth import atoms, price

Amounts = dict[str, Any]
"""In units by the name of the sum: exact, or the float `INFINITE`."""
Texts = dict[str, str]
_STEPS: Final = 10**8
_NOTHING: Final = (0, 0)
STATE: Final = "mu_squared"
"""The sum of gdp_residue in which a cost depends on what was spent before."""


class Meter:
    """One filter with its parameters.

    Args:
        policy: resolved.
        whole: the filter's own capacities. `limits`: what of them is in force.

    Attributes:
        kind: what two budgets must share so that one counts on where the other was.
        sums, state: names of what has a limit, and of all that is kept.
    """

    def __init__(self, policy: dict[str, Any], whole: Amounts) -> None:
        self.policy = policy
        self.whole = self.limits = whole
        fixed = [f"{name}={_joined(policy[name])}" for name in PARAMETERS if name in policy]
        beside = [f"beside={policy['beside']}"] if "beside" in policy else []
        self.kind = ";".join((policy["filter"], *fixed, *beside))
        self.sums = halves.sums(policy)
        self.state = halves.state(policy)
        self.own = filters.sums(policy)

    def below(self, limits: Amounts) -> Self:
        """Return the same filter with another part of its capacities in force."""
        found = copy.copy(self)
        found.limits = limits
        return found

    def __deepcopy__(self, _: object) -> Self:
        return self  # nothing of it changes

    def price(self, claim: str) -> dict[str, Range]:
        """Return the possible cost of a claim, as JSON, in each sum that needs a price."""
        return _price(claim, halves.needs(self.policy))

    def residue(self, capacity: Amounts, spent: Amounts, claim: str) -> Range | None:
        """Return the possible cost of a claim to a Gaussian residue; None if it does not fit."""
        name = self.own[0]
        return residue.charge(list(atoms(json.loads(claim))), capacity[name] - spent[name])

    def nothing(self) -> Amounts:
        return dict.fromkeys(self.state, 0)

    def accepts(self, claim: str) -> bool:
        """Return whether some budget, however large, would admit a claim."""
        return halves.accepts(self.policy, json.loads(claim), self.price(claim))

    def charged(
        self,
        capacity: Amounts,
        spent: Amounts,
        claim: str,
        said: Texts | None = None,
        *,
        reserve: bool = False,
    ) -> Amounts | None:
        """Return the spending after a claim; None if it does not fit.

        Args:
            said: the totals that the ledger tells, which are taken where they are right ones.
            reserve: the claim may be voided later.
        """
        found = self.voidable(capacity, spent, claim) if reserve else None
        if found is None:
            price = self.price(claim)
            own = self._by_filter(capacity, spent, claim, price)
            found = halves.charged(self.policy, capacity, spent, own, price)
        if found is None:
            return None
        said = said or {}
        return {name: grown(spent[name], found[name], said.get(name)) for name in self.state}

    def above(
        self, capacity: Amounts, spent: Amounts, claim: str, said: Texts | None = None
    ) -> Amounts:
        """Return the spending after a claim that nothing refuses; no price uses a sum up."""
        price = self.price(claim)
        own = {name: price[name] for name in self.own}
        if self.is_by_state:
            own[STATE] = residue.voidable(list(atoms(json.loads(claim))))
        found, said = halves.above(self.policy, spent, own, price), said or {}
        return {
            name: max(spent[name], capacity[name])
            if found[name][0] == INFINITE
            else grown(spent[name], found[name], said.get(name))
            for name in self.state
        }

    @property
    def is_by_state(self) -> bool:
        """Whether a cost may depend on what was spent before."""
        return filters.is_by_state(self.policy)

    def voidable(self, capacity: Amounts, spent: Amounts, claim: str) -> dict[str, Range] | None:
        """Return the cost of a claim of which all comes back if it is voided.

        Returns: None if it does not fit, and under a filter that charges every claim so.
        """
        if not self.is_by_state:
            return None
        price = self.price(claim)
        cost = residue.voidable(list(atoms(json.loads(claim))))
        own = {name: price[name] for name in self.own} | {STATE: cost}
        after = {name: grown(spent[name], own[name]) for name in self.own}
        if not self._admits(capacity, after):
            return None
        found = halves.charged(self.policy, capacity, spent, own, price)
        return None if found is None or found.get(halves.ENDED, _NOTHING)[0] else found

    def begun(
        self, capacity: Amounts, spent: Amounts, charged: Amounts, claim: str, said: str | None
    ) -> Any:
        """Return the state once a mechanism that was charged as a Gaussian pays its own cost.

        Returns: None where nothing is charged again.
        """
        if not self.is_by_state or not charged[STATE] or spent.get(halves.ENDED):
            return None
        price = self.price(claim)
        if price[STATE][0] != INFINITE:
            return None
        before = {name: spent[name] - charged[name] for name in self.state}
        if any(before[name] > capacity[name] for name in self.own):
            return None
        own = self._by_filter(capacity, before, claim, price)
        found = halves.charged(self.policy, capacity, before, own, price)
        if found is None or found.get(halves.ENDED, _NOTHING)[0]:
            return None
        after = grown(before[STATE], found[STATE], said)
        return after if after < spent[STATE] else None

    def _by_filter(
        self, capacity: Amounts, spent: Amounts, claim: str, price: dict[str, Range]
    ) -> dict[str, Range] | None:
        own = {name: price[name] for name in self.own}
        if self.is_by_state:
            found = self.residue(capacity, spent, claim)
            if found is None:
                return None
            own[self.own[0]] = found
        after = {name: grown(spent[name], own[name]) for name in self.own}
        return own if self._admits(capacity, after) else None

    def is_in_force(self, after: Amounts) -> bool:
        """Return whether totals are within the budget in force, in a half that still admits."""
        if self.limits == self.whole:
            return True
        ended = halves.is_beside(self.policy) and after[halves.ENDED]
        if not ended and self._admits(self.limits, after):
            return True
        return halves.basic_holds(self.policy, self.limits, after)

    def _admits(self, capacity: Amounts, after: Amounts) -> bool:
        most, totals = (tuple(each[name] for name in self.own) for each in (capacity, after))
        if self.policy["filter"] == "renyi_mixture" and capacity != self.whole:
            within = any(total <= limit for total, limit in zip(totals, most, strict=True))
            return within or mixture.proves(self._setting(), self._shifted(capacity, totals))
        return filters.admits(self.policy, most, totals)

    def _setting(self) -> mixture.Setting:
        own, orders = filters.deltas(self.policy)[0], tuple(filters.orders(self.policy))
        return self.policy["epsilon"], own, orders, tuple(filters.weights(self.policy))

    def _shifted(self, capacity: Amounts, totals: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return totals that are as far from the whole capacities as from these capacities."""
        return tuple(
            _plus(total, self.whole[name] - capacity[name])
            for name, total in zip(self.own, totals, strict=True)
        )

    def left(self, capacity: Amounts, spent: Amounts) -> Amounts:
        """Return the remaining amount of each sum, never less than 0."""
        room = halves.left(self.policy, capacity, spent)
        return {name: max(0, math.floor(each)) for name, each in room.items()}

    def part(self, capacity: Amounts, spent: Amounts) -> Fraction:
        """Return the spent part of the additive budget."""
        if self.policy["filter"] != "renyi_mixture" or capacity == self.whole:
            return halves.spent_part(self.policy, capacity, spent)
        totals = tuple(spent[name] for name in self.own)
        if not all(totals):
            return Fraction(0)
        setting, low, high = self._setting(), 0, _STEPS
        while high - low > 1:
            middle = (low + high) // 2
            larger = tuple(
                total if total == INFINITE else -(-math.ceil(total) * _STEPS // middle)
                for total in totals
            )
            within = mixture.proves(setting, self._shifted(capacity, larger))
            low, high = (low, middle) if within else (middle, high)
        return Fraction(high, _STEPS)

    def parts_of_whole(self, ratio: str) -> Amounts:
        """Return a part of each capacity, rounded down to units."""
        return {n: math.floor(Fraction(ratio) * int(most)) for n, most in self.whole.items()}


def _joined(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else ",".join(value)


def _plus(one: Any, other: Any) -> Any:
    # Python cannot add a large integer to a float that is infinite.
    return INFINITE if INFINITE in (one, other) else one + other


def grown(before: Any, span: Range, said: str | None = None) -> Any:
    """Return a total after a cost within a range.

    Args:
        said: what the ledger tells of the total, taken where it is a right one.
    """
    low, high = span
    if said is None or low == high or INFINITE in (before, low):
        return _plus(before, low)
    amount = low + math.floor(units(said) - before - low)
    return before + (amount if low <= amount <= high else low)


@lru_cache(maxsize=16_384)
def _price(claim: str, names: tuple[str, ...]) -> dict[str, Range]:
    return price(json.loads(claim), names)


def texts(amounts: Amounts) -> Texts:
    """Return amounts in the log's format of spending: rounded up."""
    return {name: as_text(whole_up(amount)) for name, amount in amounts.items()}


def amount_fields(name: str, amounts: Amounts) -> dict[str, Any]:
    """Return amounts in the format of `levels`, and their rounding."""
    over = rounded_up(amounts)
    prefix = "" if name == "totals" else f"{name}_"
    return {name: texts(amounts), **({f"{prefix}rounded_up": over} if over else {})}


def down(amounts: Amounts) -> Texts:
    """Return amounts in the log's format of remaining amounts: rounded down, never below 0."""
    return {name: as_text(max(0, math.floor(amount))) for name, amount in amounts.items()}


@lru_cache(maxsize=4096)
def budget_of(policy: str) -> AmountRanges:
    """Return the permitted budgets of a resolved policy, as JSON."""
    full = json.loads(policy)
    return AmountRanges(dict(zip(halves.sums(full), halves.capacities(full), strict=True)))


def read(budget: Texts) -> Amounts:
    """Return a budget of the log in units."""
    return {name: int(units(text)) for name, text in budget.items()}
