"""`accountant usage`, of a ledger's file with and without an index, and of a server."""

from __future__ import annotations

import csv
import io
import json
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from streams.index import UsageIndex
from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import ROOT, environment
from tests.streams.cli.here import run_here
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer

OPENS = ()
STARTS = ("streams.cli",)


def ask_some(command):
    command("dataset", "open", "plain", "--epsilon", "1", "--filter", "basic")
    for analyst, purpose, claim in (
        ("ana", "counts", "pure:0.01"),
        ("ben", 'a "b", c', "pure:0.025"),
        ("ana", "counts", "pure:0.0100000000000000000000000000000000000001"),
        ("ana", "", "pure:5"),
    ):
        command("ask", "plain", claim, "--analyst", analyst, "--purpose", purpose)


def test_a_ledger_without_an_index_is_counted_from_its_first_decision(opened):
    ask_some(opened)
    rows = opened("usage", "plain", "--json").rows
    assert [(row["analyst"], row["granted"], row["refused"], row["spent"]) for row in rows] == [
        ("ana", 2, 1, "0.0200000000000000000000000000000000000001"),
        ("ben", 1, 0, "0.025"),
    ]
    rows = opened("usage", "plain", "--by", "purpose", "--json").rows
    assert {row["purpose"]: row["granted"] for row in rows} == {"": 0, 'a "b", c': 1, "counts": 2}
    (day,) = opened("usage", "plain", "--by", "day", "--json").rows
    (month,) = opened("usage", "plain", "--by", "month", "--json").rows
    assert day["day"].startswith(month["month"])
    assert day["spent"] == month["spent"] == "0.0450000000000000000000000000000000000001"


def test_csv_and_parquet_have_the_same_exact_rows(opened, tmp_path):
    ask_some(opened)
    text = opened("usage", "plain", "--by", "purpose", "--csv").out
    of_csv = list(csv.DictReader(io.StringIO(text)))
    file = tmp_path / "usage.parquet"
    assert opened("usage", "plain", "--by", "purpose", "--parquet", str(file)).code == 0
    of_parquet = [{k: str(v) for k, v in row.items()} for row in pq.read_table(file).to_pylist()]
    assert of_csv == of_parquet
    assert [row["purpose"] for row in of_csv] == ["", 'a "b", c', "counts"]
    assert of_csv[2]["spent"] == "0.0200000000000000000000000000000000000001"


def test_the_table_shows_each_row(opened):
    ask_some(opened)
    shown = opened("usage", "plain").out
    assert "plain by analyst" in shown
    assert any({"ben", "1", "0", "0.025"} <= set(line.split()) for line in shown.splitlines())


def test_what_is_spent_of_epsilon_alone_is_said_beside_the_rows(opened):
    opened("ask", "census", "pure:0.05", "--analyst", "ana")
    for command in ("usage", "why"):
        assert "ε" not in opened(command, "census").out, command
    assert opened("ask", "census", "pure:0.5", "--analyst", "ana").code == 0
    for command in ("usage", "why"):
        last = "zcdp_tight has ended: since then grants cost ε alone, and the rows count ρ; of ε "
        assert f"{last}0.55 of 1 is spent in all" in opened(command, "census").out, command


def test_parquet_without_pyarrow_names_what_to_install(tmp_path):
    """In an interpreter that finds no pyarrow, as one where the extra is not installed."""
    hidden = "import sys; sys.modules['pyarrow'] = None; from streams.cli.root import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "usage", "plain", "--parquet", "x"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert "pip install '.[parquet]'" in done.stderr
    assert ROOT.exists()


def test_an_unknown_dataset_ends_the_command_with_exit_code_1(opened):
    done = opened("usage", "nowhere")
    assert (done.code, done.out) == (1, "")
    assert "nowhere" in done.err
    assert opened("usage", "census", "--csv", "--json").code == 2


def test_an_export_is_counted_too(opened, tmp_path):
    ask_some(opened)
    file = tmp_path / "log.jsonl"
    file.write_text(opened("log", "export").out)
    rows = opened("usage", "plain", "--json").rows
    index_before = sorted(tmp_path.glob("*.index*"))
    assert index_before == []  # the command leaves none
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 7
    assert rows[0]["sequence"] == lines[-1]["sequence"]


@pytest.mark.parametrize("by", ["analyst", "purpose", "day", "month"])
def test_a_server_and_its_file_say_the_same(accountant, tmp_path: Path, by: str) -> None:
    file = tmp_path / "served.db"
    with LocalServer(file, TestClock()) as server:
        server.open()
        for analyst in ("ana", "ben", "ana"):
            server.ask(analyst=analyst, purpose=f"of {analyst}")
        reported = server.http.get("/datasets/census/usage", params={"by": by}).json()
        url = str(server.http.base_url).rstrip("/")
        served = accountant("usage", "census", "--by", by, "--json", "--url", url).rows
        beside = accountant(
            "usage", "census", "--by", by, "--json", "--url", f"sqlite:///{file}"
        ).rows
        unknown = accountant("usage", "nowhere", "--url", url)
        assert unknown.code == 1
        assert server.http.get("/datasets/census/usage", params={"by": "hour"}).status_code == 422
    assert served == reported
    assert beside == reported
    assert Path(f"{file}.index").exists()
    index = UsageIndex.open(Path(f"{file}.index"))
    with index.at_last() as rows:
        assert len(rows.usage("census", by)) == len(reported)  # type: ignore[arg-type]


def test_the_head_of_a_server_is_that_of_its_file(accountant, tmp_path: Path) -> None:
    with LocalServer(tmp_path / "accountant.db", TestClock()) as server:
        server.open()
        server.ask()
        url = str(server.http.base_url).rstrip("/")
        for words in ((), ("--json",)):
            through, beside = accountant("head", "--url", url, *words), accountant("head", *words)
            assert (through.code, through.out) == (0, beside.out), through.err
        (shown,) = server.http.get("/head").json()
        assert shown["head"] in through.out


def test_a_command_connects_once_to_a_server(accountant, tmp_path, monkeypatch) -> None:
    made = []
    connect = socket.socket.connect
    with LocalServer(tmp_path / "served.db", TestClock()) as server:
        server.open()
        server.ask()
        url = str(server.http.base_url).rstrip("/")

        def counted(one, address):
            made.append(address)
            return connect(one, address)

        monkeypatch.setattr(socket.socket, "connect", counted)
        for command in ("usage", "why"):
            made.clear()
            assert run_here(tmp_path, command, "census", "--url", url).code == 0
            assert len(made) == 1, command
