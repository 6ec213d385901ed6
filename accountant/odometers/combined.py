"""The smallest of several odometers."""

from __future__ import annotations

import math
from decimal import Decimal

from accountant.amounts import Units, precise
from accountant.errors import RequestInvalid
from accountant.odometers.advanced_2016 import Advanced2016
from accountant.odometers.advanced_2016_n import Advanced2016N
from accountant.odometers.base import Boundary, Odometer, Read, to_float
from accountant.odometers.basic import Basic
from accountant.odometers.linear import Linear
from accountant.odometers.mixture import Mixture
from accountant.odometers.one_sided_mixture import OneSidedMixture
from accountant.odometers.one_sided_mixture_exact import OneSidedMixtureExact
from accountant.odometers.stitched import Stitched

SingleOdometer = (
    Basic
    | Advanced2016
    | Advanced2016N
    | Linear
    | Mixture
    | OneSidedMixture
    | OneSidedMixtureExact
    | Stitched
)
"""Every odometer except `Combined`."""

MAX_PARTS = 8


class Combined(Odometer, frozen=True, tag="combined"):
    """U = the smallest reading of several odometers, each with its own delta'.

    By the union bound it fails with probability at most the sum of their delta', and of the
    claims' own deltas: those are spent once, whichever part is read.
    Source: docs/theory.md section 4. The smallest of readings taken side by side is no
    odometer at any one of their deltas.
    """

    odometers: tuple[SingleOdometer, ...]

    exact = True

    def failure(self) -> Decimal:
        with precise():
            return sum((part.failure() for part in self.odometers), Decimal(0))

    def names(self, *, with_deltas: bool, with_ex_post: bool) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for part in self.odometers:
            needed = part.names(with_deltas=with_deltas, with_ex_post=with_ex_post)
            names.update(dict.fromkeys(needed))
        return tuple(names)

    def boundary(self) -> Boundary:
        """Return U over the sums `names(with_deltas=False, with_ex_post=False)`, as `Units`."""
        self._check()
        sums = self.names(with_deltas=False, with_ex_post=False)
        parts = [
            (part.boundary(), part.exact, [sums.index(name) for name in part.sums])
            for part in self.odometers
        ]

        def reading(*units: Units) -> float:
            minimum = math.inf
            for bound, exact, places in parts:
                taken = [units[i] for i in places]
                minimum = min(minimum, bound(*(taken if exact else map(to_float, taken))))
            return minimum

        return reading

    def read(self, sums: tuple[str, ...], delta_limit: Units) -> Read:
        # Each part keeps its own rule for the claims' deltas: `basic` does not shift by them.
        self._check()
        reads = [part.read(sums, delta_limit) for part in self.odometers]
        return lambda totals: min([read(totals) for read in reads])

    def _check(self) -> None:
        if not 2 <= len(self.odometers) <= MAX_PARTS:
            rule = f"must hold 2 to {MAX_PARTS} odometers"
            raise RequestInvalid("odometers", rule, len(self.odometers))
        for i, part in enumerate(self.odometers):
            try:
                part.boundary()
            except RequestInvalid as error:
                raise error.under(f"odometers[{i}]") from None
        if self.failure() >= 1:
            rule = "must have deltas that add up to less than 1"
            raise RequestInvalid("odometers", rule, str(self.failure()))
