"""Ends of limits in the log and in rows of `state` that somebody has changed."""

from __future__ import annotations

from typing import Any

import pytest

from accountant.limits.state import after_end
from accountant.replay.audit import audit
from accountant.replay.check_admin_records import check_admin_rows
from accountant.replay.check_rows import RowContradictsLog
from tests.accountant.partition.test_ends_of_limits import END, LATER, divided
from tests.accountant.partition.test_outside_records import ask
from tests.accountant.replay.test_levels import changed
from tests.golden.replayed_logs import played

OPENS = ("tests/golden/*",)


def later(record: dict[str, Any]) -> None:
    record["limit"]["until"] = "2026-11-21T11:00:00.000Z"


def later_as_asked(record: dict[str, Any]) -> None:
    later(record)
    record["request"]["until"] = record["limit"]["until"]


@pytest.mark.parametrize(
    ("change", "number", "what"), [(later, 7, "limit"), (later_as_asked, 15, "left_at")]
)
def test_an_audit_names_the_first_decision_that_a_changed_end_contradicts(
    change: Any, number: int, what: str
) -> None:
    world = played("ends")
    found = audit(changed(world, 7, change), genesis=world.genesis).first_disagreement
    assert found is not None
    assert (found.partition_sequence, found.what) == (number, what)


def test_a_start_names_a_row_that_says_over_before_the_end() -> None:
    world = divided()
    world.limit("team", "red", part="0.1", reserved="0.1", until="2026-11-21T11:00:00.000Z")
    levels = world.life.state.levels
    check_admin_rows(world.life.state, world.life.log, ())
    state = levels.get(("census", "team", "", "red"))
    assert state is not None
    levels.put(after_end(state, state.sequence))
    with pytest.raises(RowContradictsLog, match="team red"):
        check_admin_rows(world.life.state, world.life.log, ())


def test_a_start_takes_the_row_of_a_limit_that_ended_and_was_set_again() -> None:
    world = divided()
    world.limit("team", "red", reserved="0.1", until="2026-11-21T10:10:00.000Z")
    world.to(END + LATER)
    world.do(ask("0.1"), "granted")
    check_admin_rows(world.life.state, world.life.log, ())
    world.limit("team", "red", reserved="0.1")
    check_admin_rows(world.life.state, world.life.log, ())
