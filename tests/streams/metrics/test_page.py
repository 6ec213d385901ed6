"""docs/reference/metrics/ against the live endpoint: names, types, labels, both ways."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pydantic import SecretStr

from accountant.claims import Pure
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import open_plan
from accountant.records.requests import MechanismRequest
from streams.answers.granted import GrantedQuestion
from streams.curator.counts import CuratorCounts
from streams.curator.metrics import CuratorMetrics, UnansweredMetrics
from streams.errors import Fenced, Unavailable
from streams.metrics.followed import FollowedCollector
from streams.metrics.registry import exposition, make_registry
from streams.settings import Settings
from tests.streams.auth.token_server import TokenServer
from tests.streams.bodies import limiting
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import data_settings
from tests.streams.gateway.local_server import LocalServer

OPENS = ("docs/reference/metrics/*",)

PAGES = sorted((Path(__file__).parents[3] / "docs" / "reference" / "metrics").glob("*.md"))
ROW = re.compile(
    r"^\| `(privacy_[a-z0-9_]+)` \| (\w+) \| ([\w, ]*?) ?\| (.+) \| (.*) ?\|$", re.MULTILINE
)
SUFFIXES = {"counter": "_total", "info": "_info"}
OF_BUCKETS = {"le"}

Families = dict[str, tuple[str, frozenset[str]]]


def described() -> Families:
    """Return (type, labels) by name, as the page has them."""
    rows = [row for page in PAGES for row in ROW.findall(page.read_text(encoding="utf-8"))]
    found: Families = {}
    for name, typ, labels, reads, _ in rows:
        assert name not in found, f"{name} is described twice"
        assert reads.strip(), f"nothing is said of what {name} tells"
        found[name] = typ, frozenset(filter(None, labels.split(", ")))
    return found


def waiting(clock: TestClock) -> bytes:
    """Return the metrics of a question that waits, as a curator and as a gateway have them.

    With those of a gateway on Kafka alone.
    """
    counts = CuratorCounts(closed_sources={"people": 1}, source_findings={"people": 1})
    counts.waiting.add(
        GrantedQuestion(
            grant="sha256:" + 64 * "1",
            previous="sha256:" + 64 * "0",
            partition=0,
            number=1,
            decided_at=0,
            request=MechanismRequest(version=1, request_id="r", analyst="ana", dataset="census"),
            claim=Pure(epsilon="1"),
            is_reserved=False,
        )
    )
    collectors = CuratorMetrics(counts, clock), UnansweredMetrics(counts.waiting, clock)
    followed = FollowedCollector(lambda: {0: True})
    text, _ = exposition(
        make_registry(None, *collectors, followed), "application/openmetrics-text; version=1.0.0"
    )
    return text


def live(file: Path, clock: TestClock) -> Families:
    """Return (type, labels) by name, of a ledger with every kind of decision."""
    elsewhere = SecretStr(str(file.with_name("elsewhere")))
    shown = {"metrics_analysts": 1, "metrics_levels": 1}
    shown |= data_settings(file.parent)
    settings = Settings(port=0, **shown, limit_by="peer", checkpoint_places=elsewhere)
    with LocalServer(file, clock, settings) as server:
        server.open(horizon="P365D", delta="1e-6", filter="zcdp_tight")
        share = {"part": "0.5", "pace": {"part": "0.1", "period": "P1D"}, "reserved": "0.1"}
        for name in ("red", "blue"):
            made = limiting("census", clock.now(), 1, "team", name, **share)
            server.service.submit_sync("admin", made, 5)
        server.ask()
        server.ask(analyst="bea")
        server.ask(reserve={"until": "PT1H"})
        server.service.submit_sync("requests", b"{", 5)
        own_collectors = server.service.alert_counts, *server.service.checkpoint_collectors
        registry = make_registry(server.service.live_ledgers, *own_collectors)
        text, _ = exposition(registry, "application/openmetrics-text; version=1.0.0")
        own = server.http.get(
            "/metrics", headers={"accept": "application/openmetrics-text"}
        ).content
        live_ledgers = server.service.live_ledgers
        for error in Fenced("another"), Unavailable("away"):
            live_ledgers.dropped(0, error)
        faults, _ = exposition(registry, "application/openmetrics-text; version=1.0.0")
    (file.parent / "known").mkdir()
    with TokenServer(file.parent / "known") as knows:
        shown = {"accept": "application/openmetrics-text"}
        known = knows.get("/metrics", knows.administrator, **shown).content
        probed = knows.get("/healthz/metrics", None, **shown).content
    found: Families = {}
    for body in text, faults, own, known, probed, waiting(clock):
        for family in text_string_to_metric_families(body.decode()):
            if family.name.startswith("privacy_"):
                name = family.name + SUFFIXES.get(family.type, "")
                _, labels = found.get(name, ("", frozenset()))
                for sample in family.samples:
                    labels |= sample.labels.keys() - OF_BUCKETS
                found[name] = family.type, labels
    return found


def test_the_page_and_the_endpoint_name_the_same_metrics(file: Path, clock: TestClock) -> None:
    page, endpoint = described(), live(file, clock)
    assert page.keys() - endpoint.keys() == set(), "described, but not exported"
    assert endpoint.keys() - page.keys() == set(), "exported, but not described"
    assert {n: v for n, v in page.items() if endpoint[n] != v} == {}, f"exported: {endpoint}"


def test_every_gauge_of_a_dataset_warns_of_its_misreading() -> None:
    rows = [row for page in PAGES for row in ROW.findall(page.read_text(encoding="utf-8"))]
    wary = {name for name, _, _, _, warning in rows if warning.strip()}
    assert {
        "privacy_filter_left",
        "privacy_filter_spent_ratio",
        "privacy_filter_exhausted",
        "privacy_odometer_epsilon",
        "privacy_guarantee",
        "privacy_analyst_spent",
    } <= wary


def test_an_odometer_may_stand_above_the_budget_of_a_healthy_filter(
    file: Path, clock: TestClock
) -> None:
    """What the page says of odometers happens: every request admitted, reading > epsilon."""
    with LocalServer(file, clock) as server:
        server.open("adult", filter="zcdp_tight", delta="1e-6")
        for _ in range(40):
            claim = {"type": "zcdp", "rho": "0.0004"}
            server.ask(dataset="adult", claim=claim)
        ratio = server.metric('privacy_filter_spent_ratio{dataset="adult"}')
        reading = server.metric(
            'privacy_odometer_epsilon{dataset="adult",odometer="one_sided_mixture"}'
        )
        promised = server.metric('privacy_guarantee{dataset="adult",parameter="epsilon"}')
    assert float(ratio or "nan") <= 1
    assert float(reading or "nan") > float(promised or "nan")


def test_the_example_reading_on_the_page_equals_that_of_the_odometer() -> None:
    plan = open_plan(resolve(Policy(epsilon="1", delta="1e-6")))
    full = dict.fromkeys(plan.sums, 0) | {
        "rho": plan.capacity[0],
        "loss_time": 2 * plan.capacity[0],
    }
    (reading,) = plan.readings(tuple(full[name] for name in plan.sums))
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert f"tuning it reads {reading:.2f} at the end of a budget of 1, at delta 1e-6" in text
