"""Calls take what programs hold, where that is exact; notebooks show what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from accountant.errors import RequestInvalid
from streams.client import Accountant
from tests.streams.gateway.door import TestClock, new_id

OWNER = "owner@lab"


@pytest.fixture
def ledger(file: Path, clock: TestClock) -> Iterator[Accountant]:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana@lab:3") as client:
        client.open("schema:t", {"filter": "basic", "epsilon": 1}, by=OWNER, as_given=True)
        yield client


def test_numbers_that_are_exact_are_taken(ledger: Accountant, clock: TestClock) -> None:
    for epsilon in (0.125, Decimal("0.1"), Fraction(1, 8), np.float64(0.25), "0.01", np.int64(0)):
        assert ledger.ask("schema:t", {"type": "pure", "epsilon": epsilon}).granted
    view = ledger.dataset("schema:t")
    assert view is not None
    assert view.totals["epsilon"] == "0.61"
    mine = UUID(new_id(clock))
    assert ledger.ask("schema:t", "pure:0.01", request_id=mine).request_id == str(mine)
    assert ledger.amend("schema:t", alert_at=[0.5, Decimal("0.9")], by=OWNER).outcome == "amended"
    assert ledger.amend("schema:t", most_per_request=0.5, by=OWNER).outcome == "amended"


def test_a_float_that_is_not_what_it_prints_as_is_refused_with_how_to_write_it(
    ledger: Accountant,
) -> None:
    with pytest.raises(RequestInvalid, match=r'write "0\.1"'):
        ledger.ask("schema:t", {"type": "pure", "epsilon": 0.1})
    with pytest.raises(RequestInvalid, match=r'write "0\.1"'):
        ledger.open("other", {"filter": "basic", "epsilon": 0.1}, by="owner", as_given=True)
    with pytest.raises(RequestInvalid, match="request_id"):
        ledger.ask("schema:t", "pure:0.1", request_id=UUID(int=4))


def test_a_notebook_shows_tables(ledger: Accountant) -> None:
    shown = ledger.ask("schema:t", "pure:0.1")._repr_html_()
    assert "<table" in shown
    assert "granted" in shown
    assert "schema:t" in ledger._repr_html_()
    ledger.close()
    assert "not connected" in ledger._repr_html_()
