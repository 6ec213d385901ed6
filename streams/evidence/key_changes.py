"""Changes of the key that signs checkpoints, and which keys to trust where.

An auditor has the first key from outside the ledger. Each change names the next key and is signed
by the key before it, so the log itself says which key is right. A change without that signature,
after a key was lost, is reported, and the auditor must obtain the new key again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from accountant.partition import Partition
from accountant.records.operator_records import KeyChange, KeyChangeRecord
from streams.errors import Refused
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.signed_checkpoint import origin_of

Sink = tuple[int, int]
"""Branch and number of a decision: the order of a partition's log."""


class TrustedKey(NamedTuple):
    """A key, and the part of the log where its signatures are trusted.

    Attributes:
        since: the first trusted place, None for all.
        until: the first place that is no longer trusted, None for none.
    """

    verifier: Verifier
    since: Sink | None = None
    until: Sink | None = None

    def at(self, place: Sink) -> bool:
        """Return whether a signature about a place is trusted."""
        begun = self.since is None or self.since <= place
        return begun and (self.until is None or place < self.until)


def signed_change(
    ledger: str, partition: Partition, new: Verifier, old: Verifier, key: SigningKey | None
) -> KeyChange:
    """Return the change to another key, signed by the old one unless that is lost."""
    change = KeyChange(key=new.text, by=old.text)
    if key is None:
        return change
    text = text_of(ledger, partition.genesis.partition, partition.head, change)
    return msgspec.structs.replace(change, signature=base64.b64encode(key.sign(text)).decode())


def is_signed(ledger: str, partition: int, changed: KeyChangeRecord, by: Verifier) -> bool:
    """Return whether a key has signed a change."""
    try:
        signature = base64.b64decode(changed.change.signature, validate=True)
    except (ValueError, binascii.Error):
        return False
    return by.verifies(signature, text_of(ledger, partition, changed.previous, changed.change))


def text_of(ledger: str, partition: int, previous: str, change: KeyChange) -> bytes:
    """Return the text to sign. Its second line tells it from every checkpoint's.

    Args:
        previous: hash of the decision that the change follows.
    """
    return (
        f"{origin_of(ledger, partition)}\n"
        "key\n"
        f"from {change.by}\n"
        f"to {change.key}\n"
        f"after {previous}\n"
    ).encode()


def trusted_keys(
    ledger: str, partition: int, known: Iterable[Verifier], changes: Sequence[KeyChangeRecord]
) -> tuple[list[TrustedKey], list[str]]:
    """Return the trusted keys of a partition, and the problems of its changes.

    Args:
        known: the keys from outside the ledger.
        changes: in the order of the log.
    """
    keys, wrong = [TrustedKey(each) for each in known], list[str]()
    for each in changes:
        place = each.branch, each.partition_sequence
        old = next((k for k in keys if k.verifier.text == each.change.by and k.at(place)), None)
        if old is None:
            continue  # the change is of a key that is not trusted there
        keys[keys.index(old)] = old._replace(until=place)
        new = _new(each, known := [key.verifier for key in keys])
        if is_signed(ledger, partition, each, old.verifier) and new is not None:
            if new not in known:
                keys.append(TrustedKey(new, since=place))
        elif each.change.signature:
            wrong.append(
                f"key: decision {each.partition_sequence} names key {each.change.key[:200]}, and "
                f"is not signed by the key before it, {old.verifier.text}"
            )
    return keys, wrong


def _new(changed: KeyChangeRecord, known: Iterable[Verifier]) -> Verifier | None:
    same = (each for each in known if each.text == changed.change.key)
    try:
        return next(same, None) or Verifier.parse(changed.change.key)
    except Refused:
        return None
