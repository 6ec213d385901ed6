"""Rows of `state` that are not as the last decision of their dataset has left them."""

from __future__ import annotations

from accountant.ledger.snapshots import rounded_up_wire, totals_wire
from accountant.partition import Partition
from accountant.records import Decision
from accountant.replay.divided import differing_level
from accountant.replay.enrolled import members_set


def differing_row(partition: Partition, decision: Decision) -> str | None:
    """Return which row disagrees with a decision, in words; a newer row is not checked."""
    if decision.sequence is None or decision.dataset is None:
        return None
    ledger = partition.ledgers.get(decision.dataset)
    if ledger is not None and ledger.sequence > decision.sequence:
        return None
    number = f"decision {decision.partition_sequence}"
    if ledger is None or ledger.sequence < decision.sequence:
        return f"the row of dataset {decision.dataset} is older than {number}"
    row = _differing_member(partition, decision) or differing_level(partition, decision)
    if row is not None:
        return f"the row of {row} of dataset {decision.dataset} is not as {number} has set it"
    stated = decision.totals, decision.rounded_up
    if stated != (totals_wire(ledger), rounded_up_wire(ledger)):
        return f"the row of dataset {decision.dataset} does not have the totals of {number}"
    return None


def _differing_member(partition: Partition, decision: Decision) -> str | None:
    if not decision.owners and decision.member is None:
        return None
    for name, due in members_set(decision):
        if partition.members.get(str(decision.dataset), name) != due:
            return f"member {name}"
    return None
