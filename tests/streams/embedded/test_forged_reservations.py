"""Rows of reservations that somebody changed: without a right checksum, and with one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accountant.errors import LogDamaged
from accountant.records.reservation_rows import is_reservation_row_key
from tests.faults.forged_rows import forged, put, replaced, rows_of
from tests.ledger_file import connected
from tests.streams.embedded.reservation_server import Server
from tests.streams.embedded.test_forged_rows import audit

LARGER = replaced(b'"totals":{"rho":"0.00125"', b'"totals":{"rho":"0.00025"')
UNBEGUN = replaced(b'"stage":"begun"', b'"stage":"reserved"')


@pytest.fixture
def reserving(tmp_path: Path) -> Server:
    """A stopped server of a ledger with one reservation, which has begun."""
    running = Server(tmp_path / "ledger.db").start()
    policy = {"filter": "zcdp", "rho": "0.1", "delta": "1e-6"}
    running.post("/datasets", type="open", dataset="census", by="olga", policy=policy)
    running.step("begin", running.reserve())
    running.stop()
    return running


def key_of_reservation(file: Path) -> bytes:
    (key,) = filter(is_reservation_row_key, rows_of(file))
    return key


@pytest.mark.parametrize("change", [LARGER, UNBEGUN])
def test_a_row_with_another_checksum_is_made_again_from_the_log(
    reserving: Server, change: Callable[[bytes], bytes]
) -> None:
    file, before = reserving.file, rows_of(reserving.file)
    key = key_of_reservation(file)
    with connected(file) as db:
        db.execute("UPDATE state SET value = ? WHERE key = ?", (change(before[key]), key))
    reserving.start().stop()
    assert rows_of(file) == before


@pytest.mark.parametrize("change", [LARGER, UNBEGUN])
def test_a_row_whose_own_checksum_is_right_is_made_again_too(
    reserving: Server, change: Callable[[bytes], bytes]
) -> None:
    before = rows_of(reserving.file)
    key = key_of_reservation(reserving.file)
    put(reserving.file, {**before, key: change(before[key])})
    reserving.start().stop()
    assert rows_of(reserving.file) == before


def test_a_start_refuses_a_forged_amount_of_a_reservation(reserving: Server) -> None:
    file = reserving.file
    rows = forged(rows_of(file), key_of_reservation(file), LARGER)
    put(file, forged(rows, b"census", _of_held))
    with pytest.raises(LogDamaged, match=r"census in `state` has held\.totals"):
        reserving.start()
    assert audit(file)[0] == 1


def _of_held(row: bytes) -> bytes:
    before, held, after = row.partition(b'"held":')
    return before + held + LARGER(after)


def test_an_audit_names_the_forged_stage_of_a_reservation(reserving: Server) -> None:
    file = reserving.file
    put(file, forged(rows_of(file), key_of_reservation(file), UNBEGUN))
    code, printed = audit(file)
    assert code == 1
    assert "field stage expected begun found reserved" in printed
