"""A dataset is opened under one policy; opening it again changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from accountant.filters import FILTERS
from accountant.policy import Policy
from streams.client import Accountant, AsyncAccountant, PolicyDiffers
from tests.accountant.filters.policies import POLICIES
from tests.streams.clock import TestClock

TWO: Final = {"epsilon": "1", "delta": "1e-6"}
OTHERS: Final[dict[str, Any]] = {
    "filter": "basic",
    "epsilon": "2",
    "delta": "1e-7",
    "delta_for_claims": "1e-7",
    "unit": "household",
    "neighbours": "replace",
    "odometers": [],
    "alert_at": ["0.5"],
    "horizon": "P30D",
    "halt_on_refusal": True,
    "most_per_request": "0.2",
    "beside": "none",
    "access": "members",
    "visibility": "own",
    "population": "city",
}


@pytest.fixture
def ledger(file: Path, clock: TestClock) -> Iterator[Accountant]:
    with Accountant(f"sqlite:///{file}", clock=clock) as client:
        yield client


def policy_of(ledger: Accountant, dataset: str) -> Policy:
    view = ledger.dataset(dataset)
    assert view is not None
    return view.policy


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_every_filter_opens_with_the_proposed_policy(ledger: Accountant, name: str) -> None:
    ledger.as_owner("owner").open("census", POLICIES[name])
    has = policy_of(ledger, "census")
    assert has.most_per_request == "0.1"
    assert (has.beside == "basic") is (FILTERS[name].takes_beside and has.rho is None)
    assert ledger.as_owner("owner").open("census", POLICIES[name]).reason == "already_opened"


def test_an_owner_may_decline_cap_and_basic_composition(ledger: Accountant) -> None:
    ledger.as_owner("owner").open("one", {**TWO, "most_per_request": "1", "beside": "none"})
    ledger.as_owner("owner").open("two", Policy(**TWO), as_given=True)
    one, two = policy_of(ledger, "one"), policy_of(ledger, "two")
    assert (one.most_per_request, one.beside) == ("1", two.beside)
    with pytest.raises(PolicyDiffers, match=r"most_per_request: has 1, asked 0\.1; beside: has"):
        ledger.as_owner("owner").open("two", TWO)
    ledger.as_owner("owner").amend("one", policy={**TWO, "epsilon": "0.5", "beside": "none"})
    assert policy_of(ledger, "one").most_per_request == "0.1"


@pytest.mark.parametrize("field", OTHERS)
def test_another_policy_is_refused_by_the_fields_that_differ(
    ledger: Accountant, field: str
) -> None:
    asked = {**TWO, field: OTHERS[field]}
    ledger.as_owner("owner").open("census", TWO)
    ledger.as_owner("owner").open("other", asked)
    with pytest.raises(PolicyDiffers, match=rf"\b{field}: has .*, asked ") as raised:
        ledger.as_owner("owner").open("census", asked)
    assert field in raised.value.fields
    assert raised.value.decision.reason == "already_opened"
    with pytest.raises(PolicyDiffers, match=rf"\b{field}: has "):
        ledger.as_owner("owner").open("other", TWO)
    ledger.as_owner("owner").open("census", {**TWO, "epsilon": "1.0", "visibility": "members"})


def test_the_async_client_opens_with_the_same_policy(file: Path, clock: TestClock) -> None:
    async def main() -> None:
        async with AsyncAccountant(f"sqlite:///{file}", clock=clock) as ledger:
            assert (await ledger.as_owner("owner").open("census", TWO)).outcome == "opened"
            assert (await ledger.as_owner("olga").open("census", TWO)).reason == "already_opened"
            with pytest.raises(PolicyDiffers, match="unit: has person, asked patient"):
                await ledger.as_owner("owner").open("census", {**TWO, "unit": "patient"})

    asyncio.run(main())
