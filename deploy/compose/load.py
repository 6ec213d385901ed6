"""A week of five analysts' requests in some minutes, so that budgets run out while you watch.

Environment: GATEWAY, the ledger's address; LOAD_MINUTES, how long the week takes (default 10);
LOAD_REQUESTS, how many requests it has (default 400); TOKENS, a directory with NAME.token of each
owner and analyst. Without TOKENS the gateway's authentication must be off. The program ends by
itself. A second run continues with the same datasets, which then have little budget left.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import AsyncExitStack
from itertools import islice
from pathlib import Path
from typing import Any, cast

from accountant.records.outcomes import Outcome
from streams.cli.demo import DATASETS, week
from streams.cli.demo.replay import divide, open_datasets, replay
from streams.client import AsyncAccountant, AsyncOwner
from streams.settings import load

AT_ONCE = 4


class Party:
    """The people of the demo: a client for each, with their token.

    It has the methods of a client that the demo's functions use, so they can use it as one.
    """

    def __init__(self, address: str, tokens: Path | None) -> None:
        self._address = address
        self._tokens = tokens
        self._clients: dict[str, AsyncAccountant] = {}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> AsyncAccountant:
        files = [] if self._tokens is None else sorted(self._tokens.glob("*.token"))
        for file in files or [None]:
            settings = {"url": self._address} | ({} if file is None else {"token_file": file})
            client = AsyncAccountant(settings=load(**settings))
            name = "" if file is None else file.stem
            self._clients[name] = await self._open.enter_async_context(client)
        return cast(AsyncAccountant, self)

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def _as(self, name: str) -> AsyncAccountant:
        return self._clients[name if self._tokens is not None else ""]

    def as_owner(self, name: str, **more: Any) -> AsyncOwner:
        """Return the calls of an owner."""
        return self._as(name).as_owner(name, **more)

    async def ask(self, *request: Any, analyst: str, **more: Any) -> Any:
        """Ask as an analyst."""
        return await self._as(analyst).ask(*request, analyst=analyst, **more)

    async def datasets(self, name: str) -> Any:
        """Return the datasets that a person may see."""
        return await self._as(name).datasets()


async def main() -> None:
    """Open the datasets and set limits, then send the requests evenly and print the outcomes."""
    minutes = float(os.environ.get("LOAD_MINUTES", "10"))
    asks = week(int(os.environ.get("LOAD_REQUESTS", "400")))
    pause = minutes * 60 / len(asks)
    outcomes: Counter[str] = Counter()
    tokens = os.environ.get("TOKENS")
    party = Party(
        os.environ.get("GATEWAY", "http://gateway:8000"), Path(tokens) if tokens else None
    )
    async with party as ledger:
        for opening, decision in zip(DATASETS, await open_datasets(ledger, ""), strict=True):
            # If the dataset is open already, its second opening is refused, as it should be.
            print(f"{decision.dataset}: {decision.reason or decision.outcome}", flush=True)
            if decision.outcome is Outcome.OPENED:
                decisions = await divide(ledger, opening, "")
                counts = Counter(str(each.reason or each.outcome) for each in decisions)
                print(f"{decision.dataset}: {dict(counts)}", flush=True)
        rest = iter(asks)
        while some := list(islice(rest, AT_ONCE)):
            async for batch in replay(ledger, some, ""):
                for _, decision in batch:
                    outcomes[str(decision.reason or decision.outcome)] += 1
            print(dict(outcomes), flush=True)
            await asyncio.sleep(pause * len(some))
        for view in await party.datasets(asks[0].analyst):
            state = "exhausted" if view.exhausted else "open"
            print(f"{view.dataset}: {view.spent_ratio:.1%} spent, {state}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
