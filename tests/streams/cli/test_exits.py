"""Every way out of a command or a call, after a request was sent, names the request's id."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest

from streams.client import Accountant
from streams.clock import SystemClock
from tests.forks import commands
from tests.nightly import NIGHTLY
from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import ROOT, environment
from tests.streams.cli.exits import (
    ASKING,
    CALLS,
    COMMANDS,
    HELD,
    LATER,
    LATER_OF,
    MANY,
    OWN,
    POLICY,
    Proxy,
)
from tests.streams.gateway.local_server import LocalServer

OPENS = ()
STARTS = ("tests.streams.cli.exits", "streams.cli")

Case = dict[str, Any]
ENDING: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


@pytest.fixture(scope="module", autouse=True)
def heard_signals() -> Iterator[None]:
    """Signals end new processes, also where these tests run in the background."""
    ignored = [each for each in ENDING if signal.getsignal(each) is signal.SIG_IGN]
    for each in ignored:
        signal.signal(each, signal.SIG_DFL)
    yield
    for each in ignored:
        signal.signal(each, signal.SIG_IGN)


@pytest.fixture(scope="module")
def cases(heard_signals: None, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """What each command and call says at each exit, from a process of its own."""
    every = ["every"] if NIGHTLY else []
    directory = str(tmp_path_factory.mktemp("exits"))
    done = commands.run_program(
        *("tests.streams.cli.exits", directory, *every),
        timeout=5 * PATIENCE_S,
        cwd=ROOT,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server with the dataset census."""
    file = tmp_path_factory.mktemp("served") / "ledger.db"
    with LocalServer(file, SystemClock()) as made, Accountant(made.url) as ledger:
        ledger.as_owner("olga").open("census", {**POLICY, "access": "anyone"})
        yield made


def of_commands(cases: list[Case]) -> list[Case]:
    """Return the cases of commands that send one request."""
    return [case for case in cases if case.get("command", "call") not in {"call", *MANY}]


def test_each_exit_of_a_command_names_its_request_and_repeats_with_it(cases: list[Case]) -> None:
    wrong = []
    for case in of_commands(cases):
        (sent,) = case["sent"]
        printed = case["code"] == 0 and sent in case["out"]
        if not printed and f"run the same command with --id {sent}; it is " not in case["err"]:
            wrong.append(case)
        if "log export" in case["err"]:  # over HTTP nobody can
            wrong.append(case)
    assert wrong == []


def test_a_signal_ends_a_command_with_its_own_exit_code(cases: list[Case]) -> None:
    found = {
        (case["exit"], case["code"]) for case in of_commands(cases) if case["exit"][:3] == "SIG"
    }
    wanted = {(name, 128 + getattr(signal, name.split()[0])) for name, _ in found}
    assert found == wanted
    assert len(found) >= 5


def test_a_decision_is_printed_before_anything_else_is_asked(cases: list[Case]) -> None:
    later = [case for case in of_commands(cases) if case["exit"] in LATER]
    assert {case["command"] for case in later} == LATER_OF
    for case in later:
        (sent,) = case["sent"]
        if "--json" not in case["command"]:  # there the answer alone is the output
            assert case["out"].startswith("granted: "), case
            assert f"  id    {sent} (decision " in case["out"], case


def test_a_command_repeated_with_its_id_sends_the_same_bytes(cases: list[Case]) -> None:
    again = [case for case in of_commands(cases) if "again" in case]
    assert {case["command"] for case in again} == COMMANDS.keys()
    for case in again:
        done = case["again"]
        assert done["code"] in {0, 1, 5}, case
        assert "conflict" not in done["out"], case
        reached = not case["exit"].endswith("before")
        repeats = "repeated" in done["out"] or case["command"].endswith("a question")
        assert repeats is reached, case


def test_each_exit_of_a_command_of_many_names_its_requests(cases: list[Case]) -> None:
    of_many = [case for case in cases if case.get("command") in MANY]
    assert {case["command"] for case in of_many} == MANY.keys()
    for case in of_many:
        is_lost = case["command"] == "member sync" and case["exit"] in {"full disk", "closed pipe"}
        for sent in case["sent"]:  # a sync prints no decisions that could be lost
            assert is_lost or sent in case["out"] + case["err"], case


def test_each_exit_of_a_call_names_its_requests(cases: list[Case]) -> None:
    calls = [case for case in cases if "call" in case]
    assert {case["call"] for case in calls} == CALLS.keys()
    for case in calls:
        # Leaving a session sends steps whose ids are of no use: it is run again by its own.
        named = set(case["sent"]) & set(case["ids"])
        assert named, case
        assert case["call"] == "reserve" or set(case["ids"]) == set(case["sent"]), case
        rejected = case["exit"].startswith("problem 4")
        assert rejected or not any(": not charged" in note for note in case["notes"]), case


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (signal.SIGINT, ("ask", "census", "pure:0.001", *ASKING)),
        (signal.SIGTERM, ("dataset", "amend", "census", "--horizon", "P9D", *OWN)),
        (signal.SIGHUP, ("ask", "census", "pure:0.001", *ASKING, "--json")),
    ],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_process_that_a_signal_ends_names_its_request(
    number: signal.Signals, arguments: tuple[str, ...], server: LocalServer
) -> None:
    proxy = Proxy(server.url)
    try:
        proxy.leave_by(HELD)
        process = commands.start(
            *arguments,
            "--url",
            proxy.url,
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert proxy.is_held.wait(PATIENCE_S)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        proxy.goes_on.set()
        proxy.close()
    (sent,) = [json.loads(body)["request_id"] for body in proxy.posted]
    assert (process.returncode, out) == (128 + number, "")
    assert err.startswith(f"error: interrupted by {number.name}\n")
    assert f"--id {sent}; it is " in err
