"""The noise that an analyst wants, such as `epsilon: 0.5`, `sigma: 20` or `error: 50 at 0.95`."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import parse, parse_part
from accountant.claims.fields import check_epsilon, check_noise, check_rho
from accountant.errors import RequestInvalid
from accountant.field_rules import Confidence, EpsilonBudget, NoiseAmount, RhoBudget
from accountant.suggest import did_you_mean
from accountant.values_to_write import part_to_write

NoiseForm = Literal["epsilon", "rho", "sigma", "error"]
NoiseLaw = Literal[
    "discrete_laplace",
    "discrete_gaussian",
    "rounded_gaussian",
    "gaussian_refinement",
    "laplace_reduction",
]

FORMS: Final[dict[NoiseForm, tuple[NoiseLaw, ...]]] = {
    "epsilon": ("discrete_laplace", "laplace_reduction"),
    "rho": ("discrete_gaussian", "rounded_gaussian", "gaussian_refinement"),
    "sigma": ("rounded_gaussian", "discrete_gaussian", "gaussian_refinement"),
    "error": (
        "discrete_laplace",
        "discrete_gaussian",
        "rounded_gaussian",
        "laplace_reduction",
        "gaussian_refinement",
    ),
}
"""The laws that each form may have, its default first."""
ACCURACY_FIRST: Final[tuple[NoiseLaw, ...]] = ("gaussian_refinement", "laplace_reduction")
"""The laws of sessions, which show one answer with less and less noise."""
MIN_CONFIDENCE: Final = Decimal("0.5")
MAX_CONFIDENCE: Final = Decimal("0.999999999")
_EXAMPLES: Final = "epsilon: 0.5, rho: 0.01, sigma: 20 or error: 50 at 0.95"


class Noise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much noise an answer gets: one form, and perhaps the law.

    Attributes:
        epsilon, rho: what the whole answer may cost, in nats.
        sigma: standard deviation of the noise of each number, in its units.
        error, confidence: each number is within `error` of the exact one with this probability.
        law: of the noise; left out, the form's first of `FORMS`. A choice of candidates has none.
        first: of a session, the largest standard deviation (`gaussian_refinement`) or scale
            (`laplace_reduction`) that it may begin with, in units of the answer. The form states
            the finest level.
    """

    epsilon: EpsilonBudget | UnsetType = UNSET
    rho: RhoBudget | UnsetType = UNSET
    sigma: NoiseAmount | UnsetType = UNSET
    error: NoiseAmount | UnsetType = UNSET
    confidence: Confidence | UnsetType = UNSET
    law: NoiseLaw | UnsetType = UNSET
    first: NoiseAmount | UnsetType = UNSET

    @property
    def is_session(self) -> bool:
        """Whether the answer is shown with less and less noise, until a rule stops it."""
        return self.law in ACCURACY_FIRST

    @property
    def form(self) -> NoiseForm:
        """Which form it has."""
        return next(form for form in FORMS if getattr(self, form) is not UNSET)

    @property
    def text(self) -> str:
        """The amount of its form."""
        return str(getattr(self, self.form))

    @property
    def amount(self) -> Decimal:
        """The same as a number."""
        return Decimal(self.text)


def check_noise_wanted(noise: Noise) -> Noise:
    """Return the noise if each of its fields obeys its rule.

    Raises: RequestInvalid: naming field, rule and value.
    """
    forms = [form for form in FORMS if getattr(noise, form) is not UNSET]
    if len(forms) != 1:
        rule = f"must be one of {', '.join(FORMS)}"
        raise RequestInvalid("noise", rule, ", ".join(forms) or "none of them")
    form = noise.form
    if (noise.confidence is not UNSET) is not (form == "error"):
        rule = "must be given with error, and with nothing else"
        raise RequestInvalid("noise.confidence", rule, noise.confidence or None)
    if noise.law is not UNSET and noise.law not in FORMS[form]:
        rule = f"must be {' or '.join(FORMS[form])} for {form}"
        hint = did_you_mean(noise.law, FORMS[form])
        raise RequestInvalid("noise.law", rule, noise.law, hint=hint)
    _check_amount(noise)
    if noise.first is not UNSET:
        if not noise.is_session:
            rule = f"must be left out unless the law is {' or '.join(ACCURACY_FIRST)}"
            raise RequestInvalid("noise.first", rule, noise.first)
        check_noise(noise.first, "noise.first")
    return noise


def _check_amount(noise: Noise) -> None:
    field = f"noise.{noise.form}"
    match noise.form:
        case "epsilon":
            amount = check_epsilon(noise.text, field)
        case "rho":
            amount = check_rho(noise.text, field)
        case "sigma":
            amount = check_noise(noise.text, field)
        case "error":
            amount = parse(noise.text, field=field)
            check_confidence(str(noise.confidence), field="noise.confidence")
    if not amount:
        raise RequestInvalid(field, "must be greater than 0", noise.text)


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


def parse_noise(text: str) -> Noise:
    """Return the noise of a text such as `error: 50 at 0.95` or `rho: 0.01, rounded_gaussian`.

    A session may name its first level: `rho: 0.01, gaussian_refinement from 3000`.

    Raises: RequestInvalid.
    """
    before, comma, law = text.partition(",")
    form, colon, amount = (part.strip() for part in before.partition(":"))
    fields = {form: amount}
    if form == "error":
        error, at, confidence = (part.strip() for part in amount.partition(" at "))
        fields = {"error": error, "confidence": confidence} if at else {}
    if form not in FORMS or not colon or not fields:
        hint = did_you_mean(form, FORMS)
        raise RequestInvalid("noise", f"must have the form {_EXAMPLES}", text, hint=hint)
    if comma:
        law, begins, first = (part.strip() for part in law.partition(" from "))
        fields |= {"law": law} | ({"first": first} if begins else {})
    noise = Noise(**fields)  # type: ignore[arg-type]
    return check_noise_wanted(noise)


def noise_text(noise: Noise) -> str:
    """Return the text of a checked noise, from which `parse_noise` makes an equal one."""
    text = f"{noise.form}: {noise.text}"
    if noise.form == "error":
        text += f" at {noise.confidence}"
    if noise.law is not UNSET:
        text += f", {noise.law}"
    return text if noise.first is UNSET else f"{text} from {noise.first}"
