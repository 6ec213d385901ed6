"""Amounts of the Python API are exact, and print with four digits."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accountant.advice.preview import Preview
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget
from streams.client import Accountant
from streams.replies.shown_amounts import RemainingAmounts, SpentAmounts

LONG = re.compile(r"[0-9]\.[0-9]{7,}")
EXACT = Decimal("0.0193601328637503756741")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accountant]:
    file: Path = tmp_path_factory.mktemp("amounts") / "ledger.db"
    with Accountant(f"sqlite:///{file}", analyst="ana") as made:
        owner = made.as_owner("ana")
        owner.open("census", {"epsilon": "1", "delta": "1e-6"}, as_given=True)
        owner.set_member("census", "ana", roles=("owner", "analyst"))
        owner.set_limit("census", "analyst", "ana", part="0.333")
        yield made


def test_each_amount_of_the_api_prints_short(ledger: Accountant) -> None:
    granted, refused = ledger.ask("census", "pure:0.1"), ledger.ask("census", "pure:5")
    assert (granted.left["rho"], str(granted.left)) == (EXACT, "{'rho': 0.01936, 'delta': 0}")
    shown: list[Any] = [granted.cost, refused.asked, granted, refused]
    budget, view = ledger.budget("census"), ledger.dataset("census")
    preview = ledger.cost("census", "pure:0.01")
    assert budget.left == view.left == {"rho": str(EXACT), "delta": "0"}
    assert repr(budget.left) == f"{view.left}" == "{'rho': 0.01936, 'delta': 0}"
    shown += [budget.budget, view.totals, view.odometers, preview.cost, preview.left]
    shown += [each.left for each in (*budget.levels, *ledger.limits("census"))]
    shown += [each.left for each in (*ledger.datasets(), *ledger.budgets())]
    shown += [ledger.overview("census").dataset.left, ledger.reservations("census")]
    shown += [ledger.usage("census"), ledger.usage_by("census", "purpose")]
    assert [each for each in shown if LONG.search(repr(each))] == []
    why = ledger.why("census")
    assert re.search(r"budget=0\.02435, spent=0\.00[0-9]{4}, left=0\.01[0-9]{3}, ", repr(why))
    assert LONG.search(why.left), "the text is exact"


def test_amounts_stay_exact_in_every_form(ledger: Accountant) -> None:
    ledger.ask("census", "pure:0.1")
    kinds = (ledger.dataset("census"), DatasetView), (ledger.budget("census"), AnalystBudget)
    for view, kind in (*kinds, (ledger.cost("census", "pure:0.1"), Preview)):
        assert msgspec.json.decode(msgspec.json.encode(view), type=kind) == view
        assert pickle.loads(pickle.dumps(view)) == copy.deepcopy(view) == view
    amounts = RemainingAmounts({"rho": str(EXACT)})
    assert json.loads(json.dumps(amounts)) == amounts == {"rho": str(EXACT)}


def test_costs_are_rounded_up_and_what_is_left_down() -> None:
    amounts = {"rho": "0.123411", "mechanisms": 12_345_678, "epsilon": Decimal("99.99999")}
    up = "{'rho': 0.1235, 'mechanisms': 12,345,678, 'epsilon': 100}"
    assert repr(SpentAmounts(amounts)) == up
    assert repr(RemainingAmounts({"rho": "0.12349", "delta": "0"})) == "{'rho': 0.1234, 'delta': 0}"
