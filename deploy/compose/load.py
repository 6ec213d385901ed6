"""A week of five analysts' requests in some minutes, so that budgets run out while you watch.

Environment: GATEWAY, the ledger's address; LOAD_MINUTES, how long the week takes (default 10);
LOAD_REQUESTS, how many requests it has (default 400); TOKENS, a directory with NAME.token of each
owner and analyst, without which the gateway must know nobody by a token. Ends by itself. Started
again, it goes on with the same datasets, which by then have little left.
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
from streams.client import AsyncAccountant
from streams.settings import load

AT_ONCE = 4


class Party:
    """The people of the demo: who asks or opens does so by a client of their own, with their token.

    To the functions of the demo it is the ledger: it has the methods that they use of one.
    """

    def __init__(self, address: str, tokens: Path | None) -> None:
        self._address = address
        self._tokens = tokens
        self._clients: dict[str, AsyncAccountant] = {}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> AsyncAccountant:
        return cast(AsyncAccountant, self)

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _as(self, name: str) -> AsyncAccountant:
        who = name if self._tokens is not None else ""
        if who not in self._clients:
            given: dict[str, Any] = {"url": self._address}
            if self._tokens is not None:
                given["token_file"] = self._tokens / f"{name}.token"
            client = AsyncAccountant(settings=load(**given))
            self._clients[who] = await self._open.enter_async_context(client)
        return self._clients[who]

    async def open(self, *dataset: Any, by: str, **more: Any) -> Any:
        """Open a dataset as its owner."""
        return await (await self._as(by)).open(*dataset, by=by, **more)

    async def set_member(self, *member: Any, by: str, **more: Any) -> Any:
        """Say who may ask, as an owner."""
        return await (await self._as(by)).set_member(*member, by=by, **more)

    async def set_limit(self, *limit: Any, by: str, **more: Any) -> Any:
        """Divide a budget, as an owner."""
        return await (await self._as(by)).set_limit(*limit, by=by, **more)

    async def ask(self, *request: Any, analyst: str, **more: Any) -> Any:
        """Ask as an analyst."""
        return await (await self._as(analyst)).ask(*request, analyst=analyst, **more)

    async def datasets(self, name: str) -> Any:
        """Return the datasets that somebody sees."""
        return await (await self._as(name)).datasets()


async def main() -> None:
    """Open and divide the datasets, then ask at an even pace, and say what came of it."""
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
            # Of a dataset that was open before, the second opening is refused: as it should be.
            print(f"{decision.dataset}: {decision.reason or decision.outcome}", flush=True)
            if decision.outcome is Outcome.OPENED:
                said = await divide(ledger, opening, "")
                told = Counter(str(each.reason or each.outcome) for each in said)
                print(f"{decision.dataset}: {dict(told)}", flush=True)
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
