"""Prometheus metrics: collectors over snapshots, one subject a file."""

from __future__ import annotations

from streams.metrics.registry import make_registry
from streams.metrics.snapshot import MetricsSource

__all__ = ["MetricsSource", "make_registry"]
