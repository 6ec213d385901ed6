"""No map of OpenDP's transformations is below what small data sets show, but for those refused."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, Final

import opendp.prelude as dp
import opendp.transformations
import pytest

from accountant.errors import RequestInvalid
from streams.engines.opendp import opendp_claim
from tests.every_case import check_rows

dp.enable_features("contrib", "honest-but-curious")

Made = tuple[Any, Sequence[Any]]
"""A transformation, and inputs of it."""

SYMMETRIC: Final = dp.symmetric_distance()
ORDERED: Final = dp.insert_delete_distance()
NUMBERS: Final = dp.vector_domain(dp.atom_domain(T=int))
PLACES: Final = dp.vector_domain(dp.atom_domain(T="usize"))
BOUNDED: Final = dp.vector_domain(dp.atom_domain(bounds=(0, 2)))
SIZED: Final = dp.vector_domain(dp.atom_domain(bounds=(0, 2)), size=3)
SIZED_FLOATS: Final = dp.vector_domain(dp.atom_domain(bounds=(0.0, 2.0), nan=False), size=3)
TEXTS: Final = dp.vector_domain(dp.atom_domain(T=str))
FLOAT: Final = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
L1: Final = dp.l1_distance(T=int)
L2: Final = dp.l2_distance(T=int)


def lists(values: Sequence[Any], sizes: Sequence[int] = (0, 1, 2, 3)) -> list[list[Any]]:
    return [list(each) for size in sizes for each in product(values, repeat=size)]


INTS: Final = lists((0, 1, 2))
THREE_INTS: Final = lists((0, 1, 2), (3,))
FLOATS: Final = lists((0.0, 1.0, 2.0))
THREE_FLOATS: Final = lists((0.0, 1.0, 2.0), (3,))
SOME_NUMBERS: Final = lists(("none", "0", "1"))
BOUNDS: Final = (0, 2)
FLOAT_BOUNDS: Final = (0.0, 2.0)
FRAMES: Final = "a data frame: its rows are texts, and it counts none"


def cast() -> Any:
    """Make numbers of texts, and a null of a text that is none."""
    return dp.t.make_cast(TEXTS, SYMMETRIC, TOA=int)


TABLE: Final[Mapping[str, Callable[[], Made] | str]] = {
    "make_b_ary_tree": lambda: (dp.t.make_b_ary_tree(NUMBERS, L1, 3, 2), THREE_INTS),
    "make_bounded_float_checked_sum": lambda: (
        dp.t.make_bounded_float_checked_sum(4, FLOAT_BOUNDS),
        FLOATS,
    ),
    "make_bounded_float_ordered_sum": lambda: (
        dp.t.make_bounded_float_ordered_sum(4, FLOAT_BOUNDS),
        FLOATS,
    ),
    "make_bounded_int_monotonic_sum": lambda: (dp.t.make_bounded_int_monotonic_sum(BOUNDS), INTS),
    "make_bounded_int_ordered_sum": lambda: (dp.t.make_bounded_int_ordered_sum(BOUNDS), INTS),
    "make_bounded_int_split_sum": lambda: (dp.t.make_bounded_int_split_sum(BOUNDS), INTS),
    "make_cast": lambda: (cast() >> dp.t.then_impute_constant(0), SOME_NUMBERS),
    "make_cast_default": lambda: (dp.t.make_cast_default(NUMBERS, SYMMETRIC, TOA=bool), INTS),
    "make_cast_inherent": lambda: (dp.t.make_cast_inherent(NUMBERS, SYMMETRIC, TOA=float), INTS),
    "make_cdf": "a function of released values",
    "make_clamp": lambda: (dp.t.make_clamp(NUMBERS, SYMMETRIC, (0, 1)), INTS),
    "make_consistent_b_ary_tree": "a function of released values",
    "make_count": lambda: (dp.t.make_count(NUMBERS, SYMMETRIC), INTS),
    "make_count_by": lambda: (dp.t.make_count_by(NUMBERS, SYMMETRIC), INTS),
    "make_count_by_categories": lambda: (
        dp.t.make_count_by_categories(NUMBERS, SYMMETRIC, [0, 1], MO=dp.L2Distance[int]),
        INTS,
    ),
    "make_count_distinct": lambda: (dp.t.make_count_distinct(NUMBERS, SYMMETRIC), INTS),
    "make_create_dataframe": FRAMES,
    "make_df_cast_default": FRAMES,
    "make_df_is_equal": FRAMES,
    "make_drop_null": lambda: (cast() >> dp.t.then_drop_null(), SOME_NUMBERS),
    "make_find": lambda: (
        dp.t.make_find(NUMBERS, SYMMETRIC, [0, 1]) >> dp.t.then_impute_constant(2),
        INTS,
    ),
    "make_find_bin": lambda: (dp.t.make_find_bin(NUMBERS, SYMMETRIC, [0, 1]), INTS),
    "make_identity": lambda: (dp.t.make_identity(NUMBERS, SYMMETRIC), INTS),
    "make_impute_constant": lambda: (cast() >> dp.t.then_impute_constant(0), SOME_NUMBERS),
    "make_impute_uniform_float": "its output is a matter of chance, cell by cell",
    "make_index": lambda: (dp.t.make_index(PLACES, SYMMETRIC, [5, 5], 6), INTS),
    "make_is_equal": lambda: (dp.t.make_is_equal(NUMBERS, SYMMETRIC, 1), INTS),
    "make_is_null": lambda: (cast() >> dp.t.then_is_null(), SOME_NUMBERS),
    "make_lipschitz_float_mul": lambda: (
        dp.t.make_lipschitz_float_mul(*FLOAT, 3.0, FLOAT_BOUNDS),
        [0.0, 1.0, 2.0],
    ),
    "make_mean": lambda: (dp.t.make_mean(SIZED_FLOATS, SYMMETRIC), THREE_FLOATS),
    "make_metric_bounded": lambda: (dp.t.make_metric_bounded(SIZED, SYMMETRIC), THREE_INTS),
    "make_metric_unbounded": lambda: (
        dp.t.make_metric_unbounded(SIZED, dp.change_one_distance()),
        THREE_INTS,
    ),
    "make_ordered_random": "its order is a matter of chance",
    "make_quantile_score_candidates": lambda: (
        dp.t.make_quantile_score_candidates(NUMBERS, SYMMETRIC, [0, 1, 2], 0.75),
        INTS,
    ),
    "make_quantiles_from_counts": "a function of released values",
    "make_resize": "its order is a matter of chance",
    "make_select_column": FRAMES,
    "make_sized_bounded_float_checked_sum": lambda: (
        dp.t.make_sized_bounded_float_checked_sum(3, FLOAT_BOUNDS),
        THREE_FLOATS,
    ),
    "make_sized_bounded_float_ordered_sum": lambda: (
        dp.t.make_sized_bounded_float_ordered_sum(3, FLOAT_BOUNDS),
        THREE_FLOATS,
    ),
    "make_sized_bounded_int_checked_sum": lambda: (
        dp.t.make_sized_bounded_int_checked_sum(3, BOUNDS),
        THREE_INTS,
    ),
    "make_sized_bounded_int_monotonic_sum": lambda: (
        dp.t.make_sized_bounded_int_monotonic_sum(3, BOUNDS),
        THREE_INTS,
    ),
    "make_sized_bounded_int_ordered_sum": lambda: (
        dp.t.make_sized_bounded_int_ordered_sum(3, BOUNDS),
        THREE_INTS,
    ),
    "make_sized_bounded_int_split_sum": lambda: (
        dp.t.make_sized_bounded_int_split_sum(3, BOUNDS),
        THREE_INTS,
    ),
    "make_split_dataframe": FRAMES,
    "make_split_lines": FRAMES,
    "make_split_records": FRAMES,
    "make_stable_expr": "needs polars",
    "make_stable_lazyframe": "needs polars",
    "make_subset_by": FRAMES,
    "make_sum": lambda: (dp.t.make_sum(BOUNDED, SYMMETRIC), INTS),
    "make_sum_of_squared_deviations": lambda: (
        dp.t.make_sum_of_squared_deviations(SIZED_FLOATS, SYMMETRIC),
        THREE_FLOATS,
    ),
    "make_unordered": lambda: (dp.t.make_unordered(NUMBERS, ORDERED), INTS),
    "make_user_transformation": "its map is a user's promise",
    "make_variance": lambda: (dp.t.make_variance(SIZED_FLOATS, SYMMETRIC), THREE_FLOATS),
}


def test_every_constructor_of_the_installed_version_is_in_the_table() -> None:
    found = {name for name in vars(opendp.transformations) if name.startswith("make_")}
    assert found - {"make_proof_link"} - TABLE.keys() == set()


def inserted_and_deleted(one: list[Any], other: list[Any]) -> int:
    row = [0] * (len(other) + 1)  # the longest common subsequence, by its end in `other`
    for each in one:
        before = row.copy()
        for j, its in enumerate(other):
            row[j + 1] = before[j] + 1 if each == its else max(before[j + 1], row[j])
    return len(one) + len(other) - 2 * row[-1]


def added_and_removed(one: list[Any], other: list[Any]) -> int:
    a, b = Counter(one), Counter(other)
    return (a - b).total() + (b - a).total()


def differences(one: Any, other: Any) -> list[float]:
    if isinstance(one, dict):
        return [abs(one.get(key, 0) - other.get(key, 0)) for key in one.keys() | other.keys()]
    return [abs(a - b) for a, b in zip(one, other, strict=True)]


def changed(one: list[Any], other: list[Any]) -> float:
    return math.inf if len(one) != len(other) else added_and_removed(one, other) / 2


def changed_in_place(one: list[Any], other: list[Any]) -> float:
    return (
        math.inf if len(one) != len(other) else sum(a != b for a, b in zip(one, other, strict=True))
    )


def in_groups(one: Any, other: Any) -> tuple[float, ...]:
    found = [each for each in differences(one, other) if each] or [0]
    return sum(map(bool, found)), sum(found), max(found)


DISTANCES: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "AbsoluteDistance": lambda one, other: abs(one - other),
    "ChangeOneDistance": changed,
    "HammingDistance": changed_in_place,
    "InsertDeleteDistance": inserted_and_deleted,
    "L01InfDistance": in_groups,
    "L1Distance": lambda one, other: sum(differences(one, other)),
    "L2Distance": lambda one, other: math.hypot(*differences(one, other)),
    "LInfDistance": lambda one, other: max(differences(one, other)),
    "SymmetricDistance": added_and_removed,
}


def distance(metric: Any) -> Callable[[Any, Any], Any]:
    return DISTANCES[str(metric.type).partition("<")[0].rpartition("::")[2]]


def beyond(made: Any, inputs: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of inputs whose outputs are farther apart than the map says."""
    away, apart = distance(made.input_metric), distance(made.output_metric)
    outputs, maps = [made(each) for each in inputs], dict[Any, Any]()
    for (one, first), (other, second) in combinations(zip(inputs, outputs, strict=True), 2):
        between = away(one, other)
        if between in (0, math.inf):
            continue
        if between not in maps:
            maps[between] = made.map(between if isinstance(one, float) else math.ceil(between))
        found, most = apart(first, second), maps[between]
        pairs = zip(found, most, strict=True) if isinstance(found, tuple) else [(found, most)]
        if any(x > y for x, y in pairs):
            yield one, other


def test_no_pair_of_inputs_is_farther_apart_than_the_map_says() -> None:
    def check_case(name: str) -> None:
        make = TABLE[name]
        if not isinstance(make, str):
            made, inputs = make()
            assert len(inputs) > 2
            assert not list(beyond(made, inputs))

    check_rows(check_case, [(name,) for name in TABLE])


def tree(metric: Any) -> Any:
    """Return the noisy sums of a tree over the counts of four values."""
    noise = dp.m.then_laplace(scale=1.0) if metric is L1 else dp.m.then_gaussian(scale=1.0)
    kind = dp.L1Distance[int] if metric is L1 else dp.L2Distance[int]
    counts = dp.t.make_count_by_categories(
        NUMBERS, SYMMETRIC, [0, 1, 2, 3], null_category=False, MO=kind
    )
    return counts >> dp.t.then_b_ary_tree(leaf_count=4, branching_factor=4) >> noise


def test_a_tree_under_the_l2_metric_has_a_map_that_is_too_small_and_is_refused() -> None:
    made = dp.t.make_b_ary_tree(NUMBERS, L2, 4, 4)
    assert ([0, 0, 0, 0], [1, 1, 1, 1]) in list(beyond(made, lists((0, 1), (4,))))
    for measurement in (tree(L2), dp.c.make_composition([tree(L2), tree(L2)])):
        with pytest.raises(RequestInvalid, match="make_b_ary_tree under L2Distance"):
            opendp_claim(measurement, unit="person")


def test_a_tree_under_the_l1_metric_is_claimed_by_its_map() -> None:
    assert opendp_claim(tree(L1), unit="person").claim.epsilon == "2"
