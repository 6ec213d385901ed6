"""The policy of a dataset: the owner's promise, fixed at opening."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import format_units, parse_in, parse_part, precise, units_down
from accountant.claims.fields import MAX_EPSILON, MAX_RHO, MIN_EPSILON, MIN_RHO, check_delta
from accountant.errors import RequestInvalid
from accountant.field_rules import (
    ApproveWithin,
    Delta,
    EpsilonBudget,
    Horizon,
    Name,
    OpenPerHolder,
    Order,
    Ratio,
    RhoBudget,
    Thresholds,
    Unit,
)
from accountant.filters import FILTERS, BesideBasic, Filter, Guarantee
from accountant.filters.beside import BESIDE
from accountant.odometers import AnyOdometer
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.suggest import did_you_mean
from accountant.values_to_write import part_to_write, period_to_write

Neighbours = Literal["add_remove", "replace"]
"""Which data sets count as neighbours: one unit added or removed, or one replaced."""
Access = Literal["members", "anyone"]
"""Who may ask: members with the role of an analyst, or anyone."""
Visibility = Literal["own", "members"]
"""Whose decisions an analyst may see: the analyst's own, or those of all members."""

DEFAULT_ALERTS: Final = ("0.5", "0.8", "0.95", "1")
MAX_ALERTS: Final = 20
MAX_ODOMETERS: Final = 8
MOST_DAYS_TO_APPROVE: Final = 30
MAX_OPEN: Final = 10_000
"""The most open reservations of a dataset."""
_NO_USE: Final = (
    "to keep somebody from asking, remove their role (`accountant member remove`); to stop "
    "everybody, run `accountant dataset pause`"
)
_INSTEAD_OF_0: Final = {
    "part": _NO_USE,
    "pace.part": _NO_USE,
    "reserved": "to reserve nothing, leave it out",
}
"""What does it, by field, where somebody writes a part of 0."""
_HORIZON = re.compile(r"P([1-9][0-9]{0,4})D")
_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
HORIZON_PATTERN: Final = _HORIZON.pattern
UNIT_PATTERN: Final = _UNIT.pattern


class Policy(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, repr_omit_defaults=True, kw_only=True
):
    """Budget, filter, odometers and thresholds of one dataset.

    Attributes:
        filter: a name in `filters.FILTERS`.
        epsilon, rho: the budget in nats; which of them depends on the filter.
        delta: the whole of delta, 0 <= delta < 1.
        delta_for_claims: delta'', the part that claims may spend. Its default is the filter's,
            see `Filter.default_for_claims`.
        unit: what one neighbour differs in, such as `person`.
        neighbours: the neighbouring relation.
        odometers: running bounds to keep. Default: one `one_sided_mixture` tuned to the
            budget, where the policy has an epsilon and a delta of its own.
        alert_at: ratios of the additive budget, increasing, in (0, 1].
        horizon: how long the budget is meant to last, `P365D`.
        halt_on_refusal: the first refusal for want of budget is the last decision on it.
        order: of filter renyi. `orders`, `weights`: of renyi_weighted and renyi_mixture.
        epsilon_ex_post, delta_ex_post: the second budget of filter split.
        most_per_request: the most that one request may take, as a ratio in (0, 1]: the
            `spent_ratio` that it alone would leave on an empty dataset of the policy.
        beside: `basic`, or left out: basic composition beside the filter, see
            `filters.BesideBasic`.
        epsilon_each: of filter optimal_homogeneous.
        access: `members` for members alone; left out, anyone may ask.
        visibility: what analysts see of each other; left out, see `sees_only_own`.
        population: name of the people that the data are of, the same for every dataset of them.
        open_per_holder: the most open reservations of one analyst or engine; left out, no limit.
        outside: of filter gdp_residue: owners may record releases made elsewhere.
        approve_above: a request that takes more than this part of the budget waits until an owner
            approves it. A ratio as `most_per_request`; left out, no request waits.
        approve_within: how long it may wait, `P1D` to `P30D`; left out, 7 days.

    A field from `halt_on_refusal` on that is left out is not written either, so that what was
    opened before there was such a field reads, and is written, as it was.
    """

    filter: str = "zcdp_tight"
    epsilon: EpsilonBudget | None = None
    rho: RhoBudget | None = None
    delta: Delta = "0"
    delta_for_claims: Delta | None = None
    unit: Unit = "person"
    neighbours: Neighbours = "add_remove"
    odometers: tuple[AnyOdometer, ...] | None = None
    alert_at: Thresholds = DEFAULT_ALERTS
    horizon: Horizon | None = None
    halt_on_refusal: bool | UnsetType = UNSET
    order: Order | UnsetType = UNSET
    orders: tuple[str, ...] | UnsetType = UNSET
    weights: tuple[str, ...] | UnsetType = UNSET
    epsilon_ex_post: EpsilonBudget | UnsetType = UNSET
    delta_ex_post: Delta | UnsetType = UNSET
    most_per_request: Ratio | UnsetType = UNSET
    beside: str | UnsetType = UNSET
    epsilon_each: EpsilonBudget | UnsetType = UNSET
    access: Access | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    population: Name | UnsetType = UNSET
    open_per_holder: OpenPerHolder | UnsetType = UNSET
    outside: bool | UnsetType = UNSET
    approve_above: Ratio | UnsetType = UNSET
    approve_within: ApproveWithin | UnsetType = UNSET

    @property
    def budget_field(self) -> Literal["epsilon", "rho"]:
        """The field that has the budget."""
        return "epsilon" if self.rho is None else "rho"

    @property
    def amount(self) -> str:
        """The budget, in that field; "" without any."""
        return (self.epsilon if self.rho is None else self.rho) or ""


PARAMETERS: Final = tuple(
    field
    for field in Policy.__struct_fields__
    if any(field in kind.parameters for kind in FILTERS.values())
)
"""The policy fields that only some filters read."""


def parameter_text(value: str | tuple[str, ...] | bool) -> str:
    """Return the value of a field of `PARAMETERS` in one text."""
    if isinstance(value, tuple):
        return ",".join(value)
    return value if isinstance(value, str) else str(value).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedBudget:
    """The amounts of a policy, as `filters.Budget` describes them."""

    epsilon: Decimal | None
    rho: Decimal | None
    delta_for_claims: Decimal
    delta_for_filter: Decimal


def filter_of(policy: Policy) -> Filter:
    """Return the policy's filter; equal parameters return the same object.

    Raises: RequestInvalid: no filter has that name, or a parameter breaks its rule.
    """
    try:
        kind = FILTERS[policy.filter]
    except KeyError:
        rule = f"must be one of {', '.join(FILTERS)}"
        hint = did_you_mean(policy.filter, FILTERS)
        raise RequestInvalid("policy.filter", rule, policy.filter, hint=hint) from None
    for field in PARAMETERS:
        value = getattr(policy, field)
        if value is not UNSET and field not in kind.parameters:
            rule = f"must be left out for filter {kind.name}"
            raise RequestInvalid(f"policy.{field}", rule, value)
    values = [(field, getattr(policy, field)) for field in (*kind.reads, *kind.parameters)]
    try:
        kind_made = _make_filter(
            kind, tuple((f, v) for f, v in values if v is not UNSET and v is not None)
        )
        return kind_made if policy.beside is UNSET else _with_basic(kind_made, policy)
    except RequestInvalid as error:
        raise error.under("policy") from None


def _with_basic(kind: Filter, policy: Policy) -> Filter:
    if policy.beside != BESIDE:
        raise RequestInvalid("beside", f"must be {BESIDE}, or left out", policy.beside)
    if policy.rho is not None and kind.takes_beside:
        rule = "must be left out where rho is given: it needs an epsilon"
        raise RequestInvalid("beside", rule, BESIDE)
    return _beside(kind)


_beside = lru_cache(maxsize=4096)(BesideBasic)


@lru_cache(maxsize=4096)
def _make_filter(kind: type[Filter], parameters: tuple[tuple[str, Any], ...]) -> Filter:
    return kind.of(**dict(parameters))


def parse_budget(policy: Policy) -> ParsedBudget:
    """Return the policy's amounts, each within its bounds.

    Raises: RequestInvalid: an amount is out of bounds, or the filter does not read it.
    """
    kind = filter_of(policy)
    budget_field = _budget_field(policy, kind)
    delta = check_delta(policy.delta, "policy.delta")
    if policy.delta_for_claims is None:
        for_claims = kind.default_for_claims(delta, budget_field=budget_field)
    else:
        for_claims = check_delta(policy.delta_for_claims, "policy.delta_for_claims")
    if for_claims > delta:
        rule = "must not exceed delta"
        raise RequestInvalid("policy.delta_for_claims", rule, policy.delta_for_claims)
    with precise():
        for_filter = delta - for_claims
    return ParsedBudget(
        epsilon=_parse_bounded(policy.epsilon, "epsilon", MIN_EPSILON, MAX_EPSILON),
        rho=_parse_bounded(policy.rho, "rho", MIN_RHO, MAX_RHO),
        delta_for_claims=for_claims,
        delta_for_filter=for_filter,
    )


def _budget_field(policy: Policy, kind: Filter) -> str:
    """Return the field that holds the budget, the only one given of `kind.budget_fields`."""
    fields = {"epsilon": policy.epsilon, "rho": policy.rho}
    for field, text in fields.items():
        if text is not None and field not in kind.budget_fields:
            rule = f"must be left out for filter {kind.name}"
            raise RequestInvalid(f"policy.{field}", rule, text)
    present = [field for field in kind.budget_fields if fields[field] is not None]
    if not present:
        rule = f"must be given for filter {kind.name}"
        if len(kind.budget_fields) > 1:
            rule = f"or {' or '.join(kind.budget_fields[1:])} {rule}"
        raise RequestInvalid(f"policy.{kind.budget_fields[0]}", rule, None)
    if len(present) > 1:
        rule = f"must be left out where {present[0]} is given, for filter {kind.name}"
        raise RequestInvalid(f"policy.{present[1]}", rule, fields[present[1]])
    return present[0]


def guarantee_of(policy: Policy) -> Guarantee:
    """Return a policy's promise, which holds for ever and for every sequence of requests.

    Raises: RequestInvalid: a field breaks its rule.
    """
    return filter_of(policy).guarantee(parse_budget(policy))


def _parse_bounded(
    text: str | None, field: str, minimum: Decimal, maximum: Decimal
) -> Decimal | None:
    if text is None:
        return None
    return parse_in(text, field=f"policy.{field}", minimum=minimum, maximum=maximum, zero=False)


def resolve(policy: Policy) -> Policy:
    """Return the policy with every default written out and every field checked.

    The log records the resolved policy at opening, so a new default changes no open dataset.

    Raises: RequestInvalid: a field breaks its rule.
    """
    budget = parse_budget(policy)
    if _UNIT.fullmatch(policy.unit) is None:
        rule = "must be 1 to 100 letters, digits, '.', '_' or '-'"
        raise RequestInvalid("policy.unit", rule, policy.unit)
    check_alerts(policy.alert_at, field="policy.alert_at")
    if policy.horizon is not None:
        check_horizon(policy.horizon, field="policy.horizon")
    if policy.most_per_request is not UNSET:
        check_ratio(policy.most_per_request, field="policy.most_per_request")
    if policy.approve_above is not UNSET:
        check_ratio(policy.approve_above, field="policy.approve_above")
    check_approve_within(policy.approve_above, policy.approve_within, field="policy.approve_within")
    if policy.open_per_holder is not UNSET:
        check_open_per_holder(policy.open_per_holder, 1, field="policy.open_per_holder")
    odometers = policy.odometers
    if odometers is None:
        odometers = _default_odometers(budget)
    if len(odometers) > MAX_ODOMETERS:
        rule = f"must hold at most {MAX_ODOMETERS}"
        raise RequestInvalid("policy.odometers", rule, f"{len(odometers)} odometers")
    for i, odometer in enumerate(odometers):
        try:
            odometer.boundary()
        except RequestInvalid as error:
            raise error.under(f"policy.odometers[{i}]") from None
    names = [str(odometer.__struct_config__.tag) for odometer in odometers]
    if len(set(names)) < len(names):
        raise RequestInvalid("policy.odometers", "must name each type once", ", ".join(names))
    return msgspec.structs.replace(
        policy, delta_for_claims=_text(budget.delta_for_claims), odometers=odometers
    )


def sees_only_own(policy: Policy) -> bool:
    """Tell whether an analyst sees no decisions of others."""
    if policy.visibility is UNSET:
        return policy.access == "members"
    return policy.visibility == "own"


def horizon_seconds(policy: Policy) -> int | None:
    """Return the policy's horizon in seconds, None if it has none."""
    if policy.horizon is None:
        return None
    return int(policy.horizon[1:-1]) * 86_400


def check_horizon(text: str, *, field: str) -> None:
    """Raise RequestInvalid unless `text` is a number of days such as P365D."""
    if _HORIZON.fullmatch(text) is None:
        rule = "must be a number of days such as P365D"
        raise RequestInvalid(field, rule, text, hint=partial(period_to_write, text))


def check_days_to_approve(text: str, *, field: str) -> None:
    """Raise RequestInvalid unless `text` is a number of days from P1D to P30D."""
    check_horizon(text, field=field)
    if int(text[1:-1]) > MOST_DAYS_TO_APPROVE:
        raise RequestInvalid(field, f"must be at most P{MOST_DAYS_TO_APPROVE}D", text)


def check_approve_within(above: str | UnsetType, text: str | UnsetType, *, field: str) -> None:
    """Raise RequestInvalid unless the time that a request may wait is 1 to 30 days.

    Args:
        above: the `approve_above` beside it.
    """
    if text is UNSET:
        return
    if above is UNSET:
        raise RequestInvalid(field, "must be left out without approve_above", text)
    check_days_to_approve(text, field=field)


def check_ratio(text: str, *, field: str) -> None:
    """Raise RequestInvalid unless `text` is a number in (0, 1]."""
    if not 0 < parse_part(text, field=field) <= 1:
        rule = "must be above 0 and at most 1"
        raise RequestInvalid(field, rule, text, hint=partial(_part_instead, field, text))


def _part_instead(field: str, text: str) -> str:
    """Return what somebody may want who writes a part of the budget that is none."""
    if field in _INSTEAD_OF_0 and not text.strip("0."):
        return _INSTEAD_OF_0[field]
    return part_to_write(text)


def check_open_per_holder(count: int, least: int, *, field: str) -> None:
    """Raise RequestInvalid unless a number of reservations is from `least` to the most."""
    if not least <= count <= MAX_OPEN:
        raise RequestInvalid(field, f"must be from {least} to {MAX_OPEN}", count)


def check_alerts(alert_at: tuple[str, ...], *, field: str) -> None:
    """Raise RequestInvalid unless the ratios increase within (0, 1]."""
    if len(alert_at) > MAX_ALERTS:
        raise RequestInvalid(field, f"must hold at most {MAX_ALERTS} ratios", len(alert_at))
    before = Decimal(0)
    for i, text in enumerate(alert_at):
        ratio = parse_part(text, field=f"{field}[{i}]")
        if not before < ratio <= 1:
            rule = "must be above the one before it, above 0 and at most 1"
            raise RequestInvalid(f"{field}[{i}]", rule, text, hint=partial(part_to_write, text))
        before = ratio


def _default_odometers(budget: ParsedBudget) -> tuple[AnyOdometer, ...]:
    if not budget.epsilon or not units_down(budget.delta_for_filter):
        return ()
    # r = V/(2 ln(1/delta')) is nearly optimal at intrinsic time V, and V at the full budget
    # is about epsilon^2/(2 ln(1/delta')). Any r > 0 is valid, so three digits are enough.
    with precise():
        log = -budget.delta_for_filter.ln()
        r = max(budget.epsilon**2 / (4 * log * log), Decimal("1e-25"))
    return (OneSidedMixture(delta=_text(budget.delta_for_filter), r=_text(Decimal(f"{r:.3g}"))),)


def _text(value: Decimal) -> str:
    return format_units(units_down(value))
