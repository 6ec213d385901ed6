"""Every collector of a process in one registry, and its text."""

from __future__ import annotations

import platform
from importlib import metadata

from prometheus_client import CollectorRegistry, Info, ProcessCollector
from prometheus_client.exposition import choose_encoder

from accountant.records import RULES
from streams.metrics.datasets import DatasetCollector
from streams.metrics.partitions import PartitionCollector
from streams.metrics.requests import RequestCollector
from streams.metrics.source import MetricsSource


def make_registry(source: MetricsSource | None) -> CollectorRegistry:
    """Return a registry that reads `source` at each scrape, None for a process without one."""
    registry = CollectorRegistry(auto_describe=False)
    if source is not None:
        registry.register(DatasetCollector(source))
        registry.register(PartitionCollector(source))
        registry.register(RequestCollector(source))
    ProcessCollector(registry=registry)
    build = Info("privacy_accountant_build", "What is running.", registry=registry)
    build.info({"version": version(), "rules": str(RULES), "python": platform.python_version()})
    return registry


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return (text, content type) in the format that a scraper accepts best."""
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


def version() -> str:
    """Return the version of this distribution."""
    try:
        return metadata.version("streaming-privacy-accountant")
    except metadata.PackageNotFoundError:
        return "unknown"
