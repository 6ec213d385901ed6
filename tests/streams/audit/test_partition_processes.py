"""Processes for partitions find what one process finds, and are used where that is faster."""

from __future__ import annotations

import pytest

from accountant.partition import hash_of
from streams.audit.deciding_process import InDoubt
from streams.audit.partition_audit import audit_part
from streams.audit.partition_processes import PartitionProcesses, partition_processes
from streams.log.decision_log import PartSize
from streams.log.exported_log import ExportedLog
from tests.streams.audit.audited_logs import written
from tests.streams.audit.partitioned_logs import LOGS, processes, whole


@pytest.fixture
def path(tmp_path):
    written(tmp_path, whole())
    return tmp_path / "log.jsonl"


def test_each_process_finds_what_an_audit_in_order_finds(path):
    wanted, counted = {0, 7, 99}, []
    found = processes(path, 2).audits(lambda _: wanted, lambda *count: counted.append(count))
    assert found == [audit_part(part, part.values, wanted) for part in ExportedLog(path).parts()]
    for log, each in zip(LOGS, found, strict=True):
        assert (each.first, each.last) == (log[0], len(log) - 1)
        assert each.hashes == {0: hash_of(log[0]), 7: hash_of(log[7]), 99: None}
    assert {(n, len(log)) for n, log in enumerate(LOGS)} <= set(counted)


@pytest.mark.parametrize("how", ["wrong only to a decider", "wrong sums"])
def test_processes_name_nothing_that_is_wrong(tmp_path, how):
    written(tmp_path, whole((1,), how))
    path = tmp_path / "log.jsonl"
    with pytest.raises(InDoubt):
        processes(path).audits(lambda _: set(), lambda *_: None)


class SizedLog(ExportedLog):
    """A log of stated sizes."""

    def sizes(self):
        return [PartSize(n, records) for n, records in enumerate(SizedLog.stated)]


@pytest.mark.parametrize(
    ("stated", "jobs", "chosen"),
    [
        ([50, 50], 2, True),
        ([50, 50], 1, False),
        ([100], 2, False),
        ([], 2, False),
        ([60, 40], 2, True),
        ([61, 39], 2, False),  # two processes for each, one after another, take 60
        ([30, 20, 50], 2, True),
        ([9, 9], 2, False),  # too few to start a process
        ([25, 25, 25, 25], 3, True),
    ],
)
def test_partitions_are_audited_side_by_side_where_that_is_faster(tmp_path, stated, jobs, chosen):
    SizedLog.stated = stated
    made = partition_processes(SizedLog(tmp_path), SizedLog, jobs, least=20)
    assert isinstance(made, PartitionProcesses) == chosen


def test_a_log_that_cannot_be_measured_is_audited_in_order(tmp_path):
    missing = ExportedLog(tmp_path / "missing.jsonl")
    assert partition_processes(missing, ExportedLog, 4, least=0) is None
