"""The commands of a ledger on Kafka, on a real broker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import environment
from tests.streams.cli.shown import counts_shown
from tests.streams.evidence.handed_over import manifest_of, verified
from tests.streams.evidence.handed_over import wrong as wrong_checks

STARTS = ()


@pytest.mark.kafka
def test_the_demo_starts_its_own_kafka_and_audits_its_log(tmp_path):
    command = [
        sys.executable,
        "-m",
        "streams.cli",
        "demo",
        "--kafka",
        "--requests",
        "120",
        "--json",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert '"requests":120' in done.stdout.splitlines()[-1]
    assert '"audit":"ok"' in done.stdout.splitlines()[-1]


def test_topics_worker_gateway_and_every_command_through_them(broker, application, accountant):
    kafka = f"kafka://{broker.bootstrap}"
    where = {
        "ACCOUNTANT_URL": kafka,
        "ACCOUNTANT_APPLICATION": application,
        "ACCOUNTANT_TOPIC_PREFIX": f"{application}-",
        "ACCOUNTANT_PARTITIONS": "3",
    }
    missing = accountant("topics", "check", "--json", **where)
    assert missing.code == 4
    assert "accountant topics create" in missing.json["problems"][0]
    for command in (("dataset", "list"), ("audit",), ("log", "export")):
        done = accountant(*command, **where)
        assert (done.code, "Run `accountant topics create`" in done.err) == (4, True), done.err

    made = accountant("topics", "create", "--json", **where)
    assert made.code == 0, made.err
    assert sum("genesis" in line for line in made.json["done"]) == 3
    assert accountant("topics", "create", "--json", **where).json == {"done": []}
    assert accountant("topics", "check", **where).code == 0
    wrong = accountant("topics", "check", "--partitions", "4", **where)
    assert wrong.code == 4
    assert "3 partitions" in wrong.err

    lost = ("topics", "accept-lost-inputs", "--partition", "0", "--from", "0", "--reason", "none")
    nothing = accountant(*lost, "--topic", "requests", **where)
    assert (nothing.code, "nothing is lost" in nothing.err) == (4, True), nothing.err
    assert accountant(*lost, "--topic", "decisions", **where).code == 2

    worker = accountant.start("worker", "--metrics-port", "0", env=environment(**where))
    gateway = accountant.start("gateway", "--port", "0", env=environment(**where))
    try:
        assert gateway.stdout is not None
        address = gateway.stdout.readline().split()[-1]
        opening = (
            *("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6"),
            *("--most-per-request", "1"),
        )
        opened = accountant(*opening, "--wait", "60", **where)
        assert opened.code == 0, opened.err
        for url in (kafka, address):
            more = {**where, "ACCOUNTANT_URL": url}
            granted = accountant(
                "ask", "census", "pure:0.05", "--analyst", "ana", "--wait", "30", **more
            )
            assert granted.code == 0, granted.err
            shown = accountant("dataset", "show", "census", "--json", **more)
            assert shown.code == 0, shown.err
        assert shown.json["totals"]["mechanisms"] == 2
        refused = accountant("ask", "census", "pure:5", "--analyst", "ana", "--wait", "60", **where)
        assert refused.code == 1
        assert "fits  pure:0." in refused.out
        # The gateway has seen them all; a command of its own begins with the rows of `state`.
        assert counts_shown(accountant, **{**where, "ACCOUNTANT_URL": address}) == {("2", "1")}
        assert counts_shown(accountant, **where) == {("–", "–")}
        # Through the gateway's topic and through the broker itself.
        for url, horizon in ((address, "P9D"), (kafka, "P8D")):
            change = ("dataset", "amend", "census", "--horizon", horizon, "--wait", "60")
            amended = accountant(*change, **{**where, "ACCOUNTANT_URL": url})
            assert (amended.code, amended.out[:7]) == (0, "amended"), amended.err
            shown = accountant("dataset", "show", "census", "--json", **where)
            assert shown.json["policy"]["horizon"] == horizon
        run_audit = accountant("audit", "--json", **where)
        assert (run_audit.code, run_audit.json["audit"]) == (0, "ok"), run_audit.out
        assert len(run_audit.json["partitions"]) == 3
        made = accountant("evidence", "given", **where)
        assert made.code == 0, made.err
        folder = accountant.directory / "given"
        code, found = verified(folder, "--ledger", manifest_of(folder)["ledger"])
        assert (code, wrong_checks(found)) == (3, [])  # no key: workers sign nothing here
        lines = (folder / "log.jsonl").read_bytes().splitlines(keepends=True)
        cut = max(i for i, line in enumerate(lines) if b'"genesis"' in line)
        (folder / "log.jsonl").write_bytes(b"".join(lines[:cut]))
        assert "partitions must be [0, 1, 2]" in str(verified(folder)[1]["checks"])
        log = accountant("log", "export", **where)
        (accountant.directory / "log.jsonl").write_text(log.out)
        of_copy = accountant("audit", "log.jsonl", "--json").json["partitions"]
        of_cluster = run_audit.json["partitions"]
        # A copied log has no rows of state beside it, nor has a partition without datasets.
        compared = [each["report"].pop("rows") for each in of_cluster]
        assert any(compared)
        assert all(each["report"].pop("rows", None) is None for each in of_copy)
        assert of_copy == of_cluster
    finally:
        for process in (worker, gateway):
            process.terminate()
        for process in (worker, gateway):
            process.communicate(timeout=PATIENCE_S)
    assert (worker.returncode, gateway.returncode) == (0, 0)


def test_a_broker_that_does_not_answer_is_unavailable(accountant):
    done = accountant("topics", "check", "--url", "kafka://127.0.0.1:9")
    assert (done.code, done.out) == (3, "")
