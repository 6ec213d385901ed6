"""Each field of an owner's record is checked by the rule that its type names."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec
import pytest

from accountant.errors import RequestInvalid
from accountant.field_rules import Note, rule_of
from accountant.records.limit_records import PeriodLimit
from accountant.records.requests import AdminRecord, Approve, Close
from accountant.records.rule_checks import check_rules

CHECKED_FIRST: Final = {"request_id", "dataset", "by", "reason"}
VALUES: Final[dict[str, tuple[Any, Any]]] = {
    "ApproveWithin": ("P30D", "P31D"),
    "Grant": (f"sha256:{0:064}", "sha256:0"),
    "Hash": (f"sha256:{0:064}", "sha256:0"),
    "Horizon": ("P9D", "P9"),
    "LimitPolicy": ({"epsilon": "1", "filter": "basic"}, {"epsilon": "1", "unit": "person"}),
    "Name": ("ana", "a b"),
    "Note": ("x" * 200, "x" * 201),
    "Owners": (("ana", "ben"), ("ana", "ana")),
    "PeriodLimit": (PeriodLimit("0.1", "P1D"), PeriodLimit("0.1", "1 day")),
    "Ratio": ("1", "1.1"),
    "Roles": (("owner", "analyst"), ("owner", "owner")),
    "Thresholds": (("0.5", "0.9"), ("0.9", "0.5")),
    "Until": ("2027-01-01T00:00:00.000Z", "2027-01-01"),
}
"""A valid value of each rule, and an invalid one."""


class Noted(Close, frozen=True, tag="noted"):
    """A kind of record with one field more."""

    note: Note | None = None


def _fields() -> list[tuple[type[Any], msgspec.structs.FieldInfo, str]]:
    """Return the fields with a rule, of each kind that an owner sends."""
    return [
        (kind, field, rule)
        for kind in (*get_args(AdminRecord), Noted)
        for field in msgspec.structs.fields(kind)
        if field.name not in CHECKED_FIRST and (rule := rule_of(field.type)) is not None
    ]


def test_each_field_is_checked_by_the_rule_of_its_type() -> None:
    for kind, field, rule in _fields():
        nothing = dict.fromkeys(kind.__struct_fields__)
        valid, invalid = VALUES[rule]
        check_rules(kind(**nothing | {field.name: valid}))
        with pytest.raises(RequestInvalid) as caught:
            check_rules(kind(**nothing | {field.name: invalid}))
        assert caught.value.field.partition(".")[0].partition("[")[0] == field.encode_name
    assert {rule for _, _, rule in _fields()} == VALUES.keys()


def test_a_hash_of_what_waits_is_not_said_to_be_that_of_a_reservation() -> None:
    named = dict.fromkeys(Approve.__struct_fields__) | {"pending": "SHA256:0"}
    with pytest.raises(RequestInvalid) as caught:
        check_rules(Approve(**named))
    assert str(caught.value).startswith("pending must be a hash: sha256: and 64 hexadecimal digits")
