"""A reading of an odometer that says nothing is not shown as a bare number."""

from __future__ import annotations

from accountant.display.numbers import line, odometer_amounts
from accountant.display.odometers import ignores_sampling, odometers_of
from accountant.views.datasets import DatasetView, view_of_ledger
from tests.accountant.world import opened

ONE = {"type": "mixture", "delta": "1e-6", "r": "1"}
SAMPLED = "subsampled_gaussian:rate=0.01,sigma=1,sensitivity=1"


def view_after(claim: str, **policy: object) -> DatasetView:
    world = opened(delta="1e-6", odometers=[ONE], **policy)
    assert world.ask(claim).granted
    return view_of_ledger(world.ledger())


def test_a_reading_above_the_guarantee_says_that_odometers_do_not_count_sampling() -> None:
    view = view_after(SAMPLED, filter="renyi", order="8", epsilon="4")
    assert line(odometers_of(view)) == "mixture above 4 (odometers do not count sampling)"
    assert ignores_sampling(view.odometers["mixture"], view.policy)


def test_a_reading_within_the_guarantee_is_shown() -> None:
    view = view_after("gaussian:sigma=10,sensitivity=1", filter="renyi", order="8", epsilon="8")
    assert not ignores_sampling(view.odometers["mixture"], view.policy)
    assert odometers_of(view) == odometer_amounts(view.odometers)


def test_filters_that_do_not_count_sampling_either_show_every_reading() -> None:
    view = view_after("gaussian:sigma=10,sensitivity=1", filter="zcdp_tight", epsilon="0.5")
    assert odometers_of(view) == odometer_amounts(view.odometers)


def test_an_infinite_reading_is_no_bound() -> None:
    assert (
        line(odometer_amounts({"basic": "inf", "mixture": "0.5"})) == "basic no bound, mixture 0.5"
    )
