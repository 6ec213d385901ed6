"""Datasets behind a door, or on Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accountant.advice.preview import Preview
from accountant.records.members import Member
from accountant.records.names import is_name
from accountant.records.previews import PreviewRequest
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget, LevelView
from streams.cli.reading.views.base import Views
from streams.errors import NotPermitted, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.client import Accountant


class ClientViews(Views):
    """What a client is told.

    Args:
        client: disconnected with it.
    """

    def __init__(self, client: Accountant) -> None:
        self._client = client

    def read(self) -> list[DatasetView]:
        return self._client.datasets()

    def one(self, name: str) -> DatasetView | None:
        return self._client.dataset(name) if is_name(name) else None

    def ordered_before(self) -> int | None:
        return self._client.ordered_before()

    def members(self, name: str) -> list[Member]:
        try:
            return self._client.members(name) if is_name(name) else []
        except NotPermitted:
            return []

    def levels(self, name: str) -> list[LevelView]:
        try:
            return self._client.limits(name) if is_name(name) else []
        except NotPermitted:
            return []

    def budget(self, name: str, analyst: str | None) -> AnalystBudget | None:
        return self._client.budget(name, analyst) if is_name(name) else None

    def budgets(self, analyst: str | None) -> list[AnalystBudget]:
        return self._client.budgets(analyst)

    @property
    def knows_caller(self) -> bool:
        return self._client.shows_token

    def preview(self, view: DatasetView, asked: PreviewRequest) -> Preview:
        return self._client.cost(
            view.dataset,
            asked.claim,
            analyst=asked.analyst,
            unit=asked.unit,
            neighbours=asked.neighbours,
            via=asked.via or None,
        )

    def rollbacks(self) -> Mapping[int, int]:
        try:
            heads = self._client.heads()
        except Refused:  # a gateway of an earlier version has no /head
            return {}
        return {each.partition: each.branch for each in heads if each.branch}

    def close(self) -> None:
        self._client.disconnect()
