"""The rules of fields on the wire, each beside the type of its field.

A rule has a name alone: the checks of inputs enforce it, and the OpenAPI document describes it
(`streams/gateway/contract/fields.py`). It is no `msgspec.Meta`, which would check every old record
again when a log is read, and in words of its own.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from msgspec import UnsetType


class Rule(NamedTuple):
    """The name of a rule."""

    name: str


Name = Annotated[str, Rule("Name")]
RequestId = Annotated[str, Rule("RequestId")]
Hash = Annotated[str, Rule("Hash")]
Time = Annotated[str, Rule("Time")]
Until = Annotated[str, Rule("Until")]
Period = Annotated[str, Rule("Period")]
Unit = Annotated[str, Rule("Unit")]
Note = Annotated[str, Rule("Note")]
Horizon = Annotated[str, Rule("Horizon")]
ApproveWithin = Annotated[str, Rule("ApproveWithin")]
Grant = Annotated[str, Rule("Grant")]
ContinuedGrant = Annotated[str, Rule("ContinuedGrant")]
Thresholds = Annotated[tuple[str, ...], Rule("Thresholds")]
Owners = Annotated[tuple[str, ...], Rule("Owners")]
Weights = Annotated[tuple[int, ...], Rule("Weights")]

Epsilon = Annotated[str, Rule("Epsilon")]
EpsilonBudget = Annotated[str, Rule("EpsilonBudget")]
Rho = Annotated[str, Rule("Rho")]
RhoBudget = Annotated[str, Rule("RhoBudget")]
Delta = Annotated[str, Rule("Delta")]
OdometerDelta = Annotated[str, Rule("OdometerDelta")]
Confidence = Annotated[str, Rule("Confidence")]
Order = Annotated[str, Rule("Order")]
Rate = Annotated[str, Rule("Rate")]
Ratio = Annotated[str, Rule("Ratio")]
NoiseAmount = Annotated[str, Rule("NoiseAmount")]
Sensitivity = Annotated[str, Rule("Sensitivity")]
OdometerParameter = Annotated[str, Rule("OdometerParameter")]

LedgerAmount = Annotated[str, Rule("LedgerAmount")]
Amounts = Annotated[dict[str, str], Rule("Amounts")]
Totals = Annotated[dict[str, str | int], Rule("Totals")]
Excess = Annotated[dict[str, str], Rule("Excess")]

Count = Annotated[int, Rule("Count")]
Times = Annotated[int, Rule("Times")]
Requests = Annotated[int, Rule("Requests")]
OpenPerHolder = Annotated[int, Rule("OpenPerHolder")]
PartOfOne = Annotated[float, Rule("PartOfOne")]


def plain_types(kind: Any) -> frozenset[Any]:
    """Return the types that a field may have, without the names of their rules."""
    if get_origin(kind) in {Union, UnionType}:
        return frozenset().union(*map(plain_types, get_args(kind)))
    return frozenset({kind.__origin__ if get_origin(kind) is Annotated else kind})


def is_text(kind: Any) -> bool:
    """Return whether a field is a text where it is given: any one, or one of some words."""
    given = plain_types(kind) - {NoneType, UnsetType}
    return all(
        isinstance(get_args(each)[0], str) if get_origin(each) is Literal else each is str
        for each in given
    )


def rule_of(kind: Any) -> str | None:
    """Return the rule of a field's type, also where the field may be left out or null."""
    if get_origin(kind) in {Union, UnionType}:
        return next((rule for part in get_args(kind) if (rule := rule_of(part)) is not None), None)
    return next(
        (each.name for each in getattr(kind, "__metadata__", ()) if isinstance(each, Rule)), None
    )
