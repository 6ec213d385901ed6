"""From the bytes of an input record to a checked request, or to what is wrong with them.

Whatever the bytes are, the answer is a value or one of two errors; nothing else may escape.
"""

from __future__ import annotations

import json
from typing import Final, NoReturn

import msgspec
from msgspec import UNSET

from accountant.claims import CheckedClaim, check_claim
from accountant.errors import BudgetError, RequestInvalid
from accountant.policy import Policy, check_alerts, check_horizon, check_ratio, resolve
from accountant.policy.compiled_policy import open_plan
from accountant.records import (
    AdminRecord,
    Amend,
    Body,
    MechanismRequest,
    Open,
    SetLimit,
    SetMember,
    Source,
)
from accountant.records.limit_fields import check_limit
from accountant.records.members import MAX_OWNERS_NAMED
from accountant.records.names import check_name
from accountant.records.outcomes import Reason
from accountant.records.texts import check_texts, may_break_text_rule
from accountant.records.translate import translate
from accountant.times import from_iso, iso, issued_at

MAX_BYTES: Final = 65_536
MAX_NESTED: Final = 16
MAX_PURPOSE: Final = 200

_SPACE: Final = b" \t\r\n"
_NEWLINE: Final = ord("\n")
_RETURN: Final = ord("\r")
_COLON: Final = ord(":")


class NoRequest(msgspec.Struct, tag_field="type", tag="-"):
    """Makes `type` required: a union of one kind could leave it out."""


_DECODERS: Final = {
    "requests": msgspec.json.Decoder(MechanismRequest | NoRequest).decode,
    "admin": msgspec.json.Decoder(AdminRecord).decode,
}
_REQUEST_KEYS: Final = 8  # without `purpose` and `via`, which may be left out


class Undecodable(BudgetError):
    """The bytes are no JSON object that the log could repeat."""

    def __init__(self, reason: Reason, what: str) -> None:
        self.reason = reason
        super().__init__(what)


class CheckedInput(msgspec.Struct, frozen=True, gc=False):
    """A request whose every field obeys its rule.

    Attributes:
        body: the decoded record.
        caller: the analyst, or the owner.
        issued: the time in its id, milliseconds since 1970.
        claim: of a mechanism request, None for an admin record.
    """

    body: Body
    caller: str
    issued: int
    claim: CheckedClaim | None


class Input(msgspec.Struct, frozen=True, gc=False):
    """One record of an input, as the journal hands it over.

    Attributes:
        source: requests or admin.
        offset: its place in that input.
        key: the record's key, None if it has none.
        value: the body, None if it has none.
        append_time: when the journal took it in, milliseconds since 1970.
        checked: what `check` has given for this very value, which is canonical then; None where
            it was not checked yet.
    """

    source: Source
    offset: int
    key: bytes | None
    value: bytes | None
    append_time: int
    checked: CheckedInput | None = None


def canonical(value: bytes | None) -> bytes:
    """Return the body without the white space that the log would not keep.

    Raises: Undecodable: nothing there, above 64 KiB, or no UTF-8.
    """
    if not value:
        raise Undecodable(Reason.UNDECODABLE, "the record has no value")
    if len(value) > MAX_BYTES:
        raise Undecodable(
            Reason.OVERSIZE, f"the body must be at most {MAX_BYTES} bytes, got {len(value)}"
        )
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(Reason.UNDECODABLE, f"the body must be UTF-8: {error.reason}") from None
    value = value.strip(_SPACE)  # first: a line end after it must not change what is within
    if _NEWLINE in value or _RETURN in value:
        # One record stays one line wherever the log is shown or exported.
        try:
            value = msgspec.json.format(value, indent=-1)
        except (msgspec.DecodeError, RecursionError):
            raise Undecodable(Reason.UNDECODABLE, "the body must be JSON") from None
    return value


def check(source: Source, body: bytes) -> CheckedInput:
    """Return the checked request in a canonical body.

    Raises:
        Undecodable: no JSON object, a key twice, or nested too deep.
        RequestInvalid: a field breaks its rule.
    """
    try:
        decoded = _DECODERS[source](body)
        if may_break_text_rule(body):
            check_texts(_parse(body))
        if isinstance(decoded, MechanismRequest):
            return _check_request(decoded, body)
        if isinstance(decoded, NoRequest):
            raise RequestInvalid("type", "must be request", "-")
        return _check_admin(decoded, body)
    except RequestInvalid:
        _parse(body)  # a broken rule is reported only where the whole body is JSON
        raise
    except msgspec.ValidationError as error:
        translate(error, _parse(body), Body)
    except (msgspec.DecodeError, RecursionError):
        _parse(body)
        raise Undecodable(Reason.UNDECODABLE, "the body must be a JSON object") from None


def _check_request(request: MechanismRequest, body: bytes) -> CheckedInput:
    try:
        claim = check_claim(request.claim)
    except RequestInvalid as error:
        raise error.under("claim") from None
    issued = _check_names(request, "analyst", request.analyst)
    keys = _REQUEST_KEYS + claim.keys
    if request.purpose or b'"purpose":' in body:  # clients write it where it is empty, too
        keys += 1
        if len(request.purpose) > MAX_PURPOSE:
            rule = f"must be at most {MAX_PURPOSE} characters"
            raise RequestInvalid("purpose", rule, request.purpose)
    if request.via is not UNSET:
        keys += 1
        check_name("via", request.via)
    # Each key takes a colon, so as many colons as there are fields leave none for a second
    # key of the same name; where other text has colons too, the slow parser decides.
    colons = body.count(_COLON)
    if colons != keys and (b"\\" in body or colons != keys + _colons_in_names(request)):
        _parse(body)
    return CheckedInput(request, request.analyst, issued, claim)


def _colons_in_names(request: MechanismRequest) -> int:
    """Return how many colons of a body its names take, where no backslash hides one."""
    colons = request.dataset.count(":") + request.analyst.count(":")
    return colons if request.via is UNSET else colons + request.via.count(":")


def _check_admin(record: AdminRecord, body: bytes) -> CheckedInput:
    issued = _check_names(record, "by", record.by)
    if len(record.reason) > MAX_PURPOSE:
        rule = f"must be at most {MAX_PURPOSE} characters"
        raise RequestInvalid("reason", rule, record.reason)
    if isinstance(record, SetMember):
        _check_member(record)
    elif isinstance(record, SetLimit):
        check_limit(record)
    elif isinstance(record, Open):
        if record.owners is not UNSET:
            _check_owners(record.owners)
        _check_policy(record.policy)
    elif isinstance(record, Amend):
        if record.alert_at is not None:
            check_alerts(record.alert_at, field="alert_at")
        if record.horizon is not None:
            check_horizon(record.horizon, field="horizon")
        if record.most_per_request is not None:
            check_ratio(record.most_per_request, field="most_per_request")
        if record.policy is not None:
            _check_lower(record)
            _check_policy(record.policy)
    _parse(body)
    return CheckedInput(record, record.by, issued, None)


def _check_policy(policy: Policy) -> None:
    if policy.population is not UNSET:
        check_name("policy.population", policy.population)
    open_plan(resolve(policy))


def _check_owners(owners: tuple[str, ...]) -> None:
    for i, name in enumerate(owners):
        check_name(f"owners[{i}]", name)
    if not 1 <= len(owners) <= MAX_OWNERS_NAMED or len(set(owners)) < len(owners):
        rule = f"must be 1 to {MAX_OWNERS_NAMED} names, each once"
        raise RequestInvalid("owners", rule, f"{len(owners)} names")


def _check_member(record: SetMember) -> None:
    check_name("member", record.member)
    if len(set(record.roles)) < len(record.roles):
        raise RequestInvalid("roles", "must name each role once", ", ".join(record.roles))
    if record.team is not None:
        check_name("team", record.team)
    if record.until is not None:
        _check_until(record.until)
    for field, value in (("team", record.team), ("until", record.until)):
        if value is not None and not record.roles:
            raise RequestInvalid(field, "must be left out where roles is empty", value)
    if record.until is not None and "owner" in record.roles:
        rule = "must be left out where roles has owner: an owner stays until removed"
        raise RequestInvalid("until", rule, record.until)


def _check_until(text: str) -> None:
    try:
        sound = iso(from_iso(text)) == text
    except (ValueError, OverflowError):
        sound = False
    if not sound:
        raise RequestInvalid("until", "must be a time such as 2026-11-21T10:00:00.012Z", text)


def _check_lower(record: Amend) -> None:
    for field in ("alert_at", "horizon", "most_per_request", "access", "visibility"):
        value = getattr(record, field)
        if value is not None:
            raise RequestInvalid(field, "must be left out where policy is given", value)


def _check_names(body: Body, caller_field: str, caller: str) -> int:
    issued = issued_at(body.request_id)
    if issued is None:
        rule = "must be a UUID of version 7, lower case"
        raise RequestInvalid("request_id", rule, body.request_id)
    check_name("dataset", body.dataset)
    check_name(caller_field, caller)
    return issued


def _parse(body: bytes) -> object:
    """Return the body as plain values, numbers as their text.

    Raises: Undecodable: it is not JSON, repeats a key, or nests too deep.
    """
    try:
        value = json.loads(
            body.decode(),  # of bytes, json would guess the encoding
            object_pairs_hook=_without_repeats,
            parse_int=str,
            parse_float=str,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise Undecodable(Reason.UNDECODABLE, f"the body must be JSON: {what}") from None
    if _nesting_depth(value) > MAX_NESTED:
        rule = f"the body must nest at most {MAX_NESTED} deep"
        raise Undecodable(Reason.UNDECODABLE, rule)
    return value


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise ValueError(f"key {name[:80]!r} stands twice in one object")
            names.add(name)
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _nesting_depth(value: object) -> int:
    level, found = 0, [value]
    while found:
        level += 1
        inner: list[object] = []
        for item in found:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        found = inner
    return level


def check_body(source: Source, body: bytes) -> CheckedInput:
    """Return what a body asks for, checked by the very rules of the processor.

    Raises:
        Undecodable: no JSON object, a key twice, too long or nested too deep.
        RequestInvalid: a field breaks its rule.
    """
    return check(source, canonical(body))
