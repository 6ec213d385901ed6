"""An index of a ledger's decisions, kept behind them: who used what, and where each stands."""

from streams.index.follower import Follower
from streams.index.reader import IndexState, UsageReader, index_path
from streams.index.rows import most_apart
from streams.index.usage_index import Beginning, Log, Reached, UsageIndex

__all__ = [
    "Beginning",
    "Follower",
    "IndexState",
    "Log",
    "Reached",
    "UsageIndex",
    "UsageReader",
    "index_path",
    "most_apart",
]
