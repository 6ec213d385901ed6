"""The files as their own tools judge them: no error and no warning."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from streams.settings import Settings
from tests.observability.programs import ALERTMANAGER, PROMETHEUS, Programs
from tests.streams.bodies import limiting
from tests.streams.clock import NOON, TestClock
from tests.streams.gateway.local_server import LocalServer

RULES = sorted((PROMETHEUS / "rules").glob("*.yml"))
TESTS = sorted((PROMETHEUS / "tests").glob("*.yml"))

SERVICE = {"audience": "operator", "job": "accountant-worker"}
DATASET = {"audience": "owner", "dataset": "a"}
METHODS = "team-methods"
OVERDUE = "privacy_checkpoint_overdue_seconds"
PAUSED = "privacy_dataset_paused"
LAPSED = 'privacy_reservations{state="lapsed"}'
BEGUN = 'reservations{state="begun"}'
CLOSED = "expr: dataset:privacy_dataset_suspended:max unless dataset:privacy_dataset_closed:max\n"
NOT = "unless on (job, dataset) dataset:privacy_dataset_clo"


def complaints(text: str) -> list[str]:
    return [line for line in text.splitlines() if "warn" in line.lower() or "FAILED" in line]


def test_rules_and_configuration_are_without_warnings(programs: Programs, tmp_path: Path) -> None:
    checked = programs.run("promtool", "check", "rules", "--lint=all", "--lint-fatal", *RULES)
    # promtool looks for the files of keys, which only a first start of the compose file makes.
    shutil.copytree(PROMETHEUS / "rules", tmp_path / "rules")
    keys, text = "/etc/accountant/prometheus", (PROMETHEUS / "prometheus.yml").read_text()
    assert text.count(f"{keys}/") == 9
    for name in "ca.pem", "metrics.token":
        (tmp_path / name).touch()
    (tmp_path / "prometheus.yml").write_text(text.replace(keys, str(tmp_path)))
    checked += programs.run("promtool", "check", "config", tmp_path / "prometheus.yml")
    assert complaints(checked) == []
    assert checked.count("SUCCESS") == 2 * len(RULES) + 2


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_rules_pass_their_unit_tests(programs: Programs, file: Path) -> None:
    tested = programs.run("promtool", "test", "rules", file)
    assert complaints(tested) == []
    assert "SUCCESS" in tested


@pytest.mark.parametrize(
    ("alert", "before", "after"),
    [
        ("PrivacyBudgetHalfUsed", ">= 0.5", ">= 0.52"),
        ("PrivacyBudgetLow", ">= 0.8", ">= 0.79"),
        ("PrivacyBudgetBurnFast", "> 14.4", "> 50"),
        ("PrivacyBudgetLow", "spent:max1h >= 0.8", "spent:ratio >= 0.8"),
        ("PrivacyBudgetExhausted", "privacy_filter_exhausted[1h]", "privacy_filter_left[1h]"),
        ("PrivacySpentDecreased", "filter_settled:ratio", "filter_spent:ratio"),
        ("PrivacyReservationExpiring", 'expiring{state="reserved"}', 'expiring{state="begun"}'),
        ("PrivacyReservationNotSettled", 'expiring{state="begun"}', 'expiring{state="reserved"}'),
        ("PrivacyReservationNotSettled", 'reservations_expiring{state="begun"}', BEGUN),
        ("PrivacyReservationLapsed", 'state="lapsed"', 'state="final"'),
        ("PrivacyReservationsNearLimit", "sum without (state)", "max without (state)"),
        ("PrivacyDatasetSuspended", "expr: dataset:privacy_dataset_suspended:max\n", CLOSED),
        ("PrivacyRefusalRatioHigh", "unless on (job, dataset) dataset:privacy_dataset_susp", NOT),
        ("PrivacyAccountantAbsent", "(worker|serve)(-probe)?", "(worker|serve)"),
        ("PrivacyAccountantDown", "privacy_probe_authentication_away == 1\n", "up == 2\n"),
        ("PrivacyPartitionUnowned", "privacy_probe_ready == 1\n", "privacy_probe_ready >= 0\n"),
        ("PrivacyIdTableNearlyFull", "> 700000", "> 800000"),
        ("PrivacyCheckpointsNotStored", f"max_over_time({OVERDUE}[2m])", OVERDUE),
        ("PrivacyDatasetPaused", f"last_over_time({PAUSED}[5m])", PAUSED),
        ("PrivacyReservationLapsed", f"last_over_time({LAPSED}[5m])", LAPSED),
    ],
)
def test_a_wrong_rule_fails_its_tests(
    programs: Programs, tmp_path: Path, alert: str, before: str, after: str
) -> None:
    """The tests can fail: a threshold that is moved, or another metric, is noticed."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "tests").mkdir()
    files = [yaml.safe_load(file.read_text()) for file in TESTS if file.stem != "budget_days"]
    tests = [test for file in files for test in file["tests"]]
    ours = [test for test in tests if alert in str(test.get("alert_rule_test"))]
    for test in ours:
        test["alert_rule_test"] = [c for c in test["alert_rule_test"] if c["alertname"] == alert]
        test.pop("promql_expr_test", None)
    (tmp_path / "tests" / "rules.yml").write_text(yaml.safe_dump(files[0] | {"tests": ours}))
    for file in RULES:
        (tmp_path / "rules" / file.name).write_text(file.read_text())
    assert "SUCCESS" in programs.run("promtool", "test", "rules", tmp_path / "tests" / "rules.yml")
    alerts = tmp_path / "rules" / "alerts.yml"
    assert before in alerts.read_text()
    alerts.write_text(alerts.read_text().replace(before, after))
    with pytest.raises(AssertionError, match="FAILED"):
        programs.run("promtool", "test", "rules", tmp_path / "tests" / "rules.yml")


def test_alertmanager_accepts_its_configuration(programs: Programs) -> None:
    checked = programs.run("amtool", "check-config", ALERTMANAGER)
    assert complaints(checked) == []
    assert "SUCCESS" in checked


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (SERVICE | {"severity": "critical"}, "operators"),
        (SERVICE | {"severity": "warning"}, "operators"),
        (DATASET | {"severity": "info"}, "owners"),
        (DATASET | {"severity": "critical"}, "owners"),
        (DATASET | {"severity": "critical", "owner": "nobody-in-particular"}, "owners"),
        (DATASET | {"severity": "critical", "owner": "statistics"}, "statistics"),
        (DATASET | {"severity": "warning", "owner": "statistics"}, "statistics"),
        (DATASET | {"severity": "warning", "owner": "statistics", "team": "methods"}, METHODS),
        (DATASET | {"severity": "info", "team": "methods"}, METHODS),
        (DATASET | {"severity": "warning", "owner": "statistics", "team": "field"}, "statistics"),
        (DATASET | {"severity": "warning", "team": "field"}, "owners"),
        ({"severity": "none"}, "operators"),
    ],
)
def test_an_alert_goes_to_its_audience(
    programs: Programs, labels: dict[str, str], receiver: str
) -> None:
    matchers = [f"{name}={value}" for name, value in labels.items()]
    programs.run(
        "amtool",
        "config",
        "routes",
        "test",
        f"--config.file={ALERTMANAGER}",
        f"--verify.receivers={receiver}",
        *matchers,
    )


def test_metrics_follow_the_conventions(programs: Programs, tmp_path: Path) -> None:
    shown = Settings(port=0, metrics_analysts=1, metrics_levels=1)
    with LocalServer(tmp_path / "ledger.db", TestClock(NOON), shown) as server:
        server.open(horizon="P30D", delta="1e-6", filter="zcdp_tight")
        pace = {"part": "0.1", "period": "P1D"}
        limit = limiting("census", NOON, 1, "team", "red", part="0.5", pace=pace, reserved="0.1")
        assert server.service.decide_sync("admin", limit, 20) is not None
        server.ask()
        server.ask(reserve={"until": "PT1H"})
        text = server.http.get("/metrics").text
    assert programs.run("promtool", "check", "metrics", stdin=text) == ""
