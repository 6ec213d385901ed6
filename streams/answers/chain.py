"""The chain of a store's answers: each entry has random bytes and the hash of the entry before.

    entry 1             entry 2             entry 3
    random, answer      random, answer      random, answer
    hash  ----------->  hash  ----------->  hash = the head

Without random bytes, whoever has two heads could find a count by trying values.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from streams.answers.heads import ChainHead, StoredHead
from streams.answers.store import StoredAnswer
from streams.errors import Refused

RANDOM_BYTES: Final = 32
CHAIN_TABLE: Final = """
CREATE TABLE IF NOT EXISTS chain (
    partition INTEGER NOT NULL,
    number INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    random BLOB NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (partition, number)
) STRICT, WITHOUT ROWID;
"""
"""Of entries. `batch` is the number of the first entry that was committed with this one."""

RandomBytes = Callable[[int], bytes]


class Entry(NamedTuple):
    """An entry of a chain: see `CHAIN_TABLE`."""

    number: int
    batch: int
    random: bytes
    hash: str

    @property
    def head(self) -> ChainHead:
        """The head of a chain that ends here."""
        return ChainHead(self.number, self.hash)


class ChainEnd(NamedTuple):
    """What was found of a whole chain.

    Attributes:
        hashes: of each entry, from the first; before it that of no entry.
        batch: number of the first entry of the last batch, 0 without entries.
    """

    hashes: tuple[str, ...]
    batch: int

    @property
    def head(self) -> ChainHead:
        return ChainHead(len(self.hashes) - 1, self.hashes[-1])

    def has(self, head: ChainHead) -> bool:
        """Tell whether the chain has an entry, or is one that continues it."""
        return head.number < len(self.hashes) and self.hashes[head.number] == head.hash


def first_head(ledger: str, partition: int) -> ChainHead:
    """Return the head of a chain without entries."""
    return ChainHead(0, _hash(["answers", ledger, partition]))


def entry_after(before: ChainHead, answer: StoredAnswer, batch: int, random: bytes) -> Entry:
    """Return the entry of an answer behind another one."""
    number = before.number + 1
    content = [
        *(before.hash, random.hex(), number, batch),
        *(answer.partition, answer.number, answer.grant),
        *(answer.dataset, answer.analyst, answer.request_id),
        hashlib.sha256(answer.value).hexdigest(),
    ]
    return Entry(number, batch, random, _hash(content))


def add_entries(
    db: apsw.Connection,
    before: ChainHead,
    answers: Iterable[StoredAnswer],
    random: RandomBytes = secrets.token_bytes,
) -> ChainHead:
    """Add the entries of one batch, within a transaction; return the new head."""
    batch = before.number + 1
    for answer in answers:
        entry = entry_after(before, answer, batch, random(RANDOM_BYTES))
        row = (answer.partition, *entry)
        db.execute("INSERT INTO chain VALUES (?, ?, ?, ?, ?)", row)
        before = entry.head
    return before


def last_entry(db: apsw.Connection, partition: int) -> ChainHead | None:
    """Return the last entry that is stored, unchecked; None without any."""
    query = "SELECT number, hash FROM chain WHERE partition = ? ORDER BY number DESC LIMIT 1"
    found: Any = db.execute(query, (partition,)).fetchone()
    return None if found is None else ChainHead(*found)


def has_entry(db: apsw.Connection, partition: int, head: ChainHead, first: ChainHead) -> bool:
    """Tell whether an entry is stored with this hash, unchecked.

    Args:
        first: `first_head` of the chain.
    """
    if head.number == 0:
        return head == first
    entry = _entry_at(db, partition, head.number)
    return entry is not None and entry.head == head


def is_linked(db: apsw.Connection, ledger: str, answer: StoredAnswer) -> bool:
    """Tell whether an answer is the one of its entry, and that entry continues the one before.

    The rest of the chain is not read: `read_chain` checks all of it.
    """
    entry = _entry_at(db, answer.partition, answer.number)
    before = first_head(ledger, answer.partition)
    if answer.number > 1:
        earlier = _entry_at(db, answer.partition, answer.number - 1)
        if earlier is None:
            return False
        before = earlier.head
    return entry is not None and entry == entry_after(before, answer, entry.batch, entry.random)


def _entry_at(db: apsw.Connection, partition: int, number: int) -> Entry | None:
    """Return an entry by its number, unchecked; None if there is none."""
    query = "SELECT number, batch, random, hash FROM chain WHERE partition = ? AND number = ?"
    found: Any = db.execute(query, (partition, number)).fetchone()
    return None if found is None else Entry(*found)


def entries_in_order(db: apsw.Connection, partition: int) -> Iterator[Entry]:
    """Yield the entries of a partition as they are stored, by number; read them to the end."""
    query = "SELECT number, batch, random, hash FROM chain WHERE partition = ? ORDER BY number"
    rows: Any = db.execute(query, (partition,))
    yield from (Entry(*row) for row in rows)


def read_chain(
    db: apsw.Connection, partition: int, ledger: str, answers: Iterator[StoredAnswer]
) -> ChainEnd:
    """Check a partition's whole chain, and return its hashes.

    Args:
        answers: all answers of the partition, by number.
    Raises: Refused: an answer was changed, cut out or added.
    """
    entries = entries_in_order(db, partition)
    head, batch = first_head(ledger, partition), 0
    hashes = [head.hash]
    for answer in answers:
        entry = next(entries, None)
        if entry is None:
            raise _broken(answer, "was added: the chain of answers has no such entry")
        if entry.batch not in {batch, entry.number}:
            raise _broken(answer, "was changed: the chain of answers has another batch there")
        if entry != entry_after(head, answer, entry.batch, entry.random):
            raise _broken(answer, "was changed, or answers before it were removed or added")
        head, batch = entry.head, entry.batch
        hashes.append(entry.hash)
    left = next(entries, None)
    if left is not None:
        raise Refused(f"answer {left.number} was removed: the chain of answers still has its entry")
    return ChainEnd(tuple(hashes), batch)


def difference_from_heads(
    chain: ChainEnd,
    stored: StoredHead | None,
    signed: Iterable[StoredHead],
    *,
    is_newest: bool = True,
) -> str | None:
    """Return how a chain does not continue the heads outside of its store, None if it does.

    Args:
        stored: the head in the ledger's own file, if there is one.
        signed: heads that were signed; older ones are before the store's last beginning.
        is_newest: the stored head was read after the chain, so it lacks one batch at most.
    """
    where = "the ledger's file"
    if stored is not None and (why := _difference(chain, stored.head, where, is_newest=is_newest)):
        return why
    heads = list(signed)
    place = max((each.order[:2] for each in heads), default=(0, 0))
    if stored is not None and place > stored.order[:2]:
        return (
            "beside an older copy of the ledger: a signed head is of a later beginning of the "
            "answers"
        )
    place = place if stored is None else stored.order[:2]
    newest = [each.head for each in heads if each.order[:2] == place]
    found = (_difference(chain, each, "a signed head", is_newest=False) for each in newest)
    return next((each for each in found if each is not None), None)


def _difference(
    chain: ChainEnd, wanted: ChainHead, where: str, *, is_newest: bool = True
) -> str | None:
    """Return how a chain does not continue a head, None if it does.

    Args:
        where: the head stands, in words.
        is_newest: one batch at most may continue the head.
    """
    head = chain.head
    if head.number < wanted.number:
        return (
            f"an older copy of the answers: it has {head.number}, and {where} names {wanted.number}"
        )
    if not chain.has(wanted):
        return (
            f"another copy of the answers: its answer {wanted.number} is not the one that {where} "
            "names"
        )
    if is_newest and head.number > wanted.number and chain.batch != wanted.number + 1:
        return (
            f"a copy with added answers: it has {head.number}, and {where} names {wanted.number}. "
            "Only the last that were stored together may be missing there"
        )
    return None


def _broken(answer: StoredAnswer, why: str) -> Refused:
    return Refused(f"answer {answer.number}, to grant {answer.grant}, {why}")


def _hash(content: list[Any]) -> str:
    return f"sha256:{hashlib.sha256(msgspec.json.encode(content)).hexdigest()}"
