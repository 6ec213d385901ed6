"""Claims as text that an analyst types: `pure:0.01`, `gaussian:sigma=20,sensitivity=1`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from accountant.amounts import is_wire
from accountant.claims import ATOMS, MAX_DEPTH, AllOf, Claim, Interactive, Repeat, check_claim
from accountant.errors import RequestInvalid
from accountant.suggest import did_you_mean

_BY_NAME: Final = {str(kind.__struct_config__.tag): kind for kind in ATOMS}
_INTERACTIVE: Final = "interactive"
_BY_AMOUNT: Final = {
    "epsilon": "pure",
    "rho": "zcdp",
    "mu": "gdp",
    "eta": "bounded_range",
    "exponential": "bounded_range",
}
"""What people mean by an amount, or a mechanism, without a kind."""
_SEPARATORS = "*:,=+"


def claim_text(claim: Claim) -> str:
    """Return text from which `parse_claim` makes an equal claim."""
    if isinstance(claim, Repeat):
        return f"{claim.times}*{_parenthesize(claim.claim)}"
    if isinstance(claim, AllOf):
        # A batch of one ends in "+"; without it `parse_claim` would return the part alone.
        return "+".join(map(_parenthesize, claim.claims)) + "+" * (len(claim.claims) == 1)
    name = str(claim.__struct_config__.tag)
    if isinstance(claim, Interactive):
        return f"{name}:{claim_text(claim.claim)}"
    values = msgspec.structs.asdict(claim)
    fields = {field: value for field, value in values.items() if value is not msgspec.UNSET}
    if len(fields) == 1:
        return f"{name}:{next(iter(fields.values()))}"
    return f"{name}:" + ",".join(f"{field}={value}" for field, value in fields.items())


def _parenthesize(claim: Claim) -> str:
    text = claim_text(claim)
    return f"({text})" if isinstance(claim, Repeat | AllOf) else text


def parse_claim(text: str) -> Claim:
    """Return the claim that a text such as `10*pure:0.01` or `pure:0.1+zcdp:0.01` names.

    Raises: RequestInvalid: unknown kind, missing or unknown field, or a value out of range.
    """
    claim = _parse(text.strip(), text, 0)
    return check_claim(claim).claim


def parse_claim_on(dataset: str, text: str) -> Claim:
    """Return the claim that a text names, as `parse_claim`; an error notices swapped arguments.

    Raises: RequestInvalid.
    """
    try:
        return parse_claim(text)
    except RequestInvalid:
        if is_claim(dataset):
            rule, hint = "must be a name, not a claim", "put the dataset first"
            raise RequestInvalid("dataset", rule, dataset, hint=lambda: hint) from None
        raise


def is_claim(text: str) -> bool:
    """Tell whether a text names a valid claim."""
    try:
        parse_claim(text)
    except RequestInvalid:
        return False
    return True


def _parse(text: str, whole: str, level: int) -> Claim:
    if level > 2 * MAX_DEPTH + 1:  # each level of nesting takes an operator and a parenthesis
        raise RequestInvalid("claim", f"must nest at most {MAX_DEPTH} deep", whole)
    parts = _split(text, "+", whole)
    if len(parts) > 1:
        if not parts[-1]:
            parts.pop()
        return AllOf(tuple(_parse(part, whole, level + 1) for part in parts))
    times, star, rest = text.partition("*")
    if star and times.strip().isdecimal() and len(times) < 10:
        return Repeat(_parse(rest.strip(), whole, level + 1), int(times))
    if text.startswith("(") and text.endswith(")"):
        return _parse(text[1:-1].strip(), whole, level + 1)
    return _parse_atom(text, whole)


def _split(text: str, separator: str, whole: str) -> list[str]:
    """Split at each separator outside of parentheses."""
    parts, level, start = [], 0, 0
    for i, character in enumerate(text):
        level += (character == "(") - (character == ")")
        if level < 0 or level > 4:
            raise RequestInvalid("claim", "must close each parenthesis it opens", whole)
        if character == separator and not level:
            parts.append(text[start:i].strip())
            start = i + 1
    if level:
        raise RequestInvalid("claim", "must close each parenthesis it opens", whole)
    return [*parts, text[start:].strip()]


def _needed(kind: type[Claim]) -> int:
    """Return how many of a claim's fields, the first ones, have no default."""
    return len(kind.__struct_fields__) - len(kind.__struct_defaults__)


def _claim_hint(text: str) -> Callable[[], str]:
    """Return a function that suggests a claim for a text without a kind, by its amount."""
    if (known := _BY_NAME.get(text)) is not None:
        fields = ",".join(f"{field}=..." for field in known.__struct_fields__[: _needed(known)])
        return lambda: f"write {text}:{fields}"
    name, _, amount = text.replace("=", ":").partition(":")
    if is_wire(name):
        name, amount = "epsilon", name
    kind = _BY_AMOUNT.get(name)
    if kind is None or not is_wire(amount):
        return did_you_mean(text.partition(":")[0], _BY_NAME)
    return lambda: f"did you mean {kind}:{amount}?"


def _wrong_field(name: str, fields: tuple[str, ...], field: str, whole: str) -> RequestInvalid:
    """Return what is wrong with a field that a claim does not have, or has already."""
    rule = f"{name} must have the field{'s' * (len(fields) > 1)} {', '.join(fields)}"
    if field and not field[0].isdigit() and field not in fields:
        return RequestInvalid("claim", rule, whole, hint=did_you_mean(field, fields))
    rule += " once each" if len(fields) > 1 else " alone"
    meant = ""
    with_point = whole.replace(",", ".")
    if len(fields) == 1 and is_wire(with_point.partition(":")[2]):
        meant = f"did you mean {with_point}?"
    elif re.search(r"[0-9],[0-9]", whole):
        meant = "write amounts with a point, as in 0.1, not with a comma"
    return RequestInvalid("claim", rule, whole, hint=lambda: meant)


def _parse_atom(text: str, whole: str) -> Claim:
    name, colon, rest = text.partition(":")
    if name == _INTERACTIVE and colon:
        if rest.lstrip().startswith(_INTERACTIVE):
            raise RequestInvalid("claim", "must be interactive once", whole)
        return Interactive(_parse_atom(rest.strip(), whole))
    kind = _BY_NAME.get(name)
    if kind is None or not colon:
        rule = f"must be KIND:VALUE or KIND:FIELD=VALUE,... with KIND one of {', '.join(_BY_NAME)}"
        rule += f", or {_INTERACTIVE}:KIND:..."
        raise RequestInvalid("claim", rule, whole, hint=_claim_hint(text))
    fields = kind.__struct_fields__
    values: dict[str, str] = {}
    for i, part in enumerate(rest.split(",")):
        field, equals, value = part.strip().partition("=")
        if not equals and i < len(fields):
            field, value = fields[i], part
        if field not in fields or field in values:
            raise _wrong_field(name, fields, field, whole)
        values[field] = value.strip()
    missing = [f for f in fields[: _needed(kind)] if f not in values]
    if missing:
        raise RequestInvalid("claim", f"{name} must have {', '.join(missing)}", whole)
    claim: Claim = kind(**values)
    return claim
