"""Bodies as rules 1 read them, for audits of what was decided then.

A field that later rules have added was `not a field here`, and the request `invalid`. Which field
of a wrong body is told depends on the order in which it is read, so those bodies are read by the
same types without the later fields.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from accountant.policy import Policy
from accountant.records.records import Amend, Close, Open

_OWNERS: Final = ("version", "request_id", "dataset", "by", "reason")
_KNOWN: Final[dict[type[msgspec.Struct], tuple[str, ...]]] = {
    Policy: (
        *("filter", "epsilon", "rho", "delta", "delta_for_claims", "unit", "neighbours"),
        *("odometers", "alert_at", "horizon", "halt_on_refusal", "order", "orders", "weights"),
        *("epsilon_ex_post", "delta_ex_post"),
    ),
    Open: (*_OWNERS, "policy"),
    Amend: (*_OWNERS, "alert_at", "horizon"),
    Close: _OWNERS,
}


def _first(kind: type[msgspec.Struct], **replaced: Any) -> Any:
    config = kind.__struct_config__
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(kind):
        if field.name in _KNOWN[kind]:
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


check_first: Final = msgspec.json.Decoder(
    _first(Open, policy=_first(Policy)) | _first(Amend) | _first(Close)
).decode
"""Raise msgspec.ValidationError where an owner's record has a field that rules 1 did not know."""
