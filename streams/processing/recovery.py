"""Replays a partition's state from a journal, right after owning it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from accountant.partition import Partition
from accountant.records import Genesis
from accountant.replay.replay import Replay, StateMismatch, state_rows
from accountant.replay.sealed_log import SealedReplay
from streams.logs import get_logger
from streams.processing.journal import Commit, Journal

_log = get_logger(__name__)

_ROWS_A_COMMIT: Final = 2_000
_YIELD_EVERY: Final = 500

Sleep = Callable[[float], Awaitable[None]]


async def recovered(journal: Journal, genesis: Genesis, sleep: Sleep) -> Partition:
    """Refold the committed log; rewrite the rows of `state` if they disagree with it.

    Args:
        journal: owned, and not read yet.
    Raises: LogDamaged, and the errors of the journal.
    """
    refold, keys = Replay(genesis, gapless=journal.gapless), list[bytes]()
    try:
        async for key, value in journal.rows():
            refold.take_row(key, value)
            keys.append(key)
        whole = refold if keys else await _without_rows(journal, genesis, None)
        partition = await _fold(journal, whole, sleep)
    except StateMismatch as error:
        _log.warning(
            "state_mismatch",
            partition=genesis.partition,
            why=str(error),
            then="refold from decision 0",
        )
        partition = await _fold(journal, await _without_rows(journal, genesis, refold), sleep)
        await _rewrite(journal, partition, keys)
    else:
        if not keys and partition.ledgers:
            await _rewrite(journal, partition, keys)
    return partition


async def _without_rows(
    journal: Journal, genesis: Genesis, instead_of: Replay | None
) -> Replay | SealedReplay:
    """Return a refold of the whole log, or of what an archive has left of it."""
    sealed = await journal.sealed()
    if sealed is None:
        return Replay(genesis, instead_of=instead_of, gapless=journal.gapless)
    return SealedReplay(genesis, sealed, instead_of=instead_of)


async def _fold(journal: Journal, refold: Replay | SealedReplay, sleep: Sleep) -> Partition:
    taken = 0
    async for value in journal.decisions(refold.start):
        refold.take_decision(value)
        taken += 1
        if taken % _YIELD_EVERY == 0:
            await sleep(0)
    partition = refold.finish()
    if isinstance(refold, Replay) and refold.believes_rows:
        sealed = await journal.sealed()
        begin = () if sealed is None else sealed.state
        found = await journal.last_decisions(refold.idle) if refold.idle else None
        if found is not None:
            refold.check_idle(found, begin)
        administered = await journal.administered()
        if administered is not None:
            refold.check_administered(administered, begin)
    return partition


async def _rewrite(journal: Journal, partition: Partition, keys: Sequence[bytes]) -> None:
    """Write the rows of `state` again from the log, the partition's row last."""
    rows: list[tuple[bytes, bytes | None]] = [*state_rows(partition)]
    known = {key for key, _ in rows}
    rows = [*((key, None) for key in dict.fromkeys(keys) if key not in known), *rows]
    for i in range(0, len(rows), _ROWS_A_COMMIT):
        part = rows[i : i + _ROWS_A_COMMIT]
        await journal.commit(Commit([], part, [], partition.next, partition.decided_at))
