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
    from collections.abc import Iterable

    from tests.faults.oracle.dataset import Dataset

_SAME: Final = ("unit", "neighbours", "population")


def is_lifetime(value: Any) -> bool:
    """Return whether a value has one amount, and perhaps a delta."""
    if not isinstance(value, dict) or value.keys() - {"epsilon", "rho", "delta", "shared"}:
        return False
    if not isinstance(value.get("shared", False), bool):
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
    if lifetime.get("shared") and ("population" not in policy or "epsilon" not in lifetime):
        fits = False
    return set() if fits else {"lifetime"}


def of_another_group(record: Fields, name: str) -> set[str]:
    """Return the policy of an opening whose population has a group that the dataset has not.

    Args:
        name: the field with the name of the dataset that opens.
    """
    policy, dataset = record.get("policy"), record.get(name)
    population = policy.get("population") if isinstance(policy, dict) else None
    if not isinstance(population, str) or "::" not in population or not isinstance(dataset, str):
        return set()
    if "::" in dataset and dataset.split("::")[0] == population.split("::")[0]:
        return set()
    return {"policy"}


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
    shared = {"shared": True} if lifetime.get("shared") else {}
    return {**kept, **shared, "first": first, "spent": after}


def latest_of(datasets: Iterable[Dataset], population: str | None) -> Fields | None:
    """Return the lifetime that a population's datasets share, as the last of them has it."""
    shared = [
        each.facts["lifetime"]
        for each in datasets
        if population is not None
        and each.policy.get("population") == population
        and (each.facts["lifetime"] or {}).get("shared")
    ]
    return max(shared, key=lambda each: Fraction(each["spent"]["epsilon"]), default=None)


def opening_refusal(
    record: Fields, datasets: Iterable[Dataset], at: int, *, partitions: int
) -> str | None:
    """Return why no dataset opens under a new name, for the sake of its population's lifetime."""
    policy, lifetime = resolved(record["policy"]), record.get("lifetime") or {}
    population = policy.get("population")
    if population is None:
        return None
    if lifetime.get("shared") and "::" not in population and partitions > 1:
        return "not_renewable"
    others = [each for each in datasets if each.policy.get("population") == population]
    if lifetime.get("shared") and others:
        return "population_in_use"
    latest = latest_of(others, population)
    if latest is None:
        return None
    owned = any(
        each.members.has(record["by"], "owner", at)
        for each in others
        if not each.facts["renewed_as"]
    )
    same = all(others[0].policy.get(field) == policy.get(field) for field in _SAME)
    fits = not lifetime and owned and same and _is_of_kind(latest, policy)
    fits = fits and charge(latest, latest["spent"], policy, "") is not None
    return None if fits else "outside_lifetime"


def renewal_refusal(
    dataset: Dataset,
    record: Fields,
    policy: Fields,
    lifetime: Fields | None,
    *,
    is_open: bool,
    is_together: bool,
) -> str | None:
    """Return why a permitted renewal is refused.

    Args:
        policy: the new one, with its defaults.
        lifetime: that of the dataset, as it was last taken from.
        is_open: a dataset has the new name. `is_together`: it is of this partition for ever.
    """
    if record.get("follows") not in (None, dataset.sequence):
        return "out_of_date"
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
