"""What `ledger.measure` takes: an object of OpenDP, or a training with Opacus."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, SupportsIndex
from uuid import UUID

from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from streams.engines.mechanism import EngineMechanism
from streams.engines.opacus import Training
from streams.engines.opendp import opendp_mechanism


def engine_mechanism(
    measurement: Any,
    data: Any,
    *,
    d_in: SupportsIndex | None,
    delta: str | Decimal | float | None,
    neighbours: Neighbours | None,
    name: str | UUID | None,
) -> EngineMechanism:
    """Return what an engine's object claims and runs.

    Args:
        measurement: a `Training`, or what `opendp_mechanism` takes.
        data: of a training, the function that trains; else as of `opendp_mechanism`.
        d_in, delta, neighbours: of a measurement.
        name: of the result, or the request's id.

    Raises: RequestInvalid, TypeError: as the adapters.
    """
    if type(measurement) is not Training:
        return opendp_mechanism(measurement, data, d_in=d_in, delta=delta, neighbours=neighbours)
    for field, value in (("d_in", d_in), ("delta", delta), ("neighbours", neighbours)):
        if value is not None:
            raise RequestInvalid(field, "must be left out for a training", value)
    return measurement.mechanism(data, name)
