"""Two real workers on a real broker, watched: one exporter a dataset, also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.testing import LocalBroker
from tests.kafka.test_worker_process import WorkerProcess, deployment, workers
from tests.observability.programs import ACCOUNTANT, PATIENCE_S, Programs, Watch, until

DATASETS = [f"statistics.d{number}" for number in range(12)]


class Fleet:
    """Two workers, the watch over them, and the commands of their operator."""

    def __init__(self, environment: dict[str, str], first: WorkerProcess, second: WorkerProcess):
        self.environment = environment
        self.first, self.second = first, second
        self.watch: Watch

    def accountant(self, *arguments: str) -> None:
        command = [str(ACCOUNTANT), *arguments]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def state(self, alert: str) -> str:
        """Return Prometheus's state of one alert: inactive, pending or firing."""
        found: list[dict[str, Any]] = [r for r in self.watch.rules() if r["name"] == alert]
        return str(found[0]["state"])


@pytest.fixture
def fleet(
    programs: Programs, broker: LocalBroker, application: str, tmp_path: Path
) -> Iterator[Fleet]:
    where = deployment(broker, application)
    environment = {
        **os.environ,
        "ACCOUNTANT_URL": f"kafka://{where.bootstrap}",
        "ACCOUNTANT_APPLICATION": application,
        "ACCOUNTANT_TOPIC_PREFIX": where.topics.prefix,
        "ACCOUNTANT_PARTITIONS": str(where.partitions),
    }
    (tmp_path / "watch").mkdir()
    subprocess.run([ACCOUNTANT, "topics", "create"], env=environment, check=True, timeout=60)
    with workers(where, tmp_path) as start:
        made = Fleet(environment, start("first"), start("second"))
        for worker in made.first, made.second:
            until("ready", lambda worker=worker: worker.get("/readyz")[0] == 200, worker.log)
        home = tmp_path / "watch"
        targets = [f"127.0.0.1:{made.first.port}", f"127.0.0.1:{made.second.port}"]
        jobs = {"accountant-worker": targets}
        with Watch(programs, home, jobs, interval=2) as made.watch:
            yield made


def test_each_dataset_has_one_exporter_and_a_killed_worker_leaves_no_series(fleet: Fleet) -> None:
    watch = fleet.watch
    for name in DATASETS:
        policy = ("--filter", "basic", "--epsilon", "1", "--most-per-request", "1")
        fleet.accountant("dataset", "open", name, *policy)
    count = "count(dataset:privacy_filter_exporters:count)"
    until("every dataset exported", lambda: watch.value(count) == len(DATASETS))
    until(
        "each by one worker",
        lambda: watch.value("max(dataset:privacy_filter_exporters:count)") == 1,
    )
    until("every partition owned", lambda: watch.value("job:privacy_partitions_unowned:count") == 0)
    both = "count(count by (instance) (privacy_filter_spent_ratio))"
    assert watch.value(both) == 2

    fleet.second.process.send_signal(signal.SIGKILL)
    fleet.second.process.wait()
    until("the kill is seen", lambda: fleet.state("PrivacyAccountantDown") == "pending")
    until("its series end", lambda: watch.value(both) == 1)
    # What the survivor takes over it exports: nothing is missing, nothing twice.
    until("every dataset exported again", lambda: watch.value(count) == len(DATASETS))
    assert fleet.state("PrivacyDatasetExportedTwice") == "inactive"
    assert fleet.state("PrivacySpentDecreased") == "inactive"
    until("all owned again", lambda: watch.value("job:privacy_partitions_unowned:count") == 0)

    fleet.accountant("ask", DATASETS[0], "pure:1", "--analyst", "ana")
    delivered = until("delivery", lambda: watch.receiver.of("PrivacyBudgetExhausted", "firing"))
    assert delivered[0][1] == "/owners/statistics"
