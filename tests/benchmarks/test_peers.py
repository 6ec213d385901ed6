from __future__ import annotations

import asyncio
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.peers.command import main, parse, summary, table
from benchmarks.peers.cost import (
    Cost,
    Sample,
    Unmeasured,
    cost,
    process_seconds,
    tree_seconds,
    watch,
)
from benchmarks.peers.environment import HERE, pinned_jars, postgres_programs
from benchmarks.peers.rounds import STARTS, WORKER, Round
from streams.testing.kafka_install import DEFAULT_KAFKA_VERSION


def a_cost(program: float, *, warm: float = 10, broker: float = 10, rate: float = 1000) -> Cost:
    return Cost(program=program, warm=warm, broker=broker, rate=rate)


def a_round(**costs: Cost) -> Round:
    done = Round()
    done.costs = {name.replace("_", "-"): each for name, each in costs.items()}
    return done


def text_of(rows: list[dict[str, Any]]) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table(rows, "title"))
    return console.export_text()


def test_without_arguments_every_program_runs_and_the_worker_is_first() -> None:
    options = parse([])
    assert options.programs == list(STARTS)
    assert options.programs[0] == WORKER
    assert (options.requests, options.rounds, options.json) == (200_000, 1, None)


def test_named_programs_run_beside_the_worker() -> None:
    options = parse(["postgresql", "--requests", "1,000,000", "--rounds", "3"])
    assert options.programs == [WORKER, "postgresql"]
    assert (options.requests, options.rounds) == (1_000_000, 3)


@pytest.mark.parametrize("arguments", [["flink"], ["--requests", "0"], ["--rounds", "many"]])
def test_wrong_arguments_end_the_command(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_a_record_costs_what_was_spent_between_the_first_and_the_last_commit() -> None:
    # Of 4,400 offsets 400 are markers of transactions.
    samples = [
        Sample(at=1, committed=1_100, program=1, broker=5),
        Sample(at=2, committed=2_200, program=1.02, broker=5.02),
        Sample(at=3, committed=4_400, program=1.04, broker=5.06),
    ]
    found = cost(samples, 4_000)
    assert found.program == pytest.approx(0.04 / 3_000 * 1e6)
    assert found.warm == pytest.approx(0.02 / 2_000 * 1e6)
    assert found.broker == pytest.approx(0.06 / 3_000 * 1e6)
    assert found.rate == pytest.approx(1_500)


def test_two_commits_are_too_few() -> None:
    samples = [Sample(at=at, committed=at * 10, program=at, broker=at) for at in (1, 2)]
    with pytest.raises(Unmeasured, match="ask for more requests"):
        cost(samples, 20)


def test_a_program_that_ends_is_not_measured() -> None:
    async def committed() -> int:
        return 0

    def check() -> None:
        raise Unmeasured("the program ended: no space left")

    with pytest.raises(Unmeasured, match="no space left"):
        asyncio.run(watch(committed, lambda: (0.0, 0.0), 1, check))


@pytest.mark.skipif(sys.platform != "linux", reason="reads the clocks of Linux")
def test_processor_time_of_a_process_counts_its_children() -> None:
    own = process_seconds(os.getpid())
    assert own == pytest.approx(time.process_time(), abs=0.5)
    before = tree_seconds(os.getpid())
    busy = "import time\nwhile time.process_time() < 0.2: pass"
    with subprocess.Popen([sys.executable, "-c", busy]):
        pass
    assert tree_seconds(os.getpid()) - before >= 0.15


def test_ratios_are_medians_of_the_rounds() -> None:
    rounds = [
        a_round(worker=a_cost(10), quix_streams=a_cost(20, rate=500)),
        a_round(worker=a_cost(20), quix_streams=a_cost(20, rate=500)),
        a_round(worker=a_cost(10), quix_streams=a_cost(90, rate=500)),
    ]
    worker, quix = summary([WORKER, "quix-streams"], rounds)
    assert worker["ratio"] == 1
    assert (quix["ratio"], quix["rate"], quix["with_broker"]) == (2, 0.5, 1.5)
    assert "rounds: 2.00, 1.00, 9.00" in text_of([worker, quix])


def test_a_program_that_cannot_be_had_is_named_with_its_reason() -> None:
    done = a_round(worker=a_cost(10))
    done.reasons["postgresql"] = "initdb and postgres are not found"
    text = text_of(summary([WORKER, "postgresql"], [done]))
    assert re.search(r"postgresql .*not measured: initdb and postgres are not found", text)


def test_without_the_worker_there_is_no_ratio() -> None:
    done = a_round(postgresql=a_cost(10))
    done.reasons[WORKER] = "no commit for 120 s"
    rows = summary([WORKER, "postgresql"], [done])
    assert [row["reason"] for row in rows] == ["no commit for 120 s"] * 2


def test_the_command_prints_the_table_and_writes_the_figures(tmp_path: Path) -> None:
    def measure(names: list[str], count: int, rounds: int, _report: object) -> list[Round]:
        assert (names, count, rounds) == ([WORKER, "kafka-streams"], 10, 1)
        return [a_round(worker=a_cost(10), kafka_streams=a_cost(15, warm=5))]

    console = Console(width=200, record=True, file=io.StringIO())
    file = tmp_path / "figures.json"
    arguments = ["kafka-streams", "--requests", "10", "--json", str(file)]
    assert main(arguments, measure, console) == 0
    assert re.search(r"kafka-streams .* 1\.50 .* 0\.50 .* 1\.25 .* 1\.00", console.export_text())
    written = json.loads(file.read_text())
    assert [row["program"] for row in written["programs"]] == [WORKER, "kafka-streams"]
    assert written["programs"][1]["ratio"] == 1.5


def test_the_command_is_one_of_the_benchmarks() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "benchmarks", "peers", "--help"], capture_output=True, text=True
    )
    assert shown.returncode == 0
    assert "kafka-streams" in shown.stdout


def test_every_jar_has_a_version_and_a_hash() -> None:
    pins = pinned_jars((HERE / "jars.txt").read_text())
    assert pins
    for coordinate, digest in pins.items():
        assert re.fullmatch(r"[\w.]+:[\w-]+:[\d.]+", coordinate)
        assert re.fullmatch(r"[0-9a-f]{64}", digest)
    assert f"org.apache.kafka:kafka-streams:{DEFAULT_KAFKA_VERSION}" in pins


def test_a_directory_without_postgresql_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("POSTGRES_BIN", str(tmp_path))
    with pytest.raises(Unmeasured, match="install PostgreSQL"):
        postgres_programs()
