"""What is spent, reserved and left, in words: apart, and never more than the whole."""

from __future__ import annotations

import pytest

from accountant.display.spending import (
    amounts_words,
    reserved_words,
    settled_amount,
    spending,
    spending_of,
    sums_of,
)
from accountant.views.datasets import view_of_ledger
from tests.accountant.reservations.scene import Scene


@pytest.mark.parametrize(
    ("spent", "reserved", "words"),
    [
        (0.0, None, ("0 %", "", "100 %")),
        (0.3, None, ("30 %", "", "70 %")),
        (0.3, 0.1, ("20 %", "10 %", "70 %")),
        (0.4, 0.4, ("0 %", "40 %", "60 %")),
        (0.4000000000000001, 0.4, ("0 %", "40 %", "60 %")),  # floats are a little off
        (0.30005, 0.1, ("20.1 %", "10 %", "69.9 %")),
        (1.0, 0.00001, ("over 99.9 %", "0.1 %", "0 %")),
    ],
)
def test_spent_reserved_and_left_are_parts_of_one_whole(
    spent: float, reserved: float | None, words: tuple[str, str, str]
) -> None:
    assert spending(spent, reserved) == words


def test_a_dataset_says_what_its_reservations_hold_until_they_are_settled() -> None:
    scene = Scene()
    scene.ask("pure:0.2")
    for _ in range(2):
        scene.reserve()
    view = view_of_ledger(scene.ledger())
    assert spending_of(view) == ("20 %", "20 %", "60 %")
    assert reserved_words(view) == "20 % by 2 open reservations"
    assert [each.sentence for each in sums_of(view)] == [
        "0.2 of 1 spent, 0.2 reserved, 0.6 left",
        "0 of 1e-6 spent, 0 reserved, 1e-6 left",
    ]
    scene.do("begin", "settle_lower")
    view = view_of_ledger(scene.ledger())
    assert spending_of(view) == ("22.5 %", "10 %", "67.5 %")
    assert reserved_words(view) == "10 % by 1 open reservation"


def test_a_dataset_without_reservations_says_nothing_of_them() -> None:
    scene = Scene()
    scene.ask("pure:0.2")
    view = view_of_ledger(scene.ledger())
    assert (spending_of(view), reserved_words(view)) == (("20 %", "", "80 %"), "")
    assert sums_of(view)[0].sentence == "0.2 of 1 spent, 0.8 left"


def test_amounts_that_are_infinite_stay_so() -> None:
    assert settled_amount("inf", "0") == "inf"
    assert settled_amount("0.3", "0.1") == "0.2"
    assert amounts_words("0.2", "0.1", "1") == "0.2 and 0.1 of 1"
    assert amounts_words("0.2", "0", "1") == "0.2 of 1"
