"""`EngineMechanism`: what `ledger.measure` claims and runs, made of an engine's own object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from accountant.claims import Claim
from accountant.errors import RequestInvalid
from accountant.policy import Neighbours


class EngineMechanism(NamedTuple):
    """A mechanism with its data, and its claim.

    Attributes:
        neighbours: that the claim is for.
        run: draws the result, of the same object that the claim was read from.
        if_other: to raise for a dataset with other neighbours.
        released: whether a run that failed has released something, so that it may not run again
            for the same charge, and neither may one whose process ended. None for a mechanism that
            releases nothing but its result.
    """

    claim: Claim
    neighbours: Neighbours
    run: Callable[[], Any]
    if_other: RequestInvalid
    released: Callable[[], bool] | None = None

    def check_neighbours(self, neighbours: Neighbours | None) -> None:
        """Check that the claim is for a dataset's neighbours; None for one that does not exist.

        Raises: RequestInvalid.
        """
        if neighbours not in {None, self.neighbours}:
            raise self.if_other
