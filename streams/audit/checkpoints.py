"""Compares a log with checkpoints and receipts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from streams.errors import InputInvalid

if TYPE_CHECKING:
    from accountant.records.receipts import Receipt
    from accountant.replay.audit import AuditReport
    from streams.evidence import Verifier
    from streams.evidence.comparison import Compared, Evidence, Found, OtherLedger

_SQLITE: Final = b"SQLite format 3\x00"
_MOST_KEY: Final = 4_096


class CheckpointReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a comparison.

    Attributes:
        ok: the log agrees with all checkpoints, at least one, and has every receipt.
        looked: whether --checkpoints was used.
        others: other ledgers with checkpoints there, where --ledger does not name the right one.
        unread: checkpoints that cannot be read or have no known signature, each with the reason.
    """

    ok: bool
    looked: bool
    of_this_ledger: bool
    partitions: list[Compared]
    others: list[OtherLedger]
    unread: list[str]
    receipts: list[Found]


def read_evidence(
    place: str | None, keys: list[str] | None, receipts: list[Path] | None
) -> Evidence | None:
    """Return the receipts, and the checkpoints that the known keys have signed.

    Raises: OSError, Refused, Unavailable. InputInvalid: a file has no receipts, or one of place
        and keys is missing.
    """
    from streams.evidence.answers_head import is_answers_head
    from streams.evidence.comparison import Evidence
    from streams.evidence.sink_choice import readable_sink_at
    from streams.kafka.log.topic_sink import topic_sink
    from streams.settings import load_command

    found_receipts = read_receipts(receipts or ())
    if place is None:
        if keys:
            raise InputInvalid("--key needs --checkpoints", hint="add --checkpoints DIRECTORY")
        return Evidence(receipts=found_receipts) if receipts else None
    if not keys:
        hint = "add --key with the public key that you stored; `accountant key show` prints it"
        raise InputInvalid("--checkpoints needs the public key of the checkpoints", hint=hint)
    verifiers = [key_at(key) for key in keys]
    notes = [*readable_sink_at(place, load_command(), topic_sink).notes()]
    evidence = Evidence(
        (each for each in notes if not is_answers_head(each[1])),
        verifiers,
        found_receipts,
    )
    evidence.answers_heads = [each for each in notes if is_answers_head(each[1])]
    return evidence


def key_at(text: str) -> Verifier:
    """Return a public key from its text, or from a file with it.

    Raises: OSError. Refused: it is none, or others may change its file.
    """
    from streams.evidence import Verifier
    from streams.files.private_files import read_trusted

    path = Path(text)
    if not path.is_file():
        return Verifier.parse(text)
    what = "the file of a public key"
    content = read_trusted(path, _MOST_KEY, what=what, then="compare it with its copy")
    return Verifier.parse(content.decode("ascii", "replace"))


def read_receipts(paths: Iterable[Path]) -> list[Receipt]:
    """Return the receipts in files.

    Raises: OSError. InputInvalid: a file has none.
    """
    return [receipt for path in paths for receipt in _receipts(path)]


def _receipts(path: Path) -> list[Receipt]:
    """Return the receipts in a file: JSON lines, or a store of results."""
    from accountant.records import DECODE_ERRORS
    from accountant.records.receipts import read_receipt
    from streams.client.releases.store import ResultStore

    with path.open("rb") as file:
        is_store = file.read(len(_SQLITE)) == _SQLITE
    lines = map(str.encode, ResultStore(path).receipts()) if is_store else _lines(path)
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(read_receipt(line))
        except DECODE_ERRORS as error:
            raise InputInvalid(f"{path}, line {number}, is not a receipt: {error}") from error
    return found


def _lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n") if line.strip()]


def compare_checkpoints(
    evidence: Evidence,
    reports: Iterable[tuple[int, AuditReport]],
    *,
    looked: bool,
    is_meant: bool,
) -> CheckpointReport:
    """Compare the checkpoints and receipts with a log that was read.

    Args:
        looked: whether --checkpoints was used.
        is_meant: --ledger names the ledger, so checkpoints of others do not count.
    """
    by_partition = dict(reports)
    partitions = evidence.compared(by_partition)
    others = [] if is_meant else evidence.others()
    right = not evidence.unread and not others and not any(each.wrong for each in partitions)
    receipts = evidence.receipts(by_partition)
    right = right and all(each.there for each in receipts)
    return CheckpointReport(
        ok=right and (evidence.of_this_ledger or not looked),
        looked=looked,
        of_this_ledger=evidence.of_this_ledger,
        partitions=partitions,
        others=others,
        unread=evidence.unread,
        receipts=receipts,
    )
