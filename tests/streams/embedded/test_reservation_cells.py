"""Every cell of the table of reservations in a ledger's file, restarted on the way."""

from __future__ import annotations

from pathlib import Path

from tests.accountant.reservations.cells import Script
from tests.accountant.world import START
from tests.faults.fed_ledger import FedLedger


def test_a_file_decides_each_cell_as_the_pure_rules_do(tmp_path: Path) -> None:
    script = Script()
    assert len(script.names) > 150
    with FedLedger(tmp_path / "ledger.db", start=START) as ledger:
        for number, group in enumerate(script.rounds()):
            for sent in group:
                later = sent.at - ledger.clock.now()
                script.check(sent, ledger.send(sent.source, script.body(sent), later))
            ledger.reopen(without_rows=number % 2 == 0)
        partition = ledger.judged()
    assert len(partition.datasets) == len(script.names)
