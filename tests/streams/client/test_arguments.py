"""Calls accept numbers of many types if they are exact; notebooks show the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from accountant.errors import RequestInvalid
from streams.client import Accountant, AsyncAccountant, UnknownDataset
from tests.every_case import check_each
from tests.streams.clock import TestClock
from tests.streams.gateway.records import new_id

OWNER = "owner@lab"


@pytest.fixture
def ledger(file: Path, clock: TestClock) -> Iterator[Accountant]:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana@lab:3") as client:
        client.as_owner(OWNER).open("schema:t", {"filter": "basic", "epsilon": 1}, as_given=True)
        yield client


def test_exact_numbers_are_accepted(ledger: Accountant, clock: TestClock) -> None:
    for epsilon in (0.125, Decimal("0.1"), Fraction(1, 8), np.float64(0.25), "0.01", np.int64(0)):
        assert ledger.ask("schema:t", {"type": "pure", "epsilon": epsilon}).granted
    view = ledger.dataset("schema:t")
    assert view is not None
    assert view.totals["epsilon"] == "0.61"
    mine = UUID(new_id(clock))
    assert ledger.ask("schema:t", "pure:0.01", request_id=mine).request_id == str(mine)
    assert (
        ledger.as_owner(OWNER).amend("schema:t", alert_at=[0.5, Decimal("0.9")]).outcome
        == "amended"
    )
    assert ledger.as_owner(OWNER).amend("schema:t", most_per_request=0.5).outcome == "amended"


def test_a_claim_before_the_dataset_is_noticed(ledger: Accountant) -> None:
    with pytest.raises(RequestInvalid, match=r"not a claim, got pure.*: put the dataset first"):
        ledger.ask("pure:0.1", "schema:t")


def test_an_inexact_float_is_refused_with_the_text_to_write(
    ledger: Accountant,
) -> None:
    with pytest.raises(RequestInvalid, match=r'write "0\.1"'):
        ledger.ask("schema:t", {"type": "pure", "epsilon": 0.1})
    with pytest.raises(RequestInvalid, match=r'write "0\.1"'):
        ledger.as_owner("owner").open("other", {"filter": "basic", "epsilon": 0.1}, as_given=True)
    with pytest.raises(RequestInvalid, match="request_id"):
        ledger.ask("schema:t", "pure:0.1", request_id=UUID(int=4))


def test_a_notebook_shows_tables(ledger: Accountant) -> None:
    shown = ledger.ask("schema:t", "pure:0.1")._repr_html_()
    assert "<table" in shown
    assert "granted" in shown
    assert "schema:t" in ledger._repr_html_()
    ledger.close()
    assert "not connected" in ledger._repr_html_()


WAITING: dict[str, Callable[[Any, Any], Any]] = {
    "ask": lambda led, wait: led.ask("schema:t", "pure:0.01", wait=wait),
    "grant": lambda led, wait: led.grant("schema:t", "pure:0.01", wait=wait),
    "release": lambda led, wait: led.release("schema:t", "pure:0.01", lambda: 7, wait=wait),
    "cost": lambda led, wait: led.cost("schema:t", "pure:0.01", wait=wait),
    "submit": lambda led, wait: led.submit(b"{}", wait=wait),
    "open": lambda led, wait: led.as_owner(OWNER, wait=wait).open(
        "other", {"filter": "basic", "epsilon": 1}
    ),
    "amend": lambda led, wait: led.as_owner(OWNER, wait=wait).amend("schema:t", horizon="P9D"),
    "close": lambda led, wait: led.as_owner(OWNER, wait=wait).close("schema:t"),
    "pause": lambda led, wait: led.as_owner(OWNER, wait=wait).pause("schema:t"),
    "resume": lambda led, wait: led.as_owner(OWNER, wait=wait).resume("schema:t"),
    "set_member": lambda led, wait: led.as_owner(OWNER, wait=wait).set_member(
        "schema:t", "ana", roles=["analyst"]
    ),
    "remove_member": lambda led, wait: led.as_owner(OWNER, wait=wait).remove_member(
        "schema:t", "ana"
    ),
    "set_limit": lambda led, wait: led.as_owner(OWNER, wait=wait).set_limit(
        "schema:t", "analyst", "ana", part="0.5"
    ),
    "Accountant": lambda led, wait: Accountant(led.url, wait=wait),
    "AsyncAccountant": lambda led, wait: AsyncAccountant(led.url, wait=wait),
}


def test_an_invalid_wait_is_refused_before_anything_is_sent(ledger: Accountant) -> None:
    def check_case(call: str) -> None:
        before = ledger.dataset("schema:t")
        waits = (
            math.nan,
            math.inf,
            -1,
            -0.5,
            True,
            "5",
            None,
            Decimal(-1),
            Decimal("sNaN"),
            10**400,
        )
        for wait in waits:
            with pytest.raises(RequestInvalid, match="wait must be a number of seconds") as raised:
                WAITING[call](ledger, wait)
            assert raised.value.field == "wait"
        assert ledger.dataset("schema:t") == before
        with pytest.raises(UnknownDataset):
            ledger.dataset("other")

    check_each(check_case, WAITING)


async def test_the_async_client_rejects_an_invalid_wait_before_the_await(
    ledger: Accountant,
) -> None:
    async with AsyncAccountant(ledger.url, clock=ledger.clock, analyst="ana@lab:3") as awaited:
        for call in ("ask", "grant", "cost", "submit", "open", "amend"):
            with pytest.raises(RequestInvalid, match="got nan"):
                WAITING[call](awaited, math.nan)
        with pytest.raises(RequestInvalid, match="got nan"):
            await WAITING["release"](awaited, math.nan)


def test_any_number_of_seconds_is_a_wait(ledger: Accountant) -> None:
    for wait in (0, 5, 0.5, np.float32(2), np.int64(3), Decimal("1.5"), Fraction(3, 2)):
        assert ledger.ask("schema:t", "pure:0.01", wait=wait).granted  # type: ignore[arg-type]
