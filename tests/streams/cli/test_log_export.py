"""`accountant log export` with options that choose decisions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import apsw
import pytest

from accountant.times import from_iso, iso
from streams.clock import DAY_MS, SystemClock
from streams.embedded.file_ownership import stopped_ledger
from streams.evidence.operator_records import reset_clock
from streams.settings import Settings
from tests.every_case import every_case
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import HOURS, fill, latest, ledger_of
from tests.streams.uncompared import uncompared

PART = "these decisions are a part of the log"


@pytest.fixture
def used(accountant, tmp_path: Path) -> Path:
    """A ledger that was used for some hours until now."""
    file = tmp_path / "accountant.db"
    fill(file, TestClock(SystemClock().now() - HOURS * 3_600_000))
    return file


@pytest.fixture(params=["ledger", "file"])
def export(request, accountant, used: Path, tmp_path: Path):
    """Exports from the ledger's file, or from an exported log, which has no index."""
    if request.param == "ledger":
        return lambda *options, **more: accountant("log", "export", *options, **more)
    (tmp_path / "whole.jsonl").write_text(accountant("log", "export").out)
    return lambda *options, **more: accountant(
        "log", "export", "--url", "whole.jsonl", *options, **more
    )


def times(lines: list[str]) -> list[str]:
    return [json.loads(line)["decided_at"] for line in lines]


def test_each_option_chooses_and_all_combine(export):
    whole = export()
    assert PART not in whole.err
    lines = whole.out.splitlines(keepends=True)
    survey = [line for line in lines if json.loads(line).get("dataset") == "survey"]
    found = export("--dataset", "survey")
    assert (found.code, found.out) == (0, "".join(survey))
    assert found.err.count(PART) == 1

    second, third = sorted(set(times(lines)))[1:3]
    hour = [line for line in lines if second <= json.loads(line)["decided_at"] < third]
    assert len(hour) == 10
    assert export("--since", second, "--until", third).out == "".join(hour)
    rest = [line for line in lines if json.loads(line)["decided_at"] >= second]
    assert export("--since", second).out == "".join(rest)
    both = [line for line in hour if line in survey]
    options = ("--since", second, "--until", third, "--dataset", "survey")
    assert export(*options).out == "".join(both)
    assert export(*options, "--tail", "2").out == "".join(both[-2:])
    assert export("--tail", "3").out == "".join(lines[-3:])
    assert export("--tail", "9999").out == whole.out
    request_id = json.loads(both[-1])["request"]["request_id"]
    assert export("--id", request_id, *options).out == both[-1]
    # A zone other than UTC names the same moment.
    moved = f"{second[:-1]}+00:00"
    assert export("--since", moved, "--until", third).out == "".join(hour)


def test_a_length_of_time_counts_back_from_now(export):
    lines = export().out.splitlines(keepends=True)
    ago = iso(SystemClock().now() - 3 * 3_600_000)
    recent = [line for line in lines if json.loads(line)["decided_at"] >= ago]
    assert 0 < len(recent) < len(lines)
    assert export("--since", "PT3H").out == "".join(recent)
    assert export("--until", "PT3H").out == "".join(lines[: -len(recent)])
    assert export("--since", "P7D").out == "".join(lines)


@every_case(
    ("options", "code", "message"),
    [
        (("--tail", "0"), 2, "--tail must be 1 to 10000, got 0"),
        (("--tail", "-3"), 2, "--tail must be 1 to 10000, got -3"),
        (("--tail", "10001"), 2, "choose by --since"),
        (("--since", "yesterday"), 2, "--since must be P90D, PT8H, a day"),
        (("--until", "2026-01-01T10:00"), 2, "--until must be P90D, PT8H, a day"),
        (("--since", "P1D", "--until", "P2D"), 2, "must be before --until"),
        (("--since", "2026-01-01", "--until", "2026-01-01"), 2, "must be before --until"),
        (("--until", "2001-01-01"), 1, "no decision in this log matches --until 2001-01-01T"),
        (("--since", "2100-01-01"), 1, "no decision in this log matches --since 2100-01-01T"),
        (("--dataset", "survey", "--since", "2100-01-01"), 1, "matches --dataset survey --since"),
        (("--dataset", "survey", "--tail", "1", "--id", "none"), 1, "matches --dataset survey"),
    ],
)
def test_wrong_options_and_an_empty_choice_say_so(export, options, code, message):
    done = export(*options)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert PART not in done.err


def test_a_dataset_that_the_ledger_lacks_is_named(accountant, used):
    done = accountant("log", "export", "--dataset", "surveys", "--since", "P1D")
    assert done.code == 1
    assert "this log has no dataset surveys" in done.err
    assert "did you mean survey?" in done.err


def test_requests_on_a_dataset_that_was_never_opened_are_found(accountant, used):
    accountant("ask", "sensus", "pure:0.1", "--analyst", "ana")
    (found,) = accountant("log", "export", "--dataset", "sensus").rows
    assert (found["reason"], found["request"]["dataset"]) == ("unknown_dataset", "sensus")


@pytest.mark.parametrize("options", [("--tail", "2"), ("--since", "PT3H"), ("--dataset", "survey")])
def test_an_audit_refuses_a_part_of_a_log_in_words(accountant, used, tmp_path, options):
    done = accountant("log", "export", *options)
    (tmp_path / "part.jsonl").write_text(done.out)
    first = json.loads(done.out.splitlines()[0])["partition_sequence"]
    audited = accountant("audit", "part.jsonl")
    assert audited.code == 1
    assert f"this log begins with decision {first}. It is a part of a log" in audited.out
    assert "an audit needs the whole log" in audited.out
    assert "hash" not in audited.out
    assert "restore" not in audited.out


def test_decisions_after_a_clock_reset_are_chosen_by_their_own_time(accountant, tmp_path):
    file, clock = tmp_path / "accountant.db", TestClock()

    def ask(seconds: float) -> None:
        clock.pass_(seconds=seconds)
        with ledger_of(file, clock) as ledger:
            assert ledger.ask("census", "pure:0.1").granted

    with ledger_of(file, clock) as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "9"}, as_given=True)
    right = clock.now()
    ask(60)
    ask(300 * DAY_MS / 1000)  # by a clock that is ahead
    clock.pass_(seconds=-300 * DAY_MS / 1000)
    with stopped_ledger(file, Settings(), clock.now()) as (journal, genesis):
        done = reset_clock(journal, genesis, clock, "set by hand", compare=uncompared)
        assert asyncio.run(done) is not None
    ask(301)
    ask(60)
    lines = accountant("log", "export").out.splitlines(keepends=True)
    ahead = [line for line in lines if from_iso(json.loads(line)["decided_at"]) > right + DAY_MS]
    assert len(ahead) == 1
    assert 0 < lines.index(ahead[0]) < len(lines) - 3
    until = iso(right + DAY_MS)
    of_time = [line for line in lines if line not in ahead]
    assert accountant("log", "export", "--until", until).out == "".join(of_time)
    since = iso(from_iso(json.loads(lines[-1])["decided_at"]))
    assert accountant("log", "export", "--since", since).out == "".join([ahead[0], lines[-1]])
    tail = accountant("log", "export", "--since", since, "--tail", "5")
    assert tail.out == "".join([ahead[0], lines[-1]])
    assert accountant("log", "export", "--until", until, "--tail", "2").out == "".join(lines[-2:])


def test_a_choice_after_the_seal_needs_no_archive(accountant, used):
    whole = accountant("log", "export").out.splitlines(keepends=True)
    before = iso(latest(used))
    done = accountant(
        "log", "archive", "old.jsonl.gz", "--before", before, "--reason", "disk", "--json"
    )
    last, there = done.json["last"], ("--archive", "old.jsonl.gz")
    log = accountant("log", "export", *there).out.splitlines(keepends=True)
    assert log[: len(whole)] == whole
    needed = f"the beginning of this log was archived, decisions 1 to {last}, and this export"

    recent = next(t for t in times(log[last + 1 :]) if t > times(log)[last + 1])
    of_time = [line for line in log if json.loads(line)["decided_at"] >= recent]
    for options in (), there:
        assert accountant("log", "export", "--since", recent, *options).out == "".join(of_time)
        assert accountant("log", "export", "--tail", "4", *options).out == "".join(log[-4:])

    older = times(log)[last]
    for choice in (
        ("--since", older),
        ("--until", older),
        ("--dataset", "survey"),
        ("--tail", str(len(log) - last + 1)),
    ):
        refused = accountant("log", "export", *choice)
        assert (refused.code, refused.out) == (2, ""), choice
        assert needed in refused.err, choice
        assert "name each archive with --archive FILE" in refused.err
        assert accountant("log", "export", *choice, *there).code == 0
    of_time = [line for line in log if json.loads(line)["decided_at"] < older]
    assert accountant("log", "export", "--until", older, *there).out == "".join(of_time)


def test_a_choice_by_time_does_not_read_the_rest_of_a_file(accountant, used):
    """A value that nobody may read stands where only a reader of the whole log would find it."""
    lines = accountant("log", "export").out.splitlines(keepends=True)
    with apsw.Connection(str(used)) as db:
        db.execute("UPDATE decisions SET value = 12 WHERE sequence = 2")
    assert accountant("log", "export").code == 4
    assert accountant("log", "export", "--since", times(lines)[-1]).out == "".join(lines[-10:])
