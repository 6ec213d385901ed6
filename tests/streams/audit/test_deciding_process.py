"""A second process finds a log right only where the first one does."""

from __future__ import annotations

import os
import signal

import pytest

from accountant.partition import Partition
from accountant.records import decode_decision
from streams.audit.deciding_process import DecidingProcess, InDoubt
from streams.audit.log_audit import run_audit
from streams.cli.reading.log_at import log_at
from streams.errors import Refused
from streams.log.decision_log import Part
from tests.accountant.replay.test_grant_run import WORLD
from tests.every_case import every_case
from tests.streams.audit.audited_logs import LOGS, edited, written


def test_both_processes_together_accept_a_right_log(tmp_path):
    written(tmp_path, WORLD.log)
    source = log_at(str(tmp_path / "log.jsonl"))
    reports = run_audit(source, split_from=0)  # it would raise where in doubt
    assert reports == run_audit(source)
    assert [report.ok for _, report in reports] == [True]


def test_a_log_that_is_wrong_only_to_a_decider_is_in_doubt(tmp_path):
    written(tmp_path, LOGS["wrong only to a decider"])
    with pytest.raises(InDoubt):
        run_audit(log_at(str(tmp_path / "log.jsonl")), split_from=0)


class DamagedLog:
    """A log that cannot be read to its end."""

    def __init__(self, values):
        self.values = values

    def parts(self, *, since=None):
        yield Part(0, self.read())

    def read(self):
        yield from self.values
        raise Refused("the rest cannot be read")


@every_case("split_from", [None, 1000])
@every_case("field", ["totals", "crossed"])
def test_a_wrong_record_comes_before_later_damage(field, split_from):
    ((_, report),) = run_audit(DamagedLog(edited(WORLD.log, field)[:20]), split_from=split_from)
    assert report.first_disagreement.partition_sequence == 12


def test_two_processes_are_in_doubt_where_the_log_is_damaged():
    with pytest.raises(InDoubt):
        run_audit(DamagedLog(edited(WORLD.log, "crossed")[:20]), split_from=0)


def finish(second, values):
    for _ in values:
        pass
    second.check(Partition(decode_decision(WORLD.log[0]).genesis), 0)


def test_a_process_that_dies_leaves_the_log_in_doubt():
    with DecidingProcess() as second:
        values = second.watch(WORLD.log)
        next(values)
        os.kill(second.process_id, signal.SIGKILL)
        with pytest.raises(InDoubt):
            finish(second, values)
