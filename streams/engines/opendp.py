"""OpenDP: the claim of a `Measurement` is its own privacy map."""

from __future__ import annotations

from decimal import Decimal
from operator import index
from typing import Any, Final, SupportsIndex

from accountant.claims import ApproximateZcdp, Claim, Zcdp
from accountant.claims.fields import MIN_RHO, check_delta
from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from streams.client.requests import ScopedClaim
from streams.engines.rounding import float_down, pure_or_approximate, scoped_claim, text_up

# Keyed by the type of the metric, not by its printed name: user_distance("SymmetricDistance")
# prints like a metric that it is not.
_RELATIONS: Final[dict[str, Neighbours]] = {
    "SymmetricDistance": "add_remove",
    "InsertDeleteDistance": "add_remove",
    "ChangeOneDistance": "replace",
    "HammingDistance": "replace",
}
_CURVE: Final = "SmoothedMaxDivergence"


def opendp_claim(
    measurement: Any,  # the engine has no types
    *,
    unit: str,
    d_in: SupportsIndex = 1,
    delta: str | Decimal | float | None = None,
    neighbours: Neighbours | None = None,
) -> ScopedClaim:
    """Return the claim of a measurement for data sets at distance `d_in`.

    OpenDP rounds its maps outward. The result is rounded up again, to the digits of the wire.

    Args:
        measurement: whose input metric counts records: added or removed (SymmetricDistance,
            InsertDeleteDistance), or replaced (ChangeOneDistance, HammingDistance).
        unit: what owns at most `d_in` records, such as `person`.
        d_in: how many records one unit may add, remove or replace.
        delta: for a measurement with a privacy curve (SmoothedMaxDivergence): the point at which
            to read epsilon. Leave it out for every other measurement.
        neighbours: by default those of the metric. `replace`, with a metric that counts added and
            removed records, claims a replaced unit: each replaced record counts twice, so `d_in`
            is even then.

    Raises:
        RequestInvalid: the metric does not count records, no claim has the measure, the map is not
            finite, or the map does not accept the distance.
        TypeError: it is not a Measurement of OpenDP.
    """
    from opendp.mod import Measurement

    # A subclass could have a map of its own.
    if type(measurement) is not Measurement:
        raise TypeError(_wrong_type(measurement))
    distance = _distance(d_in)
    relation = _relation(str(measurement.input_metric.type), distance, neighbours)
    claim = _claim(measurement, distance, delta)
    return scoped_claim(claim, unit=unit, neighbours=relation)


def _wrong_type(value: object) -> str:
    name = type(value).__name__
    hint = {
        "Transformation": ": it adds no noise yet. Chain it with a measurement, with >>",
        "_PartialConstructor": ": chain it to a data set's domain and metric, with >>",
        "Query": ": pass query.resolve()",
        "Odometer": ": it has no bound of its own. Claim each measurement that it runs",
    }.get(name, "")
    return f"must be an OpenDP Measurement, got {name}{hint}"


def _distance(d_in: SupportsIndex) -> int:
    try:
        if isinstance(d_in, bool):
            raise TypeError
        distance = index(d_in)
    except TypeError:
        raise RequestInvalid("d_in", "must be a whole number of records", d_in) from None
    if distance < 1:
        raise RequestInvalid("d_in", "must be at least 1", d_in)
    return distance


def _relation(metric: str, distance: int, neighbours: Neighbours | None) -> Neighbours:
    own = _RELATIONS.get(metric)
    if own is None:
        rule = (
            f"must count records ({', '.join(_RELATIONS)}): chain the measurement to the "
            "transformation of the records, with >>"
        )
        raise RequestInvalid("measurement.input_metric", rule, metric)
    if neighbours is None or neighbours == own:
        return own
    if neighbours != "replace":
        rule = f"must be replace or left out: {metric} compares data sets of one size"
        raise RequestInvalid("neighbours", rule, neighbours)
    if distance % 2:
        rule = f"must be even: under {metric} a replaced record is one removed and one added"
        raise RequestInvalid("d_in", rule, distance)
    return "replace"


def _claim(measurement: Any, distance: int, delta: str | Decimal | float | None) -> Claim:
    measure = str(measurement.output_measure.type)
    if delta is not None and measure != _CURVE:
        raise RequestInvalid("delta", f"must be left out for {measure}, which has its own", delta)
    found = _apply_map(measurement, distance)
    match measure:
        case "MaxDivergence":
            return pure_or_approximate(found, 0)
        case "Approximate<MaxDivergence>" | "FixedSmoothedMaxDivergence":
            epsilon, its_delta = found
            return pure_or_approximate(epsilon, its_delta)
        case "ZeroConcentratedDivergence":
            return Zcdp(text_up(found, "rho", least=MIN_RHO))
        case "Approximate<ZeroConcentratedDivergence>":
            rho, its_delta = found
            rho_text, delta_text = text_up(rho, "rho", least=MIN_RHO), text_up(its_delta, "delta")
            return Zcdp(rho_text) if delta_text == "0" else ApproximateZcdp(rho_text, delta_text)
        case "SmoothedMaxDivergence":
            return _curve_point(found, delta)
        case _:
            rule = (
                "must be MaxDivergence, ZeroConcentratedDivergence, one of these with a delta "
                f"(Approximate), or {_CURVE}"
            )
            raise RequestInvalid("measurement.output_measure", rule, measure)


def _apply_map(measurement: Any, distance: int) -> Any:
    from opendp.mod import OpenDPException

    try:
        return measurement.map(distance)
    except (OpenDPException, ValueError) as error:
        why = " ".join(str(error).split())
        rule = f"must be a distance that the measurement's map accepts ({why})"
        raise RequestInvalid("d_in", rule, distance) from error


def _curve_point(curve: Any, delta: str | Decimal | float | None) -> Claim:
    """Return the claim at one delta of a privacy curve; epsilon is read at no greater delta."""
    from opendp.mod import OpenDPException

    if delta is None:
        rule = "must be passed for a measurement with a privacy curve, such as delta=1e-6"
        raise RequestInvalid("delta", rule, delta)
    text = delta if isinstance(delta, str) else text_up(delta, "delta")
    exact = check_delta(text, "delta")
    try:
        return pure_or_approximate(curve.epsilon(float_down(exact)), exact)
    except OpenDPException as error:
        why = " ".join(str(error).split())
        raise RequestInvalid(
            "delta", f"must lie on the measurement's curve ({why})", text
        ) from error
