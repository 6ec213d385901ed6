"""Bodies as older rules read them, for audits of what was decided then.

A field, a filter or a kind of claim that later rules have added was unknown then, and the request
`invalid`. Which field of a wrong body is told depends on the order in which it is read, so those
bodies are read by the same types without what came later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from operator import or_
from typing import Any, Final, get_args

import msgspec

from accountant.claims import AllOf, Claim, Interactive, Repeat
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.policy import Policy
from accountant.records.members import MEMBERS_SINCE
from accountant.records.requests import Amend, Close, MechanismRequest, Open, SetMember

_FIELDS_SINCE: Final[dict[type[msgspec.Struct], dict[str, int]]] = {
    Policy: {
        "most_per_request": 2,
        "beside": 3,
        "epsilon_each": 3,
        "access": 4,
        "visibility": 4,
        "population": 4,
    },
    Open: {"owners": 4},
    Amend: {"follows": 2, "most_per_request": 2, "policy": 2, "access": 4, "visibility": 4},
    Close: {"follows": 2},
    MechanismRequest: {"via": 4},
}
"""The fields that came after rules 1, each with the first rules that know it."""

_FILTERS_SINCE: Final[dict[str, int]] = {"renyi_mixture": 3, "optimal_homogeneous": 3}
"""The filters that came after rules 1, each with the first rules that know it."""


_CLAIMS_SINCE: Final[dict[type[msgspec.Struct], int]] = {Interactive: 3}
"""The kinds of claims that came after rules 1: all of them with these rules."""
_KNOWN_SINCE: Final = max(_CLAIMS_SINCE.values())
_NEW_KINDS: Final = tuple(str(kind.__struct_config__.tag).encode() for kind in _CLAIMS_SINCE)


class NoRequest(msgspec.Struct, tag_field="type", tag="-"):
    """Makes `type` a field that must be there: a lone kind of record may leave it out."""


class _Repeat(Repeat, frozen=True, tag="repeat"):
    claim: _Claim
    times: int


class _AllOf(AllOf, frozen=True, tag="all_of"):
    claims: tuple[_Claim, ...]


_Claim: Any = reduce(
    or_, (k for k in get_args(Claim) if k not in (*_CLAIMS_SINCE, Repeat, AllOf)), _Repeat | _AllOf
)


def check_request(body: bytes, rules: int) -> None:
    """Raise msgspec.ValidationError where a request has a field or a claim that came later."""
    # Escaped, a field or a kind would hide here.
    newer = rules < MEMBERS_SINCE and (b"\\" in body or b'"via"' in body)
    if newer or (rules < _KNOWN_SINCE and any(kind in body for kind in _NEW_KINDS)):
        _request_decoder(rules)(body)


@cache
def _request_decoder(rules: int) -> Callable[[bytes], Any]:
    claim = _Claim if rules < _KNOWN_SINCE else Claim
    kinds: Any = _older(MechanismRequest, rules, claim=claim)
    return msgspec.json.Decoder(kinds | NoRequest).decode


def check_fields(body: bytes, rules: int) -> None:
    """Raise msgspec.ValidationError where an owner's record has a field that came later."""
    _decoder(rules)(body)


def check_filter(policy: Policy, rules: int) -> None:
    """Raise RequestInvalid where a policy's filter came later than some rules."""
    known = [name for name in FILTERS if _FILTERS_SINCE.get(name, 1) <= rules]
    if policy.filter not in known:
        rule = f"must be one of {', '.join(known)}"
        raise RequestInvalid("policy.filter", rule, policy.filter)


@cache
def _decoder(rules: int) -> Callable[[bytes], Any]:
    policy = _older(Policy, rules)
    kinds: Any = _older(Open, rules, policy=policy)
    kinds |= _older(Amend, rules, policy=policy | None) | _older(Close, rules)
    if rules >= MEMBERS_SINCE:
        kinds |= SetMember
    return msgspec.json.Decoder(kinds).decode


def _older(kind: type[msgspec.Struct], rules: int, **replaced: Any) -> Any:
    """Return a type of records without the fields that came later than some rules."""
    config = kind.__struct_config__
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(kind):
        if _FIELDS_SINCE[kind].get(field.name, 1) <= rules:
            type_ = replaced.get(field.name, field.type)
            fields.append(
                (field.name, type_) if field.required else (field.name, type_, field.default)
            )
    return msgspec.defstruct(
        kind.__name__,
        fields,
        forbid_unknown_fields=True,
        frozen=True,
        kw_only=True,
        tag_field=config.tag_field,
        tag=config.tag,
    )
