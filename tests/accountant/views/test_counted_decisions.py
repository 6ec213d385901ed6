"""Decisions that were read are counted like own ones, and usage counts each once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from accountant.records import decode_decision, encode
from accountant.records.encoded_decision import CountedDecision
from accountant.records.header import decode_header
from accountant.views.counted_decisions import counted_decisions
from accountant.views.usage import (
    MAX_ANALYSTS,
    OTHERS,
    Unit,
    UsageTable,
    UsageView,
    Vacancies,
    decode_usage_view,
    views_of,
)
from tests.accountant.histories import worlds
from tests.accountant.views.test_datasets import BASIC
from tests.accountant.world import World, opened
from tests.nightly import examples


def unit_of(_: str) -> Unit:
    return "epsilon", 1


def counted(values: Iterable[bytes]) -> list[CountedDecision]:
    return [each for value in values for each in counted_decisions(decode_header(value))]


def counted_usage(values: list[bytes], cuts: Iterable[int] = ()) -> UsageTable:
    """Count a log, cut at some places."""
    table = UsageTable()
    edges = [0, *sorted(cut % (len(values) + 1) for cut in cuts), len(values)]
    for begin, end in itertools.pairwise(edges):
        table.take(counted(values[begin:end]), unit_of)
    return table


def used(table: UsageTable) -> Mapping[str, list[UsageView]]:
    return {name: views_of(name, rows) for name, rows in table.rows.items()}


@settings(max_examples=examples(50), deadline=None)
@given(worlds(), st.lists(st.integers(0, 1000), max_size=3))
def test_reading_the_same_decisions_twice_changes_no_usage(
    history: tuple[World, list[bytes]], cuts: list[int]
) -> None:
    values = history[0].log
    table = counted_usage(values, cuts)
    assert used(table) == used(counted_usage(values))
    before = used(table)
    table.take(counted(values), unit_of)
    assert used(table) == before


@settings(max_examples=examples(100), deadline=None)
@given(worlds())
def test_own_decisions_are_counted_like_those_read_from_the_log(
    history: tuple[World, list[bytes]],
) -> None:
    for made in history[0].encoded:
        (read,) = counted([made.value])
        assert counted_decisions(decode_decision(made.value)) == [read]
        assert astuple(read) == astuple(made)[: len(CountedDecision.__struct_fields__)]


def usage(world: World, analyst: str) -> UsageView:
    return counted_usage(world.log).rows["census"][analyst].view("census", analyst)


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
    views = views_of("census", counted_usage(world.log).rows.get("census", {}))
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
    views = views_of("census", counted_usage(crowd.log, [5_000, 12_000]).rows["census"])
    assert len(views) == MAX_ANALYSTS + 1
    assert {(view.granted, view.refused) for view in views[:-1]} == {(1, 1)}
    assert not {f"a{MAX_ANALYSTS + i}" for i in range(4)} & {view.analyst for view in views}
    others, last = views[-1], crowd.decisions[-1]
    assert (others.analyst, others.granted, others.refused) == (OTHERS, 4, 4)
    assert others.spent == "0.00004"
    assert (others.sequence, others.last_decided_at) == (last.sequence, last.decided_at)


def test_decisions_read_twice_are_counted_once_in_the_row_of_other_analysts(crowd: World) -> None:
    table = counted_usage(crowd.log)
    before = used(table)
    assert before["census"][-1].analyst == OTHERS
    table.take(counted(crowd.log[-6_000:]), unit_of)
    assert used(table) == before


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
    table = UsageTable(vacancies=Vacancies(4))

    def granted() -> dict[str, dict[str, int]]:
        table.take(counted(world.log), unit_of)
        return {
            dataset: {view.analyst: view.granted for view in views}
            for dataset, views in used(table).items()
        }

    found = granted()
    assert found == {
        "census": {"a": 2, "b": 1, "c": 1, OTHERS: 1},
        "adult": {"a": 2, OTHERS: 2},
    }
    assert granted() == found  # what is read again finds its own row
