"""Odometers alone: one reading, after different histories."""

from __future__ import annotations

from collections.abc import Iterator

from accountant.odometers import Odometer, Reader, sums_of
from accountant.odometers.advanced_2016 import Advanced2016
from accountant.odometers.advanced_2016_n import Advanced2016N
from accountant.odometers.basic import Basic
from accountant.odometers.combined import Combined, SingleOdometer
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched
from benchmarks.measure import Row, Scale, best_of

_DELTA = "1e-6"
_SINGLES: tuple[SingleOdometer, ...] = (
    Basic(),
    Advanced2016(_DELTA, "0.5"),
    Advanced2016N(_DELTA, 1000),
    Linear(_DELTA, "0.5"),
    Mixture(_DELTA, "0.05"),
    OneSidedMixture(_DELTA, "0.05"),
    OneSidedMixtureExact(_DELTA, "0.05"),
    Stitched(_DELTA, "0.01"),
)
# From nothing to 10^7 claims of epsilon 0.1, in units of 1e-40.
_TOTALS = (0, 10**15, 10**30, 10**38, 10**40, 7 * 10**41, 10**45)
_MICROSECONDS = 1e6


def _slowest(odometer: Odometer, count: int) -> float:
    """Return the time of a reading, with claims' deltas, at the worst of the totals."""
    sums = sums_of(odometer)
    read = Reader(odometer, sums, 10**40).read
    worst = 0.0
    for total in _TOTALS:
        totals = tuple([10**30 if name in ("loss_delta", "loss_shift") else total for name in sums])

        def work(totals: tuple[int, ...] = totals) -> None:
            for _ in range(count):
                read(totals)

        worst = max(worst, best_of(5, work) / count * _MICROSECONDS)
    return worst


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the time of one reading of each odometer."""
    count = scale.of(20_000)
    for odometer in (*_SINGLES, Combined(_SINGLES)):
        name = str(odometer.__struct_config__.tag)
        yield Row(
            name=f"reading, odometer {name}",
            value=_slowest(odometer, count),
            unit="us",
            at_most=20,
            note="of all the others" if isinstance(odometer, Combined) else "",
        )
