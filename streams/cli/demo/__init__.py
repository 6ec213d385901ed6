"""A week of five analysts' requests on three datasets, to be replayed through any ledger."""

from __future__ import annotations

from streams.cli.demo.week import DATASETS, DemoRequest, Opening, week

__all__ = ["DATASETS", "DemoRequest", "Opening", "week"]
