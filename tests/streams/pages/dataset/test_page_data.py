"""What the page reads, and what it leaves out where that cannot be read."""

from __future__ import annotations

import json
from typing import Any

from accountant.views.visibility import WHOLE, Caller, DatasetAccess
from streams.errors import Gone, Unavailable
from streams.pages.dataset.page_data import page_data, read_page, viewer_of
from streams.service.dataset_reads import overview_of, recent_requests
from streams.service.visibility import Visibility
from tests.streams.pages.dataset.pages_server import PagesServer
from tests.streams.pages.dataset.view_examples import NOW


class ServiceWithLateIndex:
    """A real ledger whose index is behind, so that nobody reads decisions or usage."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    async def sums(self, dataset: str, **_: object) -> Any:
        raise Unavailable(f"the index of {dataset} is behind")

    async def decisions(self, dataset: str, **_: int) -> Any:
        raise Unavailable(f"the index of {dataset} is behind")


class ServiceWithArchive:
    """A ledger whose decisions up to number 5 are in an archive."""

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        raise Gone(f"read {dataset} on from 5", after=5)


def caller(name: str) -> Caller:
    return Caller(name, is_administrator=name == "root")


class CallRecorder:
    """A real ledger that counts the calls of a page."""

    def __init__(self, service: Any) -> None:
        self._service = service
        self.calls = list[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._service, name)


async def test_a_page_makes_one_call_to_the_service(shared_pages: PagesServer) -> None:
    service: Any = CallRecorder(shared_pages.service)
    seen = Visibility(service, shared_pages.clock, caller("root"))
    assert await read_page(seen, "survey", NOW) is not None
    # Who looks is in this process's memory.
    assert [name for name in service.calls if name not in {"member", "decided_at"}] == ["overview"]


async def test_a_page_with_a_late_index_omits_only_requests_and_usage(
    shared_pages: PagesServer,
) -> None:
    behind: Any = ServiceWithLateIndex(shared_pages.service)
    overview = await overview_of(behind, "survey", caller("root"), shared_pages.clock)
    assert overview is not None
    seen = Visibility(behind, shared_pages.clock, caller("root"))
    found = page_data(overview, viewer_of(seen, overview.dataset, WHOLE), NOW)
    assert found.usage.trouble == "the index of survey is behind"
    assert found.recent.trouble == "the index of survey is behind"
    assert not found.recent.decisions
    assert [level.name for level in found.levels] == ["blue", "red", "red"]
    assert len(found.members) == 7


async def test_a_page_reports_archived_requests() -> None:
    found = await recent_requests(ServiceWithArchive(), "survey", WHOLE, 5)  # type: ignore[arg-type]
    assert found.archived
    assert not found.is_whole


async def test_recent_requests_are_newest_first_up_to_the_limit(shared_pages: PagesServer) -> None:
    view = await shared_pages.service.dataset("survey")
    assert view is not None
    whole = await recent_requests(shared_pages.service, "survey", WHOLE, view.sequence)
    numbers = [json.loads(bytes(each))["sequence"] for each in whole.decisions]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 11
    assert whole.is_whole
    few = await recent_requests(shared_pages.service, "survey", WHOLE, view.sequence, limit=3)
    assert [json.loads(bytes(each))["sequence"] for each in few.decisions] == numbers[:3]
    alone = DatasetAccess("otto", sees_all=False, sees_requests=True)
    own = await recent_requests(shared_pages.service, "survey", alone, view.sequence)
    assert len(own.decisions) == 2


async def test_the_page_data_of_an_analyst_has_no_requests_of_others(
    shared_pages: PagesServer,
) -> None:
    ana, opie = [
        Visibility(shared_pages.service, shared_pages.clock, caller(name))
        for name in ("ana", "opie")
    ]
    found = await read_page(ana, "survey", NOW)
    assert found is not None
    assert found.usage.analysts is None
    assert found.usage.refused == ()
    assert {row.whose for row in found.usage.forecasts} == {"you"}
    assert found.levels == ()
    assert [member.member for member in found.members] == ["ana"]
    assert found.budget is not None
    assert found.budget.analyst == "ana"
    assert await read_page(opie, "survey", NOW) is None
    assert await read_page(opie, "nowhere", NOW) is None
