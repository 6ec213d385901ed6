"""Decisions over several datasets, as each of the datasets sees them.

Such a decision is one record. Whatever counts, replays or shows the decisions of one dataset reads
`by_dataset` instead: for each dataset a decision like any other, about this dataset alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from accountant.records.header import DecisionHeader
from accountant.records.outcomes import Outcome, Reason
from accountant.records.records import DatasetPart, Decision, decode_decision, encode

MAX_OTHERS: Final = 15
"""The most datasets that a request may name beside its first."""
_FIELDS: Final = DatasetPart.__struct_fields__
_DEFAULTS: Final = {
    field.name: field.default for field in msgspec.structs.fields(Decision) if field.name in _FIELDS
}
_OF_AN_OPENING: Final = {"policy": None, "budget": None, "owners": (), "lifetime": None}
"""The fields of a `renewed` that are about its second dataset alone, and what others have there."""
_MARK: Final = b'"parts":['

D = TypeVar("D", bound=Decision | DecisionHeader)


def by_dataset(decision: D) -> tuple[D, ...]:
    """Return a decision for each of its datasets; of any other decision itself alone.

    A dataset that did not refuse has the reason `other_dataset`.
    """
    if not decision.parts:
        return (decision,)
    return tuple([_about(decision, part) for part in decision.parts])


def _about(decision: D, part: msgspec.Struct) -> D:
    fields = {name: getattr(part, name) for name in part.__struct_fields__}
    reason = decision.reason
    if decision.refused_by not in {None, fields["dataset"]}:
        reason = Reason.OTHER_DATASET
    if decision.outcome is Outcome.RENEWED:
        fields |= _of_renewal(decision, opens=fields["sequence"] == 1)
    return msgspec.structs.replace(decision, parts=(), reason=reason, **fields)


def _of_renewal(decision: D, *, opens: bool) -> dict[str, object]:
    """Return what else a renewal is for one of both datasets: the opening of the second."""
    if opens:
        return {"outcome": Outcome.OPENED}
    names = decision.__struct_fields__
    return {name: value for name, value in _OF_AN_OPENING.items() if name in names}


def about(decision: Decision, dataset: str) -> Decision:
    """Return a decision as one of its datasets sees it; any other decision itself."""
    found = [each for each in by_dataset(decision) if each.dataset == dataset]
    return found[0] if found else decision


def parts_of(decision: Decision) -> tuple[Decision, ...]:
    """Return a decision as each of its datasets sees it, with `part_of`; () if it has no parts."""
    return by_dataset(_with_hash(decision, encode(decision))) if decision.parts else ()


def deciding_part(decision: Decision, parts: Sequence[Decision]) -> Decision:
    """Return the one of a decision's parts that refused, else the first; itself if it has none."""
    refusing = [each for each in parts if each.dataset == decision.refused_by]
    return next(iter([*refusing, *parts]), decision)


def value_about(value: bytes, dataset: str) -> bytes:
    """Return a decision's bytes as `about` returns the decision, with `part_of` the record."""
    if _MARK not in value:  # of a request's text this is no proof, so the decision is decoded
        return value
    for each in parts_of(decode_decision(value)):
        if each.dataset == dataset:
            return encode(each)
    return value


def lines_by_dataset(line: DecisionHeader, value: bytes) -> list[tuple[DecisionHeader, bytes]]:
    """Return the header and the bytes of `by_dataset`, with `part_of` the record."""
    if not line.parts:
        return [(line, value)]
    values = map(encode, by_dataset(_with_hash(decode_decision(value), value)))
    return list(zip(by_dataset(_with_hash(line, value)), values, strict=True))


def _with_hash(decision: D, value: bytes) -> D:
    digest = f"sha256:{hashlib.sha256(value).hexdigest()}"
    return msgspec.structs.replace(decision, part_of=digest)


def join(decisions: Sequence[Decision]) -> Decision:
    """Return the one decision that some decisions are as its datasets see it."""
    refusing = [each for each in decisions if each.reason not in {None, Reason.OTHER_DATASET}]
    parts = tuple(
        [DatasetPart(**{name: getattr(each, name) for name in _FIELDS}) for each in decisions]
    )
    whole = decisions[0]
    if whole.outcome is Outcome.RENEWED:
        opening = {name: getattr(decisions[1], name) for name in _OF_AN_OPENING}
        whole = msgspec.structs.replace(whole, **opening)
    return msgspec.structs.replace(
        whole,
        **_DEFAULTS,
        reason=refusing[0].reason if refusing else None,
        refused_by=refusing[0].dataset if refusing else None,
        parts=parts,
    )
