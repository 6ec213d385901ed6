"""A policy compiled once, so that a decision takes only sums and comparisons."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import INFINITE, Units, format_units, parse_units, part_up, units_down
from accountant.claims import Zcdp, check_claim
from accountant.claims.price import price
from accountant.errors import RequestInvalid
from accountant.filters import Filter
from accountant.filters.basic import BasicFilter
from accountant.filters.beside import ENDED
from accountant.filters.summed import SummedFilter
from accountant.odometers import Reader, sums_of
from accountant.policy import Policy, filter_of, horizon_seconds, parse_budget, resolve
from accountant.policy.cap import CappedFilter, check_cap
from accountant.policy.in_force import (
    BrakedFilter,
    BudgetInForce,
    StoredBudgetInForce,
    check_one_amount,
    policy_under,
    stored,
)

_ENCODE = msgspec.json.encode
# A refusal after this part of the budget is spent counts as exhaustion: claims rarely spend a
# budget to the last unit.
_NEARLY: Final = (19, 20)
_DAY_MS: Final = 86_400_000
_WITHOUT_EPSILON: Final = check_claim(Zcdp(rho="1"))


class CompiledPolicy:
    """A policy with its stored budget; all datasets that have both share it.

    Attributes:
        policy: resolved, see `policy.resolve`.
        kind: its filter.
        additive: a granted claim adds exactly its price to the filter's totals.
        sums: names of the totals, the filter's first.
        width: how many of `sums` belong to the filter.
        ended: place among `sums` of the total for an ended filter (`filters.BesideBasic`),
            None for a policy without `beside`.
        priced: names of the sums of a price: the filter's needs, then the odometers' sums.
        needed: how many of `priced` the filter needs.
        cap: what one request may take at most, None for no such limit.
        approval: what one request may take without an owner's approval, None for no such limit.
        approve_ms: how long a request may wait for it, in milliseconds.
        search_filter: the filter, with cap and brake if there are any: what a request would be
            granted by.
        capacity: the limit of each of the filter's sums, in units of 1e-40: the ceiling's.
        in_force: the budget in force, UNSET where all of the ceiling is.
        limits: of each of the filter's sums what is in force, in units; `most` is the first.
        is_plain: the filter alone decides, without cap and brake.
        brake: what grants no more than is in force, None where all of the ceiling is.
        readers: its odometers; `reader_names` are their names.
        thresholds: the spent amounts that cross each ratio of `policy.alert_at`.
        nearly: a refusal from this spent amount on means exhaustion; 0 if the policy halts on
            any refusal.
        members_only: only members may ask.
        dates_grants: the time of the first grant is stored, since the policy names a population.
        error_law: the law of noise that a question with `error` gets by default: that of the
            filter, but that of basic composition where an odometer needs epsilons.
        policy_wire, budget_wire: their form in the log and in snapshots. `limits_wire`: that of
            `limits` in views.
    """

    __slots__ = (
        "_reads",
        "additive",
        "approval",
        "approve_ms",
        "brake",
        "budget_wire",
        "cap",
        "capacity",
        "dates_grants",
        "ended",
        "error_law",
        "horizon_seconds",
        "in_force",
        "is_plain",
        "kind",
        "limits",
        "limits_wire",
        "members_only",
        "most",
        "nearly",
        "needed",
        "policy",
        "policy_wire",
        "priced",
        "reader_names",
        "readers",
        "search_filter",
        "sums",
        "thresholds",
        "width",
    )

    def __init__(
        self,
        policy: Policy,
        capacity: tuple[Units, ...],
        in_force: StoredBudgetInForce | UnsetType = UNSET,
    ) -> None:
        kind: Filter = filter_of(policy)
        odometers = policy.odometers or ()
        budget = parse_budget(policy)
        limit = units_down(kind.delta_for_claims(budget))
        additive = isinstance(kind, SummedFilter)
        names: list[str] = []
        for odometer in odometers:
            # Where claims may spend no delta, the filter refuses every claim that has one. The
            # odometers' sums of deltas would stay 0, so the totals leave them out.
            needed = sums_of(odometer, with_deltas=limit > 0, with_ex_post=kind.settles_ex_post)
            shared = kind.sums if additive else ()
            names += [name for name in needed if name not in names and name not in shared]
        self.policy = policy
        self.kind = kind
        self.additive = additive
        self.sums = (*kind.state, *names)
        self.width = len(kind.state)
        self.ended = self.sums.index(ENDED) if ENDED in kind.state else None
        self.priced = (*kind.needs, *names)
        self.needed = len(kind.needs)
        self.capacity = capacity
        ratio = policy.most_per_request
        capped = ratio is not UNSET and Fraction(ratio) < 1
        self.in_force = in_force
        self.limits = limits = capacity if in_force is UNSET else in_force.limits(capacity)
        self.most = most = int(limits[0])
        self.cap = CappedFilter(kind, capacity, str(ratio), limits) if capped else None
        offered: Filter | CappedFilter = self.cap or kind
        above = policy.approve_above
        asks = above is not UNSET and Fraction(above) < 1
        self.approval = CappedFilter(kind, capacity, str(above), limits) if asks else None
        self.approve_ms = int((policy.approve_within or "P7D")[1:-1]) * _DAY_MS
        self.brake = None if limits == capacity else BrakedFilter(offered, kind, limits)
        self.search_filter: Filter | CappedFilter | BrakedFilter = self.brake or offered
        self.is_plain = self.search_filter is kind
        self.readers = tuple(Reader(odometer, self.sums, limit) for odometer in odometers)
        self._reads = tuple(reader.read for reader in self.readers)
        self.reader_names = tuple(reader.name for reader in self.readers)
        self.thresholds = _thresholds(policy.alert_at, most)
        nearly = -(-most * _NEARLY[0] // _NEARLY[1])
        self.nearly = 0 if policy.halt_on_refusal else nearly
        self.policy_wire = msgspec.Raw(_ENCODE(policy))
        self.budget_wire = dict(
            zip(kind.sums, [format_units(limit) for limit in capacity], strict=True)
        )
        self.limits_wire = dict(
            zip(kind.sums, [format_units(limit) for limit in limits], strict=True)
        )
        self.members_only = policy.access == "members"
        self.dates_grants = policy.population is not UNSET
        needs_epsilons = INFINITE in price(_WITHOUT_EPSILON, tuple(names)).amounts
        self.error_law = (BasicFilter if needs_epsilons else kind).error_law
        self.horizon_seconds = horizon_seconds(policy)

    def progress(self, totals: tuple[Units, ...]) -> Units:
        """Return the spent amount of the additive budget, in units of 1e-40."""
        return min(self.kind.progress(self.limits, totals[: self.width]), self.most)

    def spent_ratio(self, totals: tuple[Units, ...]) -> float:
        """Return the spent part of the additive budget in force, rounded up, in [0, 1]."""
        return part_up(self.progress(totals), self.most)

    def remaining(self, spent: tuple[Units, ...]) -> tuple[Units, ...]:
        """Return the amount by which each of the filter's sums may still grow."""
        room = self.kind.remaining(self.limits, spent)
        return room if self.brake is None else tuple([max(0, each) for each in room])

    def count_crossed(self, spent: Units, *, exhausted: bool) -> int:
        """Return how many thresholds an amount has crossed; exhaustion crosses them all."""
        return len(self.thresholds) if exhausted else bisect_right(self.thresholds, spent)

    def readings(self, totals: tuple[Units, ...]) -> tuple[float, ...]:
        """Return every odometer's reading in nats, rounded up."""
        reads = self._reads
        # Nearly every policy has one odometer; a comprehension would double the time.
        if len(reads) == 1:
            return (reads[0](totals),)
        return tuple([read(totals) for read in reads])


def _thresholds(alert_at: tuple[str, ...], capacity: int) -> tuple[int, ...]:
    return tuple(math.ceil(Fraction(text) * capacity) for text in alert_at)


@lru_cache(maxsize=4096)
def open_plan(policy: Policy) -> CompiledPolicy:
    """Return a resolved policy compiled, with the filter's capacity rounded down.

    Raises: RequestInvalid: the filter cannot use the policy's budget.
    """
    kind = filter_of(policy)
    try:
        capacity = kind.capacity(parse_budget(policy))
    except RequestInvalid as error:
        raise error if error.field.startswith("policy.") else error.under("policy") from None
    if capacity[0] <= 0:
        rule = f"must leave filter {kind.name} a budget of at least 1e-40"
        raise RequestInvalid("policy", rule, format_units(capacity[0]))
    if policy.most_per_request is not UNSET:
        check_cap(policy.most_per_request, capacity, field="policy.most_per_request")
    return CompiledPolicy(policy, capacity)


@lru_cache(maxsize=4096)
def stored_plan(
    policy: Policy,
    budget: tuple[str, ...],
    in_force: StoredBudgetInForce | UnsetType = UNSET,
) -> CompiledPolicy:
    """Return a policy compiled with the amounts stored in the log, never computed again."""
    return CompiledPolicy(policy, tuple(parse_units(text) for text in budget), in_force)


@lru_cache(maxsize=4096)
def below(plan: CompiledPolicy, in_force: StoredBudgetInForce | UnsetType) -> CompiledPolicy:
    """Return a compiled policy below a budget in force, UNSET for all of its ceiling."""
    return CompiledPolicy(plan.policy, plan.capacity, in_force)


def budget_below(plan: CompiledPolicy, budget: BudgetInForce) -> StoredBudgetInForce | None:
    """Return a budget in force as it is stored, None where the ceiling has no such part.

    Raises: RequestInvalid: the filter cannot use so small a budget.
    """
    policy = policy_under(plan.policy, budget)
    if policy is None:
        return None
    return stored(budget, plan.kind.sums, open_plan(policy).capacity)


def open_below(wanted: Policy, ceiling: str) -> CompiledPolicy:
    """Return the compiled policy of an opening whose ceiling is above its budget.

    Args:
        wanted: its budget is in force.
        ceiling: in the same parameter.
    Raises: RequestInvalid: a field breaks its rule, or the ceiling is below the budget.
    """
    field = wanted.budget_field
    budget = BudgetInForce(**{field: wanted.amount or None})
    check_one_amount(budget, "policy")
    whole = msgspec.structs.replace(wanted, **{field: ceiling})
    plan = open_plan(resolve(whole))
    in_force = budget_below(plan, budget)
    if in_force is None:
        rule = f"must be at least the budget in force, {budget.amount}"
        raise RequestInvalid("ceiling", rule, ceiling)
    return below(plan, in_force)


def plan_of_opening(wanted: Policy, ceiling: str | None) -> CompiledPolicy:
    """Return the compiled policy of an opening.

    Args:
        wanted: its budget is in force.
        ceiling: in the same parameter, or None: then the budget is the ceiling.
    Raises: RequestInvalid: as of `resolve` and `open_below`.
    """
    return open_plan(resolve(wanted)) if ceiling is None else open_below(wanted, ceiling)
