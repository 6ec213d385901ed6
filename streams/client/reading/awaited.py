"""What the client that is awaited reads of a ledger."""

from __future__ import annotations

from accountant.errors import RequestInvalid
from accountant.records.given import given_text, optional_text
from accountant.records.members import Member
from accountant.records.served import Me
from accountant.views.datasets import DatasetView
from accountant.views.heads import Head
from accountant.views.limit_views import AnalystBudget, LevelView
from accountant.views.usage import UsageView
from accountant.views.why import Why
from streams.client.http import HttpService
from streams.client.identity import me_of, own_name
from streams.client.methods import ANALYST, own_analyst
from streams.client.reply import must_be_awaited
from streams.errors import NotPermitted
from streams.service import Service


class AwaitedReads:
    """The reading half of `AsyncAccountant`.

    Attributes:
        analyst: who asks, where a call does not say so.
    """

    analyst: str | None

    async def _reached(self, *, make: bool = False) -> Service:
        raise NotImplementedError

    @must_be_awaited
    async def datasets(self) -> list[DatasetView]:
        """Return every dataset, by name."""
        return await (await self._reached()).datasets()

    @must_be_awaited
    async def ordered_before(self) -> int | None:
        """As `Service.ordered_before`."""
        return (await self._reached()).ordered_before()

    @must_be_awaited
    async def dataset(self, name: str) -> DatasetView | None:
        """Return one dataset, None if it was never opened."""
        return await (await self._reached()).dataset(given_text("name", name))

    @must_be_awaited
    async def members(self, dataset: str) -> list[Member]:
        """As `Accountant.members`."""
        return await (await self._reached()).members(given_text("dataset", dataset))

    @must_be_awaited
    async def limits(self, dataset: str) -> list[LevelView]:
        """As `Accountant.limits`."""
        return await (await self._reached()).levels(given_text("dataset", dataset))

    @must_be_awaited
    async def budget(self, dataset: str, analyst: str | None = None) -> AnalystBudget:
        """As `Accountant.budget`."""
        dataset = given_text("dataset", dataset)
        who = optional_text("analyst", analyst) or self.named()
        service = await self._reached()
        if who is None and isinstance(service, HttpService):
            who = await own_name(service, "analyst")
        if who is None:
            raise _nobody()
        found = await service.budget_for(dataset, who)
        if found is None:
            raise RequestInvalid("dataset", "must have been opened", dataset)
        return found

    @must_be_awaited
    async def budgets(self, analyst: str | None = None) -> list[AnalystBudget]:
        """As `Accountant.budgets`."""
        who = optional_text("analyst", analyst) or self.named()
        service = await self._reached()
        if isinstance(service, HttpService) and who in {None, await service.own_name()}:
            await own_name(service, "analyst")  # a door that knows nobody would have none for them
            return await service.own_budgets()
        if who is None:
            raise _nobody()
        views = await service.datasets()
        found, refused = [], None
        for view in views:
            try:
                if not view.closed:
                    found.append(await service.budget_for(view.dataset, who))
            except NotPermitted as error:  # a dataset of which a door does not show them all
                refused = error
        if refused is not None and not found:
            raise refused
        return [budget for budget in found if budget is not None]

    @must_be_awaited
    async def me(self) -> Me:
        """As `Accountant.me`."""
        return await me_of(await self._reached())

    @must_be_awaited
    async def usage(self, dataset: str) -> list[UsageView]:
        """Return who used a dataset, by analyst, since its log began.

        Raises: Unavailable: the index of usage is still behind; ask again.
        """
        return await (await self._reached()).usage(given_text("dataset", dataset))

    @must_be_awaited
    async def why(self, dataset: str, *, analyst: str | None = None) -> Why | None:
        """As `Accountant.why`."""
        dataset, analyst = given_text("dataset", dataset), optional_text("analyst", analyst)
        return await (await self._reached()).why(dataset, analyst=analyst)

    @must_be_awaited
    async def heads(self) -> list[Head]:
        """As `Accountant.heads`."""
        return await (await self._reached()).heads()

    def named(self) -> str | None:
        """Return who asks by the client's own word, None if only its token says so."""
        return own_analyst(self.analyst)


def _nobody() -> RequestInvalid:
    return RequestInvalid("analyst", f"must be given, or be set as {ANALYST}", None)
