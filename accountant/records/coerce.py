"""Values of programs and notebooks as the wire has them: exactly, or an error with the fix.

Numbers become wire decimals by `exact_numbers.exact_text`; text stays as it is, so that a retry by
an older program has the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from numbers import Real
from operator import is_
from typing import Any, Final, cast, get_args
from uuid import UUID

import msgspec
from msgspec.structs import astuple

from accountant.claims import ATOMS, Claim
from accountant.errors import RequestInvalid
from accountant.exact_numbers import exact_text, whole_number
from accountant.field_rules import plain_types
from accountant.odometers import AnyOdometer
from accountant.policy import Policy
from accountant.records.inputs import MAX_NESTED
from accountant.records.records import encode
from accountant.records.translate import translate
from accountant.times import issued_at, utc_iso

_CLAIM_RULE: Final = (
    "must be text such as pure:0.1, a value of accountant.claims, or an object such as "
    '{"type": "pure", "epsilon": "0.1"}'
)
_ADAPTERS: Final = {
    "opendp": "ledger.measure(dataset, measurement, data), or streams.engines.opendp.opendp_claim",
    "diffprivlib": "streams.engines.diffprivlib.mechanism_claim, or LedgerBudget",
    "dp_accounting": "streams.engines.dp_accounting.event_claim",
    "opacus": "streams.engines.opacus.Training with ledger.measure(dataset, training, train)",
    "snsql": "streams.engines.smartnoise.query_claim",
}
"""What makes a claim of an engine's object, by the package that the object is of."""
_POLICY_RULE: Final = 'must be a Policy, or an object such as {"epsilon": "1", "delta": "1e-6"}'
_RATIOS_RULE: Final = 'must be a list of ratios, such as ["0.5", "0.9"]'
_KINDS: Final[dict[str, Any]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Claim)}


class _ClaimField(msgspec.Struct):
    claim: Claim


_decode_claim = msgspec.json.Decoder(_ClaimField).decode

_TEXTS: Final = frozenset(
    {"type", "filter", "unit", "neighbours", "horizon", "beside", "access", "visibility"}
    | {"population"}
)
"""The fields of claims, policies and odometers that are words, and no amounts."""

_DAY: Final = len("2027-01-01")

_IsUp = Callable[[Mapping[str, object], str], bool]
"""Whether a larger value of an object's field is the safe side."""


def coerce_text(field: str, value: object) -> str:
    """Return a name or another text of a program.

    The encoder would write bytes, dates and numbers as some text that the program does not mean.

    Raises: RequestInvalid: it is no `str`, or UTF-8 cannot encode it.
    """
    if not isinstance(value, str):
        raise RequestInvalid(field, "must be text", value, hint=lambda: _as_text(value))
    text = str.__str__(value)  # of numpy's `str_` and of enumerations, what is in them
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RequestInvalid(field, "must be text that UTF-8 can encode", text) from None
    return text


def optional_text(field: str, value: object) -> str | None:
    """Return a text as `coerce_text` does, None as it is.

    Raises: RequestInvalid.
    """
    return None if value is None else coerce_text(field, value)


def coerce_seconds(field: str, value: object) -> float:
    """Return a number of seconds.

    Raises: RequestInvalid: it is no number, not finite or below 0.
    """
    try:
        is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
        seconds = float(cast("float", value)) if is_number else math.nan
    except (OverflowError, ValueError):  # too large, or a signalling NaN
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise RequestInvalid(field, "must be a number of seconds, finite and >= 0", value)
    return seconds


def coerce_texts(field: str, values: object) -> list[str]:
    """Return a list of texts.

    Raises: RequestInvalid: it is no list, or an item is no text.
    """
    # A text is a sequence of texts, too: `roles="analyst"` would be seven of them.
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | set | frozenset):
        raise RequestInvalid(field, 'must be a list, such as ["ana"]', values)
    return [coerce_text(f"{field}[{i}]", each) for i, each in enumerate(values)]


def _as_text(value: object) -> str:
    return "decode the bytes first" if isinstance(value, bytes | bytearray) else ""


def coerce_claim(claim: object) -> str | Claim:
    """Return a claim: text as it is, else a value whose amounts are wire decimals.

    Args:
        claim: text, a value of `accountant.claims`, or an object as on the wire.
    Raises: RequestInvalid: it is none of these, or an amount has no exact text.
    """
    if isinstance(claim, str):
        return coerce_text("claim", claim)
    if isinstance(claim, ATOMS) and all(type(each) is str for each in astuple(claim)):
        return cast(Claim, claim)  # at once: most programs ask for such, again and again
    if not isinstance(claim, Mapping | Claim):
        raise _no_claim(claim)
    wire = _wire(claim, "claim", _is_up_in_claim)
    try:
        return _decode_claim(encode({"claim": wire})).claim
    except msgspec.ValidationError as error:
        translate(error, {"claim": wire}, _ClaimField)


def _no_claim(value: object) -> RequestInvalid:
    kind = type(value)
    engine = kind.__module__.partition(".")[0]
    call = _ADAPTERS.get(engine)
    if call is None:
        return RequestInvalid("claim", _CLAIM_RULE, value)
    # Its text may have many lines.
    shown = f"a {kind.__name__} of {engine}"
    return RequestInvalid("claim", _CLAIM_RULE, shown, hint=lambda: f"use {call}")


def coerce_policy(policy: object) -> Mapping[str, Any]:
    """Return a policy as it is sent: without the defaults, which the opening records.

    Raises: RequestInvalid: it is no policy, or an amount has no exact text.
    """
    if isinstance(policy, Policy):
        fields = msgspec.structs.fields(policy)
        values = {field.name: getattr(policy, field.name) for field in fields}
        policy = {f.name: values[f.name] for f in fields if values[f.name] != f.default}
    if not isinstance(policy, Mapping):
        raise RequestInvalid("policy", _POLICY_RULE, policy)
    # More of a budget, of a delta or of a ratio is never the safe side.
    return cast(Mapping[str, Any], _wire(policy, "policy", lambda *_: False))


def coerce_ratios(alert_at: object, *, field: str = "alert_at") -> tuple[str, ...]:
    """Return thresholds as they are sent.

    Raises: RequestInvalid: it is no list, or a ratio has no exact text.
    """
    ratios = _items(alert_at)
    if ratios is None:
        raise RequestInvalid(field, _RATIOS_RULE, alert_at)
    return tuple(
        exact_text(ratio, field=f"{field}[{i}]", up=False) for i, ratio in enumerate(ratios)
    )


def coerce_id(request_id: object) -> str:
    """Return a request id: text, or a `UUID` of version 7.

    Raises: RequestInvalid: it is neither.
    """
    text = str(request_id) if isinstance(request_id, str | UUID) else ""
    if issued_at(text) is None:
        rule = "must be a UUID of version 7, lower case"
        raise RequestInvalid("request_id", rule, text or request_id, hint=_id_hint)
    return text


_UNTIL_RULE: Final = (
    "must be a day such as 2027-01-01, its first moment in UTC, or a time with its zone such as "
    "2027-01-01T12:00:00Z"
)


def coerce_until(until: object, *, field: str = "until") -> str:
    """Return the first moment at which something is over, as the log writes it.

    Args:
        field: named by the error.
        until: a day, which begins in UTC; or a time that knows its zone, or either as text.
    Raises: RequestInvalid: it is neither.
    """
    moment = until
    try:
        if isinstance(moment, str):
            day = len(moment) <= _DAY
            moment = (date if day else datetime).fromisoformat(moment)
        if isinstance(moment, date) and not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
        if isinstance(moment, datetime):
            return utc_iso(moment)
    except ValueError:
        pass
    raise RequestInvalid(field, _UNTIL_RULE, until)


def _id_hint() -> str:
    return "a new request needs none, and `accountant id` prints one"


def _is_up_in_claim(claim: Mapping[str, object], field: str) -> bool:
    """Tell whether more of a claim's field costs more: of its noise, less does."""
    kind = _KINDS.get(str(claim.get("type")))
    return kind is None or kind.knob != field or kind.knob_sign > 0


@cache
def _fields_of(plain: type[int] | type[bool]) -> frozenset[str]:
    """Return the fields of claims, policies and odometers that are integers, or true or false."""
    kinds: tuple[Any, ...] = (Policy, *get_args(Claim), *get_args(AnyOdometer))
    return frozenset(
        field.name
        for kind in kinds
        for field in msgspec.structs.fields(kind)
        if plain in plain_types(field.type)
    )


def _wire(
    value: object,
    path: str,
    is_up: _IsUp,
    *,
    up: bool = False,
    whole: bool = False,
    switch: bool = False,
    level: int = 0,
) -> object:
    """Return a value with its amounts as text: the same object where nothing is to change."""
    if value is None or (switch and isinstance(value, bool)):
        return value
    if isinstance(value, str):
        return coerce_text(path, value)
    if level > MAX_NESTED:
        raise RequestInvalid(path, f"must nest at most {MAX_NESTED} deep", type(value).__name__)
    fields = _fields(value, path)
    if fields is not None:
        wire = {
            name: optional_text(f"{path}.{name}", item)
            if name in _TEXTS
            else _wire(
                item,
                f"{path}.{name}",
                is_up,
                up=is_up(fields, name),
                whole=name in _fields_of(int),
                switch=name in _fields_of(bool),
                level=level + 1,
            )
            for name, item in fields.items()
        }
        return value if all(wire[name] is item for name, item in fields.items()) else wire
    items = _items(value)
    if items is not None:
        found = [
            _wire(item, f"{path}[{i}]", is_up, up=up, level=level + 1)
            for i, item in enumerate(items)
        ]
        return value if all(map(is_, found, items)) else found
    return whole_number(value, field=path) if whole else exact_text(value, field=path, up=up)


def _fields(value: object, path: str) -> dict[str, object] | None:
    """Return the fields of an object as on the wire, None of what is no object."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        tag = {} if config.tag_field is None else {config.tag_field: config.tag}
        item = msgspec.structs.asdict(value)
        return tag | {name: each for name, each in item.items() if each is not msgspec.UNSET}
    if not isinstance(value, Mapping):
        return None
    for name in value:
        if not isinstance(name, str):
            raise RequestInvalid(path, "must have text for its keys", name)
    return {coerce_text(path, name): item for name, item in value.items()}


def _items(value: object) -> Sequence[object] | None:
    """Return the items of a list, a tuple or an array, None of anything else."""
    if isinstance(value, list | tuple):
        return value
    has_items = getattr(value, "ndim", 0) and isinstance(value, Iterable)
    return list(cast(Iterable[object], value)) if has_items else None
