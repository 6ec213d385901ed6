"""What comes back of a reservation, and where to: docs/reference/reservations.md."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from tests.faults.oracle import halves
from tests.faults.oracle.amounts import INFINITE, cost_range
from tests.faults.oracle.division import Division
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.limits import Clock, Limit, Use
from tests.faults.oracle.meter import STATE, Amounts, amount_fields
from tests.faults.oracle.reservations import Charge, Reservation, less
from tests.faults.oracle.worth import Atom, adds

Policy = dict[str, Any]
Returned = Callable[[Policy, Amounts], Amounts]
"""Returns what comes back of some sums under a policy, given what each was charged."""

_PAID_EX_POST: Final = {
    *("epsilon", "ex_post_only", "ex_post_epsilon", "loss_epsilon", "loss_ex_post"),
}
_SETTLES_EX_POST: Final = {"basic", "ex_post", "split"}


def voided(charged: Amounts, *, stays: bool) -> Amounts:
    """Return what comes back of a charge that never began: all of it.

    Args:
        stays: under gdp_residue, the cost depended on a state which is not there any more.
    """
    kept = {halves.ENDED, *([STATE] if stays else [])}
    return {n: 0 if n in kept or each == INFINITE else each for n, each in charged.items()}


def unused(claim: Fields, shown: str) -> Returned:
    """Return what a session does not cost that ended at a level."""

    def returned(policy: Policy, charged: Amounts) -> Amounts:
        if claim["type"] == "ex_post":
            found = _unpaid(policy, claim, shown, charged)
        else:
            found = _unshown(claim, shown, charged)
        return {
            name: 0 if charged[name] == INFINITE else min(each, charged[name])
            for name, each in found.items()
        }

    return returned


def _unpaid(policy: Policy, claim: Fields, shown: str, charged: Amounts) -> Amounts:
    """Return the bound less sensitivity / the last scale, in sums that charge by the result."""
    lowered = _PAID_EX_POST if policy["filter"] in _SETTLES_EX_POST else set()
    lowered = lowered | ({"epsilon"} if halves.is_beside(policy) else set())
    most, paid = Fraction(claim["epsilon"]), Fraction(claim["sensitivity"]) / Fraction(shown)
    rest = max(0, cost_range(most)[0] - cost_range(paid)[0])
    return {name: rest if name in lowered else 0 for name in charged}


def _unshown(claim: Fields, shown: str, charged: Amounts) -> Amounts:
    """Return the difference of the Gaussian's two costs, in each sum that it has."""
    whole, ended = _atom(claim), _atom({**claim, "variance": shown})
    found: Amounts = {}
    for name in charged:
        most = 0 if name in {halves.WITHOUT, halves.ENDED} else adds(whole, name)[0]
        found[name] = 0 if most in (0, INFINITE) else max(0, most - adds(ended, name)[0])
    return found


def _atom(claim: Fields) -> Atom:
    return tuple(sorted(claim.items()))


def give_back(
    division: Division,
    spent: Amounts,
    reservation: Reservation,
    returned: Callable[[Charge], Amounts | None],
    of_dataset: Returned,
    clock: Clock,
    sequence: int,
) -> Fields:
    """Return amounts to the limits that were charged; return the decision's field about it.

    Args:
        spent: by the dataset, what came back subtracted.
        returned: what comes back of a limit itself.
        of_dataset: what comes back of a period's use and of a share's.
        sequence: of the decision.
    """
    policy = division.meter.policy
    moved: list[tuple[Charge, Use, set[str]]] = []
    for charge in reservation.charges:
        limit, use, parts = charge.limit, charge.limit.use_of(charge.analyst), set[str]()
        counts = use.counted[0] == charge.since == limit.counted_since
        back = returned(charge) if charge.counted is not None and counts else None
        if back is not None and any(back.values()):
            use.counted = charge.since, less(use.counted[1], back)
            parts.add("totals")
        if charge.paced is not None and use.paced is not None and _is_period(charge, use, clock):
            back = of_dataset(policy, charge.paced)
            if any(back.values()):
                use.paced = charge.begin, less(use.paced[1], back)
                parts.add("paced")
        moved.append((charge, use, parts))
    _give_back_shares(division, spent, moved, of_dataset)
    entries = []
    for charge, use, parts in moved:
        if parts:
            use.sequence = sequence
            entries.append(_entry(charge.limit, use, parts))
    return {"levels": entries} if entries else {}


def _is_period(charge: Charge, use: Use, clock: Clock) -> bool:
    """Return whether the period that was charged is the one whose use is counted."""
    if use.paced is None or use.paced[0] != charge.begin:
        return False
    begins = charge.limit.periods.around(charge.begin)[0] == charge.begin  # of the same length
    return begins and use.resets == charge.resets == clock.resets


def _give_back_shares(
    division: Division,
    spent: Amounts,
    moved: list[tuple[Charge, Use, set[str]]],
    of_dataset: Returned,
) -> None:
    """Lower the use of all shares, or of none: every promise must be kept with what is left."""
    lowered: list[tuple[Use, tuple[int, Amounts], set[str]]] = []
    for charge, use, parts in moved:
        limit, same = charge.limit, use.used[0] == charge.shared
        if charge.used is None or limit.share is None or not same:
            continue
        back = of_dataset(division.meter.policy, charge.used)
        if charge.shared == limit.shared_since and any(back.values()):
            lowered.append((use, use.used, parts))
            use.used = charge.shared, less(use.used[1], back)
    withheld = division.all_withheld()
    if any(spent[name] + withheld[name] > most for name, most in division.meter.whole.items()):
        for use, was, _ in lowered:
            use.used = was
    else:
        for _, _, parts in lowered:
            parts.add("used")


def _entry(limit: Limit, use: Use, parts: set[str]) -> Fields:
    entry: Fields = {**limit.head, "version": limit.version}
    if "totals" in parts:
        entry |= amount_fields("totals", use.counted[1])
    if "paced" in parts and use.paced is not None:
        begin, amounts = use.paced
        entry |= {"window": limit.periods.number(begin), **amount_fields("paced", amounts)}
    if "used" in parts:
        entry |= amount_fields("used", use.used[1])
    return entry
