"""A row that was changed on purpose differs from the last decision on its dataset."""

from __future__ import annotations

import msgspec
import pytest

from accountant.records import decode_decision
from accountant.records.outcomes import Reason
from accountant.replay.check_rows import RowContradictsLog, check_row
from tests.accountant.world import opened


def test_a_closed_dataset_whose_row_is_open_again_is_found_after_a_refusal() -> None:
    world = opened()
    world.close()
    world.ask()
    world.commit()
    last = decode_decision(world.log[-1])
    assert last.reason is Reason.CLOSED
    partition = world.replayed()
    assert check_row(partition, last)
    partition.ledgers["census"] = msgspec.structs.replace(partition.ledgers["census"], closed=False)
    with pytest.raises(RowContradictsLog, match="has closed false"):
        check_row(partition, last)
