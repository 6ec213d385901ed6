"""A program that runs again gets its named results again, and is charged once."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from accountant.errors import RequestInvalid
from streams.client import (
    Accountant,
    AccountantWarning,
    AsyncAccountant,
    NameTaken,
    NotGranted,
    ResultMissing,
    ResultStore,
    SimilarName,
)
from streams.client.connection.connect import NoSuchLedger
from streams.client.http.service import HttpService
from streams.client.releases.codec import encode_result
from streams.client.releases.store import ResultName
from streams.clock import SystemClock
from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer

OPENS = ()
STARTS = ()

ONE = {"filter": "basic", "epsilon": "1"}
CLAIM = "pure:0.01"
NAME = "age-by-district"


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
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultStore:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "answers.db"))
    return ResultStore()


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


def spent(ledger: Accountant, dataset: str = "census") -> str:
    view = ledger.dataset(dataset)
    assert view is not None
    return str(view.totals["epsilon"])


@pytest.mark.filterwarnings("error")
def test_a_named_release_is_charged_once_however_often_it_is_called(
    ledger: Accountant, clock: TestClock, draws: Draws
) -> None:
    first = ledger.release("census", CLAIM, draws, once=NAME)
    clock.pass_(seconds=7200)  # the ledger has forgotten the id
    assert ledger.release("census", CLAIM, draws, once=NAME, purpose="again") == first
    assert ledger.release("census", CLAIM, draws, once=NAME, wait=1) == first
    assert (draws.count, spent(ledger)) == (1, "0.01")
    assert ledger.release("census", CLAIM, draws, once="another") == 1002
    assert spent(ledger) == "0.02"


def test_another_claim_under_a_name_is_refused_uncharged(ledger: Accountant, draws: Draws) -> None:
    ledger.release("census", CLAIM, draws, once=NAME)
    for other, how in (
        ("pure:0.02", {}),
        ("zcdp:0.01", {}),
        (CLAIM, {"unit": "household"}),
        (CLAIM, {"neighbours": "replace"}),
        (CLAIM, {"via": "engine"}),
    ):
        with pytest.raises(NameTaken, match=r"belongs to pure:0\.01, unit.*this call"):
            ledger.release("census", other, draws, once=NAME, **how)  # type: ignore[arg-type]
    assert (draws.count, spent(ledger)) == (1, "0.01")


def test_a_name_is_of_one_dataset_analyst_ledger_and_store(
    ledger: Accountant, draws: Draws, tmp_path: Path
) -> None:
    ledger.as_owner("owner").open("survey", ONE, as_given=True)
    found = {
        ledger.release("census", CLAIM, draws, once=NAME),
        ledger.release("survey", "pure:0.02", draws, once=NAME),
        ledger.release("census", CLAIM, draws, once=NAME, analyst="ben"),
        ledger.release("census", CLAIM, draws, once=NAME, store=tmp_path / "other.db"),
    }
    with Accountant(f"sqlite:///{tmp_path / 'second.db'}", analyst="ana") as second:
        second.as_owner("owner").open("census", ONE, as_given=True)
        found.add(second.release("census", CLAIM, draws, once=NAME))
    assert len(found) == 5
    assert (spent(ledger), spent(ledger, "survey")) == ("0.03", "0.02")


COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(("first", "second"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_two_forms_of_unicode_are_one_name_and_one_purpose(
    ledger: Accountant, answers: ResultStore, draws: Draws, first: str, second: str
) -> None:
    ledger.release("census", CLAIM, draws, once=first)
    assert ledger.release("census", CLAIM, draws, once=second) == 1001
    with answers.transaction() as db:  # as an earlier version bound it
        db.execute("UPDATE names SET name = ?", (first,))
    assert ledger.release("census", CLAIM, draws, once=second) == 1001
    assert (draws.count, spent(ledger)) == (1, "0.01")
    ledger.release("census", "pure:0.02", draws, purpose=first)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ledger.release("census", "pure:0.02", draws, purpose=second)
    assert any("released before" in str(each.message) for each in warned)


def test_a_name_that_is_nearly_another_is_asked_back(ledger: Accountant, draws: Draws) -> None:
    ledger.release("census", CLAIM, draws, once="Age-by-region-10")
    for similar in ("age by region 10", "Age-by-regi0n-1O", "Age-by-region-10\u200b"):
        with pytest.raises((SimilarName, RequestInvalid)) as error:
            ledger.release("census", CLAIM, draws, once=similar)
        assert error.value.field == "once"
    with (
        pytest.raises(SimilarName, match="nearly 'Age-by-region-10'") as error,
        ledger.reserve("census", CLAIM, until="PT1H", once="age-by-region-10"),
    ):
        pass
    assert error.value.similar == "Age-by-region-10"
    assert (draws.count, spent(ledger)) == (1, "0.01")
    # Typing errors never count, and a name that is meant is bound.
    others = ("Age-by-region-11", "Age-by-regions-10", "Age-by-region-1.0", "age by region 10")
    for each in others:
        is_meant = each == others[-1]
        ledger.release("census", CLAIM, draws, once=each, new=is_meant)
        ledger.release("census", CLAIM, draws, once=each)
    assert (draws.count, spent(ledger)) == (5, "0.05")


def test_a_new_name_has_no_character_that_nobody_sees(ledger: Accountant, draws: Draws) -> None:
    for hidden in ("\u200b", "\x00", "\u202e", "\ufeff", "\U000e0041", "\n"):
        rule = "once must have no control or invisible character"
        with pytest.raises(RequestInvalid, match=rule):
            ledger.release("census", CLAIM, draws, once=f"a{hidden}b")
    assert (draws.count, spent(ledger)) == (0, "0")


def test_a_refusal_leaves_the_name_free(ledger: Accountant, draws: Draws) -> None:
    with pytest.raises(NotGranted):
        ledger.release("census", "pure:3", draws, once=NAME)
    assert ledger.release("census", CLAIM, draws, once=NAME) == 1001
    assert spent(ledger) == "0.01"


def test_a_named_release_that_failed_runs_again_uncharged(
    ledger: Accountant, clock: TestClock, draws: Draws
) -> None:
    def fails() -> int:
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises((ZeroDivisionError, NotGranted)) as raised:
            ledger.release("census", CLAIM, fails, once=NAME)
        assert raised.type is ZeroDivisionError
        clock.pass_(seconds=7200)  # the ledger has forgotten the id, the store has not
    assert ledger.release("census", CLAIM, draws, once=NAME) == 1001
    assert spent(ledger) == "0.01"


def test_a_named_result_that_could_not_be_stored_is_not_drawn_again(ledger: Accountant) -> None:
    with pytest.warns(AccountantWarning, match="is not stored"):
        ledger.release("census", CLAIM, object, once=NAME)
    with pytest.raises(ResultMissing, match="could not be stored"):
        ledger.release("census", CLAIM, object, once=NAME)
    assert spent(ledger) == "0.01"


def test_where_warnings_are_errors_a_result_that_cannot_be_stored_is_drawn_again(
    ledger: Accountant, draws: Draws
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        message = "Unless warnings are errors, it is returned this once"
        with pytest.raises(AccountantWarning, match=message):
            ledger.release("census", CLAIM, object, once=NAME)
    assert ledger.release("census", CLAIM, draws, once=NAME) == 1001
    assert spent(ledger) == "0.01"


def test_an_undecided_name_is_free_once_its_id_has_expired(
    ledger: Accountant, clock: TestClock, draws: Draws, answers: ResultStore
) -> None:
    call = ledger._sender.prepare(ledger._draft("census", CLAIM), 5)
    from streams.client.releases.grants import TAGGED_JSON, Release

    Release(
        answers, call, TAGGED_JSON, ledger.url, 5, ResultName(NAME)
    ).record_request()  # and the process ends
    clock.pass_(seconds=7200)
    with pytest.raises(NotGranted, match=f"expired.*[Tt]he name '{NAME}' is free"):
        ledger.release("census", CLAIM, draws, once=NAME)
    assert ledger.release("census", CLAIM, draws, once=NAME) == 1001
    assert spent(ledger) == "0.01"


@pytest.mark.parametrize("once", ["", "x" * 201, 5, b"name"])
def test_an_invalid_name_is_refused(ledger: Accountant, draws: Draws, once: str) -> None:
    with pytest.raises(RequestInvalid, match="once must be"):
        ledger.release("census", CLAIM, draws, once=once)
    mine = ledger.new_request_id()
    with pytest.raises(RequestInvalid, match="excludes `request_id`"):
        ledger.release("census", CLAIM, draws, once=NAME, request_id=mine)
    assert draws.count == 0


def test_each_call_of_a_released_function_names_its_result(ledger: Accountant) -> None:
    @ledger.released("census", CLAIM)
    def count(least: int) -> int:
        return least

    assert count(1, once="one") == count(5, once="one") == 1  # type: ignore[call-arg]
    assert count(5, once="five") == 5  # type: ignore[call-arg]
    assert spent(ledger) == "0.02"
    with pytest.raises(RequestInvalid, match="each call of the function"):
        ledger.released("census", CLAIM, once=NAME)


async def test_the_async_client_does_the_same(file: Path, clock: TestClock, draws: Draws) -> None:
    async with AsyncAccountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        await ledger.as_owner("owner").open("census", ONE, as_given=True)
        for _ in range(3):
            assert await ledger.release("census", CLAIM, draws, once=NAME) == 1001
        with pytest.raises(NameTaken):
            await ledger.release("census", "pure:0.02", draws, once=NAME)
        with pytest.warns(AccountantWarning, match="once=") as warned:
            await ledger.release("census", CLAIM, draws)
        assert warned[0].filename == __file__


def test_the_same_release_without_a_name_warns(
    ledger: Accountant, draws: Draws, tmp_path: Path, clock: TestClock
) -> None:
    ledger.as_owner("owner").open("survey", ONE, as_given=True)
    elsewhere = f"sqlite:///{tmp_path / 'another.db'}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine = ledger.new_request_id()
        for _ in range(2):  # a retry is no second release
            ledger.release("census", CLAIM, draws, request_id=mine)
        ledger.release("census", CLAIM, draws, purpose="a mean")
        ledger.release("census", "pure:0.02", draws)
        ledger.release("survey", CLAIM, draws)
        with Accountant(elsewhere, clock=clock, analyst="ana") as another:
            another.as_owner("owner").open("census", ONE, as_given=True)
            another.release("census", CLAIM, draws)
        with pytest.raises(NotGranted):
            ledger.release("survey", "pure:3", draws)
        with pytest.raises(NotGranted):
            ledger.release("survey", "pure:3", draws)
    before = spent(ledger)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ledger.release("census", CLAIM, draws)
    assert [(each.category, each.filename) for each in warned] == [(AccountantWarning, __file__)]
    assert 'pass once="NAME"' in str(warned[0].message)
    assert (before, spent(ledger)) == ("0.04", "0.05")


@pytest.mark.filterwarnings("error")
def test_where_warnings_are_errors_nothing_is_charged(
    ledger: Accountant, draws: Draws, answers: ResultStore
) -> None:
    ledger.release("census", CLAIM, draws)
    with pytest.raises(AccountantWarning) as raised:
        ledger.release("census", CLAIM, draws)
    assert raised.value.__notes__[0].endswith("not charged")
    assert spent(ledger) == "0.01"
    assert answers.open_requests() == []


_PROGRAM = """
import os, sys, time
from pathlib import Path
from streams.client import Accountant

directory = Path(sys.argv[2])

def draw():
    (directory / f"drawn-{os.getpid()}").touch()
    time.sleep(0.5)
    return os.getpid()

with Accountant(sys.argv[1], analyst="ana") as ledger:
    (directory / f"ready-{os.getpid()}").touch()
    while len(list(directory.glob("ready-*"))) < int(sys.argv[3]):
        time.sleep(0.005)
    print(ledger.release("census", "pure:0.01", draw, once="age-by-district", wait=30))
"""


def test_concurrent_processes_draw_and_charge_once(file: Path, tmp_path: Path) -> None:
    with LocalServer(file, SystemClock()) as server, Accountant(server.url) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)

        def started(count: int) -> list[str]:
            arguments = [sys.executable, "-c", _PROGRAM, server.url, str(tmp_path), str(count)]
            running = [
                subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(count)
            ]
            return [each.communicate(timeout=120)[0] for each in running]

        found = started(2)
        assert len(set(found)) == 1
        assert started(1) == found[:1]  # and a later process gets the same
        assert len(list(tmp_path.glob("drawn-*"))) == 1
        assert spent(ledger) == "0.01"


def test_a_stored_name_needs_no_decision(ledger: Accountant, answers: ResultStore) -> None:
    ledger.release("census", CLAIM, lambda: 7, once=NAME)
    view = ledger.dataset("census")
    ledger.release("census", CLAIM, lambda: 8, once=NAME)
    assert ledger.dataset("census") == view
    assert encode_result(7) == b"7"


def test_a_name_is_the_same_by_every_link_to_the_file(
    file: Path, clock: TestClock, draws: Draws
) -> None:
    link = file.parent / "link.db"
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        assert ledger.release("census", CLAIM, draws, once=NAME) == 1001
        link.symlink_to(file)
        with Accountant(f"sqlite:///{link}", clock=clock, analyst="ana") as linked:
            assert linked.release("census", CLAIM, draws, once=NAME) == 1001
    assert draws.count == 1


def test_a_name_is_the_same_at_every_address_of_its_ledger(
    file: Path, clock: TestClock, draws: Draws
) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        assert ledger.release("census", CLAIM, draws, once=NAME) == 1001
    moved = file.with_name("moved.db")
    for each in file.parent.glob(f"{file.name}*"):
        each.rename(each.with_name(each.name.replace(file.name, moved.name)))
    with LocalServer(moved, clock) as server:
        other = server.url.replace("127.0.0.1", "localhost")
        for url in (server.url, f"{server.url}/", other):
            with Accountant(url, clock=clock, analyst="ana") as ledger:
                assert ledger.release("census", CLAIM, draws, once=NAME) == 1001
                with pytest.raises(SimilarName):
                    ledger.release("census", CLAIM, draws, once=NAME.upper())
                assert spent(ledger) == "0.01"
    assert draws.count == 1


@pytest.mark.parametrize("transport", ["in process", "http"])
async def test_a_name_is_taken_where_another_ledger_was_at_the_path(
    file: Path, clock: TestClock, draws: Draws, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        assert ledger.release("census", CLAIM, draws, once=NAME) == 1001
        (first,) = ledger.heads()
    # Of their own: otherwise a new ledger in place of a lost one is refused.
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINTS", str(file.with_name("checkpoints")))
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()
    url = f"sqlite:///{file}"
    with contextlib.ExitStack() as stack:
        if transport == "http":  # another process holds the file
            stack.enter_context(LocalServer(file, clock))
        with Accountant(url, clock=clock, analyst="ana") as ledger:
            ledger.as_owner("owner").open("census", ONE, as_given=True)
            (second,) = ledger.heads()
        message = rf"of ledger {first.ledger}, which was at .*\. Ledger {second.ledger} is there"
        async with AsyncAccountant(url, clock=clock, analyst="ana") as awaited:
            for _ in range(2):
                with pytest.raises(NameTaken, match=message) as raised:
                    await awaited.release("census", CLAIM, draws, once=NAME)
                assert raised.value.__notes__[0].endswith(": not charged")
        with Accountant(url, clock=clock, analyst="ana") as ledger:
            for _ in range(2):
                with pytest.raises(NameTaken, match=message) as raised:
                    ledger.release("census", CLAIM, draws, once=NAME)
                assert raised.value.__notes__[0].endswith(": not charged")
        with Accountant(url, clock=clock, analyst="ana") as ledger:
            assert (draws.count, spent(ledger)) == (1, "0")
            assert ledger.release("census", CLAIM, draws, once="another") == 1002


def test_a_name_is_taken_where_another_ledger_now_answers_at_the_address(
    tmp_path: Path, file: Path, clock: TestClock, draws: Draws
) -> None:
    with (
        LocalServer(file, clock) as server,
        Accountant(server.url, clock=clock, analyst="ana") as ledger,
    ):
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        ledger.release("census", CLAIM, draws, once=NAME)
        url = server.url
    port = int(url.rpartition(":")[2])
    other = Settings(port=port)
    with LocalServer(tmp_path / "other.db", clock, other), Accountant(url, clock=clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        with pytest.raises(NameTaken, match="is there now"):
            ledger.release("census", CLAIM, draws, once=NAME, analyst="ana")
        assert (draws.count, spent(ledger)) == (1, "0")


def test_a_client_asks_a_server_for_its_ledger_id_once(
    file: Path, clock: TestClock, draws: Draws, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    send = HttpService._send

    async def counted(self: HttpService, method: str, path: str, **options: object) -> object:
        asked.append(path)
        return await send(self, method, path, **options)

    monkeypatch.setattr(HttpService, "_send", counted)
    with (
        LocalServer(file, clock) as server,
        Accountant(server.url, clock=clock, analyst="ana") as ledger,
    ):
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        for number in range(3):
            ledger.release("census", CLAIM, draws, once=f"{NAME} {number}")
    assert asked.count("/head") == 1


def test_a_stored_name_needs_no_server(file: Path, clock: TestClock, draws: Draws) -> None:
    stated = {"unit": "person", "neighbours": "add_remove"}
    with LocalServer(file, clock) as server:
        with Accountant(server.url, clock=clock, analyst="ana") as ledger:
            ledger.as_owner("owner").open("census", ONE, as_given=True)
            assert ledger.release("census", CLAIM, draws, once=NAME, **stated) == 1001  # type: ignore[arg-type]
        url = server.url
    with Accountant(url, clock=clock, analyst="ana") as ledger:
        assert ledger.release("census", CLAIM, draws, once=NAME, **stated) == 1001  # type: ignore[arg-type]


def test_a_removed_ledger_file_returns_no_named_result(
    file: Path, clock: TestClock, draws: Draws
) -> None:
    stated = {"unit": "person", "neighbours": "add_remove"}
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        ledger.release("census", CLAIM, draws, once=NAME)
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()
    removed = pytest.raises(NoSuchLedger)
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger, removed:
        ledger.release("census", CLAIM, draws, once=NAME, **stated)  # type: ignore[arg-type]


def test_a_store_without_ledger_ids_is_upgraded(
    file: Path, clock: TestClock, draws: Draws, answers: ResultStore
) -> None:
    def columns() -> list[str]:
        with contextlib.closing(sqlite3.connect(answers.path)) as db:
            return [row[1] for row in db.execute("PRAGMA table_info(names)")]

    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        assert ledger.release("census", CLAIM, draws, once=NAME) == 1001
        before = columns()
        with contextlib.closing(sqlite3.connect(answers.path)) as db:
            db.execute("ALTER TABLE names DROP COLUMN ledger_id")
            db.execute("PRAGMA user_version = 3")
        assert columns() != before
        assert ledger.release("census", CLAIM, draws, once=NAME) == 1001
        assert columns() == before
        (head,) = ledger.heads()
    with contextlib.closing(sqlite3.connect(answers.path)) as db:
        assert db.execute("SELECT ledger_id FROM names").fetchall() == [(head.ledger,)]
