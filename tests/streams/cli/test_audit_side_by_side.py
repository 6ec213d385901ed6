"""An audit of partitions side by side prints and exits as one of one after another."""

from __future__ import annotations

import os
import signal
from itertools import chain

import pytest

from accountant.partition import hash_of
from accountant.partition.key_hash import home_of
from accountant.records import decode_decision, encode
from streams.audit import partition_processes as module
from streams.audit.deciding_process import InDoubt
from streams.audit.partition_audit import audit_part
from streams.audit.partition_processes import PartitionProcesses, partition_processes
from streams.cli.audit import run_audit
from streams.log.log_reader import ExportedLog, PartSize
from tests.accountant.replay.test_audit import rechained
from tests.accountant.replay.test_grant_run import forged
from tests.accountant.world import World
from tests.streams.cli.test_audit_jobs import run_here, written

PARTITIONS = 3
NAMES = [next(f"d{i}" for i in range(99) if home_of(f"d{i}", "name", 3) == n) for n in range(3)]


def of_partition(number):
    world = World(partitions=PARTITIONS, partition=number)
    world.open(NAMES[number], epsilon="1", delta="1e-6")
    for _ in range(20 + number):
        world.now += 7
        world.ask("pure:0.001", dataset=NAMES[number])
    return world.log


LOGS = [of_partition(number) for number in range(PARTITIONS)]


def edited(log, field):
    log = list(log)
    log[12] = encode(forged(decode_decision(log[12]), field))
    return rechained(log, 12)


DAMAGED = {
    "wrong only to a decider": lambda log: edited(log, "crossed"),
    "wrong sums": lambda log: edited(log, "totals"),
    "wrong chain": lambda log: [*log[:12], log[12].replace(b"0.001", b"0.002"), *log[13:]],
    "no decision": lambda log: [*log[:9], b"{}", *log[9:]],
    "a decision less": lambda log: [*log[:9], *log[10:]],
    "no genesis": lambda log: log[1:],
}


def whole(damaged=(), how=""):
    parts = [DAMAGED[how](log) if n in damaged else log for n, log in enumerate(LOGS)]
    return list(chain.from_iterable(parts))


@pytest.fixture
def path(tmp_path):
    written(tmp_path, whole())
    return tmp_path / "log.jsonl"


def processes(path, jobs=PARTITIONS):
    made = partition_processes(ExportedLog(path), str(path), jobs, least=0)
    assert made is not None
    return made


def test_partitions_side_by_side_give_the_reports_of_one_after_another(path, capsys):
    source = ExportedLog(path)
    reports = run_audit(source, processes=processes(path))  # it would raise where in doubt
    assert reports == run_audit(source)
    assert [(number, report.ok) for number, report in reports] == [(n, True) for n in range(3)]
    one = run_here(path, 1, capsys)
    assert one[0] == 0
    assert run_here(path, 3, capsys) == one
    assert run_here(path, 2, capsys) == one


def test_each_process_finds_what_an_audit_in_order_finds(path):
    wanted, counted = {0, 7, 99}, []
    found = processes(path, 2).audits(lambda _: wanted, lambda *count: counted.append(count))
    assert found == [audit_part(part, part.values, wanted) for part in ExportedLog(path).parts()]
    for log, each in zip(LOGS, found, strict=True):
        assert (each.first, each.last) == (log[0], len(log) - 1)
        assert each.hashes == {0: hash_of(log[0]), 7: hash_of(log[7]), 99: None}
    assert {(n, len(log)) for n, log in enumerate(LOGS)} <= set(counted)


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


@pytest.mark.parametrize("how", ["wrong only to a decider", "wrong sums"])
def test_processes_name_nothing_that_is_wrong(tmp_path, how):
    written(tmp_path, whole((1,), how))
    path = tmp_path / "log.jsonl"
    with pytest.raises(InDoubt):
        processes(path).audits(lambda _: set(), lambda *_: None)


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
    made = partition_processes(SizedLog(tmp_path), "", jobs, least=20)
    assert isinstance(made, PartitionProcesses) == chosen


def test_a_log_that_cannot_be_measured_is_audited_in_order(tmp_path):
    missing = tmp_path / "missing.jsonl"
    assert partition_processes(ExportedLog(missing), str(missing), 4, least=0) is None
