"""OpenDP: the claim of a `Measurement` is its own privacy map; `ledger.measure` runs it, too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from operator import index
from typing import Any, Final, SupportsIndex

from accountant.claims import Approximate, ApproximateZcdp, Claim, Interactive, Zcdp
from accountant.claims.fields import MIN_RHO, check_delta
from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from streams.engines.mechanism import EngineMechanism
from streams.engines.opendp_constructors import (
    check_constructors,
    is_of_its_user,
    is_one_release,
)
from streams.engines.rounding import float_down, pure_or_approximate, text_up
from streams.engines.scoped_claim import ScopedClaim, scoped_claim
from streams.engines.wrong_type import wrong_type

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

    OpenDP rounds its maps outward. The result is rounded up again, to the digits of the wire. A
    compositor with a delta is claimed as `interactive`.

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
            finite, or the map does not accept the distance; it is a compositor of a rho with a
            delta; or one of its constructors has a map that does not hold.
        TypeError: it is not a Measurement of OpenDP.
    """
    claim, relation = _claim_and_relation(measurement, d_in, delta, neighbours)
    return scoped_claim(claim, unit=unit, neighbours=relation)


def opendp_mechanism(
    measurement: Any,
    data: Any = None,
    *,
    d_in: SupportsIndex | None = None,
    delta: str | Decimal | float | None = None,
    neighbours: Neighbours | None = None,
) -> EngineMechanism:
    """Return a measurement with its data, or a query of a Context, as one mechanism.

    A query is resolved once: its claim is read from the measurement that then runs in its Context,
    as `query.release()` runs it.

    Args:
        measurement: a `Measurement`; or a `Query` of a Context, which has its own data and `d_in`.
        data: for a measurement: what it is called with.
        d_in: for a measurement: as of `opendp_claim`, by default 1.
        delta, neighbours: as of `opendp_claim`.

    Raises:
        RequestInvalid: as `opendp_claim`; or the query is in no Context, is a compositor, or is
            more than its Context allows next; or the data is missing. As it runs: a user's own
            function returns a Queryable, and the claim has a delta.
        TypeError: it is neither a Measurement nor a Query of OpenDP.
    """
    run: Any = measurement
    argument = data
    if is_query := _is_exactly(measurement, "opendp.context", "Query"):
        run, argument = _in_context(measurement)
        for field, value in (("data", data), ("d_in", d_in)):
            if value is not None:
                rule = "must be left out: the query's Context has its own"
                raise RequestInvalid(field, rule, type(value).__name__)
        measurement, d_in = argument, run.d_in
    claim, relation = _claim_and_relation(
        measurement, 1 if d_in is None else d_in, delta, neighbours
    )
    if data is None and not is_query:
        raise RequestInvalid("data", "must be passed for a measurement", None)
    if_other = _other_neighbours(measurement, relation)
    release = partial(run, argument)
    if isinstance(claim, Approximate | ApproximateZcdp) and is_of_its_user(measurement):
        release = partial(_release_once, release)
    return EngineMechanism(claim, relation, release, if_other)


def _release_once(release: Callable[[], Any]) -> Any:
    """Return a result whose claim, with a delta, is that of one release.

    Its constructor does not tell what the user's function returns.
    Raises: RequestInvalid: it answers queries (docs/theory.md P12).
    """
    result = release()
    if _answers_queries(result):
        rule = (
            "must answer once where its claim has a delta: it is charged, and not returned. Claim "
            "each measurement that it runs"
        )
        raise RequestInvalid("measurement", rule, "a measurement that returns a Queryable")
    return result


def _answers_queries(result: Any) -> bool:
    if isinstance(result, Mapping):
        result = [*result.values()]
    if isinstance(result, list | tuple):
        return any(map(_answers_queries, result))
    return _is_exactly(result, "opendp.mod", "Queryable")


def _claim_and_relation(
    measurement: Any,
    d_in: Any,
    delta: str | Decimal | float | None,
    neighbours: Neighbours | None,
) -> tuple[Claim, Neighbours]:
    # A subclass could have a map of its own.
    if not _is_exactly(measurement, "opendp.mod", "Measurement"):
        raise _wrong_type(measurement)
    distance = _distance(d_in)
    relation = _relation(str(measurement.input_metric.type), distance, neighbours)
    check_constructors(measurement)
    claim = _claim(measurement, distance, delta)
    return (claim if is_one_release(measurement) else _interactive(claim)), relation


def _is_exactly(value: object, module: str, name: str) -> bool:
    # An object of OpenDP exists only where OpenDP is imported.
    return type(value) is getattr(sys.modules.get(module), name, None)


def _in_context(query: Any) -> tuple[Any, Any]:
    """Return a query's Context, and the measurement that it resolves to.

    Raises: RequestInvalid.
    """
    from opendp.mod import Measurement, OpenDPException

    # OpenDP has no public name for these two attributes.
    context, makes_context = query._context, query._wrap_release is not None
    if context is None:
        rule = "must be of a Context; otherwise pass query.resolve(), with its data and d_in"
        raise RequestInvalid("query", rule, "a query without one")
    if makes_context:
        rule = "must draw a result, not make a Context: measure each query of that Context"
        raise RequestInvalid("query", rule, "a compositor")
    try:
        measurement = query.resolve()
        fits = type(measurement) is not Measurement or _is_next(context, measurement)
    except (OpenDPException, ValueError, TypeError) as error:
        rule = f"must be a query that OpenDP can resolve ({' '.join(str(error).split())})"
        raise RequestInvalid("query", rule, "a query of a Context") from error
    if not fits:
        rule = "must lose at most what its Context has for its next query. Make it again"
        raise RequestInvalid("query", rule, measurement.map(context.d_in))
    return context, measurement


def _is_next(context: Any, measurement: Any) -> bool:
    """Whether a Context that has a list of losses would run a measurement now."""
    losses = context.d_mids
    return losses is None or bool(losses and measurement.check(context.d_in, losses[0]))


def _other_neighbours(measurement: Any, relation: Neighbours) -> RequestInvalid:
    """Return the error for a dataset whose neighbours are not these."""
    metric = str(measurement.input_metric.type)
    if relation == "add_remove":
        rule = (
            "must compare replaced records, as the dataset does (ChangeOneDistance, "
            "HammingDistance); or pass neighbours='replace', with twice a unit's records as d_in"
        )
    elif _RELATIONS[metric] == relation:
        rule = (
            "must count records added or removed, as the dataset does (SymmetricDistance, "
            "InsertDeleteDistance)"
        )
    else:
        return RequestInvalid("neighbours", "must be left out for this dataset", relation)
    return RequestInvalid("measurement.input_metric", rule, metric)


def _wrong_type(value: object) -> TypeError:
    how = {
        "Transformation": "It adds no noise yet: chain it with a measurement, with >>",
        "_PartialConstructor": "Chain it to a data set's domain and metric, with >>",
        "Query": "Pass query.resolve()",
        "Odometer": "It has no bound of its own: claim each measurement that it runs",
    }.get(type(value).__name__, "Pass what a constructor such as make_laplace(...) returns")
    return wrong_type("measurement", "an OpenDP Measurement", value, how)


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


def _interactive(claim: Claim) -> Claim:
    """Return the claim of a measurement that answers queries after it was made.

    Without a delta it is charged as one release is (docs/theory.md P12).
    """
    match claim:
        case Approximate():
            return Interactive(claim)
        case ApproximateZcdp():
            rule = (
                "must have no delta where it answers queries by a rho (a compositor, or a "
                "measurement of unknown making). Claim each measurement that it runs"
            )
            raise RequestInvalid("measurement", rule, f"rho {claim.rho}, delta {claim.delta}")
        case _:
            return claim


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
