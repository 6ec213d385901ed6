"""A grant runs once, and every retry gets its result, whatever fails in between."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from accountant.errors import RequestInvalid
from streams.client import (
    Accountant,
    AccountantWarning,
    AsyncAccountant,
    Codec,
    NotGranted,
    Refused,
    ResultMissing,
    ResultStore,
    StillRunning,
)
from streams.client.releases.process_identity import has_ended, process_words, this_process
from streams.client.releases.store import Turn
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id

STARTS = ()

ONE = {"filter": "basic", "epsilon": "1"}
HALF = "pure:0.5"


class Draws:
    """A mechanism that never draws the same number twice, and counts."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> int:
        self.count += 1
        return 1000 + self.count


@pytest.fixture
def draws() -> Draws:
    return Draws()


@pytest.fixture(autouse=True)
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "private" / "answers.db"))
    return tmp_path / "private" / "answers.db"


@pytest.fixture(params=["in process", "http"])
def ledger(request: pytest.FixtureRequest, file: Path, clock: TestClock) -> Iterator[Accountant]:
    if request.param == "in process":
        with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as client:
            client.as_owner("owner").open("census", ONE, as_given=True)
            yield client
        return
    with (
        LocalServer(file, clock) as server,
        Accountant(server.url, clock=clock, analyst="ana") as client,
    ):
        client.as_owner("owner").open("census", ONE, as_given=True)
        yield client


def spent(ledger: Accountant) -> str:
    view = ledger.dataset("census")
    assert view is not None
    return str(view.totals["epsilon"])


def test_a_grant_block_runs_or_raises(ledger: Accountant, draws: Draws) -> None:
    with ledger.grant("census", HALF) as grant:
        draws()
        assert grant.left["epsilon"] == Decimal("0.5")
    with (
        pytest.raises(
            NotGranted, match=r"exhausted. .* costs ε 0\.6, and 0\.5 is left\..*fit: pure:0\.5"
        ) as raised,
        ledger.grant("census", "pure:0.6"),
    ):
        draws()
    assert (raised.value.reason, raised.value.fits) == ("exhausted", "pure:0.5")
    mine = grant.request_id
    with pytest.raises(NotGranted, match="granted before, for one run"):
        ledger.grant("census", HALF, request_id=mine).__enter__()
    assert draws.count == 1


def test_a_release_runs_once_and_every_retry_gets_its_result(
    ledger: Accountant, clock: TestClock, draws: Draws, answers: Path
) -> None:
    mine = new_id(clock)
    first = ledger.release("census", HALF, draws, request_id=mine)
    for _ in range(3):
        assert ledger.release("census", HALF, draws, request_id=mine) == first
    assert (draws.count, spent(ledger)) == (1, "0.5")
    clock.pass_(seconds=7200)  # the ledger has forgotten the id, and answers `expired`
    assert ledger.release("census", HALF, draws, request_id=mine) == first
    assert draws.count == 1
    assert stat.S_IMODE(answers.stat().st_mode) == 0o600
    assert stat.S_IMODE(answers.parent.stat().st_mode) == 0o700


def test_two_releases_without_an_id_are_two_requests(ledger: Accountant, draws: Draws) -> None:
    assert [ledger.release("census", "pure:0.25", draws) for _ in range(2)] == [1001, 1002]
    assert spent(ledger) == "0.5"


def test_nothing_runs_without_a_grant(ledger: Accountant, clock: TestClock, draws: Draws) -> None:
    mine = new_id(clock)
    for _ in range(2):
        with pytest.raises(NotGranted, match="exhausted") as raised:
            ledger.release("census", "pure:3", draws, request_id=mine)
        assert raised.value.reason == "exhausted"
    ledger.release("census", HALF, draws, request_id=(other := new_id(clock)))
    with pytest.raises(NotGranted, match="conflict"):
        ledger.release("census", "pure:0.4", draws, request_id=other)
    assert draws.count == 1


def test_a_grant_without_a_stored_result_never_runs_again(
    ledger: Accountant, clock: TestClock, draws: Draws, tmp_path: Path, answers: Path
) -> None:
    asked = ledger.ask("census", "pure:0.25")
    assert asked.granted  # and perhaps run, by hand
    with pytest.raises(ResultMissing, match="does not run again"):
        ledger.release("census", "pure:0.25", draws, request_id=asked.request_id)
    mine = new_id(clock)
    ledger.release("census", "pure:0.25", draws, request_id=mine)
    elsewhere = ResultStore(tmp_path / "other.db")
    for _ in range(2):
        with pytest.raises(ResultMissing):
            ledger.release("census", "pure:0.25", draws, request_id=mine, store=elsewhere)
    answers.unlink()
    with pytest.raises(ResultMissing):
        ledger.release("census", "pure:0.25", draws, request_id=mine)
    assert draws.count == 1


def test_a_run_that_ends_without_an_answer_may_run_again(
    ledger: Accountant, clock: TestClock, draws: Draws
) -> None:
    mine = new_id(clock)

    def fails() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.release("census", HALF, fails, request_id=mine)
    assert ledger.release("census", HALF, draws, request_id=mine) == 1001
    assert ledger.release("census", HALF, draws, request_id=mine) == 1001
    assert spent(ledger) == "0.5"


def test_a_result_that_cannot_be_stored_is_not_shown(ledger: Accountant, tmp_path: Path) -> None:
    store = tmp_path / "answers.db"

    def opened_to_others() -> int:
        store.chmod(0o644)
        return 1

    with pytest.raises(Refused):
        ledger.release("census", "pure:0.1", opened_to_others, store=store)


def test_a_concurrent_release_waits_for_the_result_or_raises(
    ledger: Accountant, clock: TestClock, draws: Draws
) -> None:
    mine, running, go_on = new_id(clock), threading.Event(), threading.Event()
    got: list[int] = []

    def slow() -> int:
        running.set()
        assert go_on.wait(PATIENCE_S)
        return draws()

    def first() -> None:
        got.append(ledger.release("census", HALF, slow, request_id=mine))

    thread = threading.Thread(target=first)
    thread.start()
    assert running.wait(PATIENCE_S)
    with pytest.raises(StillRunning, match=mine):
        ledger.release("census", HALF, draws, request_id=mine, wait=1)
    threading.Timer(0.3, go_on.set).start()
    got.append(ledger.release("census", HALF, draws, request_id=mine, wait=30))
    thread.join(PATIENCE_S)
    assert got == [1001, 1001]
    assert draws.count == 1


_KILLED = """
import os, signal, sys
from streams.client import Accountant

def run():
    {run}
    return 7

with Accountant(sys.argv[1], analyst="ana") as ledger:
    ledger.release("census", "pure:0.5", run, request_id=sys.argv[2] or None)
print("returned")
"""


@pytest.mark.parametrize("fresh", [False, True])
def test_a_run_that_is_killed_may_run_again(file: Path, draws: Draws, fresh: bool) -> None:
    url = f"sqlite:///{file}"
    with Accountant(url, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        mine = "" if fresh else ledger.new_request_id()
    code = _KILLED.format(run="os.kill(os.getpid(), signal.SIGKILL)")
    done = subprocess.run([sys.executable, "-c", code, url, mine], check=False)
    assert done.returncode == -signal.SIGKILL
    with Accountant(url, analyst="ana") as ledger:
        if fresh:
            mine = json.loads(next(iter(_requests(file))))["request_id"]
        assert ledger.release("census", HALF, draws, request_id=mine) == 1001
        assert ledger.release("census", HALF, draws, request_id=mine) == 1001
        assert spent(ledger) == "0.5"


def _requests(file: Path) -> Iterator[bytes]:
    import apsw

    with apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY) as db:
        for (value,) in db.execute("SELECT value FROM decisions ORDER BY sequence"):
            decision = json.loads(value)
            if decision["outcome"] == "granted":
                yield json.dumps(decision["request"]).encode()


def test_a_run_that_released_something_without_a_result_never_runs_again(answers: Path) -> None:
    store, first, second = ResultStore(), Turn("d", "r", "first"), Turn("d", "r", "second")
    take = "from streams.client.releases.store import ResultStore, Turn; ResultStore().take_turn"
    subprocess.run([sys.executable, "-c", f"{take}({first}, granted=True)"], check=True)
    with pytest.raises(ResultMissing, match="training ended after the first step"):
        store.take_turn(second, granted=False, after_crash=False)
    assert store.take_turn(second, granted=False) == second
    store.mark_failed("r", "second")
    assert store.take_turn(first, granted=False, after_crash=False) == first  # released nothing
    store.mark_failed("r", "first", again=False)
    for after_crash in (False, True):
        with pytest.raises(ResultMissing, match="training ended after the first step"):
            store.take_turn(second, granted=False, after_crash=after_crash)


def test_an_id_that_a_release_made_can_be_released_after_a_crash_before_the_run(
    ledger: Accountant, clock: TestClock, draws: Draws, answers: Path
) -> None:
    from streams.client.releases.grants import TAGGED_JSON, Release

    call = ledger._sender.prepare(ledger._draft("census", HALF), 5)
    Release(ResultStore(), call, TAGGED_JSON, ledger.url, 5).record_request()
    assert ledger._sender.reply_to(call, 5).granted  # and the process ends here
    assert ledger.release("census", HALF, draws, request_id=call.request_id) == 1001
    assert ledger.release("census", HALF, draws, request_id=call.request_id) == 1001
    assert spent(ledger) == "0.5"


def test_a_function_can_be_released_at_each_call(ledger: Accountant, clock: TestClock) -> None:
    @ledger.released("census", "pure:0.25", purpose="a count")
    def count(base: int, *, extra: int) -> int:
        """Count something."""
        return base + extra

    assert count.__doc__ == "Count something."
    mine = new_id(clock)
    assert count(1, extra=2, request_id=mine) == 3  # type: ignore[call-arg]
    assert count(5, extra=2, request_id=mine) == 3  # type: ignore[call-arg]
    assert count(5, extra=2) == 7
    assert spent(ledger) == "0.5"


async def test_the_async_client_does_the_same(file: Path, clock: TestClock, draws: Draws) -> None:
    async with AsyncAccountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        await ledger.as_owner("owner").open("census", ONE, as_given=True)
        mine = ledger.new_request_id()

        async def slow() -> int:
            await asyncio.sleep(0.2)
            return draws()

        both = [ledger.release("census", "pure:0.25", slow, request_id=mine) for _ in range(2)]
        # The second one may come before the first has begun: then it never runs.
        found = await asyncio.gather(*both, return_exceptions=True)
        assert 1001 in found
        assert all(each == 1001 or isinstance(each, ResultMissing) for each in found)
        assert await ledger.release("census", "pure:0.25", draws, request_id=mine) == 1001
        assert draws.count == 1

        other = ledger.new_request_id()
        task = asyncio.create_task(ledger.release("census", "pure:0.25", slow, request_id=other))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await ledger.release("census", "pure:0.25", draws, request_id=other) in {1002, 1003}

        @ledger.released("census", "pure:0.25")
        async def count(more: int) -> int:
            return draws() + more

        assert await count(10) > 1010
        async with ledger.grant("census", "pure:0.25") as grant:
            assert grant.granted
        with pytest.raises(NotGranted):
            await ledger.release("census", "pure:0.25", draws)


def test_a_custom_codec(ledger: Accountant, clock: TestClock) -> None:
    codec = Codec(lambda value: "".join(value).encode(), lambda data: set(data.decode()))
    mine = new_id(clock)
    for _ in range(2):
        got = ledger.release("census", HALF, lambda: {"a", "b"}, request_id=mine, codec=codec)
        assert got == {"a", "b"}


def test_a_store_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    store = ResultStore(path)
    store.discard_request("x")
    path.chmod(0o640)
    with pytest.raises(Refused, match="chmod 600"):
        store.discard_request("x")
    (tmp_path / "file").touch(0o600)
    with pytest.raises(Refused, match="cannot be opened"):
        ResultStore(tmp_path / "file" / "answers.db").discard_request("x")
    with pytest.raises(Refused):
        ResultStore(tmp_path).discard_request("x")
    (tmp_path / "text.db").write_text("no database at all, and long enough to be read as one")
    (tmp_path / "text.db").chmod(0o600)
    with pytest.raises(Refused, match="cannot be used"):
        ResultStore(tmp_path / "text.db").discard_request("x")


def test_a_store_is_created_once_by_concurrent_users(tmp_path: Path) -> None:
    for number in range(20):
        store = ResultStore(tmp_path / f"{number}.db")
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda _: store.open_requests(), range(8))) == [[]] * 8  # noqa: B023


def test_two_processes_with_one_pid_are_distinguished() -> None:
    mine = this_process()
    assert not has_ended(mine)
    place = json.loads(mine)
    assert has_ended(json.dumps([*place[:4], "1"]))
    assert not has_ended(json.dumps(["elsewhere", *place[1:4], "1"]))
    assert has_ended(json.dumps([place[0], "another boot", *place[2:]]))
    assert not has_ended("?")
    assert process_words(mine) == f"this process (pid {os.getpid()})"
    assert process_words(json.dumps([*place[:3], 7, "1"])) == "process 7 on this machine"
    assert process_words(json.dumps(["elsewhere", *place[1:3], 7, "1"])) == "process 7 on elsewhere"
    assert process_words("?") == "another process"
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    other = json.dumps([*place[:3], child.pid, started])
    assert not has_ended(other)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(other)  # ended, and not yet waited for
    child.communicate()
    assert has_ended(other)


NO_CODECS: list[Any] = [None, "json", json, (str, str), (), Codec(None, 1)]  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", NO_CODECS)
async def test_an_invalid_codec_is_refused_before_the_charge(
    ledger: Accountant, clock: TestClock, codec: Any
) -> None:
    with pytest.raises(RequestInvalid, match="codec must be a Codec"):
        ledger.release("census", HALF, lambda: 1, codec=codec)
    async with AsyncAccountant(ledger.url, clock=clock, analyst="ana") as awaited:
        with pytest.raises(RequestInvalid, match="codec must be a Codec"):
            await awaited.release("census", HALF, lambda: 1, codec=codec)
    view = ledger.dataset("census")
    assert view is not None
    assert str(view.totals["epsilon"]) == "0"


@pytest.mark.parametrize("encoded", ["text", None, 5, [b"parts"]], ids=repr)
def test_a_result_that_a_codec_does_not_encode_is_returned_once(
    ledger: Accountant, encoded: Any
) -> None:
    codec = Codec(lambda _: encoded, lambda data: data)
    with pytest.warns(AccountantWarning, match="not stored: the codec's encode returned"):
        got = ledger.release("census", HALF, lambda: {"mine"}, codec=codec)
    assert got == {"mine"}
