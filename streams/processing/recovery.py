"""Replays a partition's state from a journal, right after owning it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from accountant.partition import Partition
from accountant.records import Genesis
from accountant.replay.replay import Replay, StateMismatch, state_rows
from accountant.replay.sealed_log import SealedReplay
from streams.processing.journal import Commit, Journal
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

_ROWS_A_COMMIT: Final = 2_000
_YIELD_EVERY: Final = 500

Sleep = Callable[[float], Awaitable[None]]

Compare = Callable[[Partition], Awaitable[None]]
"""Compares a log with its checkpoints before anything is written to it. Raises: Refused."""


async def recover_partition(journal: Journal, genesis: Genesis, sleep: Sleep) -> Partition:
    """Replay the committed log, and rewrite the rows of `state` if they disagree with it.

    Args:
        journal: already owned, not yet read.
    Raises: LogDamaged, and the errors of the journal.
    """
    replay, keys = Replay(genesis, gapless=journal.gapless), list[bytes]()
    try:
        async for key, value in journal.rows():
            replay.take_row(key, value)
            keys.append(key)
        source = replay if keys else await _without_rows(journal, genesis, None)
        partition = await _replay_log(journal, source, sleep)
    except StateMismatch as error:
        _log.warning(
            "state_mismatch",
            partition=genesis.partition,
            why=str(error),
            then="replay from decision 0",
        )
        partition = await _replay_log(journal, await _without_rows(journal, genesis, replay), sleep)
        await _rewrite(journal, partition, keys)
    else:
        if not keys and partition.ledgers:
            await _rewrite(journal, partition, keys)
    return partition


async def _without_rows(
    journal: Journal, genesis: Genesis, instead_of: Replay | None
) -> Replay | SealedReplay:
    """Return a replay of the whole log, or of the snapshot and the decisions after an archive."""
    snapshot = await journal.read_snapshot()
    if snapshot is None:
        return Replay(genesis, instead_of=instead_of, gapless=journal.gapless)
    return SealedReplay(genesis, snapshot, instead_of=instead_of)


async def _replay_log(journal: Journal, replay: Replay | SealedReplay, sleep: Sleep) -> Partition:
    count = 0
    async for value in journal.decisions(replay.start):
        replay.take_decision(value)
        count += 1
        if count % _YIELD_EVERY == 0:
            await sleep(0)
    partition = replay.finish()
    if isinstance(replay, Replay) and replay.believes_rows:
        snapshot = await journal.read_snapshot()
        sealed_rows = () if snapshot is None else snapshot.state
        last_decisions = await journal.last_decisions(replay.idle) if replay.idle else None
        if last_decisions is not None:
            replay.check_idle(last_decisions, sealed_rows)
        admin_decisions = await journal.admin_decisions()
        if admin_decisions is not None:
            replay.check_admin_rows(admin_decisions, sealed_rows)
    return partition


async def _rewrite(journal: Journal, partition: Partition, keys: Sequence[bytes]) -> None:
    """Write the rows of `state` again from the log, the partition's row last."""
    rows: list[tuple[bytes, bytes | None]] = [*state_rows(partition)]
    known = {key for key, _ in rows}
    rows = [*((key, None) for key in dict.fromkeys(keys) if key not in known), *rows]
    for i in range(0, len(rows), _ROWS_A_COMMIT):
        part = rows[i : i + _ROWS_A_COMMIT]
        await journal.commit(Commit([], part, [], partition.next, partition.decided_at))
