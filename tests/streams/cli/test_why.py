"""`accountant why`, of a ledger's file, beside a server and through it."""

from __future__ import annotations

import csv
import io
import subprocess
from fractions import Fraction

import pytest

from accountant.views.why import Forecast
from streams.cli.printing.why import forecast_table
from streams.index import UsageIndex
from tests.every_case import every_case
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer

STARTS = ()

BYS = ("analyst", "team", "purpose", "week", "reason", "grants", "forecast")


def ask_some(command):
    command("dataset", "open", "plain", "--epsilon", "1", "--filter", "basic", "--owner", "olga")
    for name, team in (("ana", "blue"), ("ben", "red")):
        done = command(
            *("member", "set", "plain", name, "--role", "analyst", "--team", team, "--by", "olga")
        )
        assert done.code == 0, done.err
    for analyst, purpose, claim in (
        ("ana", "counts", "pure:0.01"),
        ("ben", 'a "b", c', "pure:0.025"),
        ("ana", "counts", "pure:0.0100000000000000000000000000000000000001"),
        ("ana", "", "pure:5"),
        ("cy", "", "pure:0.001"),
    ):
        command("ask", "plain", claim, "--analyst", analyst, "--purpose", purpose)


@pytest.fixture
def ledger_with_requests(opened):
    ask_some(opened)
    return opened


def test_why_shows_the_largest_users_and_when_the_budget_runs_out(ledger_with_requests):
    done = ledger_with_requests("why", "plain", "--me", "ana")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert "4.6 % of plain is spent (ε 0.04601 of 1), open" in lines[0]
    assert lines[1] == "ben has used the most: ε 0.025, 2.5 % of the budget"
    reason = "there is less than a day of history"
    assert lines[2] == f"no forecast yet for all together: {reason}"
    assert lines[3] == f"no forecast yet for analyst ana: {reason}"
    shown = done.out
    for table in ("plain by analyst", "plain by team", "largest grants"):
        assert table in shown
    assert "forecast: the budget" not in shown  # nothing is known of it yet
    row = next(line for line in lines[4:] if line.strip().startswith("ben"))
    assert {"ben", "red", "1", "0", "0.025", "2.5", "%"} <= set(row.split())
    assert "no team" in next(line for line in lines[4:] if line.strip().startswith("cy"))


def test_json_is_everything_exact(ledger_with_requests):
    why = ledger_with_requests("why", "plain", "--json").json
    spent = {row["analyst"]: (row["team"], row["spent"]) for row in why["by_analyst"]}
    assert spent == {
        "ben": ("red", "0.025"),
        "ana": ("blue", "0.0200000000000000000000000000000000000001"),
        "cy": (None, "0.001"),
    }
    assert why["spent"] == "0.0460000000000000000000000000000000000001"
    assert [row["team"] for row in why["by_team"]] == ["red", "blue", ""]
    assert [grant["analyst"] for grant in why["largest"]] == ["ben", "ana", "ana", "cy"]
    (reason,) = why["refusals"]
    assert reason["refused"] == 1
    assert [(each["scope"], each["days"]) for each in why["forecasts"]][:3] == [
        ("all", days) for days in (1, 7, 30)
    ]
    assert (why["since"], why["only"]) == (None, None)


@every_case("by", BYS)
def test_each_table_is_csv_and_shown(ledger_with_requests, by):
    text = ledger_with_requests("why", "plain", "--by", by, "--csv").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows
    assert {row["dataset"] for row in rows} == {"plain"}
    assert {row["unit"] for row in rows} == {"epsilon"}
    if by in {"analyst", "team", "purpose", "week"}:
        total = sum(Fraction(row["spent"]) for row in rows)
        assert total == Fraction("0.0460000000000000000000000000000000000001")
    shown = ledger_with_requests("why", "plain", "--by", by)
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[0].endswith("), open")


def test_limits_bound_what_is_left_for_a_forecast(ledger_with_requests):
    limit = ("limit", "set", "plain", "--by", "olga")
    assert ledger_with_requests(*limit, "--team", "red", "--part", "0.5").code == 0
    assert ledger_with_requests(*limit, "--analyst", "ana", "--part", "0.03").code == 0
    left = {
        (each["scope"], each["name"]): each["left"]
        for each in ledger_with_requests("why", "plain", "--json").json["forecasts"]
    }
    assert left["all", None] == "0.9539999999999999999999999999999999999999"
    # A limit counts from its making on what was used before, too, or from nothing: as decided.
    budget = ledger_with_requests("mine", "--analyst", "ana", "--json").rows
    (own,) = [each for each in budget if each["dataset"] == "plain"]
    assert left["analyst", "ana"] == own["levels"][0]["left"]["epsilon"]
    (row,) = [
        each
        for each in ledger_with_requests("limit", "list", "plain", "--json").rows
        if each["name"] == "red"
    ]
    assert left["team", "red"] == row["left"]["epsilon"]


def test_an_unopened_dataset_is_named_and_wrong_usage_is_an_error(opened):
    done = opened("why", "nowhere")
    assert done.code == 1
    assert "dataset nowhere was never opened" in done.err
    done = opened("why", "census", "--csv", "--json")
    assert done.code == 2
    assert opened("why", "census", "--by", "colour").code == 2


def test_a_dataset_without_requests_has_no_tables_to_fill(opened):
    done = opened("why", "census")
    assert done.code == 0, done.err
    assert "0 of" in done.out.splitlines()[0]
    assert "no forecast yet for all together" in done.out
    why = opened("why", "census", "--json").json
    assert (why["by_analyst"], why["refusals"], why["largest"]) == ([], [], [])


def test_an_index_is_read_and_never_written(ledger_with_requests, tmp_path):
    before = ledger_with_requests("why", "plain", "--json").json
    path = tmp_path / "accountant.db.index"
    for each in tmp_path.glob("accountant.db.index*"):
        each.unlink()
    after = ledger_with_requests("why", "plain", "--json").json
    assert not path.exists()
    assert after["by_analyst"] == before["by_analyst"]
    # One of another version is left as it is, and the log counted instead.
    UsageIndex.open(path).close()
    kept = path.read_bytes()
    assert ledger_with_requests("why", "plain", "--json").json["by_purpose"] == before["by_purpose"]
    assert path.read_bytes() == kept


def test_why_through_a_server_equals_why_of_the_file(accountant, tmp_path):
    clock = TestClock()
    with LocalServer(tmp_path / "accountant.db", clock) as server:
        server.open("plain", filter="basic", epsilon="1")
        server.ask(dataset="plain")
        server.ask(dataset="plain", analyst="ben", claim={"type": "pure", "epsilon": "2"})
        through = accountant("why", "plain", "--json", "--me", "zoe", "--url", server.url)
        assert through.code == 0, through.err
        beside = accountant("why", "plain", "--json", "--me", "zoe")
        tables = ("by_analyst", "by_team", "by_purpose", "by_week", "refusals", "largest", "spent")
        assert {each: through.json[each] for each in tables} == {
            each: beside.json[each] for each in tables
        }
        assert [row["analyst"] for row in through.json["by_analyst"]] == ["ana", "ben", "zoe"]
        table = accountant("why", "plain", "--by", "week", "--csv", "--url", server.url)
        assert table.out.splitlines()[0].startswith("dataset,week,begins,")
        missing = accountant("why", "nowhere", "--url", server.url)
        assert (missing.code, "was never opened" in missing.err) == (1, True)


def test_the_output_may_be_cut_off(ledger_with_requests):
    process = ledger_with_requests.start("why", "plain", "--by", "grants", "--csv")
    assert isinstance(process, subprocess.Popen)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("dataset,")
    process.stdout.close()
    process.wait(PATIENCE_S)
    assert "Traceback" not in (process.stderr.read() if process.stderr else "")


def test_forecasts_that_are_alike_are_one_row() -> None:
    of = [("team", "red"), *(("analyst", f"a{i}") for i in range(6))]
    rows = [
        Forecast(scope=scope, name=name, days=days, spent="0", per_day=0.0, left="1")
        for scope, name in of
        for days in (1, 7, 30)
    ]
    table = forecast_table(rows, "a1")
    assert table.row_count == 1
    (cell,) = table.columns[0].cells
    assert str(cell).startswith("team red, analyst a0, analyst a1")
    assert str(cell).endswith(" and 2 more")
