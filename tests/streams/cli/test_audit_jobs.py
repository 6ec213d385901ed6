"""An audit in two processes prints and exits as one in a single process."""

from __future__ import annotations

import os
import signal

import pytest
import typer

from accountant.partition import Partition
from accountant.records import decode_decision, encode
from streams.audit.deciding_process import DecidingProcess, InDoubt
from streams.cli.audit import audit, run_audit
from streams.errors import Refused
from streams.log.log_reader import Part, log_source
from tests.accountant.replay.test_audit import rechained
from tests.accountant.replay.test_grant_run import WORLD, forged
from tests.every_case import every_case


def written(directory, log):
    (directory / "log.jsonl").write_bytes(b"".join(value + b"\n" for value in log))


def edited(field):
    log = list(WORLD.log)
    log[12] = encode(forged(decode_decision(log[12]), field))
    return rechained(log, 12)


LOGS = {
    "right": WORLD.log,
    "wrong only to a decider": edited("crossed"),
    "wrong only to the chain": [*WORLD.log[:12], WORLD.log[12].replace(b"0.001", b"0.002")],
    "wrong sums": edited("totals"),
    "no decision": [*WORLD.log[:20], b"{}", *WORLD.log[20:]],
}


@pytest.mark.parametrize("name", LOGS)
def test_two_processes_print_what_one_prints(accountant, name):
    written(accountant.directory, LOGS[name])
    one = accountant("audit", "log.jsonl", "--jobs", "1")
    two = accountant("audit", "log.jsonl", "--jobs", "2")
    assert two == one
    assert one.code == (0 if name == "right" else 1)


def test_both_processes_together_accept_a_right_log(tmp_path):
    written(tmp_path, WORLD.log)
    source = log_source(str(tmp_path / "log.jsonl"))
    reports = run_audit(source, split_from=0)  # it would raise where in doubt
    assert reports == run_audit(source)
    assert [report.ok for _, report in reports] == [True]


def test_a_log_that_is_wrong_only_to_a_decider_is_in_doubt(tmp_path):
    written(tmp_path, LOGS["wrong only to a decider"])
    with pytest.raises(InDoubt):
        run_audit(log_source(str(tmp_path / "log.jsonl")), split_from=0)


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
    ((_, report),) = run_audit(DamagedLog(edited(field)[:20]), split_from=split_from)
    assert report.first_disagreement.partition_sequence == 12


def test_two_processes_are_in_doubt_where_the_log_is_damaged():
    with pytest.raises(InDoubt):
        run_audit(DamagedLog(edited("crossed")[:20]), split_from=0)


def test_a_ledgers_file_is_audited_by_two_processes(opened):
    assert opened("ask", "census", "pure:0.1", "--analyst", "ana").code == 0
    assert opened("audit", "--jobs", "2", "--json") == opened("audit", "--jobs", "1", "--json")


def run_here(path, jobs, capsys, **options):
    """Return the exit code of `audit`, run in this process, and what it prints."""
    capsys.readouterr()
    try:
        audit(str(path), jobs=jobs, **options)
    except typer.Exit as ended:
        return ended.exit_code, *capsys.readouterr()
    return 0, *capsys.readouterr()


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("fails", ["Pipe", "Process.start"])
def test_where_no_process_starts_one_process_comes_to_the_same(
    tmp_path, monkeypatch, capsys, name, fails
):
    tried = []

    def unable(*_):
        tried.append(fails)
        raise BlockingIOError(11, "Resource temporarily unavailable")

    written(tmp_path, LOGS[name])
    one = run_here(tmp_path / "log.jsonl", 1, capsys)
    monkeypatch.setattr(f"multiprocessing.context.SpawnContext.{fails}", unable)
    assert run_here(tmp_path / "log.jsonl", 2, capsys) == one
    assert tried == [fails]
    assert one[0] == (0 if name == "right" else 1)


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("after", [0, 10])
def test_where_the_process_is_killed_one_process_comes_to_the_same(
    tmp_path, monkeypatch, capsys, name, after
):
    killed = []
    watch = DecidingProcess.watch

    def watch_and_kill(second, values):
        for number, value in enumerate(watch(second, values)):
            if number == after:
                os.kill(second.process_id, signal.SIGKILL)
                killed.append(number)
            yield value

    written(tmp_path, LOGS[name])
    one = run_here(tmp_path / "log.jsonl", 1, capsys)
    monkeypatch.setattr(DecidingProcess, "watch", watch_and_kill)
    assert run_here(tmp_path / "log.jsonl", 2, capsys) == one
    assert killed == [after]


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
