"""Generations of a dataset within a lifetime: docs/reference/records/admin.md, theory section 9."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tests.faults.oracle.amounts import UNIT, as_text
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.policies import broken_policy, guarantee, resolved
from tests.faults.oracle.texts import amount, is_delta

if TYPE_CHECKING:
    from tests.faults.oracle.dataset import Dataset

_SAME: Final = ("unit", "neighbours", "population")


def is_lifetime(value: Any) -> bool:
    """Return whether a value has one amount, and perhaps a delta."""
    if not isinstance(value, dict) or value.keys() - {"epsilon", "rho", "delta"}:
        return False
    name = _amount_of(value)
    if not name or not is_delta(amount(value.get("delta", "0"))):
        return False
    policy = {"filter": "basic" if name == "epsilon" else "zcdp", name: value[name]}
    return isinstance(value[name], str) and not broken_policy(policy)


def beyond_at_first(record: Fields) -> set[str]:
    """Return the lifetime of an opening where it cannot hold the dataset itself."""
    lifetime, policy = record.get("lifetime"), record.get("policy")
    if not is_lifetime(lifetime) or not isinstance(policy, dict) or broken_policy(policy):
        return set()
    policy = resolved(policy)
    fits = _is_of_kind(lifetime, policy) and charge(lifetime, None, policy, "") is not None
    return set() if fits else {"lifetime"}


def charge(lifetime: Fields, spent: Fields | None, policy: Fields, first: str) -> Fields | None:
    """Return a lifetime charged what one more policy guarantees, None where that exceeds it."""
    name = _amount_of(lifetime)
    _, amount, delta = guarantee(policy)
    whole = {name: lifetime[name], "delta": lifetime.get("delta", "0")}
    after = {}
    for sum_, part in ((name, amount), ("delta", delta)):
        before = Fraction(0) if spent is None else Fraction(spent[sum_])
        total = before + Fraction(math.ceil(part * UNIT), UNIT)
        if total > Fraction(whole[sum_]):
            return None
        after[sum_] = as_text(int(total * UNIT))
    kept = {each: text for each, text in lifetime.items() if each in whole and text is not None}
    if kept.get("delta") == "0":
        del kept["delta"]
    return {**kept, "first": first, "spent": after}


def renewal_refusal(
    dataset: Dataset, record: Fields, policy: Fields, *, is_open: bool, is_together: bool
) -> str | None:
    """Return why a permitted renewal is refused.

    Args:
        policy: the new one, with its defaults.
        is_open: a dataset has the new name. `is_together`: it is of this partition for ever.
    """
    if record.get("follows") not in (None, dataset.sequence):
        return "out_of_date"
    lifetime = dataset.facts["lifetime"]
    if lifetime is None:
        return "no_lifetime"
    if dataset.facts["renewed_as"]:
        return "already_renewed"
    if not is_together:
        return "not_in_group"
    if is_open:
        return "already_opened"
    same = all(dataset.policy.get(name) == policy.get(name) for name in _SAME)
    if not same or not _is_of_kind(lifetime, policy):
        return "lifetime_mismatch"
    after = charge(lifetime, lifetime["spent"], policy, lifetime["first"])
    return "beyond_lifetime" if after is None else None


def _is_of_kind(lifetime: Fields, policy: Fields) -> bool:
    name = _amount_of(lifetime)
    return guarantee(policy)[0] == name and (name == "epsilon" or policy["filter"] == "zcdp")


def _amount_of(lifetime: Fields) -> str:
    given = [name for name in ("epsilon", "rho") if lifetime.get(name) is not None]
    return given[0] if len(given) == 1 else ""
