"""Decisions: how many of which kind."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from streams.metrics.snapshot import MetricsSnapshot
from streams.metrics.text_families import Rendered


def request_families(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """Return the counts of decisions by dataset, outcome and reason."""
    yield Rendered(
        "privacy_requests",
        "Decisions by outcome and reason; without a dataset where it was never opened.",
        "counter",
        [_line(*key, count) for key, count in snapshot.requests.items()],
    )


def _line(dataset: str, outcome: str, reason: str, count: int) -> str:
    # Names of datasets, outcomes and reasons need no escapes.
    labels = f'dataset="{dataset}",outcome="{outcome}",reason="{reason}"'
    return f"privacy_requests_total{{{labels}}} {count}.0\n"
