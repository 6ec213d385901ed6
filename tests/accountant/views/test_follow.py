"""Views kept by following whole runs of decisions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from accountant.records import decode_decision, encode
from accountant.records.encoded_decision import CountedDecision
from accountant.records.header import decode_header
from accountant.views.datasets import DatasetView, fold_decision
from accountant.views.follow import Run, ViewFolder, counted_decision, fold_run, runs
from accountant.views.usage import (
    MAX_ANALYSTS,
    OTHERS,
    UsageView,
    Vacancies,
    decode_usage_view,
    views_of,
)
from tests.accountant.histories import worlds
from tests.accountant.views.test_datasets import BASIC
from tests.accountant.world import World, opened
from tests.nightly import examples


def runs_of(values: list[bytes]) -> Mapping[str, Run]:
    return runs([counted_decision(decode_header(value), value) for value in values])


def followed(values: list[bytes], cuts: list[int]) -> ViewFolder:
    """Take a log in, cut into runs at some places."""
    following = ViewFolder({}, {})
    edges = [0, *sorted(cut % (len(values) + 1) for cut in cuts), len(values)]
    for begin, end in itertools.pairwise(edges):
        for dataset, run in runs_of(values[begin:end]).items():
            following.take_run(dataset, run)
    return following


def one_by_one(values: list[bytes]) -> dict[str, DatasetView]:
    views: dict[str, DatasetView] = {}
    for value in values:
        decision = decode_decision(value)
        if decision.dataset is None:
            continue
        before = views.get(decision.dataset)
        after = fold_decision(before, decision)
        if after is not None:
            views[decision.dataset] = after
    return views


def used(following: ViewFolder) -> dict[str, list[UsageView]]:
    return {name: views_of(name, rows) for name, rows in following.usage.items()}


@settings(max_examples=examples(100), deadline=None)
@given(worlds(), st.lists(st.integers(0, 1000), max_size=6))
def test_runs_come_down_to_one_after_another(
    history: tuple[World, list[bytes]], cuts: list[int]
) -> None:
    values = history[0].log
    assert followed(values, cuts).budgets == one_by_one(values)


@settings(max_examples=examples(50), deadline=None)
@given(worlds(), st.lists(st.integers(0, 1000), max_size=3))
def test_reading_the_same_runs_twice_changes_no_view_or_usage(
    history: tuple[World, list[bytes]], cuts: list[int]
) -> None:
    values = history[0].log
    following = followed(values, cuts)
    before, before_used = following.budgets.copy(), used(following)
    for dataset, run in runs_of(values).items():
        following.take_run(dataset, run)
    assert following.budgets == before
    assert used(following) == before_used


@settings(max_examples=examples(100), deadline=None)
@given(worlds())
def test_own_decisions_are_counted_like_those_read_from_the_log(
    history: tuple[World, list[bytes]],
) -> None:
    for made in history[0].encoded:
        read = counted_decision(decode_header(made.value), made.value)
        assert astuple(read) == astuple(made)[: len(CountedDecision.__struct_fields__)]


def test_a_run_without_its_opening_makes_no_view() -> None:
    world = opened(**BASIC)
    world.ask("pure:0.1")
    late = runs_of(world.log[2:])["census"]
    assert fold_run(None, late) is None
    following = ViewFolder({}, {})
    following.take_run("census", late)
    assert following.budgets == {}


def usage(world: World, analyst: str) -> UsageView:
    following = followed(world.log, [])
    return following.usage["census"][analyst].view("census", analyst)


def test_usage_counts_the_grants_and_refusals_of_one_analyst() -> None:
    world = opened(**BASIC)
    for analyst, claim in [
        ("ana", "pure:0.1"),
        ("bob", "pure:0.3"),
        ("ana", "2*pure:0.1"),
        ("ana", "pure:5"),
        ("eve", "zcdp:1"),
    ]:
        world.ask(claim, analyst=analyst)
    world.close()
    ana, eve = usage(world, "ana"), usage(world, "eve")
    assert (ana.granted, ana.refused, ana.unit, ana.spent) == (2, 1, "epsilon", "0.3")
    assert (eve.granted, eve.refused, eve.spent) == (0, 1, "0")
    assert decode_usage_view(encode(ana)) == ana


@settings(max_examples=examples(60), deadline=None)
@given(worlds())
def test_usage_of_all_analysts_adds_up_to_the_total(history: tuple[World, list[bytes]]) -> None:
    world, _ = history
    world.commit()
    following = followed(world.log, [])
    views = views_of("census", following.usage.get("census", {}))
    spent = sum((Fraction(view.spent) for view in views), Fraction(0))
    assert spent == Fraction(int(world.ledger().totals[0]), 10**40)


@pytest.fixture(scope="module")
def crowd() -> World:
    """Return a log of four analysts more than are counted apart; each asks twice."""
    world = World(batch=500)
    world.open(**BASIC)
    names = [f"a{number}" for number in range(MAX_ANALYSTS + 4)]
    for claim in ("pure:0.00001", "pure:5"):
        for name in names:
            world.ask(claim, analyst=name)
        world.now += 1000
    world.commit()
    return world


def test_analysts_beyond_the_limit_are_counted_together(crowd: World) -> None:
    following = followed(crowd.log, [5_000, 12_000])
    views = views_of("census", following.usage["census"])
    assert len(views) == MAX_ANALYSTS + 1
    assert {(view.granted, view.refused) for view in views[:-1]} == {(1, 1)}
    assert not {f"a{MAX_ANALYSTS + i}" for i in range(4)} & {view.analyst for view in views}
    others, last = views[-1], crowd.decisions[-1]
    assert (others.analyst, others.granted, others.refused) == (OTHERS, 4, 4)
    assert others.spent == "0.00004"
    assert (others.sequence, others.last_decided_at) == (last.sequence, last.decided_at)


def test_decisions_read_twice_are_counted_once_in_the_row_of_other_analysts(crowd: World) -> None:
    following = followed(crowd.log, [])
    before = used(following)
    assert before["census"][-1].analyst == OTHERS
    again = crowd.log[-6_000:]
    for dataset, run in runs_of(again).items():
        following.take_run(dataset, run)
    assert used(following) == before


def test_analysts_of_all_datasets_together_are_distinguished_up_to_a_limit() -> None:
    world = World()
    for dataset in ("census", "adult"):
        world.open(dataset, **BASIC)
    for dataset, analysts in (
        ("census", "abc"),
        ("adult", "ab"),
        ("census", "ad"),
        ("adult", "ac"),
    ):
        for analyst in analysts:
            world.ask("pure:0.01", dataset=dataset, analyst=analyst)
    following = ViewFolder({}, {}, Vacancies(4))

    def counted_decision() -> dict[str, dict[str, int]]:
        for value in world.log:
            for dataset, run in runs_of([value]).items():
                following.take_run(dataset, run)
        return {
            dataset: {view.analyst: view.granted for view in views}
            for dataset, views in used(following).items()
        }

    found = counted_decision()
    assert found == {
        "census": {"a": 2, "b": 1, "c": 1, OTHERS: 1},
        "adult": {"a": 2, OTHERS: 2},
    }
    assert counted_decision() == found  # what is read again finds its own row
