"""A week of five analysts' requests in some minutes, so that budgets run out while you watch.

Environment: GATEWAY, the ledger's address; LOAD_MINUTES, how long the week takes (default 10);
LOAD_REQUESTS, how many requests it has (default 400). Ends by itself. Started again, it goes on
with the same datasets, which by then have little left.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from itertools import islice

from streams.cli.demo import week
from streams.cli.demo.replay import open_datasets, replay
from streams.client import AsyncAccountant

AT_ONCE = 4


async def main() -> None:
    """Open the datasets, then ask at an even pace, and say what came of it."""
    minutes = float(os.environ.get("LOAD_MINUTES", "10"))
    asks = week(int(os.environ.get("LOAD_REQUESTS", "400")))
    pause = minutes * 60 / len(asks)
    outcomes: Counter[str] = Counter()
    async with AsyncAccountant(os.environ.get("GATEWAY", "http://gateway:8000")) as ledger:
        for decision in await open_datasets(ledger, ""):
            # Of a dataset that was open before, the second opening is refused: as it should be.
            print(f"{decision.dataset}: {decision.reason or decision.outcome}", flush=True)
        rest = iter(asks)
        while some := list(islice(rest, AT_ONCE)):
            async for batch in replay(ledger, some, ""):
                for _, decision in batch:
                    outcomes[str(decision.reason or decision.outcome)] += 1
            print(dict(outcomes), flush=True)
            await asyncio.sleep(pause * len(some))
        for view in await ledger.datasets():
            state = "exhausted" if view.exhausted else "open"
            print(f"{view.dataset}: {view.spent_ratio:.1%} spent, {state}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
