"""Every constructor of OpenDP's measurements and combinators, with the law of what it makes.

Each is made on records that are added or removed. Its laws are for two data sets of which one has
one record more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, permutations
from typing import Any, Final

import opendp.prelude as dp
from scipy.integrate import quad

from tests.streams.engines.laws import (
    Law,
    discrete_gaussian,
    discrete_laplace,
    joint,
    mapped,
    of_weights,
    peeled,
    permute_and_flip,
    softmax,
)

dp.enable_features("contrib", "honest-but-curious")

NUMBERS: Final = dp.vector_domain(dp.atom_domain(T=int))
RECORDS: Final = NUMBERS, dp.symmetric_distance()
THREE: Final = [7, 7, 7]
FOUR: Final = [7, 7, 7, 7]
RANKED: Final = [0, 1, 1, 2, 2]
CANDIDATES: Final = [0, 1, 2]


@dataclass(frozen=True)
class Enumerated:
    """A measurement whose outputs can be enumerated.

    Attributes:
        make: makes it.
        law: of what it shows on some data.
        pairs: of neighbouring data.
        show: what of its result is compared with the law.
        delta: at which its privacy curve is read.
        interactive: it answers queries, and is claimed so.
        least: of a pure epsilon, the pairs lose so much at least.
    """

    make: Callable[[], Any]
    law: Callable[[list[int]], Law]
    pairs: tuple[tuple[list[int], list[int]], ...] = ((THREE, FOUR),)
    show: Callable[[Any], Hashable] = lambda result: result
    delta: str | None = None
    interactive: bool = False
    least: float = 0.4


@dataclass(frozen=True)
class Refused:
    """A measurement that has no claim, and what the refusal says."""

    make: Callable[[], Any]
    said: str


@dataclass(frozen=True)
class Stated:
    """A measurement whose outputs are not enumerated, and why; its map's loss, by hand."""

    make: Callable[[], Any] | None
    why: str
    claim: str = ""


Entry = Enumerated | Refused | Stated


def count() -> Any:
    return dp.t.make_count(*RECORDS)


def count_by(metric: Any) -> Any:
    """Return counts of each value, as a user's transformation: OpenDP's has one metric alone."""
    made = dp.t.make_count_by(*RECORDS)
    return dp.t.make_user_transformation(
        *RECORDS, made.output_domain, metric, made, lambda d_in: (d_in, float(d_in), d_in)
    )


def scores() -> Any:
    return dp.t.make_quantile_score_candidates(*RECORDS, CANDIDATES, 0.5)


def laplace(scale: float = 2.0) -> Any:
    return count() >> dp.m.then_laplace(scale=scale)


def gaussian() -> Any:
    return count() >> dp.m.then_gaussian(scale=2.0)


def score_of(data: list[int]) -> list[int]:
    """Return twice how far each candidate is from the median, in records."""
    return [abs(sum(x < c for x in data) - sum(x > c for x in data)) for c in CANDIDATES]


def laplace_of(data: list[int]) -> Law:
    return discrete_laplace(len(data), 2.0)


def gaussian_of(data: list[int]) -> Law:
    return discrete_gaussian(len(data), 2.0)


def laplace_threshold() -> Any:
    return dp.t.make_count_by(*RECORDS) >> dp.m.then_laplace_threshold(scale=1.0, threshold=5)


def noise_threshold() -> Any:
    return dp.t.make_count_by(*RECORDS) >> dp.m.then_noise_threshold(APPROXIMATE, 1.0, 5)


def gaussian_threshold() -> Any:
    metric = dp.l02inf_distance(dp.absolute_distance(T=int))
    return count_by(metric) >> dp.m.then_gaussian_threshold(scale=1.0, threshold=5)


def near(law: Law, middle: int = 4) -> Law:
    """Return a law in which far outputs are one, so that a product is small."""
    return mapped(law, lambda k: max(middle - 12, min(middle + 12, k)))


def two_laplace(data: list[int]) -> Law:
    return joint(near(laplace_of(data)), near(laplace_of(data)))


def both(result: Any) -> Hashable:
    return tuple(max(-8, min(16, each)) for each in result)


def asked_twice(make: Callable[[], Any]) -> Callable[[Any], Hashable]:
    made = cache(make)
    return lambda queryable: both([queryable(made()), queryable(made())])


def at_most_5(data: list[int]) -> Law:
    return mapped(laplace_of(data), lambda k: max(0, min(5, k)))


def top_two(data: list[int]) -> Law:
    """Return the law of the two largest scores with exponential noise of scale 4."""
    values = score_of(data)

    def density(x: float, score: float) -> float:
        return math.exp(-(x - score) / 4) / 4 if x > score else 0.0

    def below(x: float, score: float) -> float:
        return 1 - math.exp(-(x - score) / 4) if x > score else 0.0

    def of(i: int, j: int) -> float:
        (other,) = {0, 1, 2} - {i, j}

        def at(x: float) -> float:
            here = density(x, values[j]) * (1 - below(x, values[i]))
            return here * below(x, values[other])

        edges = [*sorted({float(v) for v in values}), max(values) + 30.0, max(values) + 300.0]
        parts = pairwise(edges)
        return math.fsum(quad(at, a, b, epsabs=1e-14, epsrel=1e-12)[0] for a, b in parts)

    return {pair: of(*pair) for pair in permutations(range(3), 2)}


def scored() -> Any:
    """A noisy count that is its own score."""
    score = dp.new_function(lambda value: (float(value), value), TO="(f64, ExtrinsicObject)")
    return laplace() >> score


def selected(data: list[int]) -> Law:
    """Return the law of the first noisy count above 2."""
    law = laplace_of(data)
    return of_weights({k: p for k, p in law.items() if isinstance(k, int) and k > 2})


def composed(name: str, measure: Any, losses: list[Any]) -> Callable[[], Any]:
    return lambda: getattr(dp.c, name)(*RECORDS, measure, 1, losses)


def filtered(measure: Any, budget: Any) -> Callable[[], Any]:
    odometer = dp.c.make_fully_adaptive_composition(*RECORDS, measure)
    return lambda: dp.c.make_privacy_filter(odometer, 1, budget)


def sized() -> Any:
    domain = dp.vector_domain(dp.atom_domain(bounds=(0, 1)), size=4)
    return dp.t.make_sum(domain, dp.symmetric_distance()) >> dp.m.then_laplace(scale=1.0)


APPROXIMATE: Final = dp.approximate(dp.max_divergence())
APPROXIMATE_ZCDP: Final = dp.approximate(dp.zero_concentrated_divergence())
PAIR: Final = [(0.5, 1e-7), (0.5, 1e-7)]
MORE_RANKED: Final = tuple((RANKED, sorted([*RANKED, more])) for more in CANDIDATES)


LAPLACE: Final = Enumerated(laplace, laplace_of)
BELOW_THE_THRESHOLD: Final = "leaves out what it shows at the threshold itself"
TOGETHER: Final = Enumerated(
    lambda: dp.c.make_composition([laplace(), laplace()]), two_laplace, show=both
)


def of_compositor(name: str) -> list[Entry]:
    """Return what a compositor is claimed as, with each measure."""
    pure, zcdp = dp.max_divergence(), dp.zero_concentrated_divergence()
    no_delta = "must have no delta where it answers queries"
    return [
        Enumerated(composed(name, pure, [0.5, 0.5]), two_laplace, show=asked_twice(laplace)),
        Enumerated(
            composed(name, APPROXIMATE, PAIR),
            two_laplace,
            show=asked_twice(lambda: dp.c.make_approximate(laplace())),
            interactive=True,
        ),
        Stated(composed(name, zcdp, [0.5, 0.5]), "its map is a sum", "zcdp:1"),
        Refused(composed(name, APPROXIMATE_ZCDP, PAIR), no_delta),
        Refused(lambda: same() >> composed(name, APPROXIMATE_ZCDP, PAIR)(), no_delta),
        Refused(lambda: composed(name, APPROXIMATE_ZCDP, PAIR)() >> (lambda it: it), no_delta),
    ]


def same() -> Any:
    return dp.t.make_identity(*RECORDS)


def clamped() -> Any:
    return dp.t.make_clamp(*RECORDS, (0, 9))


def select(stop: float) -> Any:
    return dp.c.make_select_private_candidate(scored(), stop_probability=stop, threshold=2.5)


MEASUREMENTS: Final[Mapping[str, list[Entry]]] = {
    "make_alp_queryable": [
        Stated(
            lambda: (
                dp.t.make_count_by(*RECORDS)
                >> dp.m.then_alp_queryable(scale=2.0, total_limit=24, value_limit=12)
            ),
            "its table has 2^500 values",
            "pure:2",
        )
    ],
    "make_canonical_noise": [
        Stated(
            lambda: (
                dp.t.make_clamp(
                    dp.vector_domain(dp.atom_domain(T=float, nan=False)), RECORDS[1], (0.0, 1.0)
                )
                >> dp.t.then_sum()
                >> dp.m.then_canonical_noise(d_in=1.01, d_out=(1.0, 0.0009765625))
            ),
            "its noise is a real number",
            "approximate:1,0.0009765625",
        )
    ],
    "make_gaussian": [Enumerated(gaussian, gaussian_of)],
    "make_gaussian_threshold": [Refused(gaussian_threshold, BELOW_THE_THRESHOLD)],
    "make_geometric": [
        Enumerated(lambda: count() >> dp.m.then_geometric(scale=2.0), laplace_of),
        Enumerated(lambda: count() >> dp.m.then_geometric(scale=2.0, bounds=(0, 5)), at_most_5),
    ],
    "make_laplace": [LAPLACE],
    "make_laplace_threshold": [Refused(laplace_threshold, BELOW_THE_THRESHOLD)],
    "make_noise": [
        Enumerated(lambda: count() >> dp.m.then_noise(dp.max_divergence(), 2.0), laplace_of),
        Enumerated(
            lambda: count() >> dp.m.then_noise(dp.zero_concentrated_divergence(), 2.0), gaussian_of
        ),
    ],
    "make_noise_threshold": [Refused(noise_threshold, BELOW_THE_THRESHOLD)],
    "make_noisy_max": [
        Enumerated(
            lambda: scores() >> dp.m.then_noisy_max(dp.max_divergence(), 4.0),
            lambda data: permute_and_flip(score_of(data), 4.0),
            MORE_RANKED,
        ),
        Enumerated(
            lambda: scores() >> dp.m.then_noisy_max(dp.zero_concentrated_divergence(), 4.0),
            lambda data: softmax(score_of(data), 4.0),
            MORE_RANKED,
        ),
    ],
    "make_noisy_top_k": [
        Enumerated(
            lambda: scores() >> dp.m.then_noisy_top_k(dp.max_divergence(), 2, 4.0),
            top_two,
            MORE_RANKED,
            tuple,
            least=0.2,
        ),
        Enumerated(
            lambda: scores() >> dp.m.then_noisy_top_k(dp.zero_concentrated_divergence(), 2, 4.0),
            lambda data: peeled(score_of(data), 4.0),
            MORE_RANKED,
            tuple,
        ),
    ],
    "make_private_expr": [Stated(None, "needs polars")],
    "make_private_lazyframe": [Stated(None, "needs polars")],
    "make_private_quantile": [
        Enumerated(
            lambda: dp.m.make_private_quantile(*RECORDS, dp.max_divergence(), CANDIDATES, 0.5, 2.0),
            lambda data: mapped(
                permute_and_flip([-x for x in score_of(data)], 4.0), CANDIDATES.__getitem__
            ),
            MORE_RANKED,
        )
    ],
    "make_randomized_response": [
        Refused(lambda: dp.m.make_randomized_response([0, 1], 0.75), "must count records")
    ],
    "make_randomized_response_bitvec": [
        Refused(
            lambda: dp.m.make_randomized_response_bitvec(
                dp.bitvector_domain(max_weight=2), dp.discrete_distance(), f=0.5
            ),
            "must count records",
        )
    ],
    "make_randomized_response_bool": [
        Refused(lambda: dp.m.make_randomized_response_bool(0.75), "must count records")
    ],
    "make_report_noisy_max_gumbel": [
        Stated(
            lambda: scores() >> dp.m.then_report_noisy_max_gumbel(4.0),
            "a deprecated name, whose noise is Gumbel's before 0.16 and is not since",
            "pure:0.5",
        )
    ],
    "make_user_measurement": [
        Stated(
            lambda: dp.m.make_user_measurement(
                *RECORDS, APPROXIMATE_ZCDP, len, lambda _: (0.5, 0.0009765625)
            ),
            "its map is a user's promise",
            "approximate_zcdp:0.5,0.0009765625",
        )
    ],
}
COMBINATORS: Final[Mapping[str, list[Entry]]] = {
    "make_adaptive_composition": of_compositor("make_adaptive_composition"),
    "make_approximate": [Enumerated(lambda: dp.c.make_approximate(laplace()), laplace_of)],
    "make_basic_composition": [
        Enumerated(
            lambda: dp.c.make_basic_composition([laplace(), laplace()]), two_laplace, show=both
        )
    ],
    "make_chain_mt": [LAPLACE],
    "make_chain_pm": [
        Enumerated(lambda: laplace() >> abs, lambda data: mapped(laplace_of(data), abs)),
    ],
    "make_chain_tt": [
        Enumerated(
            lambda: clamped() >> dp.t.then_count() >> dp.m.then_laplace(scale=2.0), laplace_of
        ),
    ],
    "make_composition": [
        TOGETHER,
        Refused(
            lambda: dp.c.make_composition(
                [composed("make_adaptive_composition", APPROXIMATE_ZCDP, PAIR)()] * 2
            ),
            "must have no delta",
        ),
    ],
    "make_fix_delta": [
        Enumerated(
            lambda: dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian()), 1e-3), gaussian_of
        )
    ],
    "make_fixed_approxDP_to_approxDP": [
        Enumerated(
            lambda: dp.c.make_fixed_approxDP_to_approxDP(
                dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian()), 1e-3)
            ),
            gaussian_of,
            delta="0.0010000001",
        )
    ],
    "make_fully_adaptive_composition": [
        Refused(
            lambda: dp.c.make_fully_adaptive_composition(*RECORDS, APPROXIMATE),
            "has no bound of its own",
        )
    ],
    "make_population_amplification": [
        Refused(
            lambda: dp.c.make_population_amplification(sized(), population_size=8),
            "must not use make_population_amplification",
        )
    ],
    "make_privacy_filter": [
        Enumerated(filtered(dp.max_divergence(), 1.0), two_laplace, show=asked_twice(laplace)),
        Enumerated(
            filtered(APPROXIMATE, (1.0, 1e-7)),
            two_laplace,
            show=asked_twice(lambda: dp.c.make_approximate(laplace())),
            interactive=True,
        ),
        Refused(filtered(APPROXIMATE_ZCDP, (1.0, 1e-7)), "must have no delta"),
    ],
    "make_pureDP_to_zCDP": [Enumerated(lambda: dp.c.make_pureDP_to_zCDP(laplace()), laplace_of)],
    "make_select_private_candidate": [
        Enumerated(lambda: select(0.0), selected, show=lambda result: result[1]),
        Stated(
            lambda: select(0.3),
            "version 0.16 goes on with another probability, which changes no loss",
            "pure:1",
        ),
    ],
    "make_sequential_composition": of_compositor("make_sequential_composition"),
    "make_zCDP_to_approxDP": [
        Enumerated(lambda: dp.c.make_zCDP_to_approxDP(gaussian()), gaussian_of, delta="0.001"),
        Enumerated(
            lambda: dp.c.make_zCDP_to_approxDP(
                composed("make_adaptive_composition", dp.zero_concentrated_divergence(), [0.125])()
            ),
            gaussian_of,
            show=lambda queryable: queryable(gaussian()),
            delta="0.001",
            interactive=True,
        ),
    ],
}
