"""An audit in two processes prints and exits as one in a single process."""

from __future__ import annotations

import os
import signal

import pytest
import typer

from streams.audit.deciding_process import DecidingProcess
from streams.cli.audit import audit
from tests.streams.audit.audited_logs import LOGS, written


@pytest.mark.parametrize("name", LOGS)
def test_two_processes_print_what_one_prints(accountant, name):
    written(accountant.directory, LOGS[name])
    one = accountant("audit", "log.jsonl", "--jobs", "1")
    two = accountant("audit", "log.jsonl", "--jobs", "2")
    assert two == one
    assert one.code == (0 if name == "right" else 1)


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
