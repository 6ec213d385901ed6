"""Rules, thresholds, their tests and the runbook agree; this needs no program."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.every_case import every_case

OPENS = ("deploy/**", "docs/runbooks.md", "docs/reference/metrics/*")
STARTS = ()

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
RUNBOOK = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
METRICS = "".join(
    path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs/reference/metrics").glob("*.md"))
)
DOCUMENTED = set(re.findall(r"^\| `(privacy_\w+)` \|", METRICS, re.MULTILINE))
OF_PROMETHEUS = {"up", "process_cpu_seconds_total"}


@cache
def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@cache
def rules() -> list[dict[str, Any]]:
    files = sorted((PROMETHEUS / "rules").glob("*.yml"))
    return [rule for file in files for group in load(file)["groups"] for rule in group["rules"]]


@cache
def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@cache
def recorded_series() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}


@cache
def cases() -> list[tuple[str, float, list[Any], int]]:
    """Return (alert, minute, expected alerts, number of the test) of every alert's check."""
    found = []
    number = 0
    for file in sorted((PROMETHEUS / "tests").glob("*.yml")):
        for test in load(file)["tests"]:
            number += 1
            for case in test.get("alert_rule_test", ()):
                at = case["eval_time"]
                minutes = float(at[:-1]) * {"m": 1, "h": 60}[at[-1]]
                found.append((case["alertname"], minutes, case["exp_alerts"], number))
    return found


def test_the_rules_are_made_from_the_thresholds() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "prometheus_rules.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_restart_does_not_begin_the_wait_of_an_alert_again() -> None:
    """A restart misses a scrape, and ages of a process begin at 0: only a range bridges both."""
    of_now = {
        "PrivacyDatasetExportedTwice",  # who exports it now
        "PrivacyPartitionUnowned",  # these are about what does not answer now
        "PrivacyProcessorStalled",
        "PrivacyCuratorAbsent",
        "PrivacyCuratorEnded",
        "PrivacyAuthenticationAway",
        "PrivacyAccountantDown",
        "PrivacyAccountantAbsent",
        "PrivacyGatewayAbsent",
        "PrivacyRefusalRatioHigh",  # recorded over a range
        "PrivacyBudgetBurnFast",
        "PrivacyBudgetBurnSlow",
        "PrivacyBudgetBurnSteady",
    }
    waiting = {name for name, rule in alerts().items() if "for" in rule}
    assert of_now < waiting
    for name in waiting - of_now:
        assert re.search(r"(?:last|max)_over_time\([^)]*\[[25]m\]\)", alerts()[name]["expr"]), name
    ages = [
        rule for rule in alerts().values() if re.search(r"(overdue|not_stored)_s", rule["expr"])
    ]
    assert len(ages) == 3
    assert all("max_over_time" in rule["expr"] and "for" in rule for rule in ages)


def test_every_threshold_has_a_reason_and_is_used() -> None:
    thresholds = load(PROMETHEUS / "thresholds.yml")
    templates = "".join(path.read_text() for path in (PROMETHEUS / "templates").glob("*.yml"))
    named = thresholds["thresholds"] | thresholds["durations"]
    assert len(named) > 20
    for name, each in named.items():
        assert len(each["reason"].split()) >= 4, f"{name} has no reason"
        assert f"@{name}@" in templates, f"{name} is used by no rule"


def test_no_alert_has_a_number_of_its_own() -> None:
    """Numbers are in thresholds.yml: the templates have only windows, 0 and 1."""
    text = (PROMETHEUS / "templates" / "alerts.yml").read_text()
    for rule in load_template(text):
        bare = re.sub(r"\[[^\]]*\]|ratio_?\w*|increase\d\w*|@\w+@", "", rule["expr"])
        numbers = set(re.findall(r"(?<![\w.])\d[\d.e-]*", bare))
        assert numbers <= {"0", "1"}, f"{rule['alert']}: {numbers}"


def load_template(text: str) -> list[dict[str, Any]]:
    quoted = re.sub(r"^(\s+(?:for|runbook_url)): (@\w+@)$", r"\1: '\2'", text, flags=re.MULTILINE)
    return [rule for group in yaml.safe_load(quoted)["groups"] for rule in group["rules"]]


@every_case("name", alerts)
def test_every_alert_is_tested_silent_then_firing_then_resolved(name: str) -> None:
    numbers = {number for alert, _, _, number in cases() if alert == name}
    assert numbers, f"{name} is in no test of deploy/prometheus/tests"

    def states(number: int) -> str:
        ours = [(at, bool(on)) for alert, at, on, n in cases() if (alert, n) == (name, number)]
        return "".join("F" if fires else "s" for _, fires in sorted(ours))

    every = [states(number) for number in sorted(numbers)]
    assert any(re.search("sF+s", each) for each in every), f"{name}: {every}"


@every_case("name", alerts)
def test_every_alert_has_an_audience_and_a_runbook(name: str) -> None:
    rule = alerts()[name]
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert rule["labels"]["audience"] in {"owner", "operator"}
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{name.lower()}"


@every_case("name", alerts)
def test_every_alert_has_a_runbook_entry_with_a_command(name: str) -> None:
    entries = {
        part.split("\n", 1)[0]: part for part in re.split(r"^## ", RUNBOOK, flags=re.MULTILINE)
    }
    assert name in entries, f"docs/runbooks.md has no entry for {name}"
    entry = entries[name]
    follows = re.findall(r"\[Privacy\w+\]\(#(\w+)\)", entry)
    assert "```sh" in entry or any(each in map(str.lower, alerts()) for each in follows)


def test_the_runbook_has_no_entry_for_a_removed_alert() -> None:
    assert set(re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE)) == set(alerts())


def test_rules_and_runbook_name_only_metrics_that_are_exported() -> None:
    suffixes = r"_(?:bucket|sum|count)\b"
    text = "\n".join(str(rule["expr"]) for rule in rules())
    text += "\n".join(re.findall(r"```sh(.*?)```", RUNBOOK, re.DOTALL))
    named = set(re.findall(r"(?<![\w:])(?:privacy_\w+|process_\w+|up)\b(?!:)", text))
    for name in named - OF_PROMETHEUS:
        assert name in DOCUMENTED or re.sub(suffixes, "", name) in DOCUMENTED, name
    recorded = set(re.findall(r"\b[a-z_]+:privacy_\w+:\w+", text))
    assert recorded <= recorded_series()


def test_the_page_of_metrics_names_every_recorded_series() -> None:
    windows = load(PROMETHEUS / "thresholds.yml")["windows"]
    named = set(re.findall(r"`([a-z_]+:privacy_[\w:\[\]]+)`", METRICS))
    each = {name.replace("[W]", window) for name in named for window in windows}
    assert each == recorded_series()


def test_a_critical_alert_of_a_dataset_is_sent_at_once() -> None:
    config = load(ROOT / "deploy" / "alertmanager" / "alertmanager.yml")
    owners = next(r for r in config["route"]["routes"] if r["receiver"] == "owners")
    critical = [r for r in owners["routes"] if 'severity="critical"' in r["matchers"]]
    assert critical
    assert all(route["group_wait"] == "0s" for route in critical)
    prometheus = load(PROMETHEUS / "prometheus.yml")["global"]
    scrape, evaluation = (
        int(prometheus[f"{what}_interval"].removesuffix("s")) for what in ("scrape", "evaluation")
    )
    # One scrape, then one evaluation, and some time for delivery: two intervals in all.
    assert scrape + evaluation < 2 * evaluation
