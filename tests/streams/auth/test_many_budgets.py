"""The budgets of one analyst on very many datasets keep nobody else waiting."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streams.auth.principal import Principal
from streams.gateway import budgets


class _Service:
    """As many datasets as may be, each open to anyone; which of them was asked for at last."""

    at = 0

    async def datasets(self) -> list[Any]:
        policy = SimpleNamespace(access="anyone")
        fields = {"policy": policy, "closed": False}
        return [SimpleNamespace(dataset=str(number), **fields) for number in range(1_000)]

    async def budget_for(self, dataset: str, _analyst: str) -> str:
        self.at = int(dataset)
        return dataset


def test_budgets_on_1000_datasets_do_not_block_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    service, caller = _Service(), Principal("ana", "token", administrator=False)
    monkeypatch.setattr(budgets, "principal_of", lambda _: caller)
    monkeypatch.setattr(budgets, "context_of", lambda _: SimpleNamespace(service=service))
    monkeypatch.setattr(budgets, "visibility_of", lambda _: SimpleNamespace(asks=lambda _: True))
    positions = set[int]()

    async def look() -> None:
        while True:
            positions.add(service.at)
            await asyncio.sleep(0)

    async def ask() -> list[Any]:
        other = asyncio.ensure_future(look())
        found: list[Any] = await budgets.own_budgets(cast("Any", None))
        other.cancel()
        return found

    assert len(asyncio.run(ask())) == 1_000
    assert max(b - a for a, b in zip(sorted(positions), sorted(positions)[1:], strict=False)) <= 50
