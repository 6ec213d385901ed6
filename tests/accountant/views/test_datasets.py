"""Views show what the ledger has."""

from __future__ import annotations

from fractions import Fraction

import msgspec
from hypothesis import given, settings

from accountant.ledger.snapshots import ledger_of_row, snapshot
from accountant.records import encode
from accountant.views.datasets import DatasetView, alerts, decode_dataset_view, view_of_ledger
from tests.accountant.histories import worlds
from tests.accountant.world import World, opened
from tests.nightly import examples

BASIC = {"filter": "basic", "epsilon": "1", "delta": "0"}


def shown(world: World) -> DatasetView:
    return view_of_ledger(world.ledger())


@settings(max_examples=examples(100), deadline=None)
@given(worlds())
def test_a_ledger_and_its_row_show_the_same(history: tuple[World, list[bytes]]) -> None:
    world, _ = history
    world.commit()
    for ledger in world.state.ledgers.values():
        view = view_of_ledger(ledger)
        assert view == view_of_ledger(ledger_of_row(snapshot(ledger)))
        assert decode_dataset_view(encode(view)) == view


def test_a_budget_that_was_lowered_is_the_one_shown() -> None:
    world = World()
    world.open(**BASIC, alert_at=("0.5",))
    assert world.amend(policy={**BASIC, "epsilon": "0.5", "alert_at": ("0.5",)}).budget
    assert world.ask("pure:0.3").crossed == ("0.5",)
    view = shown(world)
    assert view.budget["epsilon"] == "0.5"
    assert view.crossed == ("0.5",)


def test_a_view_shows_the_policy_budget_totals_and_outcomes() -> None:
    world = opened(**BASIC, horizon="P30D")
    world.ask("pure:0.25")
    world.ask("zcdp:1")
    view = shown(world)
    assert (view.policy.filter, view.policy.epsilon, view.policy.delta) == ("basic", "1", "0")
    assert Fraction(view.spent_ratio) >= Fraction(1, 4)
    assert view.spent_ratio - 0.25 < 1e-15
    assert view.budget == {"epsilon": "1", "delta": "0"}
    assert view.totals["epsilon"] == "0.25"
    assert view.left["epsilon"] == "0.75"
    assert view.opened_at == "2026-11-21T10:00:00.000Z"
    assert view.horizon_ends_at == "2026-12-21T10:00:00.000Z"
    world.amend(horizon="P1D", alert_at=["0.2"])
    world.close()
    view = shown(world)
    assert (view.horizon_ends_at, view.crossed) == ("2026-11-22T10:00:00.000Z", ("0.2",))
    assert view.closed


def test_alerts_have_stable_ids_and_come_once_each() -> None:
    world = opened(**BASIC)
    sent: list[str] = []
    view = shown(world)
    for claim in ("pure:0.5", "pure:0.1", "pure:0.36", "pure:0.9"):
        world.ask(claim)
        after = shown(world)
        sent += [alert.alert_id for alert in alerts(view, after)]
        view = after
    assert sent == ["census/1/0.5", "census/1/0.8", "census/1/0.95", "census/1/1"]
    # After a start all are sent again, under the same ids.
    again = alerts(None, view)
    assert [alert.alert_id for alert in again] == sent
    assert msgspec.json.decode(encode(again[0]), type=type(again[0])) == again[0]
    assert alerts(view, view) == ()
