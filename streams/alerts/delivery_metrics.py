"""Metrics of the delivery of alerts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from prometheus_client.core import Metric

To = Literal["topic", "webhook"]
Outcome = Literal["delivered", "failed", "given_up"]

_TO: Final[tuple[To, ...]] = ("topic", "webhook")
_OUTCOMES: Final[tuple[Outcome, ...]] = ("delivered", "failed", "given_up")


class AlertDeliveryMetrics:
    """Counts deliveries of this process. One thread writes each kind; any may read.

    Attributes:
        waiting: by destination: returns the number of undelivered alerts, called at each scrape.
    """

    def __init__(self) -> None:
        # Include zeros: a series that starts at 1 has not increased, and would raise no alert.
        self._counts: dict[tuple[To, Outcome], int] = {
            (to, outcome): 0 for to in _TO for outcome in _OUTCOMES
        }
        self.waiting: dict[To, Callable[[], int]] = dict.fromkeys(_TO, lambda: 0)

    def add(self, to: To, outcome: Outcome, count: int = 1) -> None:
        """Count an outcome."""
        self._counts[to, outcome] += count

    def of(self, to: To, outcome: Outcome) -> int:
        """Return how often an outcome occurred."""
        return self._counts[to, outcome]

    def collect(self) -> Iterator[Metric]:
        """Return the counts as metrics."""
        # Imported late, here and in other modules of a ledger's file: a client makes no metrics.
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        deliveries = CounterMetricFamily(
            "privacy_alert_deliveries",
            "Attempts to deliver an alert, by outcome.",
            labels=["to", "outcome"],
        )
        for (to, outcome), count in self._counts.items():
            deliveries.add_metric([to, outcome], count)
        waiting = GaugeMetricFamily(
            "privacy_alerts_waiting", "Alerts that wait for delivery.", labels=["to"]
        )
        for to in _TO:
            waiting.add_metric([to], self.waiting[to]())
        yield from (deliveries, waiting)
