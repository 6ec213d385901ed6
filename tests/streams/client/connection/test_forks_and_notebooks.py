"""Forks, cells that run twice and changed directories, as notebooks and schedulers cause them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from streams.client import Accountant, AsyncAccountant, NoSuchLedger, Refused
from streams.clock import SystemClock
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer

OPENS = ()
STARTS = ()

ONE = {"filter": "basic", "epsilon": "1"}

_FORKS = """
import multiprocessing, os, sys, threading
from streams.client import Accountant, UsedAfterFork

def child(ledger, ways, out):
    for name, way in ways.items():
        try:
            way(ledger)
            out.put((name, "went on"))
        except UsedAfterFork as error:
            out.put((name, str(error)))
        except BaseException as error:
            out.put((name, repr(error)))
    with Accountant(sys.argv[2]) as own:  # of its own it may have one
        out.put(("own", str(own.ask("census", "pure:0.25", analyst="bo").granted)))

if __name__ == "__main__":
    ways = {
        "ask": lambda ledger: ledger.ask("census", "pure:0.25", analyst="ana"),
        "typed": lambda ledger: ledger.ask(
            "census", "pure:0.25", analyst="ana", unit="person", neighbours="add_remove"),
        "dataset": lambda ledger: ledger.dataset("census"),
        "events": lambda ledger: next(ledger.events()),
        "close": lambda ledger: ledger.close(),
    }
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    with Accountant(sys.argv[1]) as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"}, as_given=True)
        assert ledger.ask("census", "pure:0.25", analyst="ana").granted
        forked = context.Process(target=child, args=(ledger, ways, out))
        forked.start()
        for _ in range(len(ways) + 1):
            print(*out.get(timeout=60), sep=": ", flush=True)
        forked.join(60)
        print("after:", ledger.ask("census", "pure:0.25", analyst="ana").granted)
        print("spent:", ledger.dataset("census").totals["epsilon"])
"""


@pytest.mark.parametrize("kind", ["file", "http"])
def test_a_client_used_after_a_fork_is_refused_at_once(
    file: Path, tmp_path: Path, kind: str
) -> None:
    with LocalServer(tmp_path / "other.db", SystemClock()) as server:
        url = server.url if kind == "http" else f"sqlite:///{file}"
        other = tmp_path / "own.db"
        with Accountant(f"sqlite:///{other}") as own:
            own.as_owner("owner").open("census", ONE, as_given=True)
        command = [sys.executable, "-c", _FORKS, url, f"sqlite:///{other}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    results = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stderr
    for way in ("ask", "typed", "dataset", "events"):
        assert "is a fork of it" in results[way], results
    assert results["close"] == "went on"
    assert results["own"] == "True"
    assert (results["after"], results["spent"]) == ("True", "0.5")


def test_a_cell_that_runs_twice_shares_the_ledger(file: Path, clock: TestClock) -> None:
    first = Accountant(f"sqlite:///{file}", clock=clock, analyst="ana")
    first.as_owner("owner").open("census", ONE, as_given=True)
    again = Accountant(f"sqlite:///{file}", clock=clock, analyst="ana")
    assert again.ask("census", "pure:0.5").granted
    assert not first.ask("census", "pure:0.6").granted
    first.close()
    assert again.ask("census", "pure:0.25").granted
    again.close()
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as third:
        assert third.ask("census", "pure:0.25").granted


def test_a_link_to_the_file_is_the_same_ledger(
    file: Path, clock: TestClock, tmp_path: Path
) -> None:
    (tmp_path / "there").symlink_to(tmp_path)
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        with Accountant(f"sqlite:///{tmp_path}/there/{file.name}", clock=clock) as other:
            assert other.ask("census", "pure:0.5", analyst="ana").granted
        assert ledger.ask("census", "pure:0.5", analyst="ana").granted


async def test_both_clients_of_a_process_share_a_file(file: Path, clock: TestClock) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        async with AsyncAccountant(f"sqlite:///{file}", clock=clock, analyst="bo") as other:
            replies = await asyncio.gather(*[other.ask("census", "pure:0.2") for _ in range(4)])
            assert all(reply.granted for reply in replies)
        assert ledger.ask("census", "pure:0.2").granted


def test_a_second_client_with_other_settings_is_refused(file: Path, clock: TestClock) -> None:
    url = f"sqlite:///{file}"
    with Accountant(url, clock=clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        this_process = rf"this process \({os.getpid()}\)"
        with pytest.raises(Refused, match=f"{this_process}.*another batch\\."):
            Accountant(settings=Settings(url=url, batch=7), clock=clock, wait=0)
        with pytest.raises(Refused, match=f"{this_process}.*another clock\\."):
            Accountant(url, wait=0)


def test_a_file_that_this_process_opened_without_a_client_is_reported(
    file: Path, clock: TestClock
) -> None:
    service = EmbeddedService.open(file, Settings(), clock=clock)
    with pytest.raises(Refused, match=rf"this process \({os.getpid()}\).*without a client"):
        Accountant(f"sqlite:///{file}", clock=clock, wait=0)
    service.close_sync()


def test_a_relative_path_is_resolved_when_the_client_is_made(
    tmp_path: Path, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    with Accountant("sqlite:///ledger.db", clock=clock) as ledger:
        monkeypatch.chdir(elsewhere)
        with pytest.raises(NoSuchLedger, match=str(tmp_path / "ledger.db")):
            ledger.datasets()
        ledger.as_owner("owner").open("census", ONE, as_given=True)
    assert (tmp_path / "ledger.db").exists()
    assert not list(elsewhere.iterdir())


def test_a_deleted_working_directory_is_reported(tmp_path: Path) -> None:
    code = """
        import os, sys
        from streams.client import Accountant, Refused
        os.rmdir(os.getcwd())
        try:
            Accountant("sqlite:///ledger.db")
        except Refused as error:
            print(error)
    """
    gone = tmp_path / "gone"
    gone.mkdir()
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(
        command,
        cwd=gone,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])},
    )
    assert "the working directory does not exist any more" in done.stdout, done.stderr
