from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

import pytest

from accountant.records.kinds import KINDS
from accountant.times import uuid7
from tests.every_case import every_case
from tests.examples_of_records import EXAMPLES, Example

START = 1_795_000_000_000


def request(number: int, *, epsilon: str = "0.1", dataset: str = "census", **fields) -> bytes:
    body = {
        "version": 1,
        "type": "request",
        "request_id": uuid7(START + number * 1000, number.to_bytes(10, "big")),
        "analyst": "ana",
        "dataset": dataset,
        "claim": {"type": "pure", "epsilon": epsilon},
        "unit": "person",
        "neighbours": "add_remove",
    }
    return json.dumps({**body, **fields}).encode()


@pytest.fixture
def decide(accountant):
    (accountant.directory / "policy.json").write_text('{"filter": "basic", "epsilon": "1"}')

    def decide(*lines: bytes):
        return accountant("decide", "--policy", "policy.json", stdin=b"\n".join(lines) + b"\n")

    return decide


def outcomes(done) -> list[tuple[str, str | None]]:
    return [(row["outcome"], row.get("reason")) for row in done.rows]


def test_ten_tenths_fit_one_and_the_eleventh_is_refused(decide):
    done = decide(*(request(i) for i in range(11)))
    assert done.code == 0, done.err
    granted = [("granted", None)] * 10
    assert outcomes(done) == [
        ("genesis", None),
        ("opened", None),
        *granted,
        ("refused", "exhausted"),
    ]
    assert done.rows[-2]["left"] == {"epsilon": "0", "delta": "0"}


def test_the_result_is_a_log_that_audit_accepts_and_the_same_every_time(decide, accountant):
    lines = [request(i, epsilon=f"0.0{i + 1}", dataset=f"d{i % 3}") for i in range(9)]
    first, second = decide(*lines), decide(*lines)
    assert first.out == second.out
    log = accountant.directory / "decisions.jsonl"
    log.write_text(first.out)
    run_audit = accountant("audit", "decisions.jsonl", "--json")
    assert (run_audit.code, run_audit.json["audit"]) == (0, "ok")
    exported = accountant("log", "export", "--url", "decisions.jsonl")
    assert exported.out == first.out


def test_each_input_line_gets_exactly_one_decision(decide):
    lines = [
        request(0),
        b"nonsense",
        b"\xff\xfe",
        b"[" * 100_000,
        b'"' + b"y" * 3_000_000 + b'"',
        request(1, claim={"type": "pure", "epsilon": 0.1}),
        request(2, epsilon="1e-400"),
        request(3, epsilon="9" * 100_000),
        request(4, purpose="x" * 201),
        request(5)[:-1] + b', "version": 1}',
        request(6, unit="household"),
        request(7, claim={"type": "gaussian", "sigma": "1", "sensitivity": "1"}),
        request(8, request_id="ffffffff-ffff-7fff-bfff-ffffffffffff"),
        request(0),
        request(0, epsilon="0.2"),
    ]
    done = decide(*lines)
    # Undecided lines are counted, and the command fails.
    assert done.code == 1
    assert "not decided: 1 conflict, 3 invalid_field, 1 issued_in_future" in done.err
    assert "; the first is line 2: the body must be JSON" in done.err
    assert outcomes(done)[2:] == [
        ("granted", None),
        ("invalid", "undecodable"),
        ("invalid", "undecodable"),
        ("invalid", "oversize"),
        ("invalid", "oversize"),
        ("invalid", "invalid_field"),
        ("invalid", "invalid_field"),
        ("invalid", "oversize"),
        ("invalid", "invalid_field"),
        ("invalid", "undecodable"),
        ("refused", "unit_mismatch"),
        ("refused", "claim_not_accepted"),
        ("invalid", "issued_in_future"),
        ("repeated", None),
        ("conflict", None),
    ]
    spent = [row["totals"]["epsilon"] for row in done.rows if "totals" in row][-1]
    assert Decimal(spent) == Decimal("0.1")


def test_the_clock_is_the_later_of_the_ids_time_and_the_one_before(decide):
    done = decide(request(60), request(30), request(7200), request(3599))
    assert [row["decided_at"][11:19] for row in done.rows[2:]] == [
        done.rows[0]["decided_at"][11:19],
        done.rows[0]["decided_at"][11:19],
        done.rows[4]["decided_at"][11:19],
        done.rows[4]["decided_at"][11:19],
    ]
    # An hour after its issue an id has expired.
    assert [row["outcome"] for row in done.rows[2:]] == ["granted", "granted", "granted", "expired"]


def test_owners_records_may_stand_among_the_requests(accountant):
    opening = {
        "version": 1,
        "type": "open",
        "request_id": uuid7(START, bytes(10)),
        "dataset": "census",
        "by": "me",
        "policy": {"filter": "basic", "epsilon": "0.1"},
    }
    lines = [request(0, dataset="other"), json.dumps(opening).encode(), request(1), request(2)]
    done = accountant("decide", "--json", stdin=b"\n".join(lines))
    assert [row["outcome"] for row in done.rows] == [
        "genesis",
        "refused",
        "opened",
        "granted",
        "refused",
    ]
    assert json.loads(done.err) == {"refused": 2, "opened": 1, "granted": 1}


def owners(kind: str, number: int, by: str = "olga", **fields) -> bytes:
    body = {"version": 1, "type": kind, "dataset": "census", "by": by, **fields}
    return json.dumps(body | {"request_id": uuid7(START + number, bytes(10))}).encode()


def test_every_kind_of_record_is_decided(decide):
    policy = {"policy": {"filter": "basic", "epsilon": "1", "access": "members"}}
    policy["lifetime"] = {"epsilon": "5"}
    of_nobody = {"team": None}  # its pace has room for one request
    changed = {"open": policy, "record": of_nobody}
    examples: dict[str, Example] = {}
    for example in EXAMPLES:
        if example.is_owners:
            examples.setdefault(example.kind, example)
    admin = [kind for kind in KINDS if kind.source == "admin"]
    assert examples.keys() == {kind.name for kind in admin}
    wanted = {kind.name: str(kind.outcomes[0]) for kind in admin if kind.outcomes}
    # No reservation has its grant, its ask is none, its example promises a rho, and nothing waits.
    wanted |= dict.fromkeys(("resolve", "decline", "renew", "approve", "deny"), "refused")
    *first, last = [
        (kind, owners(kind, number, **example.own_fields | changed.get(kind, {})))
        for number, (kind, example) in enumerate(examples.items())
    ]
    done = decide(*(body for _, body in first), request(1), request(2), last[1])
    assert done.code == 0, done.err
    expected = [*(wanted[kind] for kind, _ in first), "granted", "refused", wanted[last[0]]]
    assert [outcome for outcome, _ in outcomes(done)[1:]] == expected
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(Counter(expected).items()))
    assert " ".join(done.err.split()) == f"decided {len(expected)} records: {counts}"


def test_expired_requests_are_reported_and_fail(decide):
    done = decide(request(7200), request(0))
    assert done.code == 1
    assert "not decided: 1 expired; the first is line 2: expired\n" in done.err


def test_no_input_is_no_log(accountant):
    done = accountant("decide")
    assert (done.code, done.out) == (0, "")


@every_case("text", ["[]", "{", '{"epsilon": 1}', '{"epsilon": "1", "magic": 1}', ""])
def test_a_wrong_policy_is_wrong_usage(accountant, text):
    (accountant.directory / "policy.json").write_text(text)
    done = accountant("decide", "--policy", "policy.json", stdin=request(0))
    assert (done.code, done.out) == (2, "")


def test_a_missing_policy_is_wrong_usage(accountant):
    done = accountant("decide", "--policy", "nowhere.json")
    assert done.code == 2
    assert "nowhere.json" in done.err
