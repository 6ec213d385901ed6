"""The ledger's id: from decision 0, the same live, in rows of `state` and in a refold."""

from __future__ import annotations

import msgspec
import pytest

from accountant.partition.draft import Draft, genesis_decision
from accountant.records import Genesis
from accountant.replay.audit import audit
from accountant.replay.replay import Replay, StateMismatch, state_rows

SETTINGS = Genesis("test", 0, 1, 3_600_000, 300_000)
OURS = msgspec.structs.replace(SETTINGS, ledger="a" * 32)
OTHER = msgspec.structs.replace(SETTINGS, ledger="b" * 32)


def begin_log(genesis: Genesis) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    first = genesis_decision(genesis, 5)
    refold = Replay(SETTINGS)  # settings do not say it
    refold.take_decision(first.value)
    partition = refold.finish()
    assert partition.genesis == genesis
    draft = Draft(partition)
    return [first.value], draft.rows()


@pytest.mark.parametrize("genesis", [OURS, SETTINGS])
def test_the_ledger_id_is_read_from_decision_0_and_stored_in_the_row(genesis: Genesis) -> None:
    log, rows = begin_log(genesis)
    assert audit(log, genesis=SETTINGS).ok
    refold = Replay(SETTINGS)
    for key, value in rows:
        refold.take_row(key, value)
    assert refold.start is not None
    refold.take_decision(log[0])
    partition = refold.finish()
    assert partition.genesis == genesis
    assert state_rows(partition) == rows


def test_rows_of_another_ledger_are_noticed() -> None:
    (log, _), (_, rows) = begin_log(OURS), begin_log(OTHER)
    refold = Replay(SETTINGS)
    for key, value in rows:
        refold.take_row(key, value)
    with pytest.raises(StateMismatch, match="state belongs to"):
        refold.take_decision(log[0])
