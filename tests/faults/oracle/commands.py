"""Decisions that a command writes: docs/reference/reasons.md, decisions 0034, 0043 and 0050."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tests.faults.oracle.disagreement import Disagreement
from tests.faults.oracle.expected import Fields, Holds
from tests.faults.oracle.snapshot import RowFields, sealed_state

COMMANDS: Final = {"clock_reset", "sealed", "rolled_back", "key_changed"}
_MOST_NOTE: Final = 200
_ED25519: Final = b"\x01"


class Log(RowFields, Protocol):
    """A log before such a decision.

    Attributes:
        heads: hash of each decision, in order.
    """

    heads: list[str]


def written(log: Log, said: Fields) -> Fields:
    """Return the predicted decision of a command without its times, and advance the log.

    Raises: Disagreement.
    """
    outcome = said["outcome"]
    note = Holds("1 to 200 characters", lambda text: 0 < len(text) <= _MOST_NOTE)
    fields: Fields = {"outcome": outcome, "note": note}
    if outcome == "sealed":
        fields["seal"] = _seal(log, said["seal"])
    elif outcome == "rolled_back":
        fields["rollback"] = _rollback(log, said["rollback"])
        log.branch = said["rollback"]["branch"]
    elif outcome == "key_changed":
        fields["key_change"] = _key_change(log, said["key_change"])
        log.key = said["key_change"]["key"]
    return fields


def _seal(log: Log, said: Fields) -> Fields:
    archived = said["archived"]
    if not 0 < archived <= log.number:
        raise Disagreement("seal", archived, f"a decision from 1 to {log.number}")
    return {
        "first": log.heads[0],
        "archived": archived,
        "head": log.heads[archived],
        "state": sealed_state(log),
        "usage": said["usage"],
    }


def _rollback(log: Log, said: Fields) -> Fields:
    key, branch, own = said["key"] if log.key is None else log.key, log.branch, log.number + 1
    text = (
        f"{_origin(log)}\nrollback\nbranch {said['branch']}\nlost {said['first']}-{said['last']}\n"
        f"head {said['head']}\nafter {log.head}\nkey {said['key']}\n"
    )
    return {
        "branch": Holds(f"above {branch}", lambda found: found > branch),
        "first": Holds(f"1 to {own}", lambda first: 0 < first <= own),
        "last": Holds(f"{said['first']} or above", lambda last: last >= said["first"]),
        "head": said["head"],
        "key": key,
        "signature": Holds(f"of {text!r}", lambda signed: _has_signed(key, signed, text)),
    }


def _key_change(log: Log, said: Fields) -> Fields:
    by = said["by"] if log.key is None else log.key
    text = f"{_origin(log)}\nkey\nfrom {by}\nto {said['key']}\nafter {log.head}\n"

    def is_right(signed: Any) -> bool:
        return not signed or _has_signed(by, signed, text)

    another = Holds(f"another key than {by}", lambda key: key != by)
    signature = Holds(f"of {text!r}, or none", is_right)
    return {"key": another, "by": by, "signature": signature}


def _origin(log: Log) -> str:
    """Return the first signed lines: the ledger and the partition."""
    ledger = log.genesis.get("ledger", log.heads[0])
    return f"accountant/{ledger}/{log.genesis['partition']}"


def _has_signed(key: str, signature: str, text: str) -> bool:
    """Return whether a key, `NAME+ID+BASE64`, has signed a text."""
    try:
        public = base64.b64decode(key.split("+", 2)[2], validate=True)
        if public[:1] != _ED25519:
            return False
        signed = base64.b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(public[1:]).verify(signed, text.encode())
    except (InvalidSignature, ValueError, IndexError, binascii.Error):
        return False
    return True
