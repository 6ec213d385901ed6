"""An index of a ledger's decisions: usage by analyst, and the position of each decision.

A background task adds decisions to it, so it may lag behind the log.
"""

from streams.index.indexer import Indexer
from streams.index.reader import IndexState, UsageReader, index_path
from streams.index.rows import most_apart
from streams.index.usage_index import UsageIndex

__all__ = [
    "IndexState",
    "Indexer",
    "UsageIndex",
    "UsageReader",
    "index_path",
    "most_apart",
]
