"""What HTTP servers answer besides views: decisions, problems, and the caller.

A served decision is the log's record, with two members that a short program reads first.
`granted` is true for the outcome `granted` alone. A repeat is not granted once more: its
`first.granted` says what was decided at first. `hash` is the hash of the log's record, by which
a later decision names it, or a repeat its first.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

from accountant.field_rules import Count, Name, Until
from accountant.records.members import Roles
from accountant.records.records import encode

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_OUTCOME: Final = "outcome"
_ADDED: Final = ("granted", "hash")
_ADDED_PART: Final = re.compile(rb',"granted":(?:true|false),"hash":"sha256:([0-9a-f]{64})"')
_GRANTED: Final = b'"granted"'
_IS_OUTCOME: Final = b'"outcome":"'
_FIRST: Final = b'"first":{'
_TRUE, _FALSE = msgspec.Raw(b"true"), msgspec.Raw(b"false")


PASSED_ON: Final = "passed_on"


class PassedOn(msgspec.Struct):
    """The answer to an ask for access by somebody who does not see the dataset, if there is one.

    Attributes:
        status: `passed_on`.
        message: for people.
    """

    status: str
    message: str


class Problem(msgspec.Struct, omit_defaults=True):
    """The body of every answer that is no decision.

    The first four members are those of RFC 9457.

    Attributes:
        type: names the kind of problem; it is a name alone, and nothing is served there.
        title: the kind in words, the same each time. `status`: the status of the answer.
        detail: what is wrong this time.
        error: the kind as a code. `message`: the same as `detail`.
        field, rule, value: which rule is broken, and by what.
        similar: the name that was probably meant.
        question: of a record that is asked back, `detail` without how to say that it is meant.
        after: the number after which decisions can be read.
        decision: the decision in the log, where there is one.
        retry_after: in a line of a batch, the seconds after which to send the line again; a
            response of its own has the header Retry-After instead.
    """

    type: str
    title: str
    status: int
    detail: str
    error: str
    message: str
    field: str | None = None
    rule: str = ""
    value: str = ""
    similar: str = ""
    question: str = ""
    after: Count | None = None
    decision: msgspec.Raw = msgspec.Raw(b"")
    retry_after: int | None = None


class Membership(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the caller may do on one dataset.

    Attributes:
        until: the first moment at which it is over, as a time of the log; left out for never.
    """

    dataset: Name
    roles: Roles
    team: Name | None = None
    until: Until | None = None


class Me(msgspec.Struct, frozen=True):
    """Who the caller is to the ledger.

    Attributes:
        name: the caller's `analyst`, `by` or `via` in requests and records; None where there is
            no name: without authentication, in a file, on Kafka.
        kind: the kind of token that proved the name, `token` or `oidc`.
        administrator: whether the server's settings name the caller as one.
        authentication: whether the server authenticates its callers.
        datasets: the caller's memberships that are in force.
    """

    name: Name | None = None
    kind: str | None = None
    administrator: bool = False
    authentication: bool = False
    datasets: tuple[Membership, ...] = ()


def served_decision(value: bytes, digest: bytes | None = None) -> bytes:
    """Return a decision's bytes with `granted` and `hash` beside `outcome`, and `first.granted`.

    Args:
        value: the decision exactly as the log holds it.
        digest: its SHA-256, where it is known.
    """
    hashed = hashlib.sha256(value).hexdigest() if digest is None else digest.hex()
    # The ledger alone writes what is before the outcome, so this is the outcome and no text in it.
    found = value.find(_IS_OUTCOME)
    if found < 0 or _FIRST in value:
        return _with_first(value, hashed)
    start = found + len(_IS_OUTCOME)
    end = value.index(b'"', start) + 1
    is_granted = b"true" if value[start:end] == b'granted"' else b"false"
    added = b',"granted":%s,"hash":"sha256:%s"' % (is_granted, hashed.encode())
    return value[:end] + added + value[end:]


def _with_first(value: bytes, hashed: str) -> bytes:
    digest = encode(f"sha256:{hashed}")
    shown: dict[str, msgspec.Raw] = {}
    for name, raw in _members(value).items():
        shown[name] = _first(raw) if name == "first" else raw
        if name == _OUTCOME:
            shown["granted"] = _granted_flag(raw)
            shown["hash"] = msgspec.Raw(digest)
    return encode(shown)


def logged_decision(value: bytes) -> tuple[bytes, bool]:
    """Return a served decision exactly as in the log, and whether its hash agrees.

    What an older version served, which is the log's record itself, comes back as it is.

    Raises: DECODE_ERRORS: it is no JSON object.
    """
    added = _ADDED_PART.search(value)
    if added is not None:
        # Nearly every decision: what remains has the stated hash, so it is the record.
        record = value[: added.start()] + value[added.end() :]
        if hashlib.sha256(record).hexdigest().encode() == added[1]:
            return record, True
    members = _members(value)
    if "hash" not in members:
        return value, True
    stated = msgspec.json.decode(members["hash"])
    logged = {name: raw for name, raw in members.items() if name not in _ADDED}
    if "first" in logged:
        first = _members(logged["first"])
        first.pop("granted", None)
        logged["first"] = msgspec.Raw(encode(first))
    record = encode(logged)
    return record, stated == f"sha256:{hashlib.sha256(record).hexdigest()}"


def _first(raw: msgspec.Raw) -> msgspec.Raw:
    shown: dict[str, msgspec.Raw] = {}
    for name, each in _members(raw).items():
        shown[name] = each
        if name == _OUTCOME:
            shown["granted"] = _granted_flag(each)
    return msgspec.Raw(encode(shown))


def _granted_flag(outcome: msgspec.Raw) -> msgspec.Raw:
    return _TRUE if bytes(outcome) == _GRANTED else _FALSE
