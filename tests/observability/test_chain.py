"""A real ledger, Prometheus, Alertmanager and webhook: an alert is delivered, then resolved."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from streams.client import Accountant
from tests.observability.programs import (
    ACCOUNTANT,
    PATIENCE_S,
    Programs,
    Watch,
    get,
    running,
    until,
)

STARTS = ("streams.cli",)

INTERVAL_S = 5
DATASET = "statistics.census"


@contextmanager
def serving(home: Path, **more: str) -> Iterator[str]:
    """Run `accountant serve` as its README says, and yield its address."""
    log = home / "serve.log"
    environment = {
        **os.environ,
        "ACCOUNTANT_URL": f"sqlite:///{home / 'ledger.db'}",
        "ACCOUNTANT_METRICS_LEVELS": "100",
        **more,
    }
    command = [ACCOUNTANT, "serve", "--port", "0"]
    with running(command, log, env=environment, cwd=home):

        def said() -> str | None:
            found = re.search(r"listening at (http://\S+)", log.read_text())
            return found and found[1]

        yield str(until("the ledger listens", said, log))


@pytest.fixture
def chain(programs: Programs, tmp_path: Path) -> Iterator[tuple[str, Watch]]:
    (tmp_path / "watch").mkdir()
    with serving(tmp_path) as address:
        jobs = {"accountant-serve": [address.removeprefix("http://")]}
        with Watch(programs, tmp_path / "watch", jobs, interval=INTERVAL_S) as watch:
            yield address, watch


def accountant(address: str, *arguments: str) -> int:
    """Run a command as a user does."""
    environment = {**os.environ, "ACCOUNTANT_URL": address, "ACCOUNTANT_OWNER": "owner"}
    command = [str(ACCOUNTANT), *arguments]
    return subprocess.run(command, env=environment, timeout=PATIENCE_S).returncode


def test_an_exhausted_budget_is_delivered_and_resolves(chain: tuple[str, Watch]) -> None:
    address, watch = chain
    dataset = f'{{dataset="{DATASET}"}}'
    policy = ("--filter", "basic", "--epsilon", "1", "--most-per-request", "1")
    opened = accountant(address, "dataset", "open", DATASET, *policy)
    assert opened == 0
    until("the dataset is scraped", lambda: watch.value(f"privacy_filter_exhausted{dataset}") == 0)
    with Accountant(address) as ledger:
        last = ledger.ask(DATASET, "pure:1", analyst="ana")
    assert last.outcome == "granted"
    spent_at = datetime.fromisoformat(last.decision.decided_at).timestamp()

    delivered = until("delivery", lambda: watch.receiver.of("PrivacyBudgetExhausted", "firing"))
    at, path, alert = delivered[0]
    assert at - spent_at <= 2 * INTERVAL_S
    assert path == "/owners/statistics"
    assert alert["labels"]["owner"] == "statistics"
    assert alert["labels"]["dataset"] == DATASET
    assert "has exhausted its privacy budget" in alert["annotations"]["summary"]

    def inhibited() -> bool:
        found = get(f"{watch.alertmanager}/api/v2/alerts", inhibited="true", active="false")
        names = {each["labels"]["alertname"] for each in found}
        return {
            "PrivacyBudgetHalfUsed",
            "PrivacyBudgetLow",
            "PrivacyBudgetNearlyExhausted",
        } <= names

    until("the lower thresholds are inhibited", inhibited)
    assert watch.receiver.of("PrivacyBudgetLow", "firing") == []

    assert accountant(address, "dataset", "close", DATASET, "--yes") == 0
    until("resolution", lambda: watch.receiver.of("PrivacyBudgetExhausted", "resolved"))
    assert watch.receiver.of("PrivacyBudgetExhausted", "resolved")[0][1] == "/owners/statistics"
    assert watch.complaints() == []


def test_a_team_at_four_fifths_of_its_share_is_alerted_by_its_own_route(
    chain: tuple[str, Watch],
) -> None:
    address, watch = chain
    with Accountant(address) as ledger:
        ledger.as_owner("owner").open(DATASET, {"filter": "basic", "epsilon": "1"}, as_given=True)
        for name, team in (("ana", "methods"), ("ben", "field")):
            ledger.as_owner("owner").set_member(DATASET, name, roles=["analyst"], team=team)
            ledger.as_owner("owner").set_limit(
                DATASET, "team", team, part="0.1", pace=("0.09", "P1D")
            )
            assert ledger.ask(DATASET, "pure:0.07", analyst=name).granted
        ratio = f'privacy_level_spent_ratio{{dataset="{DATASET}",name="methods",scope="team"}}'
        until("the limit is scraped", lambda: (watch.value(ratio) or 0) >= 0.7)
        assert watch.receiver.of("PrivacyTeamShareAlmostUsed", "firing") == []
        for name in ("ana", "ben"):
            assert ledger.ask(DATASET, "pure:0.02", analyst=name).granted
        delivered = until(
            "both are delivered",
            lambda: (
                len(
                    found := {
                        path: alert["labels"]
                        for _, path, alert in watch.receiver.of(
                            "PrivacyTeamShareAlmostUsed", "firing"
                        )
                    }
                )
                == 2
                and found
            ),
        )
        # If a team has no route, its owner gets the alert.
        assert delivered["/teams/methods"]["team"] == "methods"
        assert delivered["/owners/statistics"]["team"] == "field"
        assert (
            delivered["/teams/methods"].items()
            >= {"dataset": DATASET, "severity": "warning"}.items()
        )
        paced = until("the pace", lambda: watch.receiver.of("PrivacyPaceUsedUp", "firing"))
        assert {alert["labels"]["scope"] for _, _, alert in paced} == {"team"}
        ledger.as_owner("owner").set_limit(DATASET, "team", "methods", part="0.5")
        ended = until(
            "resolution", lambda: watch.receiver.of("PrivacyTeamShareAlmostUsed", "resolved")
        )
    assert ended[0][1] == "/teams/methods"
    assert watch.complaints() == []


def test_every_rule_works_on_real_metrics_and_exemplars_lead_to_a_request(
    chain: tuple[str, Watch],
) -> None:
    address, watch = chain
    with Accountant(address) as ledger:
        ledger.as_owner("owner").open(
            DATASET, {"epsilon": "1", "delta": "1e-6", "horizon": "P30D"}, as_given=True
        )
        asked = ledger.ask(DATASET, "pure:0.01", analyst="ana")
    of = f'{{dataset="{DATASET}"}}'
    until("recorded", lambda: watch.value(f"dataset:privacy_filter_burn:ratio1h{of}"))
    until("recorded", lambda: watch.value(f"dataset:privacy_requests:rate5m{of}") is not None)
    until("recorded", lambda: watch.value("job:privacy_partitions_unowned:count") == 0)
    rules = until(
        "every rule evaluated",
        lambda: all(rule["health"] == "ok" for rule in watch.rules()) and watch.rules(),
    )
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []

    def alerting() -> set[str]:
        return {rule["name"] for rule in watch.rules() if rule.get("alerts")}

    # Rules evaluated before the first scrape find nothing up: those alerts pend until the next.
    until("no alert pends or fires", lambda: not alerting())

    def exemplars() -> set[str]:
        found = get(
            f"{watch.prometheus}/api/v1/query_exemplars",
            query="privacy_decision_duration_seconds_bucket",
            start=str(datetime.fromisoformat(asked.decision.decided_at).timestamp() - 60),
            end=str(datetime.fromisoformat(asked.decision.decided_at).timestamp() + 60),
        )
        return {each["labels"]["request_id"] for one in found for each in one["exemplars"]}

    assert asked.decision.request is not None
    request_id = re.search(rb'"request_id": ?"([^"]+)"', bytes(asked.decision.request))
    assert request_id is not None
    until("the exemplar", lambda: request_id[1].decode() in exemplars())


def test_a_lost_token_file_is_alerted_and_pages_no_absent_process(
    programs: Programs, tmp_path: Path
) -> None:
    tokens, server_token = tmp_path / "tokens.json", tmp_path / "metrics.token"
    scraper_token = tmp_path / "scraper.token"
    for file in server_token, scraper_token:
        file.touch(0o600)
        file.write_text("0123456789abcdef" * 4)
    created = [ACCOUNTANT, "token", "create", "--name", "olga", "--tokens", str(tokens)]
    assert subprocess.run(created, capture_output=True, timeout=PATIENCE_S).returncode == 0
    (tmp_path / "watch").mkdir()
    files = {
        "ACCOUNTANT_TOKENS": str(tokens),
        "ACCOUNTANT_METRICS_TOKEN_FILE": str(server_token),
    }
    with serving(tmp_path, **files) as address:
        target = address.removeprefix("http://")
        jobs: dict[str, str | list[str]] = {
            "accountant-serve": [target],
            "accountant-serve-probe": [target],
        }
        with Watch(
            programs,
            tmp_path / "watch",
            jobs,
            interval=INTERVAL_S,
            metrics_token=scraper_token,
        ) as watch:
            up = 'up{job="accountant-serve"}'
            alerts = [rule for rule in watch.rules() if rule["type"] == "alerting"]
            rules = {(rule["name"], rule["labels"]["severity"]): rule for rule in alerts}

            def fires(alert: str, severity: str) -> bool:
                """Tell whether an alert's condition is true now, however short it has been so."""
                return watch.query(rules[alert, severity]["query"]) != []

            until("it is scraped", lambda: watch.value(up) == 1)
            assert not fires("PrivacyAuthenticationAway", "critical")
            tokens.unlink()
            until("its loss is seen", lambda: fires("PrivacyAuthenticationAway", "critical"))
            assert watch.value(up) == 1
            server_token.unlink()  # now nothing authenticates Prometheus
            until("metrics are rejected", lambda: watch.value(up) == 0)
            until("that is seen", lambda: fires("PrivacyAuthenticationAway", "warning"))
            assert not fires("PrivacyAccountantAbsent", "critical")
            assert not fires("PrivacyAccountantDown", "warning")
            assert watch.value("privacy_probe_ready") == 0
