"""The page of capacity says what the code does and what was measured."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import yaml

from accountant.claims.claims import MAX_CLAIMS, MAX_TIMES
from accountant.partition.ids import MAX_IDS
from accountant.policy import MAX_OPEN
from accountant.policy.policy import MAX_ALERTS
from accountant.records.inputs import MAX_BYTES, MAX_RESERVING
from accountant.records.limit_records import MAX_LIMITS
from accountant.records.members import MAX_MEMBERS
from accountant.records.outcomes import Reason
from accountant.views.usage import MAX_ANALYSTS, MAX_ROWS
from streams.auth.token_file import MOST_TOKENS
from streams.gateway.batch import MAX_BATCHES, MAX_BATCHES_OF_ONE, MAX_LINES
from streams.gateway.events.route import MAX_STREAMS, MAX_STREAMS_OF_ONE
from streams.kafka.log.topics import SETTINGS as TOPICS
from streams.kafka.service.submissions import MAX_PENDING
from streams.pages.login.browser_sessions import MAX_SESSIONS
from streams.server.connection_limits import room
from streams.settings import Settings
from streams.sources.source_settings import CsvSource

OPENS = ("docs/**", "deploy/**")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/capacity.md").read_text(encoding="utf-8")
# Files are described, and neither counted nor measured.
COMPARED = re.sub(r"\n## What a process leaves .*?(?=\n## )", "", PAGE, flags=re.DOTALL)
MEASURED = (ROOT / "docs/explanation/benchmark-results.md").read_text(encoding="utf-8")
THRESHOLDS = yaml.safe_load((ROOT / "deploy/prometheus/thresholds.yml").read_text("utf-8"))
SETTINGS = Settings()
SOURCE = CsvSource(path="any.csv")
MOST_PARTITIONS = Settings.model_json_schema()["properties"]["partitions"]["maximum"]
ROWS = {
    cells[0]: cells[1:]
    for cells in (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in COMPARED.splitlines()
        if line.startswith("|") and not line.startswith(("|---", "| what"))
    )
}
LIMITS = {
    "request ids that a partition remembers": f"{MAX_IDS:,}",
    "request ids of one minute and partition": f"{MAX_IDS:,}",
    "window of ids (`ACCOUNTANT_WINDOW_MS`), by default": f"{SETTINGS.window_ms:,} ms",
    "partitions": f"{MOST_PARTITIONS:,}",
    "requests that wait in an embedded ledger, by default": f"{SETTINGS.most_waiting:,}",
    "requests that wait in a gateway": f"{MAX_PENDING:,}",
    "records of one transaction, by default": f"{SETTINGS.batch:,}",
    "datasets of a ledger": "no limit",
    "members of a dataset": f"{MAX_MEMBERS:,}",
    "limits in force on a dataset": f"{MAX_LIMITS:,}",
    "open reservations of a dataset": f"{MAX_OPEN:,}",
    "thresholds for alerts of a dataset": f"{MAX_ALERTS}",
    "analysts with a row of their own, of a dataset": f"{MAX_ANALYSTS:,}",
    "claims in one `all_of`": f"{MAX_CLAIMS}",
    "times of one `repeat`": f"{MAX_TIMES:,}",
    "bytes of a request": f"{MAX_BYTES:,}",
    "bytes of a request that reserves": f"{MAX_RESERVING:,}",
    "static tokens": f"{MOST_TOKENS:,}",
    "streams of events of a server": f"{MAX_STREAMS}",
    "streams of events of one caller": f"{MAX_STREAMS_OF_ONE}",
    "batches of a server that are open at once": f"{MAX_BATCHES}",
    "batches of one authenticated caller that are open at once": f"{MAX_BATCHES_OF_ONE}",
    "lines of a batch": f"{MAX_LINES:,}",
    "bytes of a batch on Kafka (`max.message.bytes`)": (
        f"{int(TOPICS['requests']['max.message.bytes']):,}"
    ),
    "questions that run at once (`ACCOUNTANT_CURATOR_PARALLEL`), by default": (
        f"{SETTINGS.curator_parallel}"
    ),
    "questions of one name that wait (`ACCOUNTANT_QUESTIONS_WAITING`), by default": (
        f"{SETTINGS.questions_waiting:,}"
    ),
    "memory of one question (`memory_mb`), by default": f"{SOURCE.memory_mb:,} MB",
    "disk of one question (`spill_mb`), by default": f"{SOURCE.spill_mb:,} MB",
    "threads of one question (`threads`), by default": f"{SOURCE.threads}",
    "time of a first reading (`seconds`), by default": f"{SOURCE.seconds} s",
    "time of one question (`ACCOUNTANT_CURATOR_TURN_SECONDS`), by default": (
        f"{SETTINGS.curator_turn_seconds:g} s"
    ),
    "connections of a server": f"{room(1 << 20).connections:,}",
    "browser sessions of a server": f"{MAX_SESSIONS:,}",
}
MEASURED_ROWS = ("100,000", "1,000,000", "10,000,000")
MEMORY = {
    "remembered id, in a process that decides": "memory of a remembered id",
    "dataset, in a process that decides": "memory of a dataset",
    "analyst's use under limits, in a process that decides": "memory of an analyst's use",
}
QUESTIONS = {f"{rows}, {kind}" for rows in MEASURED_ROWS for kind in ("Parquet", "CSV")}
OF_A_WORKER = "row of a dataset and an analyst, in a worker"


def measured(row: str) -> str:
    """Return the figure of a row of the benchmarks' results."""
    found = re.search(rf"^\| {re.escape(row)} \| ([\d.,]+) \|", MEASURED, re.MULTILINE)
    assert found, row
    return found[1]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_each_limit_on_the_page_equals_that_of_the_code():
    assert {row: ROWS[row][0] for row in LIMITS} == LIMITS


def test_every_row_is_compared():
    assert set(ROWS) == {*LIMITS, *MEMORY, OF_A_WORKER, *QUESTIONS}


def test_each_memory_figure_equals_the_measurement():
    assert {row: ROWS[row][0] for row in MEMORY} == {
        row: measured(name) for row, name in MEMORY.items()
    }


def test_units_and_manifests_have_room_for_what_the_page_says_of_questions():
    unit = (ROOT / "deploy/systemd/accountant-curator.service").read_text(encoding="utf-8")
    manifest = (ROOT / "deploy/kubernetes/curator.yaml").read_text(encoding="utf-8")
    assert "MemoryMax=4G\n" in unit
    assert "limits: {memory: 4Gi}" in manifest
    assert "resources: {requests: {storage: 40Gi}}" in manifest
    assert "have 4 GiB and, on Kubernetes, a volume of 40 GiB" in PAGE
    needed = SOURCE.memory_mb * SETTINGS.curator_parallel + 1024
    assert needed <= 4 * 1024
    assert SOURCE.spill_mb * SETTINGS.curator_parallel * 10**6 <= 40 * 2**30
    # Each column of figures grows with the rows, up to the memory of a question.
    for kind in "Parquet", "CSV":
        rows = [
            [number(cell.removesuffix(" MB")) for cell in ROWS[f"{n}, {kind}"]]
            for n in MEASURED_ROWS
        ]
        assert all(
            few < many
            for before, now in pairwise(rows)
            for few, many in zip(before, now, strict=True)
        )
        assert rows[-1][-1] <= needed


def test_sums_of_memory_follow_from_their_rows():
    def millions(row: str, count: int) -> int:
        return round(number(ROWS[row][0]) * count / 1e6)

    ids, dataset, use = MEMORY
    assert ROWS[ids][1:] == [f"{MAX_IDS:,} a partition", f"{millions(ids, MAX_IDS)} MB a partition"]
    assert ROWS[dataset][1:] == ["no limit", f"{millions(dataset, 100_000)} MB for 100,000"]
    members = [f"{MAX_MEMBERS:,} members a dataset", f"{millions(use, MAX_MEMBERS)} MB a dataset"]
    assert ROWS[use][1:] == members
    assert ROWS[OF_A_WORKER] == ["280", f"{MAX_ROWS:,}", f"{280 * MAX_ROWS // 10**6} MB"]
    limit = (ROOT / "deploy/kubernetes/worker.yaml").read_text(encoding="utf-8")
    assert "limits: {memory: 1Gi}" in limit
    assert "more than the 1 GiB of" in PAGE
    assert f"these are {4 * number(measured(MEMORY[ids])) * MAX_IDS / 1e9:.1f} GB of ids" in PAGE


def test_rates_follow_from_the_window():
    hour = 3_600_000
    per_hour = MAX_IDS * hour // SETTINGS.window_ms
    assert f"takes {per_hour:,} requests an hour, {per_hour // 3600} a second" in PAGE
    assert f"Four partitions take {4 * per_hour:,} an hour" in PAGE
    assert f"600,000 ms takes {MAX_IDS * hour // 600_000:,} an hour and partition" in PAGE


def test_the_alert_fires_at_seventy_percent_of_the_ids():
    at = THRESHOLDS["thresholds"]["remembered_ids"]["value"]
    assert at * 10 == MAX_IDS * 7
    assert f"fires at {at:,}" in PAGE
    assert f"over {at:,} request ids" in (ROOT / "docs/runbooks.md").read_text("utf-8")


def test_the_alert_fires_at_eighty_percent_of_the_open_reservations():
    at = THRESHOLDS["thresholds"]["reservations_open"]["value"]
    assert at * 10 == MAX_OPEN * 8
    assert f"fires at {at:,}" in PAGE
    assert f"over {at:,} open reservations" in (ROOT / "docs/runbooks.md").read_text("utf-8")


def test_the_cost_of_datasets_equals_the_measurement():
    restart = measured("restart, SQLite file, 100,000 datasets, 100,000 ids")
    replay, scrape = ROWS["datasets of a ledger"][1].split(". A scrape ")
    assert f"{number(restart):.1f} s for 100,000" in replay
    assert "10,000 datasets, 10.5 MB" in MEASURED
    assert scrape == "grows by 1 kB each."


def test_the_reasons_above_a_limit_exist():
    named = {word for cells in ROWS.values() for word in re.findall(r"`([a-z_]+)`", cells[-1])}
    assert named == {
        str(each)
        for each in (
            Reason.OVERLOADED,
            Reason.TOO_MANY_MEMBERS,
            Reason.TOO_MANY_LIMITS,
            Reason.TOO_MANY_OPEN,
            Reason.INVALID_FIELD,
            Reason.OVERSIZE,
        )
    } | {"expired", "too_many_questions"}
