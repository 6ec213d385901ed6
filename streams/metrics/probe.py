"""Metrics that need no token: whether this process is ready, and can check tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily


def probe_families(*, ready: bool, unavailable: Mapping[str, bool]) -> Iterator[Metric]:
    """Return the families of /healthz/metrics.

    Args:
        ready: whether /readyz answers 200.
        unavailable: by method of authentication, whether its tokens cannot be checked now.
    """
    yield GaugeMetricFamily("privacy_probe_ready", "1 while /readyz answers 200.", value=ready)
    away = GaugeMetricFamily(
        "privacy_probe_authentication_away",
        "1 while tokens of this method cannot be checked.",
        labels=["method"],
    )
    for method, is_away in sorted(unavailable.items()):
        away.add_metric([method], is_away)
    yield away
