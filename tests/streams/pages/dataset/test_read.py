"""What the page reads, and what it leaves out where that cannot be read."""

from __future__ import annotations

from typing import Any

from streams.auth.principal import Principal
from streams.auth.visibility import WHOLE, Sight
from streams.errors import Gone, Unavailable
from streams.http.context import Context
from streams.pages.page_data import read
from streams.pages.recent_requests import latest
from tests.streams.pages.dataset.paged_door import PagedDoor
from tests.streams.pages.dataset.shown_views import NOW


class Behind:
    """A real ledger whose index is behind, so that nobody reads decisions or usage."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    async def usage(self, dataset: str) -> Any:
        raise Unavailable(f"the index of {dataset} is behind")

    async def why(self, dataset: str, **_: object) -> Any:
        raise Unavailable(f"the index of {dataset} is behind")

    async def decisions(self, dataset: str, **_: int) -> Any:
        raise Unavailable(f"the index of {dataset} is behind")


class Archived:
    """A ledger whose decisions up to number 5 are in an archive."""

    async def decisions(self, dataset: str, *, after: int, most: int) -> list[bytes]:
        raise Gone(f"read {dataset} on from 5", after=5)


def sight(service: Any, name: str) -> Sight:
    context = Context(service, None)  # type: ignore[arg-type]
    return Sight(context, Principal(name, "token", administrator=name == "root"))


async def test_an_index_that_is_behind_leaves_out_its_part_alone(lasting: PagedDoor) -> None:
    found = await read(sight(Behind(lasting.service), "root"), "survey", NOW)
    assert found is not None
    assert found.used.trouble == "the index of survey is behind"
    assert found.latest.trouble == "the index of survey is behind"
    assert not found.latest.decisions
    assert [level.name for level in found.levels] == ["blue", "red", "red"]
    assert len(found.members) == 7


async def test_what_was_archived_is_told_as_such() -> None:
    found = await latest(Archived(), "survey", WHOLE, 5, own=None)  # type: ignore[arg-type]
    assert found.archived
    assert not found.is_whole


async def test_the_newest_come_first_and_no_more_than_wanted(lasting: PagedDoor) -> None:
    view = await lasting.service.dataset("survey")
    assert view is not None
    whole = await latest(lasting.service, "survey", WHOLE, view.sequence, own=None)
    numbers = [each.sequence for each in whole.decisions]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 11
    assert whole.is_whole
    few = await latest(lasting.service, "survey", WHOLE, view.sequence, own=None, most=3)
    assert [each.sequence for each in few.decisions] == numbers[:3]
    own = await latest(lasting.service, "survey", WHOLE, view.sequence, own="otto")
    assert len(own.decisions) == 2


async def test_of_what_others_asked_nothing_is_read(lasting: PagedDoor) -> None:
    found = await read(sight(lasting.service, "ana"), "survey", NOW)
    assert found is not None
    assert found.used.analysts is None
    assert found.used.refused == ()
    assert {row.whose for row in found.used.lasting} == {"You"}
    assert found.levels == ()
    assert [member.member for member in found.members] == ["ana"]
    assert found.budget is not None
    assert found.budget.analyst == "ana"
    assert await read(sight(lasting.service, "opie"), "survey", NOW) is None
    assert await read(sight(lasting.service, "opie"), "nowhere", NOW) is None
