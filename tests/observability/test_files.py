"""The files as their own tools judge them: no error and no warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.observability.programs import ALERTMANAGER, PROMETHEUS, Programs
from tests.streams.door import NOON, Door, TestClock

RULES = sorted((PROMETHEUS / "rules").glob("*.yml"))
TESTS = sorted((PROMETHEUS / "tests").glob("*.yml"))

SERVICE = {"audience": "operator", "job": "accountant-worker"}
DATASET = {"audience": "owner", "dataset": "a"}


def complaints(text: str) -> list[str]:
    return [line for line in text.splitlines() if "warn" in line.lower() or "FAILED" in line]


def test_rules_and_configuration_are_without_warnings(programs: Programs) -> None:
    checked = programs.run("promtool", "check", "rules", "--lint=all", "--lint-fatal", *RULES)
    checked += programs.run("promtool", "check", "config", PROMETHEUS / "prometheus.yml")
    assert complaints(checked) == []
    assert checked.count("SUCCESS") == 2 * len(RULES) + 2


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_rules_do_what_their_tests_say(programs: Programs, file: Path) -> None:
    tested = programs.run("promtool", "test", "rules", file)
    assert complaints(tested) == []
    assert "SUCCESS" in tested


def test_a_wrong_threshold_fails_the_rules_tests(programs: Programs, tmp_path: Path) -> None:
    """The tests can fail: each threshold of a budget that is moved is noticed."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "tests").mkdir()
    test = tmp_path / "tests" / "budget.yml"
    test.write_text((PROMETHEUS / "tests" / "budget.yml").read_text())
    for before, after in (">= 0.5", ">= 0.52"), (">= 0.8", ">= 0.79"), ("> 14.4", "> 50"):
        for file in RULES:
            text = file.read_text().replace(before, after)
            (tmp_path / "rules" / file.name).write_text(text)
        with pytest.raises(AssertionError, match="FAILED"):
            programs.run("promtool", "test", "rules", test)


def test_alertmanager_takes_its_configuration(programs: Programs) -> None:
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
        ({"severity": "none"}, "operators"),
    ],
)
def test_an_alert_goes_to_whom_it_concerns(
    programs: Programs, labels: dict[str, str], receiver: str
) -> None:
    given = [f"{name}={value}" for name, value in labels.items()]
    programs.run(
        "amtool",
        "config",
        "routes",
        "test",
        f"--config.file={ALERTMANAGER}",
        f"--verify.receivers={receiver}",
        *given,
    )


def test_metrics_follow_the_conventions(programs: Programs, tmp_path: Path) -> None:
    with Door(tmp_path / "ledger.db", TestClock(NOON)) as door:
        door.open(horizon="P30D", delta="1e-6", filter="zcdp_tight")
        door.ask()
        text = door.http.get("/metrics").text
    assert programs.run("promtool", "check", "metrics", stdin=text) == ""
