"""The validity of policies, and their resolved form: docs/reference/records/policy.md."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from typing import Any, Final

from tests.faults.oracle import filters
from tests.faults.oracle.amounts import UNIT, as_text, mp, real
from tests.faults.oracle.halves import WITHOUT_AN_EPSILON
from tests.faults.oracle.members import MAY_BE_IN_A_POLICY, is_access, is_visibility
from tests.faults.oracle.texts import amount, is_delta, is_name, is_unit, within

Policy = dict[str, Any]

_FIELDS: Final = {
    *("filter", "epsilon", "rho", "delta", "delta_for_claims", "unit", "neighbours"),
    *("odometers", "alert_at", "horizon", "halt_on_refusal", "order", "orders", "weights"),
    *("epsilon_ex_post", "delta_ex_post", "most_per_request", "epsilon_each", "beside"),
    *("open_per_holder", "outside", "approve_above", "approve_within"),
    *MAY_BE_IN_A_POLICY,
}
_OF_FILTER: Final = {
    "order": {"renyi"},
    "orders": filters.WITH_ORDERS,
    "weights": filters.WITH_ORDERS,
    "epsilon_ex_post": {"split"},
    "delta_ex_post": {"split"},
    "epsilon_each": {"optimal_homogeneous"},
    "outside": {"gdp_residue"},
}
PARAMETERS: Final = tuple(_OF_FILTER)
"""The fields of single filters; an amendment must not change them."""
_ALL_OF_DELTA: Final = {"basic", "zcdp", "ex_post"}
_OWN_DELTA: Final = set(filters.NAMES) - _ALL_OF_DELTA - {"advanced_2016"}
_BOOLEANS: Final = ("halt_on_refusal", "outside")
_HORIZON: Final = re.compile(r"P([1-9][0-9]{0,4})D")
_EPSILON: Final = Fraction("1e-12"), Fraction(1000)
_RHO: Final = Fraction("1e-25"), Fraction(10**6)
_ORDER: Final = Fraction("1.000001"), Fraction(10**9)
_FREE: Final = Fraction("1e-25"), Fraction(10**9)
_ODOMETERS: Final[dict[str, set[str]]] = {
    "basic": set(),
    "advanced_2016": {"delta", "beta"},
    "advanced_2016_n": {"delta", "n"},
    "linear": {"delta", "y"},
    "mixture": {"delta", "r"},
    "one_sided_mixture": {"delta", "r"},
    "one_sided_mixture_exact": {"delta", "r"},
    "stitched": {"delta", "v0"},
    "combined": {"odometers"},
}
_BELOW_1_BY_E: Final = {"advanced_2016", "advanced_2016_n"}


def is_horizon(value: Any) -> bool:
    """Return whether a text is a number of days."""
    return isinstance(value, str) and _HORIZON.fullmatch(value) is not None


def is_ratio(value: Any) -> bool:
    """Return whether a text is a number in (0, 1]."""
    ratio = amount(value)
    return ratio is not None and 0 < ratio <= 1


def is_per_holder(value: Any) -> bool:
    """Return whether a value is how many open reservations one holder may have."""
    return type(value) is int and 1 <= value <= 10_000


def ratios_are_broken(value: Any) -> bool:
    """Return whether thresholds do not increase within (0, 1], or are too many."""
    if not isinstance(value, list) or len(value) > 20 or not all(map(is_ratio, value)):
        return True
    ratios = [Fraction(each) for each in value]
    return any(after <= before for before, after in itertools.pairwise(ratios))


def _is_below_1_by_e(delta: Fraction) -> bool:
    return bool(delta) and mp.log(real(delta)) < -1


def default_for_claims(policy: Policy) -> Fraction:
    """Return delta'' of a policy without one."""
    delta = Fraction(policy.get("delta", "0"))
    name = policy.get("filter", "zcdp_tight")
    if name in _ALL_OF_DELTA or (name == "unified_brownian" and policy.get("rho") is not None):
        return delta
    return delta / 2 if name == "advanced_2016" else Fraction(0)


def broken_policy(policy: Any) -> bool:
    """Return whether a policy breaks a rule."""
    if not isinstance(policy, dict) or not policy.keys() <= _FIELDS:
        return True
    name = policy.get("filter", "zcdp_tight")
    if name not in filters.NAMES:
        return True
    if any(field in policy and name not in kinds for field, kinds in _OF_FILTER.items()):
        return True
    if "beside" in policy and not _takes_beside(policy, name):
        return True
    return _budget_is_broken(policy, name) or _rest_is_broken(policy) or _leaves_nothing(policy)


def _takes_beside(policy: Policy, name: str) -> bool:
    without = name in WITHOUT_AN_EPSILON or policy.get("rho") is not None
    return policy["beside"] == "basic" and not without


def _budget_is_broken(policy: Policy, name: str) -> bool:
    held = {"zcdp": {"rho"}, "unified_brownian": {"epsilon", "rho"}}.get(name, {"epsilon"})
    budgets = {field for field in ("epsilon", "rho") if policy.get(field) is not None}
    if len(budgets) != 1 or not budgets <= held:
        return True
    (field,) = budgets
    bounds = _EPSILON if field == "epsilon" else _RHO
    if not within(amount(policy[field]), *bounds, zero=False):
        return True
    delta = amount(policy.get("delta", "0"))
    if delta is None or not is_delta(delta):
        return True
    claims: Fraction | None = default_for_claims(policy)
    if policy.get("delta_for_claims") is not None:
        claims = amount(policy["delta_for_claims"])
    if claims is None or claims > delta:
        return True
    own_needed = name in _OWN_DELTA and not (name == "unified_brownian" and field == "rho")
    if own_needed and claims >= delta:
        return True
    if name.startswith("renyi"):
        return bool(claims) or _orders_are_broken(policy, name)
    if name == "advanced_2016":
        return not _is_below_1_by_e(delta) or 2 * claims > delta
    if name == "optimal_homogeneous":
        return not within(amount(policy.get("epsilon_each")), *_EPSILON, zero=False)
    return name == "split" and _second_is_broken(policy, delta)


def _second_is_broken(policy: Policy, delta: Fraction) -> bool:
    shown = amount(policy.get("delta_ex_post", "0"))
    if shown is None or shown + delta >= 1:
        return True
    return not within(amount(policy.get("epsilon_ex_post")), *_EPSILON, zero=False)


def _orders_are_broken(policy: Policy, name: str) -> bool:
    texts = [policy.get("order")] if name == "renyi" else policy.get("orders")
    if not isinstance(texts, list) or not 1 <= len(texts) <= 16:
        return True
    orders = [amount(text) for text in texts]
    if not all(within(order, *_ORDER, zero=False) for order in orders):
        return True
    exact = [order for order in orders if order is not None]
    if any(after <= before for before, after in itertools.pairwise(exact)):
        return True
    parts = policy.get("weights")
    if parts is None:
        return False
    if not isinstance(parts, list) or len(parts) != len(texts):
        return True
    shares = [amount(part) for part in parts]
    return not all(shares) or sum(share for share in shares if share is not None) > 1


def _rest_is_broken(policy: Policy) -> bool:
    if not is_unit(policy.get("unit", "person")):
        return True
    if policy.get("neighbours", "add_remove") not in ("add_remove", "replace"):
        return True
    if "alert_at" in policy and ratios_are_broken(policy["alert_at"]):
        return True
    if policy.get("horizon") is not None and not is_horizon(policy["horizon"]):
        return True
    if any(name in policy and not isinstance(policy[name], bool) for name in _BOOLEANS):
        return True
    if "most_per_request" in policy and not is_ratio(policy["most_per_request"]):
        return True
    if _of_approvals_is_broken(policy):
        return True
    if "open_per_holder" in policy and not is_per_holder(policy["open_per_holder"]):
        return True
    if _of_people_is_broken(policy):
        return True
    odometers = policy.get("odometers")
    if odometers is None:
        return False
    if not isinstance(odometers, list) or len(odometers) > 8:
        return True
    if any(map(_odometer_is_broken, odometers)):
        return True
    return len({each["type"] for each in odometers}) < len(odometers)


def _of_approvals_is_broken(policy: Policy) -> bool:
    if "approve_above" in policy and not is_ratio(policy["approve_above"]):
        return True
    if "approve_within" not in policy:
        return False
    return "approve_above" not in policy or not is_approve_within(policy["approve_within"])


def is_approve_within(value: Any) -> bool:
    """Return whether a value is the time that a request may wait."""
    return is_horizon(value) and int(value[1:-1]) <= 30


def _of_people_is_broken(policy: Policy) -> bool:
    rules = zip(MAY_BE_IN_A_POLICY, (is_access, is_visibility, is_name), strict=True)
    return any(name in policy and not rule(policy[name]) for name, rule in rules)


def _odometer_is_broken(odometer: Any, *, part: bool = False) -> bool:
    kind = odometer.get("type") if isinstance(odometer, dict) else None
    if kind not in _ODOMETERS or odometer.keys() != _ODOMETERS[kind] | {"type"}:
        return True
    if kind == "combined":
        parts = odometer["odometers"]
        if part or not isinstance(parts, list) or not 2 <= len(parts) <= 8:
            return True
        if any(_odometer_is_broken(each, part=True) for each in parts):
            return True
        return sum(_failure(each) for each in parts) >= 1
    for name in odometer.keys() - {"type", "n", "delta"}:
        if not within(amount(odometer[name]), *_FREE, zero=False):
            return True
    if kind == "advanced_2016_n":
        n = odometer["n"]
        if not isinstance(n, int) or isinstance(n, bool) or not 4 <= n <= 10**12:
            return True
    delta = amount(odometer["delta"]) if "delta" in odometer else Fraction("1e-6")
    if not delta or not is_delta(delta):
        return True
    return kind in _BELOW_1_BY_E and not _is_below_1_by_e(delta)


def _failure(odometer: Any) -> Fraction:
    delta = Fraction(odometer.get("delta", "0"))
    return delta / 2 if odometer["type"] in _BELOW_1_BY_E else delta


def _leaves_nothing(policy: Policy) -> bool:
    """Return whether the filter has no usable budget under a policy that is valid otherwise."""
    full = resolved(policy)
    first = int(filters.capacities(full)[0][1])
    if full["filter"].startswith("renyi"):
        return any(most <= 0 for _, most in filters.capacities(full))
    if full["filter"] == "optimal_homogeneous" and first > filters.MOST_COUNTED * UNIT:
        return True
    cap = full.get("most_per_request")
    return first <= 0 or (cap is not None and Fraction(cap) * first < 1)


def resolved(policy: Policy) -> Policy:
    """Return a valid policy with every default, as an opening repeats it."""
    claims = policy.get("delta_for_claims")
    exact = default_for_claims(policy) if claims is None else Fraction(claims)
    full: Policy = {
        "filter": policy.get("filter", "zcdp_tight"),
        "epsilon": policy.get("epsilon"),
        "rho": policy.get("rho"),
        "delta": policy.get("delta", "0"),
        "delta_for_claims": as_text(math.floor(exact * UNIT)),
        "unit": policy.get("unit", "person"),
        "neighbours": policy.get("neighbours", "add_remove"),
        "odometers": policy.get("odometers"),
        "alert_at": policy.get("alert_at", ["0.5", "0.8", "0.95", "1"]),
        "horizon": policy.get("horizon"),
    }
    full |= {name: policy[name] for name in ("halt_on_refusal", *PARAMETERS) if name in policy}
    more = ("most_per_request", "beside", *MAY_BE_IN_A_POLICY, "open_per_holder")
    more += ("approve_above", "approve_within")
    full |= {name: policy[name] for name in more if name in policy}
    if full["odometers"] is None:
        full["odometers"] = _default_odometers(full)
    return full


def promises_more(now: Policy, was: Policy) -> bool:
    """Return whether a policy's guarantee is somewhere larger than another's."""
    (name, amount_now, delta), (before, amount_was, delta_was) = guarantee(now), guarantee(was)
    return name != before or amount_now > amount_was or delta > delta_was


def guarantee(policy: Policy) -> tuple[str, Fraction, Fraction]:
    """Return the kind of a policy's guarantee, its amount and its delta."""
    name = "rho" if policy["epsilon"] is None else "epsilon"
    more = Fraction(policy.get("epsilon_ex_post", 0))
    delta = Fraction(policy["delta"]) + Fraction(policy.get("delta_ex_post", 0))
    return name, Fraction(policy[name]) + more, delta


def _default_odometers(policy: Policy) -> list[dict[str, Any]]:
    own = filters.deltas(policy)[0]
    if policy["epsilon"] is None or math.floor(own * UNIT) <= 0:
        return []
    log = mp.log(real(own))
    r = real(policy["epsilon"]) ** 2 / (4 * log * log)
    short = Fraction(mp.nstr(max(r, mp.mpf("1e-25")), 3))
    units = math.floor(short * UNIT)
    delta = as_text(math.floor(own * UNIT))
    return [{"type": "one_sided_mixture", "delta": delta, "r": as_text(units)}]
