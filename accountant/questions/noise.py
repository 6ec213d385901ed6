"""The noise that an analyst wants, such as `epsilon: 0.5`, `sigma: 20` or `error: 50 at 0.95`."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Final, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import parse_part, units_down
from accountant.errors import RequestInvalid
from accountant.field_rules import Confidence, EpsilonBudget, NoiseAmount, RhoBudget, Weights
from accountant.values_to_write import part_to_write

NoiseForm = Literal["epsilon", "rho", "sigma", "error"]
NoiseLaw = Literal[
    "discrete_laplace",
    "discrete_gaussian",
    "rounded_gaussian",
    "gaussian_refinement",
    "laplace_reduction",
]

MIN_CONFIDENCE: Final = Decimal("0.5")
MAX_CONFIDENCE: Final = Decimal("0.999999999")


class Noise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much noise an answer gets: one form, and perhaps the law.

    Attributes:
        epsilon, rho: what the whole answer may cost, in nats.
        sigma: standard deviation of the noise of each number, in its units.
        error, confidence: each number is within `error` of the exact one with this probability.
        law: of the noise; left out, the default of the form. A choice of candidates has none.
        first: of a session, the largest standard deviation (`gaussian_refinement`) or scale
            (`laplace_reduction`) that it may begin with, in units of the answer. The form states
            the finest level.
        weights: of several statistics, by which they divide epsilon or rho; equal by default.
    """

    epsilon: EpsilonBudget | UnsetType = UNSET
    rho: RhoBudget | UnsetType = UNSET
    sigma: NoiseAmount | UnsetType = UNSET
    error: NoiseAmount | UnsetType = UNSET
    confidence: Confidence | UnsetType = UNSET
    law: NoiseLaw | UnsetType = UNSET
    first: NoiseAmount | UnsetType = UNSET
    weights: Weights | UnsetType = UNSET

    @property
    def form(self) -> NoiseForm:
        """Which form it has."""
        return next(form for form in get_args(NoiseForm) if getattr(self, form) is not UNSET)

    @property
    def text(self) -> str:
        """The amount of its form."""
        return str(getattr(self, self.form))

    @property
    def amount(self) -> Decimal:
        """The same as a number."""
        return Decimal(self.text)


def check_confidence(text: str, *, field: str) -> Decimal:
    """Return a confidence from its text.

    Raises: RequestInvalid: it is not between 0.5 and 0.999999999.
    """
    confidence = parse_part(text, field=field)
    if not MIN_CONFIDENCE <= confidence <= MAX_CONFIDENCE:
        rule = f"must be between {MIN_CONFIDENCE} and {MAX_CONFIDENCE}"
        hint = partial(part_to_write, text) if confidence > 1 else None
        raise RequestInvalid(field, rule, text, hint=hint)
    return confidence


def units_of(found: Decimal | None, noise: Noise) -> int:
    """Return an amount in units of 1e-40. Raises: RequestInvalid: there is none."""
    if found is None:
        raise out_of_range(noise)
    return units_down(found)


def out_of_range(noise: Noise) -> RequestInvalid:
    """Return the error where no claim has the amount wanted."""
    rule = "must leave the claim of this question in its range: it is too small or too large"
    return RequestInvalid(f"noise.{noise.form}", rule, noise.text)
