"""`accountant question` lists and ends what waits, at the process that runs questions."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.curator.answering import OpenQuestion
from streams.curator.data_answering import DataAnswering
from tests.every_case import every_case
from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import Command
from tests.streams.cli.exits import HELD, Proxy
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import asking
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.test_answers import answering_server
from tests.streams.waiting import eventually


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """A server whose first question runs until the test ends."""
    released, opened = threading.Event(), DataAnswering.open

    def wait(self: DataAnswering, *arguments: Any) -> OpenQuestion:
        released.wait(60)
        return opened(self, *arguments)

    monkeypatch.setattr(DataAnswering, "open", wait)
    file = tmp_path / "ledger.db"
    with answering_server(tmp_path, file, TestClock(), curator_parallel=1) as made:
        for _ in range(3):
            body = asking(made.clock, "survey", epsilon="0.1")
            assert made.post("/requests", body).json()["granted"]
        yield made
        released.set()


def test_an_owner_lists_and_ends_what_waits(
    server: LocalServer, tmp_path: Path, accountant: Command
) -> None:
    # By the ledger's file, the command finds the server that has it open.
    at = ("--url", f"sqlite:///{tmp_path / 'ledger.db'}")
    eventually(lambda: server.metric('privacy_questions_waiting{dataset="survey"}') == "3.0")
    listed = accountant("question", "list", "survey", *at)
    assert listed.out.startswith("ana: 3, the oldest since 2026-")
    rows = accountant("question", "list", "survey", "--json", *at)
    assert json.loads(rows.out)["questions"] == 3
    nobody = accountant("question", "end", "survey", "--analyst", "zoe", *at)
    assert nobody.out == "no question of zoe on survey waits\n"
    ended = accountant("question", "end", "survey", "--analyst", "ana", *at)
    assert (ended.code, ended.out) == (
        0,
        "ended 2 questions of ana on survey: failed, still charged\n",
    )
    again = accountant("question", "end", "survey", "--json", *at)
    assert json.loads(again.out) == {"dataset": "survey", "analyst": None, "ended": 0}
    unknown = accountant("question", "end", "surveys", *at)
    assert unknown.code == 4
    assert "surveys was never opened" in unknown.err


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Proxy]:
    """A proxy before a server that runs questions, of which none waits."""
    with answering_server(tmp_path, tmp_path / "ledger.db", TestClock()) as server:
        proxy = Proxy(server.url)
        yield proxy
        proxy.goes_on.set()
        proxy.close()


END = ("question", "end", "survey", "--analyst", "ana", "--url")
AGAIN = "the same command ends that, and nothing twice\n"


@every_case("exit_", ["status 503", "hung up", "a page", "garbage"])
def test_each_exit_of_an_end_says_that_questions_may_have_ended(
    proxied: Proxy, accountant: Command, exit_: str
) -> None:
    proxied.leave_by(exit_)
    done = accountant(*END, proxied.url)
    assert done.code in {3, 4}
    assert done.err.startswith("error: questions of ana on survey may have ended: ")
    assert done.err.endswith(AGAIN)
    assert proxied.posted, "it was sent"
    proxied.leave_by("")
    assert accountant(*END, proxied.url).out == "no question of ana on survey waits\n"


def test_an_end_that_a_signal_cuts_or_whose_output_is_lost_says_so(
    proxied: Proxy, accountant: Command
) -> None:
    proxied.leave_by(HELD)
    with accountant.start(*END, proxied.url) as process:
        assert proxied.is_held.wait(PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.startswith("error: questions of ana on survey may have ended: interrupted by SIGT")
    assert err.endswith(AGAIN)
    proxied.leave_by("")
    lost = accountant(*END, proxied.url, out="/dev/full")
    assert "error: what became of questions of ana on survey could not be printed\n" in lost.err
    assert AGAIN in lost.err


def test_it_says_where_to_send_it(tmp_path: Path, accountant: Command) -> None:
    of_broker = accountant("question", "end", "survey", "--url", "kafka://127.0.0.1:1")
    assert of_broker.code == 2
    assert "accountant curator" in of_broker.err
    with LocalServer(tmp_path / "ledger.db", TestClock()) as server:
        without = accountant("question", "list", "survey", "--url", server.url)
    assert without.code == 4
    assert "this server runs no questions" in without.err
    away = accountant("question", "list", "survey", "--url", "http://127.0.0.1:1")
    assert away.code == 3
