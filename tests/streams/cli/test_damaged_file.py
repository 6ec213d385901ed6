"""What commands that read a ledger's file say where it holds other values than were stored."""

from __future__ import annotations

import json

import apsw
import pytest

READERS = [
    ("dataset", "list"),
    ("dataset", "show", "census"),
    ("watch", "--once"),
    ("audit",),
    ("log", "export"),
]


@pytest.fixture
def ledger_of_four(opened):
    """A ledger of four decisions."""
    for _ in range(2):
        assert opened("ask", "census", "pure:0.1", "--analyst", "ana").code == 0
    return opened


def damage(command, change):
    db = apsw.Connection(str(command.directory / "accountant.db"))
    db.execute(change)
    assert db.changes() == 1
    db.close()


@pytest.mark.parametrize("value", ["CAST(value AS TEXT)", "CAST(x'22ff22' AS TEXT)", "200000000"])
def test_every_reader_names_a_decision_that_is_no_bytes(ledger_of_four, value):
    whole = ledger_of_four("log", "export").out.splitlines()
    damage(ledger_of_four, f"UPDATE decisions SET value = {value} WHERE sequence = 3")
    for reader in READERS:
        done = ledger_of_four(*reader)
        assert done.code == 4, reader
        assert done.err.startswith("error: "), reader
        assert "is damaged: decision 3 must be stored as blob, got " in done.err, reader
        assert done.out.splitlines() == (whole[:3] if reader == ("log", "export") else [])


def test_a_name_that_is_no_utf8_is_a_damaged_decision(ledger_of_four):
    damage(
        ledger_of_four,
        "UPDATE decisions SET value = CAST(replace(CAST(value AS TEXT), "
        """'"dataset":"census"', CAST(x'2264617461736574223a22ff22' AS TEXT)) AS BLOB) """
        "WHERE sequence = 2",
    )
    for reader in READERS[:3]:  # they read the rows and the last decision
        assert ledger_of_four(*reader).code == 0
    done = ledger_of_four("audit")
    assert done.code == 1
    assert "disagrees partition 0, decision 2, field record" in done.out
    damage(ledger_of_four, "UPDATE decisions SET value = 12 WHERE sequence = 3")
    assert ledger_of_four("audit").out == done.out, "the audit names the first difference"


def test_a_decision_that_nests_too_deep_for_the_stack_is_a_damaged_decision(ledger_of_four):
    # With a word that makes the audit look for a genesis in it.
    deep = b'{"type":"decision","x":"genesis","y":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    damage(ledger_of_four, f"UPDATE decisions SET value = x'{deep.hex()}' WHERE sequence = 2")
    for reader in READERS[:3]:  # they read the rows and the last decision
        assert ledger_of_four(*reader).code == 0
    (ledger_of_four.directory / "log.jsonl").write_text(ledger_of_four("log", "export").out)
    for audit in ("audit",), ("audit", "log.jsonl"):
        done = ledger_of_four(*audit)
        assert done.code == 1
        assert "disagrees partition 0, decision 2, field record" in done.out
    done = ledger_of_four("ask", "census", "pure:0.1", "--analyst", "ana")
    assert (done.code, done.out) == (4, "")
    assert "damaged: the record after decision 1 cannot be read" in done.err
    assert "`accountant audit` names the first record that disagrees" in done.err


def test_an_unreadable_decision_is_named_when_its_id_is_searched(ledger_of_four):
    wanted = json.loads(ledger_of_four("log", "export").out.splitlines()[2])["request"][
        "request_id"
    ]
    damage(
        ledger_of_four,
        "UPDATE decisions SET value = CAST(value || x'ff' AS BLOB) WHERE sequence = 2",
    )
    done = ledger_of_four("log", "export", "--id", wanted)
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("error: the decision log is damaged: decision 2 cannot be read")


PARTITION = '{"partition":0}'


@pytest.mark.parametrize(
    ("row", "value", "readers"),
    [
        ("census", "CAST(value AS TEXT)", READERS[:3]),
        ("census", "CAST(x'22ff22' AS TEXT)", READERS[:3]),
        ("census", "12", READERS[:3]),
        ("census", """CAST('{"type":"snapshot"' AS BLOB)""", READERS[:3]),
        # A digit of what is left or was decided, and so sound JSON.
        ("census", """CAST(replace(CAST(value AS TEXT), '0.02', '0.01') AS BLOB)""", READERS[:3]),
        (PARTITION, "CAST(value AS TEXT)", READERS[3:]),
        (
            PARTITION,
            """CAST(replace(CAST(value AS TEXT), '"partition_sequence":3', '"partition_sequence":2')
            AS BLOB)""",
            READERS[3:],
        ),
        (PARTITION, "CAST(x'22ff22' AS TEXT)", READERS[3:]),
        (PARTITION, "12", READERS[3:]),
        (PARTITION, "CAST('{' AS BLOB)", READERS[3:]),
    ],
)
def test_a_damaged_row_of_state_is_named_and_the_next_writer_repairs_it(
    ledger_of_four, row, value, readers
):
    damage(ledger_of_four, f"UPDATE state SET value = {value} WHERE key = CAST('{row}' AS BLOB)")
    for reader in readers:
        done = ledger_of_four(*reader)
        assert (done.code, done.out) == (4, ""), reader
        assert f"the row of {row} in its `state` cannot be read: " in done.err, reader
    assert ledger_of_four("ask", "census", "pure:0.1", "--analyst", "ana").code == 0
    for reader in READERS:
        assert ledger_of_four(*reader).code == 0, reader
