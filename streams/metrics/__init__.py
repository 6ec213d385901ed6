"""What Prometheus reads: collectors over snapshots, one topic a file."""

from __future__ import annotations

from streams.metrics.registry import make_registry
from streams.metrics.snapshot import MetricsSource

__all__ = ["MetricsSource", "make_registry"]
