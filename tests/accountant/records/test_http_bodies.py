"""A served decision is the log's record with two members more, and comes back as that record."""

from __future__ import annotations

import hashlib
import json

from accountant.records.header import decode_header
from accountant.records.http_bodies import logged_decision, served_decision
from tests.every_case import check_each
from tests.golden.replayed_logs import LOGS, played


def test_every_golden_decision_is_served_with_all_its_fields() -> None:
    def check_case(name: str) -> None:
        kinds = set()
        for value in played(name).log:
            shown, digest = served_decision(value), hashlib.sha256(value)
            assert served_decision(value, digest.digest()) == shown
            record, reported = json.loads(value), json.loads(shown)
            assert reported.pop("granted") is (record["outcome"] == "granted")
            assert reported.pop("hash") == f"sha256:{digest.hexdigest()}"
            if "first" in reported:
                first = reported["first"]
                assert first.pop("granted") is (first["outcome"] == "granted")
            assert reported == record
            assert [*json.loads(shown)][: [*record].index("outcome") + 3][-3:] == [
                *("outcome", "granted", "hash")
            ]
            assert logged_decision(shown) == (value, True)
            kinds.add(record["outcome"])
        assert "granted" in kinds

    check_each(check_case, LOGS)


def test_a_decision_header_has_the_fields_of_its_decision() -> None:
    def check_case(name: str) -> None:
        for value in played(name).log:
            header, record = decode_header(value), json.loads(value)
            for field in ("partition_sequence", "previous", "decided_at", "outcome", "dataset"):
                assert getattr(header, field) == record.get(field)
            for field in ("generation", "sequence", "reason", "cost", "budget"):
                assert getattr(header, field) == record.get(field)
            assert (
                bytes(header.totals) == b"" or json.loads(bytes(header.totals)) == record["totals"]
            )
            assert (header.member is None) == ("member" not in record)

    check_each(check_case, LOGS)


def test_granted_follows_the_outcome_not_text_inside_the_request() -> None:
    value = (
        b'{"type":"decision","outcome":"refused","request":'
        b'{"purpose":"\\"outcome\\":\\"granted\\"","outcome":"granted"}}'
    )
    assert json.loads(served_decision(value))["granted"] is False
    spaced = b'{ "type": "decision", "outcome": "granted" }'
    assert json.loads(served_decision(spaced))["granted"] is True


def test_a_served_decision_in_another_order_of_members_is_the_same_record() -> None:
    def check_case(name: str) -> None:
        for value in played(name).log:
            members = json.loads(served_decision(value))
            moved = {key: members.pop(key) for key in ("granted", "hash")} | members
            compact = json.dumps(moved, separators=(",", ":"), ensure_ascii=False).encode()
            record = json.dumps(
                json.loads(value), separators=(",", ":"), ensure_ascii=False
            ).encode()
            if record == value:
                assert logged_decision(compact) == (value, True)

    check_each(check_case, LOGS)


def test_a_changed_decision_differs_from_its_hash() -> None:
    value = b'{"type":"decision","outcome":"refused","request":{"purpose":"a"}}'
    shown = served_decision(value)
    assert logged_decision(shown) == (value, True)
    for changed in (shown.replace(b'"a"', b'"b"'), shown.replace(b"refused", b"granted")):
        assert logged_decision(changed)[1] is False
