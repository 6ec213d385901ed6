"""A result that the disk does not take after its mechanism ran is returned once, or kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.forks import commands

OPENS = ()
STARTS = ("tests.streams.client.releases.full_store",)

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What becomes of each case, in a process that has the full disk to itself."""
    directory = str(tmp_path_factory.mktemp("f"))
    done = commands.run_program("tests.streams.client.releases.full_store", directory, cwd=ROOT)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", ["long", "long, awaited", "long, named"])
def test_a_result_that_is_not_stored_is_returned_once_with_a_warning(
    name: str, cases: dict[str, dict[str, Any]]
) -> None:
    case = cases[name]
    assert case["full"] == "1"
    (warning,) = case["full: warnings"]
    assert warning.startswith(f"the result of request_id {case['id']}")
    assert "is not stored: the result store " in warning
    assert "no transaction is active" not in warning
    assert case["full: state"] == "unstored"  # no other process runs it


@pytest.mark.parametrize("name", ["long", "long, awaited", "long, named"])
def test_the_same_process_gets_the_result_again_and_stores_it_later(
    name: str, cases: dict[str, dict[str, Any]]
) -> None:
    case = cases[name]
    assert case["read"] is True  # the disk is still full
    assert (case["room"], case["room: state"], case["room: warnings"]) == ("1", "done", [])
    assert (case["again"], case["runs"]) == ("1", 1)


@pytest.mark.parametrize("name", ["nothing", "nothing, awaited"])
def test_a_result_is_not_returned_where_not_even_its_mark_is_stored(
    name: str, cases: dict[str, dict[str, Any]]
) -> None:
    case = cases[name]
    assert case["full"].startswith("Refused: ")
    assert "The result was drawn, and is not returned" in case["full"]
    (note,) = case["full: notes"]
    assert note.startswith(f"request_id {case['id']}: charged; release again with this request_id")
    assert case["full: state"] == "running"  # after this process another one may run it
    assert case["read"].startswith("Refused: ")
    assert (case["room"], case["room: state"], case["runs"]) == ("1", "done", 1)


def test_a_second_call_on_a_full_disk_does_not_say_that_nothing_was_charged(
    cases: dict[str, dict[str, Any]],
) -> None:
    case = cases["still full"]
    assert case["still full"].startswith("Refused: ")
    (first,), (second,) = case["full: notes"], case["still full: notes"]
    request = first.partition(": ")[0]
    assert first.startswith(f"{request}: charged; release again with this request_id")
    assert second.startswith(f"{request}: may be charged; call again with this request_id")
    assert (case["room"], case["runs"]) == ("1", 1)


def test_a_run_that_failed_on_a_full_disk_runs_again(cases: dict[str, dict[str, Any]]) -> None:
    case = cases["failed"]
    assert case["full"].startswith("ZeroDivisionError")
    assert (case["room"], case["again"], case["runs"]) == ("2", "2", 2)


@pytest.mark.parametrize(("name", "cost"), [("session", "0.002"), ("session of levels", "0.001")])
def test_an_answer_of_a_session_that_is_not_stored_is_returned_and_settles_in_full(
    name: str, cost: str, cases: dict[str, dict[str, Any]]
) -> None:
    case = cases[name]
    assert case["full"] == "1"
    (warning,) = case["full: warnings"]
    assert warning.startswith("the answer of request_id ")
    assert case["again"].startswith("ResultMissing: ")
    assert (case["runs"], case["charged"]) == (1, cost)


def test_a_session_that_cannot_be_ended_on_a_full_disk_returns_its_result_once(
    cases: dict[str, dict[str, Any]],
) -> None:
    case = cases["session that is left"]
    assert case["full"] == "1"
    answer, end = case["full: warnings"]
    assert answer.startswith("the answer of request_id ")
    assert end.startswith("the session of request_id ")
    assert " could not be ended: io_error: " in end
    assert "Until it is answered, the maximum stays charged" in end
    assert case["again"].startswith("ResultMissing: ")
    assert (case["runs"], case["charged"]) == (1, "0.002")
