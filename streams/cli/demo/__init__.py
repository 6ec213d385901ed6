"""A week of five analysts' requests on three datasets, to be replayed through any ledger."""

from __future__ import annotations

from streams.cli.demo.week import DATASETS, Ask, Opening, week

__all__ = ["DATASETS", "Ask", "Opening", "week"]
