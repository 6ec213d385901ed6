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

# By the name of the metric's type. The name that a metric prints may be anybody's:
# user_distance("SymmetricDistance") prints like the metric that it is not.
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
    """Return what a measurement promises between data sets at distance `d_in`.

    OpenDP rounds its maps outward, and what it returns is rounded up once more, to the wire's
    digits.

    Args:
        measurement: whose input metric counts records: added or removed (SymmetricDistance,
            InsertDeleteDistance), or replaced (ChangeOneDistance, HammingDistance).
        unit: what `d_in` records belong to at most, such as `person`.
        d_in: how many records one unit may add, remove or replace.
        delta: of a measurement whose promise is a curve (SmoothedMaxDivergence): where to read
            epsilon off it. Left out for every other.
        neighbours: `replace` claims a replaced unit of a measurement whose metric counts added and
            removed records; a replaced record is one of each, so `d_in` is even then. Left out, it
            follows from the metric.

    Raises:
        RequestInvalid: an input that does not count records, a measure that no claim has, a map
            that is not finite, or a distance that the map does not take.
        TypeError: it is no measurement of OpenDP's.
    """
    from opendp.mod import Measurement

    # A subclass could have a map of its own.
    if type(measurement) is not Measurement:
        raise TypeError(_what_to_hand_over(measurement))
    distance = _distance(d_in)
    relation = _relation(str(measurement.input_metric.type), distance, neighbours)
    claim = _claim(measurement, distance, delta)
    return scoped_claim(claim, unit=unit, neighbours=relation)


def _what_to_hand_over(given: object) -> str:
    name = type(given).__name__
    hint = {
        "Transformation": ": it adds no noise yet, chain it with a measurement by >>",
        "_PartialConstructor": ": chain it behind a data set's domain and metric by >>",
        "Query": ": hand over query.resolve()",
        "Odometer": ": it has no bound of its own, claim each measurement that it is asked for",
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
            f"must be one that counts records, {', '.join(_RELATIONS)}: chain the measurement "
            "behind the transformation from the records by >>"
        )
        raise RequestInvalid("measurement.input_metric", rule, metric)
    if neighbours is None or neighbours == own:
        return own
    if neighbours != "replace":
        rule = f"must be replace or left out for {metric}, which compares data sets of one size"
        raise RequestInvalid("neighbours", rule, neighbours)
    if distance % 2:
        rule = f"must be even for replaced records under {metric}: each is removed, and one added"
        raise RequestInvalid("d_in", rule, distance)
    return "replace"


def _claim(measurement: Any, distance: int, delta: str | Decimal | float | None) -> Claim:
    measure = str(measurement.output_measure.type)
    if delta is not None and measure != _CURVE:
        raise RequestInvalid("delta", f"must be left out for {measure}, which has its own", delta)
    found = _mapped(measurement, distance)
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
            return _on_curve(found, delta)
        case _:
            rule = (
                "must be MaxDivergence, ZeroConcentratedDivergence, one of these with a delta "
                f"(Approximate), or {_CURVE}"
            )
            raise RequestInvalid("measurement.output_measure", rule, measure)


def _mapped(measurement: Any, distance: int) -> Any:
    from opendp.mod import OpenDPException

    try:
        return measurement.map(distance)
    except (OpenDPException, ValueError) as error:
        why = " ".join(str(error).split())
        rule = f"must be a distance that the measurement's map takes: {why}"
        raise RequestInvalid("d_in", rule, distance) from error


def _on_curve(curve: Any, delta: str | Decimal | float | None) -> Claim:
    """Return the point of a privacy curve at a delta, its epsilon read at one no greater."""
    from opendp.mod import OpenDPException

    if delta is None:
        rule = "must be given for a measurement whose promise is a curve of epsilon over delta"
        raise RequestInvalid("delta", rule, delta)
    text = delta if isinstance(delta, str) else text_up(delta, "delta")
    exact = check_delta(text, "delta")
    try:
        return pure_or_approximate(curve.epsilon(float_down(exact)), exact)
    except OpenDPException as error:
        why = " ".join(str(error).split())
        raise RequestInvalid(
            "delta", f"must lie on the measurement's curve: {why}", text
        ) from error
