"""dp-accounting: the claim of a `DpEvent`, and so of training with DP-SGD."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from accountant.claims import (
    AllOf,
    Claim,
    Gaussian,
    Laplace,
    Pure,
    Repeat,
    SubsampledGaussian,
    Zcdp,
)
from accountant.claims.fields import MIN_EPSILON, MIN_RHO
from accountant.errors import RequestInvalid
from streams.engines.rounding import integer, rate_up, text_down, text_up
from streams.engines.scoped_claim import ScopedClaim, scoped_claim
from streams.engines.wrong_type import wrong_type


def event_claim(event: Any, *, unit: str) -> ScopedClaim:
    """Return the claim of an event for one unit added or removed.

    An event's noise is relative to the norm of what one record adds. Its neighbours are therefore
    data sets with one record more or less: swapping two records moves the sum twice as far.
    Noise parameters are rounded down, all others up.

    Args:
        event: a Gaussian, Laplace or discrete Laplace event, a zCDP event without `xi`, a Gaussian
            on a Poisson sample, or such events composed. Where Opacus trains, that is
            `SelfComposedDpEvent(PoissonSampledDpEvent(sample_rate,
            GaussianDpEvent(noise_multiplier)), steps)`.
        unit: what a record of the event is, such as `person`; each unit has one record.

    Raises:
        RequestInvalid: no claim describes the event, or a parameter is out of bounds.
        TypeError: it is not an event of dp-accounting.
    """
    from dp_accounting import DpEvent

    if not isinstance(event, DpEvent):
        how = "Pass an event such as GaussianDpEvent(1.0), or several in a ComposedDpEvent([...])"
        raise wrong_type("event", "a DpEvent of dp-accounting", event, how)
    try:
        claim = _claim(event, "event")
    except RecursionError:
        raise RequestInvalid("event", "must nest less deeply", type(event).__name__) from None
    return scoped_claim(claim, unit=unit, neighbours="add_remove")


def _claim(event: Any, field: str) -> Claim:
    # Compare exact types: a subclass may be another mechanism.
    from dp_accounting import dp_event as e

    kind = type(event)
    if kind is e.NoOpDpEvent:
        return Pure("0")
    if kind is e.GaussianDpEvent:
        return Gaussian(text_down(event.noise_multiplier, f"{field}.noise_multiplier"), "1")
    if kind is e.LaplaceDpEvent:
        # Also valid for a vector: the curve of Laplace noise is convex in the shift and 0 at 0, so
        # no split of the l1 norm over coordinates costs more than all of it in one.
        return Laplace(text_down(event.noise_multiplier, f"{field}.noise_multiplier"), "1")
    if kind is e.DiscreteLaplaceDpEvent:
        return _discrete_laplace(event, field)
    if kind is e.ZCDpEvent and event.xi == 0:
        return Zcdp(text_up(event.rho, f"{field}.rho", least=MIN_RHO))
    if kind is e.PoissonSampledDpEvent:
        return _sampled(event, field)
    if kind is e.SelfComposedDpEvent:
        times = integer(event.count, f"{field}.count")
        return Repeat(_claim(event.event, f"{field}.event"), times)
    if kind is e.ComposedDpEvent:
        parts = [_claim(part, f"{field}.events[{i}]") for i, part in enumerate(event.events)]
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))
    raise RequestInvalid(field, _NO_CLAIM, kind.__name__)


_NO_CLAIM: Final = (
    "must be a Gaussian, Laplace or discrete Laplace event, a zCDP event with xi = 0, a Poisson "
    "sample of a Gaussian, or a composition of these. For a sample of another event, claim the "
    "event itself: it costs no less"
)


def _sampled(event: Any, field: str) -> Claim:
    inner = _claim(event.event, f"{field}.event")
    if not isinstance(inner, Gaussian) or isinstance(inner, SubsampledGaussian):
        raise RequestInvalid(f"{field}.event", _NO_CLAIM, type(event.event).__name__)
    rate = rate_up(event.sampling_probability, f"{field}.sampling_probability")
    return SubsampledGaussian(inner.sigma, inner.sensitivity, rate)


def _discrete_laplace(event: Any, field: str) -> Claim:
    parameter = Fraction(text_up(event.noise_parameter, f"{field}.noise_parameter"))
    if not parameter:
        raise RequestInvalid(f"{field}.noise_parameter", "must be greater than 0", 0)
    sensitivity = integer(event.sensitivity, f"{field}.sensitivity")
    return Pure(text_up(parameter * sensitivity, f"{field} epsilon", least=MIN_EPSILON))
