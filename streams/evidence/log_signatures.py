"""Checks the signatures within a log by the keys that its own records name.

Whether those keys are the right ones, only an auditor with a key from outside the ledger can tell
(`comparison`). A signature that does not match its own key is wrong for everybody.
"""

from __future__ import annotations

from typing import Final

from accountant.replay.audit import AuditReport, Disagreement
from streams.errors import Refused
from streams.evidence import key_changes, rollbacks
from streams.evidence.keys import Verifier

_UNSIGNED: Final = "no signature"


def first_wrong_signature(report: AuditReport, partition: int) -> Disagreement | None:
    """Return the first `rolled_back` or `key_changed` record with a wrong signature.

    A change of key may have none: the key before it was lost.

    Args:
        report: the partition's audit.
    """
    ledger, wrong = str(report.ledger), list[Disagreement]()
    for change in report.key_changes:
        named = change.change
        key = _parsed(named.by)
        if named.signature and not (
            key is not None and key_changes.is_signed(ledger, partition, change, key)
        ):
            wrong.append(_wrong(change.partition_sequence, "key_change", named.by, named.signature))
    for loss in report.rollbacks:
        rollback = loss.rollback
        key = _parsed(rollback.key)
        if key is None or not rollbacks.is_signed(ledger, partition, loss, [key]):
            signature = rollback.signature or _UNSIGNED
            wrong.append(_wrong(loss.partition_sequence, "rollback", rollback.key, signature))
    return min(wrong, key=lambda each: each.partition_sequence, default=None)


def _wrong(number: int, record: str, key: str, signature: str) -> Disagreement:
    return Disagreement(
        partition_sequence=number,
        what=f"{record}.signature",
        expected=f"a signature by {key[:200]}",
        found=signature[:200],
    )


def _parsed(text: str) -> Verifier | None:
    try:
        return Verifier.parse(text)
    except Refused:
        return None
