"""A worker shows each dataset as its partition has it."""

from __future__ import annotations

from accountant.views.counted_decisions import runs
from streams.service.live_views import CountedDecisions, LiveViews
from streams.worker.tables import WorkerTables
from tests.accountant.views.test_datasets import BASIC
from tests.accountant.world import World, opened


class Shown:
    """The tables of a worker that decides the partition of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._taken = 0
        self.tables = WorkerTables({}, {}, CountedDecisions(), lambda _: world.state)
        ledgers = self.tables.ledgers
        self.views = LiveViews(lambda: [dict(ledgers)], ledgers.get, self.tables.counts)

    def commit(self) -> None:
        self._world.commit()
        new, self._taken = self._world.encoded[self._taken :], len(self._world.encoded)
        for dataset, run in runs(new).items():
            self.tables.take_run(0, dataset, run, own=-1)


def test_a_budget_that_was_lowered_is_the_one_shown() -> None:
    world = opened(**BASIC)
    shown = Shown(world)
    shown.commit()
    before = shown.views.dataset("census")
    assert before is not None
    assert before.budget["epsilon"] == "1"
    assert world.amend(policy={**BASIC, "epsilon": "0.5"}).budget
    shown.commit()
    after = shown.views.dataset("census")
    assert after is not None
    assert after.budget["epsilon"] == "0.5"
    assert shown.views.datasets() == {"census": after}


def test_rows_that_come_late_do_not_hide_what_was_decided_since() -> None:
    world = opened(**BASIC)
    shown = Shown(world)
    shown.commit()
    row = world.state.ledgers["census"]
    world.ask("pure:0.25")
    shown.commit()
    shown.tables.take_ledger(0, row)
    view = shown.views.dataset("census")
    assert view is not None
    assert view.totals["epsilon"] == "0.25"


def test_own_decisions_are_counted_and_those_that_were_read_are_left_to_their_reader() -> None:
    world = opened(**BASIC)
    shown = Shown(world)
    world.ask("pure:0.25", analyst="ana")
    world.ask("zcdp:1", analyst="ana")
    shown.commit()
    for dataset, run in runs(world.encoded).items():
        shown.tables.take_run(0, dataset, run, own=None)
    view = shown.views.dataset("census")
    assert view is not None
    assert view.outcomes == {"opened": 1, "granted": 1, "refused": 1}
    assert view.reasons == {"claim_not_accepted": 1}
    (use,) = shown.tables.usage["census"].values()
    assert (use.granted, use.refused) == (1, 1)


def test_a_decision_on_a_dataset_that_was_never_opened_shows_nothing() -> None:
    world = World()
    world.ask("pure:0.1", dataset="nowhere")
    shown = Shown(world)
    shown.commit()
    assert shown.views.datasets() == {}
    assert shown.tables.usage == {}
