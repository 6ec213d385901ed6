"""An audit of partitions side by side prints and exits as one of one after another."""

from __future__ import annotations

import os
import signal

import pytest

from accountant.partition import hash_of
from streams.audit import partition_processes as module
from streams.audit.log_audit import run_audit
from streams.log.exported_log import ExportedLog
from tests.streams.audit.audited_logs import written
from tests.streams.audit.partitioned_logs import DAMAGED, LOGS, PARTITIONS, processes, whole
from tests.streams.cli.test_audit_jobs import run_here


@pytest.fixture
def path(tmp_path):
    written(tmp_path, whole())
    return tmp_path / "log.jsonl"


def test_partitions_side_by_side_give_the_reports_of_one_after_another(path, capsys):
    source = ExportedLog(path)
    reports = run_audit(source, processes=processes(path))  # it would raise where in doubt
    assert reports == run_audit(source)
    assert [(number, report.ok) for number, report in reports] == [(n, True) for n in range(3)]
    one = run_here(path, 1, capsys)
    assert one[0] == 0
    assert run_here(path, 3, capsys) == one
    assert run_here(path, 2, capsys) == one


@pytest.mark.parametrize(
    ("damaged", "how"),
    [*((1, how) for how in DAMAGED), (0, "wrong sums"), (2, "wrong only to a decider")],
)
def test_a_wrong_record_is_named_as_one_process_names_it(tmp_path, capsys, damaged, how):
    written(tmp_path, whole((damaged,), how))
    path = tmp_path / "log.jsonl"
    one = run_here(path, 1, capsys)
    assert one[0] == 1
    assert run_here(path, 3, capsys) == one


def test_two_wrong_partitions_are_both_named(tmp_path, capsys):
    written(tmp_path, whole((0, 2), "wrong sums"))
    one = run_here(tmp_path / "log.jsonl", 1, capsys)
    assert one[1].count("disagrees") == 2
    assert run_here(tmp_path / "log.jsonl", 3, capsys) == one


@pytest.mark.parametrize("known", ["right", "wrong", "missing"])
def test_a_head_is_looked_for_in_each_partition(path, capsys, known):
    digest = hash_of(LOGS[2][21])
    head = {
        "right": f"21:{digest}",
        "wrong": f"20:{digest}",
        "missing": f"22:{digest}",
    }[known]
    one = run_here(path, 1, capsys, head=head)
    assert one[0] == (known != "right")
    assert run_here(path, 3, capsys, head=head) == one


def test_where_no_process_starts_one_process_comes_to_the_same(path, capsys, monkeypatch):
    tried = []

    def unable(*_):
        tried.append(1)
        raise BlockingIOError(11, "Resource temporarily unavailable")

    one = run_here(path, 1, capsys)
    monkeypatch.setattr("multiprocessing.context.SpawnContext.Process.start", unable)
    assert run_here(path, 3, capsys) == one
    assert tried


@pytest.mark.parametrize("killed", range(PARTITIONS))
def test_where_a_process_is_killed_one_process_comes_to_the_same(path, capsys, monkeypatch, killed):
    start, ended = module._Running.start, []

    def start_and_kill(running, place, wanted):
        start(running, place, wanted)
        if place == killed:
            *_, (_, process) = running._processes.values()
            os.kill(process.pid, signal.SIGKILL)
            ended.append(place)

    one = run_here(path, 1, capsys)
    monkeypatch.setattr(module._Running, "start", start_and_kill)
    assert run_here(path, 3, capsys) == one
    assert ended == [killed]
