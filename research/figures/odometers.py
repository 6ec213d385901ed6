"""Odometers over intrinsic time: Whitehouse 2023 Fig. 3, the poster's, and Rogers 2016's."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from accountant.amounts import to_float_up, units_up
from accountant.claims import Pure, Repeat, check_claim
from accountant.claims.price import price
from accountant.odometers import AnyOdometer, Reader
from accountant.odometers.advanced_2016 import Advanced2016
from accountant.odometers.advanced_2016_n import Advanced2016N
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from research.comparators import basic_epsilon, strong_epsilon
from research.figures.picture import Curve, Mark, Panel, Picture, even, logarithmic

EPSILON: Final = Decimal("0.1")
"""Of each mechanism of Whitehouse 2023 Fig. 3, so that V = n/100 after n of them."""

DELTA: Final = "1e-6"
COUNTS: Final = range(1, 101)

LINEAR: Final = Linear(delta=DELTA, y="0.5")
MIXTURE: Final = Mixture(delta=DELTA, r="0.05")
ONE_SIDED: Final = OneSidedMixture(delta=DELTA, r="0.05")
ONE_SIDED_EXACT: Final = OneSidedMixtureExact(delta=DELTA, r="0.05")
STITCHED: Final = Stitched(delta=DELTA, v0="0.01")
ADVANCED_2016: Final = Advanced2016(delta=DELTA, beta="0.5")
ADVANCED_2016_N: Final = Advanced2016N(delta=DELTA, n=1000)

_LABELS: Final[dict[AnyOdometer, str]] = {
    LINEAR: "linear, y = 0.5 (filter odometer)",
    MIXTURE: "mixture, r = 0.05",
    ONE_SIDED: "one-sided mixture, r = 0.05 (poster, + V/2)",
    ONE_SIDED_EXACT: "one-sided mixture, exact root",
    STITCHED: "stitched, v0 = 0.01",
    ADVANCED_2016: "Rogers 2016 Lemma 6.4, β = 0.5",
    ADVANCED_2016_N: "Rogers 2016 Thm 6.5, n = 1000",
}
_NEW: Final = (LINEAR, MIXTURE, ONE_SIDED, ONE_SIDED_EXACT, STITCHED)
_TIME: Final = "intrinsic time V = Σε²  (nats²)"
_BOUND: Final = "bound on the privacy loss  (nats)"


def over_time(odometer: AnyOdometer, times: tuple[float, ...]) -> Curve:
    """Return an odometer that is a function of intrinsic time alone."""
    boundary = odometer.boundary()
    readings = tuple(map(boundary, times))
    return _curve(odometer, times, readings)


def over_counts(odometer: AnyOdometer, counts: range) -> Curve:
    """Return what an odometer reads after so many mechanisms of pure `EPSILON`, over V.

    As a ledger reads it: from exact totals, though of V = sum epsilon^2, as the papers draw it.
    """
    sums = ("loss_epsilon_squared", "loss_kl_mean")
    reader = Reader(odometer, sums, 0)
    readings = []
    for count in counts:
        claim = check_claim(Repeat(Pure(str(EPSILON)), count))
        readings.append(reader.read(price(claim, sums).amounts))
    return _curve(odometer, _times(counts), tuple(readings))


def _curve(odometer: AnyOdometer, x: tuple[float, ...], y: tuple[float, ...]) -> Curve:
    key = str(odometer.__struct_config__.tag)
    return Curve(key=key, label=_LABELS[odometer], x=x, y=y)


def strong(counts: range) -> Curve:
    """Return strong composition, a bound at one time fixed in advance and no odometer."""
    epsilons = tuple(
        float(strong_epsilon([(EPSILON, count)], delta=Decimal(DELTA))) for count in counts
    )
    label = "strong composition (one fixed time, no odometer)"
    return Curve(key="strong", label=label, x=_times(counts), y=epsilons, adaptive=False)


def basic(counts: range) -> Curve:
    """Return what the losses' own bounds add up to: the odometer `basic`."""
    sums = tuple(float(basic_epsilon([(EPSILON, count)])) for count in counts)
    return Curve(key="basic", label="basic, Σε", x=_times(counts), y=sums)


def _times(counts: range) -> tuple[float, ...]:
    return tuple(to_float_up(units_up(EPSILON**2 * count)) for count in counts)


def odometers() -> Picture:
    """Return Whitehouse 2023's comparison of odometers with the poster's, corrected."""
    times = even(0.0, 1.0, 201)
    wide = logarithmic(1e-3, 10.0, 161)
    reference = dict(zip(wide, over_time(ONE_SIDED_EXACT, wide).y, strict=True))
    ratios = []
    for odometer in _NEW[:3] + _NEW[4:]:
        curve = over_time(odometer, wide)
        kept = [(v, u / reference[v]) for v, u in zip(curve.x, curve.y, strict=True)]
        finite = [(v, ratio) for v, ratio in kept if ratio <= _MAX_RATIO]
        ratios.append(_curve(odometer, *zip(*finite, strict=True)))
    return Picture(
        name="odometers",
        title="Odometers over intrinsic time, δ' = 1e-6",
        source="Whitehouse 2023 Thm 2 and Fig. 3, and its poster with V/2 added (errata)",
        panels=(
            Panel(
                title="pure mechanisms of ε = 0.1, up to 100 of them",
                x_label=_TIME,
                y_label=_BOUND,
                curves=(*[over_time(odometer, times) for odometer in _NEW], strong(COUNTS)),
                y_range=(0, 7),
            ),
            Panel(
                title="relative to the exact one-sided mixture",
                x_label=_TIME,
                y_label="bound / bound of the exact one-sided mixture",
                curves=tuple(ratios),
                x_scale="log",
                y_range=(0.6, _MAX_RATIO),
            ),
        ),
    )


_MAX_RATIO: Final = 2.0


def odometers_2016() -> Picture:
    """Return Rogers 2016's bounds beside those of Whitehouse 2023."""
    panel = Panel(
        title="pure mechanisms of ε = 0.1, δ' = 1e-6",
        x_label=_TIME,
        y_label=_BOUND,
        curves=(
            basic(COUNTS),
            over_counts(ADVANCED_2016_N, COUNTS),
            over_counts(ADVANCED_2016, COUNTS),
            *[over_time(odometer, _times(COUNTS)) for odometer in (STITCHED, MIXTURE, LINEAR)],
            over_time(ONE_SIDED_EXACT, _times(COUNTS)),
            strong(COUNTS),
        ),
        y_range=(0, 12),
        marks=(_last(ADVANCED_2016_N, dy=6), _last(ONE_SIDED_EXACT, dy=-24)),
    )
    return Picture(
        name="odometers_2016",
        title="Rogers 2016's odometers beside Whitehouse 2023's",
        source="Rogers 2016 Lemma 6.4 and Thm 6.5; Whitehouse 2023 Thm 2 and Fig. 3a",
        panels=(panel,),
    )


def _last(odometer: AnyOdometer, dy: float) -> Mark:
    if isinstance(odometer, Advanced2016 | Advanced2016N):
        curve = over_counts(odometer, COUNTS)
    else:
        curve = over_time(odometer, _times(COUNTS))
    return Mark(x=curve.x[-1], y=curve.y[-1], text=f"{curve.y[-1]:.2f}", dx=-34, dy=dy)
