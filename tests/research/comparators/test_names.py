"""Bounds for parameters fixed in advance decide nothing: no filter or odometer is made of them."""

from __future__ import annotations

import typing

from accountant.filters import FILTERS
from accountant.odometers import AnyOdometer, Odometer
from research import comparators


def test_no_filter_and_no_odometer_has_the_name_of_a_comparator() -> None:
    odometers = typing.get_args(AnyOdometer)
    assert all(issubclass(odometer, Odometer) for odometer in odometers)
    tags = {odometer.__struct_config__.tag for odometer in odometers}
    # `basic` is valid as all three.
    names = {name.partition("_epsilon")[0] for name in comparators.__all__} - {"basic"}
    assert {"strong", "advanced_2010", "quoted_2016"} <= names
    assert names.isdisjoint({*FILTERS, *tags})
