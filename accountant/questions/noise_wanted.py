"""The noise that an analyst wants, as text and checked against the table of laws."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from accountant.amounts import parse
from accountant.claims.fields import check_epsilon, check_noise, check_rho
from accountant.errors import RequestInvalid
from accountant.questions.laws import ACCURACY_FIRST, FORMS, is_session
from accountant.questions.noise import Noise, check_confidence
from accountant.suggest import did_you_mean

MAX_WEIGHT: Final = 1_000
_EXAMPLES: Final = "epsilon: 0.5, rho: 0.01, sigma: 20 or error: 50 at 0.95"


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
    if noise.weights is not UNSET:
        _check_weights(noise.weights)
    if noise.first is not UNSET:
        if not is_session(noise):
            rule = f"must be left out unless the law is {' or '.join(ACCURACY_FIRST)}"
            raise RequestInvalid("noise.first", rule, noise.first)
        check_noise(noise.first, "noise.first")
    return noise


def _check_weights(weights: tuple[int, ...]) -> None:
    if not all(1 <= each <= MAX_WEIGHT for each in weights):
        rule = f"must be whole numbers between 1 and {MAX_WEIGHT}"
        raise RequestInvalid("noise.weights", rule, " ".join(map(str, weights)))


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


def parse_noise(text: str) -> Noise:
    """Return the noise of a text such as `error: 50 at 0.95` or `rho: 0.01, rounded_gaussian`.

    A session may name its first level: `rho: 0.01, gaussian_refinement from 3000`.

    Raises: RequestInvalid.
    """
    text, _, weights = text.partition(", weights ")
    before, comma, law = text.partition(",")
    form, colon, amount = (part.strip() for part in before.partition(":"))
    fields: dict[str, Any] = {form: amount}
    if form == "error":
        error, at, confidence = (part.strip() for part in amount.partition(" at "))
        fields = {"error": error, "confidence": confidence} if at else {}
    if form not in FORMS or not colon or not fields:
        hint = did_you_mean(form, FORMS)
        raise RequestInvalid("noise", f"must have the form {_EXAMPLES}", text, hint=hint)
    if comma:
        law, begins, first = (part.strip() for part in law.partition(" from "))
        fields |= {"law": law} | ({"first": first} if begins else {})
    if weights:
        fields["weights"] = weights_of(weights)
    return check_noise_wanted(Noise(**fields))


def weights_of(text: str) -> tuple[int, ...]:
    """Return the weights of a text such as `1 2 1`.

    Raises: RequestInvalid: they are no whole numbers.
    """
    words = text.replace(",", " ").split()
    if not words or not all(each.isascii() and each.isdecimal() for each in words):
        raise RequestInvalid("noise.weights", "must be whole numbers such as 1 2 1", text)
    return tuple(int(each[:9]) for each in words)


def noise_text(noise: Noise) -> str:
    """Return the text of a checked noise, from which `parse_noise` makes an equal one."""
    text = f"{noise.form}: {noise.text}"
    if noise.form == "error":
        text += f" at {noise.confidence}"
    if noise.law is not UNSET:
        text += f", {noise.law}"
    if noise.first is not UNSET:
        text += f" from {noise.first}"
    if noise.weights is UNSET:
        return text
    return f"{text}, weights {' '.join(map(str, noise.weights))}"
