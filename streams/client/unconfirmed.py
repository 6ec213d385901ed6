"""Errors of a record that is probably a slip: nothing was sent, and `new=True` sends it."""

from __future__ import annotations

from typing import Final

from accountant.errors import RequestInvalid
from accountant.foreign_text import escape_lines


class Unconfirmed(RequestInvalid):
    """A record is probably a slip, and what it does stays for ever. Nothing was sent.

    Send it with `new=True` if it is meant.

    Attributes:
        similar: the name that was probably meant, as the caller may see it; "" where there is none.
        what: the question, without how to say that the record is meant.
    """

    def __init__(self, field: str, value: str, similar: str, what: str) -> None:
        super().__init__(field, "must be confirmed by new=True", value)
        self.similar = similar
        self.what = what

    def __str__(self) -> str:
        return f"{escape_lines(self.what)} To send the record as it is, pass new=True"


class SimilarName(Unconfirmed):
    """A name is nearly another one, so it is probably misspelt."""


class SimilarDataset(SimilarName):
    """A dataset with a similar name is open."""


class SecondDataset(Unconfirmed):
    """Another dataset reads the same source, so a second budget on the same data would open."""


class EndsJointGuarantee(Unconfirmed):
    """The datasets of a population would have no joint guarantee any more, for ever."""


class TakesFromLifetime(Unconfirmed):
    """A dataset would take from the lifetime of its population, for ever."""


class SourceDiffers(Unconfirmed):
    """A schema does not match its source: the source lacks a column, its unit, or is away."""


class SmallerLimit(Unconfirmed):
    """An ask for more would be accepted with less than the limit in force, or than is used."""


_KINDS: Final[dict[str, type[Unconfirmed]]] = {
    "similar_name": SimilarName,
    "second_dataset": SecondDataset,
    "ends_joint_guarantee": EndsJointGuarantee,
    "takes_from_lifetime": TakesFromLifetime,
    "source_differs": SourceDiffers,
    "smaller_limit": SmallerLimit,
}
CODES: Final = frozenset(_KINDS)
"""The codes of such problems."""


def unconfirmed(code: str, field: str, value: str, similar: str, what: str) -> Unconfirmed:
    """Return the error of a code."""
    kind = _KINDS[code]
    if kind is SimilarName and field == "dataset":
        kind = SimilarDataset
    return kind(field, value, similar, what)
