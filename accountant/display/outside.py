"""What a record of a release made elsewhere has done, in words."""

from __future__ import annotations

from accountant.display.limits import scope_words
from accountant.records import Decision


def recorded_notes(decision: Decision) -> list[str]:
    """Return what people must know of a decision on such a record, besides its outcome."""
    if not decision.outcome.charges_team:
        return []
    name = decision.dataset
    notes = list[str]()
    if decision.cost is None:
        notes.append("the release does not fit the budget, and is not added to it")
    if decision.guarantee == "void":
        notes.append(f"dataset {name} guarantees nothing any more, for ever")
    else:
        bounded = "the size of this release was bounded before anything was released"
        notes.append(f"the guarantee of dataset {name} holds if {bounded}")
    notes += [
        f"the reserved share of {scope_words(each.scope, each.name)} is cut by "
        f"{', '.join(f'{sum_} {amount}' for sum_, amount in each.cut.items() if amount != '0')}"
        for each in decision.shares_cut
    ]
    if decision.more_shares_cut:
        notes.append(f"{decision.more_shares_cut:,} more reserved shares are cut")
    return notes
