"""The rules for the fields of claims and budgets."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Final, Self

import msgspec

from accountant.amounts import parse, parse_in
from accountant.errors import RequestInvalid

MIN_EPSILON: Final = Decimal("1e-12")
MAX_EPSILON: Final = Decimal("1e3")
MIN_RHO: Final = Decimal("1e-25")
MAX_RHO: Final = Decimal("1e6")
_GRANT: Final = re.compile(r"sha256:[0-9a-f]{64}")
GRANT_PATTERN: Final = _GRANT.pattern


class ClaimFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """Base of all claims: checks of its fields, and how the search for a cheaper claim varies it.

    Attributes:
        knob: the name of the field that the search varies, such as `epsilon` or `sigma`.
        knob_sign: +1 if a larger value costs more, -1 if it costs less.
        knob_is_power: whether the cost grows about as a power of the value.
        only_for: the neighbouring relation that the claim is valid for, "" for both.
    """

    knob: ClassVar[str] = ""
    knob_sign: ClassVar[int] = 1
    knob_is_power: ClassVar[bool] = True
    only_for: ClassVar[str] = ""

    def offered(self) -> Self:
        """Return the claim that a refusal varies to offer one that fits."""
        return self

    def check(self) -> None:
        """Raise RequestInvalid with field, rule and value if a field breaks its rule."""
        raise NotImplementedError


def check_grant(text: str, field: str) -> None:
    """Raise RequestInvalid unless a text has the form of a hash, of a decision or a document."""
    if _GRANT.fullmatch(text) is None:
        rule = "must be a hash: sha256: and 64 hexadecimal digits"
        raise RequestInvalid(field, rule, text)


def check_epsilon(text: str, field: str) -> Decimal:
    """Return an epsilon, eta or mu from its text.

    Raises: RequestInvalid: it is neither 0 nor 1e-12 to 1e3.
    """
    return parse_in(text, field=field, minimum=MIN_EPSILON, maximum=MAX_EPSILON, zero=True)


def check_rho(text: str, field: str) -> Decimal:
    """Return a rho from its text.

    Raises: RequestInvalid: it is neither 0 nor 1e-25 to 1e6.
    """
    return parse_in(text, field=field, minimum=MIN_RHO, maximum=MAX_RHO, zero=True)


def check_delta(text: str, field: str) -> Decimal:
    """Return a delta from its text.

    Raises: RequestInvalid: it is not in [0, 1).
    """
    value = parse(text, field=field)
    if value >= 1:
        raise RequestInvalid(field, "must be less than 1", text)
    return value


def check_noise(text: str, field: str) -> Decimal:
    """Return a scale, standard deviation or variance of noise from its text.

    Raises: RequestInvalid: it is not above 0.
    """
    value = parse(text, field=field)
    if not value:
        raise RequestInvalid(field, "must be greater than 0", text)
    return value


def check_rate(text: str, field: str) -> Decimal:
    """Return a sampling probability from its text.

    Raises: RequestInvalid: it is not 1e-12 to 1.
    """
    return parse_in(text, field=field, minimum=MIN_EPSILON, maximum=Decimal(1), zero=False)


def check_result(value: Fraction, what: str, minimum: Decimal, maximum: Decimal) -> None:
    """Raise RequestInvalid unless a value computed from fields is 0 or within bounds."""
    if value and not Fraction(minimum) <= value <= Fraction(maximum):
        raise RequestInvalid(
            what, f"must be 0 or between {minimum} and {maximum}", f"{float(value):.6g}"
        )
