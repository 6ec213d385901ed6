"""Many datasets with their ids and the chain: the decision on an input record."""

from __future__ import annotations

from accountant.partition.partition import NO_PREVIOUS, Partition, hash_of

__all__ = ["NO_PREVIOUS", "Partition", "hash_of"]
