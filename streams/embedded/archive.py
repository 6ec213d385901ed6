"""Moves the beginning of a stopped ledger's log into a compressed file, and seals the log.

After a crash: before the file has its final name, there is only a
temporary file, which the next archive into its directory removes. After that, there
is an unused archive and an unchanged ledger. One transaction writes the seal and its snapshot and
deletes the archived decisions; after it, the ledger is sealed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Final, NamedTuple

from accountant.errors import LogDamaged, RequestInvalid
from accountant.partition import NO_PREVIOUS, Partition, hash_of
from accountant.partition.draft import Draft
from accountant.partition.operate import seal_log
from accountant.records import Genesis, decode_decision
from accountant.records.encoded_decision import EncodedDecision
from accountant.replay.audit import Auditor
from accountant.replay.sealed_log import (
    SealedStart,
    SealSnapshot,
    next_seal,
    sealed_state,
    sealed_usage,
)
from accountant.times import iso
from streams.clock import CheckedClock
from streams.embedded.journal import SqliteJournal
from streams.embedded.ledger_file import read_decisions
from streams.errors import Refused
from streams.files.whole_files import write_whole
from streams.processing.journal import Commit
from streams.processing.recovery import Compare, recover_partition

_LEVEL: Final = 6

Progress = Callable[[str, int], None]
"""Called with the name of the step, and the number of decisions done in it."""


class ArchiveResult(NamedTuple):
    """The result of archiving.

    Attributes:
        first, last: numbers of the decisions in the archive.
        head: hash of the last one.
        bytes: size of the archive.
        seal: the decision that seals the log.
        rest: number of decisions that stay in the log.
    """

    first: int
    last: int
    head: str
    bytes: int
    seal: EncodedDecision
    rest: int


async def archive(
    journal: SqliteJournal,
    ledger: Path,
    genesis: Genesis,
    clock: CheckedClock,
    target: Path,
    *,
    before: int,
    note: str,
    progress: Progress,
    compare: Compare,
) -> ArchiveResult:
    """Archive the decisions before a time, and seal the log. Frees no disk space yet.

    First audits the whole log. Before it deletes anything, replays the rest of the log and compares
    it with the state.

    Args:
        journal: of the stopped ledger, not owned yet.
        ledger: its file.
        target: path of the new archive.
        before: milliseconds since 1970.
        note: the reason.
        compare: called with the state before anything is written.

    Raises:
        RequestInvalid: ids of decisions before that time may still be repeated, or nothing was
            decided before it.
        Refused: the target exists, or cannot be written.
        LogDamaged: the log fails its audit. The errors of the journal and of `compare`.
    """
    await journal.own()
    partition = await recover_partition(journal, genesis, _no_pause)
    await compare(partition)
    snapshot = await journal.read_snapshot()
    last = _last_archived(journal, partition, before)
    first = journal.first_unarchived
    if last < max(first, 1):
        raise RequestInvalid("--before", "must be after the first decision of the log", iso(before))
    auditor = await _audit(journal, genesis, snapshot, progress)

    head, size = _write(target, ledger, first, last, progress)
    draft = Draft(partition)
    seal = next_seal(partition, auditor.counted, auditor.first, (last, head))
    decision = seal_log(draft, clock.now(partition.decided_at), note, seal)
    sealed = SealSnapshot(sealed_state(partition), sealed_usage(auditor.counted))
    rest = _check_rest(ledger, sealed, partition, last, decision)
    commit = Commit([decision], draft.rows(), [], draft.next, draft.decided_at)
    await journal.seal(commit, sealed, last)
    return ArchiveResult(first, last, head, size, decision, rest)


async def _no_pause(_seconds: float) -> None:
    """Do not pause: nothing else runs in this process."""


def _last_archived(journal: SqliteJournal, partition: Partition, before: int) -> int:
    """Return the number of the last decision before a time.

    The latest allowed time is the floor less the skew: the partition remembers no older ids.
    """
    latest = partition.floor - partition.genesis.skew_ms
    if before > latest:
        rule = f"must be at most {iso(max(0, latest))}: later requests may still be repeated"
        raise RequestInvalid("--before", rule, iso(before))
    return journal.first_since(before) - 1


async def _audit(
    journal: SqliteJournal, genesis: Genesis, snapshot: SealSnapshot | None, progress: Progress
) -> Auditor:
    """Audit the log, and compare the rows of `state` with it.

    Raises: LogDamaged: a decision or a row is wrong.
    """
    auditor = Auditor(genesis=genesis, sealed=snapshot, gapless=True)
    async for value in journal.decisions(None):
        if not auditor.take(value):
            break
        progress("auditing", auditor.records)
    auditor.compare({key: value async for key, value in journal.rows()})
    wrong = auditor.report().first_disagreement
    if wrong is not None:
        where = f"decision {wrong.partition_sequence}" if wrong.row is None else wrong.row
        raise LogDamaged(
            f"{where}, field {wrong.what}: expected {wrong.expected[:400]}, found "
            f"{wrong.found[:400]}. Nothing was archived"
        )
    return auditor


def _check_rest(
    ledger: Path, sealed: SealSnapshot, partition: Partition, archived: int, seal: EncodedDecision
) -> int:
    """Replay the rest of the log, compare it with the state, and return its length.

    Raises: LogDamaged: the replay gives another state.
    """
    start, found, rest = SealedStart(partition.genesis, sealed), None, 0
    for value in _rest(ledger, archived, seal):
        found = start.take(value)
        rest += 1
    if (
        found is None
        or sealed_state(found) != list(sealed.state)
        or len(found.ids) != len(partition.ids)
    ):
        raise LogDamaged("the rest of the log gives another state. Nothing was deleted")
    return rest


def _rest(ledger: Path, archived: int, seal: EncodedDecision) -> Iterator[bytes]:
    yield from read_decisions(ledger, first=0, limit=1)
    yield from read_decisions(ledger, first=archived + 1)
    yield seal.value


def _write(
    target: Path, ledger: Path, first: int, last: int, progress: Progress
) -> tuple[str, int]:
    """Write the decisions from `first` to `last`; return the last one's hash and the file's size.

    Raises: Refused: the file exists, cannot be written, or has other content when read back.
    """
    try:
        with write_whole(target) as raw:
            digest, head = _compress(raw, ledger, first, last, progress)
            raw.flush()
            size = raw.seek(0, os.SEEK_END)
            if _digest(raw) != digest:
                raise Refused(
                    f"{target} has other content than was written: check the disk, then try again"
                )
        return head, size
    except FileExistsError as error:
        raise Refused(f"{target} exists: name another file") from error
    except OSError as error:
        raise Refused(f"{target} cannot be written: {error}") from error


def _compress(
    raw: IO[bytes], ledger: Path, first: int, last: int, progress: Progress
) -> tuple[bytes, str]:
    digest, head, number = hashlib.sha256(), NO_PREVIOUS, first - 1
    with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=_LEVEL, mtime=0, filename="") as file:
        for number, value in enumerate(
            read_decisions(ledger, first=first, limit=last - first + 1), first
        ):
            line = value + b"\n"
            file.write(line)
            digest.update(line)
            head = hash_of(value)
            progress("archiving", number - first + 1)
    if number != last or decode_decision(value).partition_sequence != last:
        raise Refused(f"the log ends at decision {number}, before decision {last}")
    return digest.digest(), head


def _digest(raw: BinaryIO) -> bytes:
    raw.seek(0)
    with gzip.GzipFile(fileobj=raw, mode="rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
