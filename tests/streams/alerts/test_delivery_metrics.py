from __future__ import annotations

from pathlib import Path

from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.metrics.registry import exposition, make_registry

OPENS = ("docs/reference/metrics/*",)

ROOT = Path(__file__).parents[3]


def test_every_metric_of_alerts_is_described() -> None:
    pages = (ROOT / "docs" / "reference" / "metrics").glob("*.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    families = list(AlertDeliveryMetrics().collect())
    assert len(families) == 2
    for family in families:
        suffix = "_total" if family.type == "counter" else ""
        assert f"`{family.name}{suffix}`" in text


def test_series_start_at_zero_so_that_the_first_loss_is_an_increase() -> None:
    counts = AlertDeliveryMetrics()
    before, _ = exposition(make_registry(None, counts), "")
    counts.add("webhook", "given_up")
    after, _ = exposition(make_registry(None, counts), "")
    line = 'privacy_alert_deliveries_total{outcome="given_up",to="webhook"}'
    assert f"{line} 0.0" in before.decode()
    assert f"{line} 1.0" in after.decode()
