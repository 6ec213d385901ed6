"""Each mechanism of diffprivlib has a claim that covers its loss, enumerated by hand, or none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import mpmath
import numpy as np
import pytest
from diffprivlib import mechanisms, models, tools

from accountant.claims import Approximate, Pure
from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from streams.engines.diffprivlib import mechanism_claim
from streams.engines.diffprivlib_tools import LOSSES
from tests.every_case import check_each, check_rows
from tests.nightly import rounds
from tests.streams.engines.laws import (
    Law,
    covers,
    discrete_gaussian,
    discrete_laplace,
    mapped,
    of_weights,
    part_used,
    permute_and_flip,
    softmax,
)

DRAWS: Final = rounds(150, 5_000)
CELLS: Final = 8
"""Real numbers are compared by the eighth of a unit in which they lie."""
BOTH: Final[tuple[Neighbours, ...]] = ("add_remove", "replace")


@dataclass(frozen=True)
class Case:
    """A mechanism with the laws of its output.

    Attributes:
        make: makes it; of a choice, from its utilities.
        law: of the mechanism's output on an input.
        pairs: of inputs that its sensitivity allows, for each relation.
        least: of a pure epsilon, the pairs lose so much at least.
    """

    make: Callable[[Any], Any]
    law: Callable[[Any, Any], Law]
    pairs: Mapping[Neighbours, Sequence[tuple[Any, Any]]]
    output: Callable[[Any], Hashable] = lambda value: value
    least: float = 0.4
    is_input: bool = True


def numbers(*pairs: tuple[Any, Any]) -> Mapping[Neighbours, Sequence[tuple[Any, Any]]]:
    return dict.fromkeys(BOTH, pairs)


def cell(value: float) -> int:
    return math.floor(value * CELLS)


def cell_below_8(value: float) -> int:
    return min(cell(value), 8 * CELLS - 1)


def of_cells(distribution: Callable[[float], float], lower: float, upper: float) -> Law:
    """Return the law of the cells between two numbers, what lies beyond in the outer ones."""
    first, last = cell(lower), cell(upper)
    ends = [0.0, *(distribution(k / CELLS) for k in range(first + 1, last)), 1.0]
    weights = {first + i: ends[i + 1] - ends[i] for i in range(last - first)}
    return of_weights({k: p for k, p in weights.items() if p > 1e-13})


def laplace_distribution(center: float, scale: float) -> Callable[[float], float]:
    def of(x: float) -> float:
        tail = math.exp(-abs(x - center) / scale) / 2
        return tail if x < center else 1 - tail

    return of


def laplace_scale(mechanism: Any) -> float:
    return float(mechanism.sensitivity / (mechanism.epsilon - math.log(1 - mechanism.delta)))


def laplace(mechanism: Any, value: float) -> Law:
    return of_cells(laplace_distribution(value, laplace_scale(mechanism)), -9, 17)


def folded(mechanism: Any, value: float) -> Law:
    """Return the law of noise that the bounds reflect."""
    whole = of_cells(laplace_distribution(value, laplace_scale(mechanism)), -24, 32)
    lower, upper = cell(mechanism.lower), cell(mechanism.upper)

    def fold(k: Any) -> int:
        while not lower <= k < upper:
            k = 2 * lower - 1 - k if k < lower else 2 * upper - 1 - k
        return int(k)

    return mapped(whole, fold)


def folded_number(mechanism: Any, value: int) -> Law:
    def fold(k: Any) -> int:
        while not mechanism.lower <= k <= mechanism.upper:
            k = 2 * (mechanism.lower if k < mechanism.lower else mechanism.upper) - k
        return int(k)

    return mapped(discrete_laplace(value, mechanism.sensitivity / mechanism.epsilon), fold)


def truncated(mechanism: Any, value: float) -> Law:
    scale = laplace_scale(mechanism)
    return of_cells(laplace_distribution(value, scale), mechanism.lower, mechanism.upper)


def within(mechanism: Any, value: float) -> Law:
    """Return the law of noise that is drawn again until it lies within the bounds."""
    mechanism.randomise(value)  # finds the scale
    return inside(value, mechanism._scale, mechanism.lower, mechanism.upper)


def bounded_noise(mechanism: Any, value: float) -> Law:
    mechanism.randomise(value)
    most = mechanism._noise_bound
    return inside(value, mechanism._scale, value - most, value + most)


def inside(center: float, scale: float, lower: float, upper: float) -> Law:
    whole = laplace_distribution(center, scale)
    a, b = whole(lower), whole(upper)

    def distribution(x: float) -> float:
        return (whole(min(max(x, lower), upper)) - a) / (b - a)

    return of_cells(distribution, lower, math.ceil(upper * CELLS) / CELLS)


def snapped(mechanism: Any, value: float) -> Law:
    """Return the law of Laplace noise, rounded to a power of 2 and clamped."""
    scale = 1 / mechanism.effective_epsilon()
    step = 2.0 ** math.ceil(math.log2(scale))
    bound = (mechanism.upper - mechanism.lower) / 2
    distribution = laplace_distribution(value - bound - mechanism.lower, scale)
    weights: dict[Hashable, float] = {}
    for k in range(-60, 61):
        place = min(max(k * step, -bound), bound) + bound + mechanism.lower
        probability = distribution((k + 0.5) * step) - distribution((k - 0.5) * step)
        weights[place] = weights.get(place, 0.0) + probability
    return of_weights(weights)


def staircase(mechanism: Any, value: float) -> Law:
    def density(x: float) -> float:
        whole, part = divmod(abs(x), mechanism.sensitivity)
        steps = whole + (part >= mechanism.gamma * mechanism.sensitivity)
        return math.exp(-steps * mechanism.epsilon)

    places = range(-250, 250)
    return of_weights({k: density((k + 0.5) / CELLS - value) for k in places})


def uniform(mechanism: Any, value: float) -> Law:
    most = mechanism.sensitivity / mechanism.delta / 2
    return of_weights(dict.fromkeys(range(cell(value - most), cell(value + most)), 1.0))


def binary(mechanism: Any, value: str) -> Law:
    others = {"no": "yes", "yes": "no"}
    return of_weights({value: math.exp(mechanism.epsilon), others[value]: 1.0})


UTILITIES: Final = {frozenset("ab"): 1.0, frozenset("ac"): 3.0, frozenset("bc"): 2.0}


def by_category(mechanism: Any, value: str) -> Law:
    weights = {
        each: math.exp(-mechanism.epsilon * UTILITIES.get(frozenset({each, value}), 0.0) / 3 / 2)
        for each in "abc"
    }
    return of_weights({**weights})


def by_hierarchy(mechanism: Any, value: str) -> Law:
    """The constants of all values are the same, so half the noise suffices."""
    far = {each: 1 if {each, value} in ({"a", "b"}, {"c", "d"}) else 2 for each in "abcd"}
    far[value] = 0
    return of_weights({k: math.exp(-mechanism.epsilon * x / 2) for k, x in far.items()})


def bingham(mechanism: Any, matrix: Any) -> Law:
    """Return the law of the direction of a 2 x 2 matrix, as version 0.6.6 draws it."""
    greatest = np.linalg.eigvalsh(matrix).max()
    moved = mechanism.epsilon * (greatest * np.eye(2) - matrix) / 4 / mechanism.sensitivity
    low, high = 1.0, 2.0
    for _ in range(100):
        middle = (low + high) / 2
        above = sum(1 / (middle + 2 * each) for each in np.linalg.eigvalsh(moved)) > 1
        low, high = (middle, high) if above else (low, middle)
    shape = np.eye(2) + 2 * moved / low
    angles = (np.arange(400) + 0.5) * math.pi / 400
    vectors = np.stack([np.cos(angles), np.sin(angles)])
    density = np.exp(-np.einsum("it,ij,jt->t", vectors, moved, vectors))
    density /= np.einsum("it,ij,jt->t", vectors, shape, vectors) ** 2
    return of_weights({i: float(each) for i, each in enumerate(density)})


def direction(vector: Any) -> int:
    return int((math.atan2(vector[1], vector[0]) % math.pi) * 400 / math.pi)


MATRIX: Final = ((5.0, 1.0), (1.0, 2.0))
MATRICES: Final = numbers(
    (np.array(MATRIX), np.array(MATRIX) + np.diag([0.0, 1.0])),
    (np.array(MATRIX), np.array(MATRIX) + np.diag([1.0, 0.0])),
    (np.zeros((2, 2)), np.diag([1.0, 0.0])),
)
SCORES: Final = [0.0, 0.0]
CHOICES: Final[Mapping[Neighbours, Sequence[tuple[Any, Any]]]] = {
    "add_remove": [(SCORES, [1.0, 0.0]), (SCORES, [1.0, 1.0]), ([0.0, 9.0], [1.0, 9.0])],
    "replace": [(SCORES, [1.0, -1.0]), ([0.0, 9.0], [1.0, 8.0]), ([0.0, 1.0], [1.0, 0.0])],
}
PLACES: Final = numbers((3, 4), (0, 1), (7, 8))


def choice(name: str, law: Callable[..., Law], *, monotonic: bool) -> Case:
    def make(utility: Any) -> Any:
        kind = getattr(mechanisms, name)
        return kind(epsilon=1, sensitivity=1, utility=list(utility), monotonic=monotonic)

    scale = 1.0 if monotonic else 2.0
    return Case(make, lambda _, utility: law(utility, scale), CHOICES, is_input=False)


def plain(kind: Any, law: Callable[[Any, Any], Law], output: Any = cell, **fields: Any) -> Case:
    """Return the case of a mechanism of epsilon 1 with a number as its input."""
    pairs = PLACES if {"lower", "upper"} & fields.keys() else numbers((3, 4))
    return Case(lambda _: kind(**{"epsilon": 1, **fields}), law, pairs, output)


def same(value: Any) -> Hashable:
    return int(value) if isinstance(value, np.integer | int) else value


BOUNDS: Final = {"lower": 0, "upper": 8}
WORDS: Final = numbers(("a", "c"), ("a", "b"), ("b", "c"))
TABLE: Final[Mapping[str, list[Case] | str]] = {
    "Binary": [
        Case(
            lambda _: mechanisms.Binary(epsilon=1, value0="no", value1="yes"),
            binary,
            numbers(("no", "yes")),
        )
    ],
    "Bingham": [
        Case(lambda _: mechanisms.Bingham(epsilon=1), bingham, MATRICES, direction, least=0.2)
    ],
    "DPMachine": "abstract",
    "DPMechanism": "abstract",
    "Exponential": [choice("Exponential", softmax, monotonic=each) for each in (False, True)],
    "ExponentialCategorical": [
        Case(
            lambda _: mechanisms.ExponentialCategorical(
                epsilon=1, utility_list=[(*sorted(k), u) for k, u in UTILITIES.items()]
            ),
            by_category,
            WORDS,
        )
    ],
    "ExponentialHierarchical": [
        Case(
            lambda _: mechanisms.ExponentialHierarchical(
                epsilon=1, hierarchy=[["a", "b"], ["c", "d"]]
            ),
            by_hierarchy,
            WORDS,
        )
    ],
    "Gaussian": "below",
    "GaussianAnalytic": "below",
    "GaussianDiscrete": [
        plain(
            mechanisms.GaussianDiscrete,
            lambda mechanism, value: discrete_gaussian(value, mechanism._scale),
            same,
            epsilon=epsilon,
            delta=delta,
        )
        for epsilon, delta in ((1, 1e-2), (1, 1e-6), (5, 1e-6), (5, 1e-2))
    ],
    "Geometric": [plain(mechanisms.Geometric, lambda _, value: discrete_laplace(value, 1.0), same)],
    "GeometricFolded": [plain(mechanisms.GeometricFolded, folded_number, same, **BOUNDS)],
    "GeometricTruncated": [
        plain(
            mechanisms.GeometricTruncated,
            lambda _, value: mapped(discrete_laplace(value, 1.0), lambda k: max(0, min(8, k))),
            same,
            **BOUNDS,
        )
    ],
    "Laplace": [
        plain(mechanisms.Laplace, laplace, sensitivity=1, delta=delta) for delta in (0.0, 0.1)
    ],
    "LaplaceBoundedDomain": [
        plain(mechanisms.LaplaceBoundedDomain, within, sensitivity=1, delta=delta, **BOUNDS)
        for delta in (0.0, 0.1)
    ],
    "LaplaceBoundedNoise": [
        plain(mechanisms.LaplaceBoundedNoise, bounded_noise, sensitivity=1, delta=0.1)
    ],
    "LaplaceFolded": [
        plain(mechanisms.LaplaceFolded, folded, sensitivity=1, delta=delta, **BOUNDS)
        for delta in (0.0, 0.1)
    ],
    "LaplaceTruncated": [
        plain(
            mechanisms.LaplaceTruncated,
            truncated,
            cell_below_8,
            sensitivity=1,
            delta=delta,
            **BOUNDS,
        )
        for delta in (0.0, 0.1)
    ],
    "PermuteAndFlip": [
        choice("PermuteAndFlip", permute_and_flip, monotonic=each) for each in (False, True)
    ],
    "Snapping": [plain(mechanisms.Snapping, snapped, float, sensitivity=1, **BOUNDS)],
    "Staircase": [plain(mechanisms.Staircase, staircase, sensitivity=1, gamma=0.5)],
    "TruncationAndFoldingMixin": "abstract",
    "Uniform": [
        Case(lambda _: mechanisms.Uniform(delta=0.25, sensitivity=1), uniform, PLACES, cell)
    ],
    "Vector": "refused",
}
CASES: Final = [
    (name, number)
    for name, cases in TABLE.items()
    if not isinstance(cases, str)
    for number in range(len(cases))
]
TOOLS_OF_UNKNOWN_LOSS: Final = {
    *("nanmean", "nanstd", "nansum", "nanvar", "KMeans", "LinearRegression", "PCA"),
    *("RandomForestClassifier", "StandardScaler"),
}
"""Tools and models that are refused, unless a program states their loss."""


def case_of(name: str, number: int) -> Case:
    cases = TABLE[name]
    assert not isinstance(cases, str)
    return cases[number]


def test_every_mechanism_of_the_installed_version_is_in_the_table() -> None:
    found = {name for name, value in vars(mechanisms).items() if isinstance(value, type)}
    assert found - TABLE.keys() == set()


def test_every_tool_and_model_has_a_loss_or_is_known_to_have_none() -> None:
    found = {
        name
        for module in (tools, models)
        for name, value in vars(module).items()
        if callable(value) and value.__module__.startswith(module.__name__)
    }
    assert found >= LOSSES.keys()
    assert found - LOSSES.keys() - TOOLS_OF_UNKNOWN_LOSS == set()


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_claim_covers_the_loss_of_every_pair_of_inputs(neighbours: Neighbours) -> None:
    def check_case(name: str, number: int) -> None:
        case, used = case_of(name, number), list[float]()
        for one, other in case.pairs[neighbours]:
            made = [case.make(each) for each in (one, other)]
            claims = {mechanism_claim(m, unit="person", neighbours=neighbours).claim for m in made}
            (claim,) = claims
            laws = [case.law(m, each) for m, each in zip(made, (one, other), strict=True)]
            assert all(math.fsum(law.values()) == pytest.approx(1) for law in laws)
            assert covers(claim, *laws)
            used.append(part_used(claim, *laws))
        assert max(used) >= case.least

    check_rows(check_case, CASES)


def test_the_engine_draws_from_the_laws_of_the_table() -> None:
    def check_case(name: str, number: int) -> None:
        case = case_of(name, number)
        value = case.pairs["replace"][0][1]
        made = case.make(value)
        law = case.law(made, value)
        drawn = [made.randomise(value) if case.is_input else made.randomise() for _ in range(DRAWS)]
        seen = Counter(map(case.output, drawn))
        for each in seen.keys() | law.keys():
            expected = DRAWS * law.get(each, 0.0)
            assert abs(seen[each] - expected) <= 6.5 * (math.sqrt(expected) + 1), each

    check_rows(check_case, CASES)


def test_a_choice_for_utilities_that_move_together_loses_twice_where_a_row_is_replaced() -> None:
    """The example of two far utilities, whose loss is 2 at an epsilon of 1."""

    def check_case(kind: str) -> None:
        make = getattr(mechanisms, kind)
        choice = make(epsilon=1, sensitivity=1, utility=[0, 50], monotonic=True)
        claims = [mechanism_claim(choice, unit="person", neighbours=each).claim for each in BOTH]
        assert claims == [Pure("1"), Pure("2")]

    check_each(check_case, ["Exponential", "PermuteAndFlip"])


def normal_delta(mu: Any, epsilon: Any) -> Any:
    """Return the delta of Gaussian noise (Balle and Wang 2018, Thm 5), to 60 digits."""
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return mpmath.ncdf(a) - mpmath.exp(epsilon) * mpmath.ncdf(b)


def test_the_delta_of_a_gaussian_is_that_of_its_noise() -> None:
    """diffprivlib's own search misses it 9 times at (20, 1e-9), and 2.6 times at (5, 1e-15)."""

    def check_case(kind: str, epsilon: float, delta: float) -> None:
        if kind == "Gaussian" and epsilon > 1:
            return
        made = getattr(mechanisms, kind)(epsilon=epsilon, delta=delta, sensitivity=2)
        claim = mechanism_claim(made, unit="person", neighbours="replace").claim
        assert isinstance(claim, Approximate)
        with mpmath.workdps(60):
            lost = normal_delta(2 / mpmath.mpf(made._scale), mpmath.mpf(epsilon))
            most = max(lost, mpmath.mpf(delta))
            assert (
                most
                <= mpmath.mpf(claim.delta)
                <= most * (1 + mpmath.mpf("1e-18")) + mpmath.mpf("1e-40")
            )
        assert Fraction(claim.epsilon) == epsilon

    points = [(1, 1e-6), (1, 0.5), (0.125, 1e-12), (20, 1e-9), (5, 1e-15), (1, 1e-30)]
    rows = [(kind, *point) for kind in ("Gaussian", "GaussianAnalytic") for point in points]
    check_rows(check_case, rows)


def test_a_gaussian_without_noise_has_no_claim() -> None:
    made = mechanisms.GaussianAnalytic(epsilon=math.inf, delta=1e-6, sensitivity=1)
    with pytest.raises(RequestInvalid, match="must have noise of a finite scale"):
        mechanism_claim(made, unit="person", neighbours="replace")
    nothing = mechanisms.GaussianAnalytic(epsilon=1, delta=0.25, sensitivity=0)
    claim = mechanism_claim(nothing, unit="person", neighbours="replace").claim
    assert claim == Approximate("1", "0.25")
