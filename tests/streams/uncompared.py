"""Replaces the comparison with checkpoints where a test writes to a stopped ledger."""

from __future__ import annotations

from accountant.partition import Partition


async def uncompared(_partition: Partition) -> None:
    """Compare nothing."""
