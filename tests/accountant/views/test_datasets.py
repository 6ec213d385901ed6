"""Views show what the ledger holds, and heal when decisions are lost or come twice."""

from __future__ import annotations

from fractions import Fraction

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.ledger.snapshots import snapshot
from accountant.partition.key_hash import partition_of
from accountant.records import Decision, encode
from accountant.records.outcomes import Outcome
from accountant.views.datasets import (
    UNKNOWN,
    DatasetView,
    alerts,
    decode_dataset_view,
    fold_decision,
    fold_snapshot,
    view_of_snapshot,
)
from tests.accountant.histories import worlds
from tests.accountant.world import World, opened
from tests.nightly import examples

BASIC = {"filter": "basic", "epsilon": "1", "delta": "0"}


def folded(decisions: list[Decision], dataset: str = "census") -> DatasetView | None:
    view = None
    for decision in decisions:
        if decision.dataset == dataset:
            view = fold_decision(view, decision)
    return view


def comparable(view: DatasetView) -> DatasetView:
    """Return a view without what only the reading of decisions can tell."""
    return msgspec.structs.replace(
        view, partition_sequence=UNKNOWN, outcomes={}, reasons={}, last_decided_at=""
    )


def test_a_budget_that_was_lowered_is_the_one_shown() -> None:
    world = World()
    world.open(**BASIC, alert_at=("0.5",))
    assert world.amend(policy={**BASIC, "epsilon": "0.5", "alert_at": ("0.5",)}).budget
    assert world.ask("pure:0.3").crossed == ("0.5",)
    view = folded(world.decisions)
    assert view is not None
    assert view.budget["epsilon"] == "0.5"
    assert view.crossed == ("0.5",)
    assert comparable(view) == comparable(view_of_snapshot(snapshot(world.ledger())))


@settings(max_examples=examples(100), deadline=None)
@given(worlds())
def test_decisions_snapshots_and_repeated_decisions_show_the_same(
    history: tuple[World, list[bytes]],
) -> None:
    world, _ = history
    world.commit()
    for dataset, ledger in world.state.ledgers.items():
        view = folded(world.decisions, dataset)
        assert view is not None
        assert comparable(view) == comparable(view_of_snapshot(snapshot(ledger)))
        assert decode_dataset_view(encode(view)) == view
        # Each decision twice, and old ones again at the end.
        twice = [decision for decision in world.decisions for _ in range(2)]
        assert folded(twice + world.decisions, dataset) == view


@settings(max_examples=examples(100), deadline=None)
@given(worlds(), st.sets(st.integers(2, 50)))
def test_a_view_that_lost_decisions_is_right_again_after_the_next_grant(
    history: tuple[World, list[bytes]], lost: set[int]
) -> None:
    world, _ = history
    world.ask("pure:0", unit="person")
    kept = [d for i, d in enumerate(world.decisions[:-1]) if i not in lost]
    view = folded([*kept, world.decisions[-1]])
    due = folded(world.decisions)
    assert view is not None
    assert due is not None
    if world.decisions[-1].outcome is Outcome.GRANTED:
        for field in ("sequence", "totals", "left", "spent_ratio", "odometers"):
            assert getattr(view, field) == getattr(due, field)


def test_a_view_begins_with_an_opening_or_a_snapshot() -> None:
    world = opened(**BASIC)
    world.ask("pure:0.5")
    assert folded(world.decisions[2:]) is None
    view = view_of_snapshot(snapshot(world.ledger()))
    assert (view.sequence, view.partition_sequence, view.outcomes) == (2, UNKNOWN, {})
    later = fold_decision(view, world.ask("pure:0.1"))
    assert later is not None
    assert (later.totals["epsilon"], later.outcomes) == ("0.6", {"granted": 1})


def test_a_snapshot_repairs_a_view_and_preserves_its_counts() -> None:
    world = opened(**BASIC)
    world.ask("pure:0.5")
    view = folded(world.decisions)
    old = snapshot(world.ledger())
    world.ask("pure:0.48")
    world.ask("pure:0.5")  # exhausted, within 5 % of the end
    healed = fold_snapshot(view, snapshot(world.ledger()))
    assert (healed.exhausted, healed.crossed) == (True, ("0.5", "0.8", "0.95", "1"))
    assert healed.outcomes == {"opened": 1, "granted": 1}
    assert fold_snapshot(healed, old) is healed
    assert fold_snapshot(None, old) == view_of_snapshot(old)


def test_a_view_shows_the_policy_budget_totals_and_outcomes() -> None:
    world = opened(**BASIC, horizon="P30D")
    world.ask("pure:0.25")
    body = world.request("zcdp:1")
    world.send("requests", body)
    world.send("requests", body)
    view = folded(world.decisions)
    assert view is not None
    assert (view.policy.filter, view.policy.epsilon, view.policy.delta) == ("basic", "1", "0")
    assert Fraction(view.spent_ratio) >= Fraction(1, 4)
    assert view.spent_ratio - 0.25 < 1e-15
    assert view.budget == {"epsilon": "1", "delta": "0"}
    assert view.totals["epsilon"] == "0.25"
    assert view.left["epsilon"] == "0.75"
    assert view.outcomes == {"opened": 1, "granted": 1, "refused": 1, "repeated": 1}
    assert view.reasons == {"claim_not_accepted": 1}
    assert view.opened_at == "2026-11-21T10:00:00.000Z"
    assert view.horizon_ends_at == "2026-12-21T10:00:00.000Z"
    world.amend(horizon="P1D", alert_at=["0.2"])
    world.close()
    view = folded(world.decisions)
    assert view is not None
    assert (view.horizon_ends_at, view.crossed) == ("2026-11-22T10:00:00.000Z", ("0.2",))
    assert view.closed


def test_a_decision_of_a_wrong_partition_changes_no_view() -> None:
    world = opened(**BASIC)
    view = folded(world.decisions)
    lost = World(partitions=3, partition=(partition_of(b"census", 3) + 1) % 3)
    wrong = lost.ask()
    assert wrong.dataset == "census"
    assert fold_decision(view, wrong) is view


def test_alerts_have_stable_ids_and_come_once_each() -> None:
    world = opened(**BASIC)
    sent: list[str] = []
    view = folded(world.decisions)
    assert view is not None
    for claim in ("pure:0.5", "pure:0.1", "pure:0.36", "pure:0.9"):
        after = fold_decision(view, world.ask(claim))
        assert after is not None
        sent += [alert.alert_id for alert in alerts(view, after)]
        view = after
    assert sent == ["census/1/0.5", "census/1/0.8", "census/1/0.95", "census/1/1"]
    # After a start there is only the snapshot: all are sent again, under the same ids.
    again = alerts(None, view_of_snapshot(snapshot(world.ledger())))
    assert [alert.alert_id for alert in again] == sent
    assert msgspec.json.decode(encode(again[0]), type=type(again[0])) == again[0]
    assert alerts(view, view) == ()
