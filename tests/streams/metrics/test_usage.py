"""Usage as an observer counts it: the limits of counted and of shown analysts."""

from __future__ import annotations

import pytest

from accountant.views.usage import MAX_ANALYSTS, OTHERS, Vacancies, views_of
from streams.metrics.live_ledgers import LiveLedgers
from streams.metrics.usage import LiveUsage
from tests.accountant.world import World
from tests.streams.clock import TestClock
from tests.streams.gateway.records import opening, request
from tests.streams.metrics.test_live_ledgers import commit, partition
from tests.streams.metrics.test_partition_counters import name_in, one_of
from tests.streams.steps import steps

SMALL = {"type": "pure", "epsilon": "0.0001"}
REFUSED = {"type": "pure", "epsilon": "5"}


def scraped_decisions(made: LiveLedgers) -> dict[tuple[str, str], int]:
    """Return the decisions of each pair that a scrape shows; those of others without names."""
    snapshot = made.snapshot()
    assert snapshot.analysts is not None
    found = {(use.dataset, use.analyst): sum(use.outcomes.values()) for use in snapshot.analysts}
    return found | {("", ""): snapshot.analysts_left_out}


def test_analysts_beyond_the_limit_are_counted_together(clock: TestClock) -> None:
    made, state = LiveLedgers(clock, usage=True, analysts=2), partition(clock)
    made.replayed(state, 0.1)
    commit(made, state, clock, opening(clock, epsilon="2"), opening(clock, "adult"))
    names = [f"a{number}" for number in range(MAX_ANALYSTS + 3)]
    for claim in (SMALL, REFUSED):
        for i in range(0, len(names), 500):
            bodies = [request(clock, analyst=name, claim=claim) for name in names[i : i + 500]]
            commit(made, state, clock, *bodies)
    commit(made, state, clock, request(clock, analyst=names[-1], dataset="adult"))
    used = views_of("census", made.rows("census"))
    assert len(used) == MAX_ANALYSTS + 1
    assert {(each.granted, each.refused, each.spent) for each in used[:-1]} == {(1, 1, "0.0001")}
    others = used[-1]
    assert (others.analyst, others.granted, others.refused) == (OTHERS, 3, 3)
    assert (others.spent, others.sequence) == ("0.0003", 2 * len(names) + 1)
    assert [each.analyst for each in views_of("adult", made.rows("adult"))] == [
        names[-1]
    ]  # each dataset its own
    left_out = 2 * len(names) + 1 - 4
    assert scraped_decisions(made) == {("census", "a0"): 2, ("census", "a1"): 2, ("", ""): left_out}


def test_analysts_of_all_datasets_together_are_distinguished_up_to_a_limit() -> None:
    world, table = World(), LiveUsage(every=True, shown=0, vacancies=Vacancies(3))

    def ask(dataset: str, analyst: str) -> list[str]:
        world.ask("pure:0.01", dataset=dataset, analyst=analyst)
        table.count(world.encoded[-1:], world.state.ledgers)
        return sorted(table.of(dataset))

    for dataset in ("census", "adult"):
        world.open(dataset, epsilon="1", delta="1e-6")
    assert [ask("census", name) for name in "ab"][-1] == ["a", "b"]
    assert [ask("adult", name) for name in "ab"][-1] == [OTHERS, "a"]
    table.forget(["census"])
    # There is room again, but not for analysts who may have been counted among the others.
    assert ask("adult", "b") == [OTHERS, "a"]
    assert table.of("adult")[OTHERS].granted == 2
    assert ask("census", "c") == ["c"]
    assert ask("census", "d") == [OTHERS, "c"]


@pytest.mark.parametrize("usage", [True, False])
def test_pairs_that_move_away_free_their_slots(clock: TestClock, usage: bool) -> None:
    made = LiveLedgers(clock, usage=usage, analysts=3)
    states = [one_of(clock, number, 2) for number in range(2)]
    away, here = (name_in(number, 2, "d") for number in range(2))
    for state, name in zip(states, (away, here), strict=True):
        made.replayed(state, 0.1)
        commit(made, state, clock, opening(clock, name), request(clock, dataset=name))
    assert scraped_decisions(made) == {(away, "ana"): 1, (here, "ana"): 1, ("", ""): 0}

    def ask(number: int, *analysts: str) -> None:
        name = (away, here)[number]
        bodies = [
            request(clock, dataset=name, analyst=analyst, claim=REFUSED) for analyst in analysts
        ]
        commit(made, states[number], clock, *bodies)

    ask(0, "bea", "bea", "cy", "cy")
    ask(1, "ana", "cy")
    assert scraped_decisions(made) == {
        (away, "ana"): 1,
        (away, "bea"): 2,
        (here, "ana"): 2,
        ("", ""): 3,
    }
    made.dropped(0, None)
    # The number of hidden ones is a counter, which never falls.
    assert scraped_decisions(made) == {(here, "ana"): 2, ("", ""): 3}
    assert views_of(away, made.rows(away)) == []
    ask(1, "ana", "dan", "eve", "fay")
    now = {(here, "ana"): 3, (here, "dan"): 1, (here, "eve"): 1}
    assert scraped_decisions(made) == now | {("", ""): 4}
    made.replayed(states[0], 0.1)
    ask(0, "bea")
    assert scraped_decisions(made) == now | {("", ""): 5}


def test_a_scrape_does_not_read_pairs_that_it_does_not_show(clock: TestClock) -> None:
    spent = []
    for count in (10, 400):
        made, state = LiveLedgers(clock, usage=True, analysts=5), partition(clock)
        made.replayed(state, 0.1)
        asked = [request(clock, analyst=f"a{i}", claim=SMALL) for i in range(count)]
        commit(made, state, clock, opening(clock), *asked)
        made.snapshot()
        spent.append(steps(made.snapshot))
    assert spent[0] == spent[1]
