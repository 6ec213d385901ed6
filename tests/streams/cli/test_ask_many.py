from __future__ import annotations

import json

import pytest

from streams.clock import SystemClock
from tests.streams.gateway.local_server import LocalServer


@pytest.fixture(params=["file", "server"])
def ledger(request, opened):
    """Run commands on a file, and on a server to it."""
    if request.param == "file":
        yield opened
    else:
        with LocalServer(opened.directory / "accountant.db", SystemClock()) as server:
            yield lambda *args, **more: opened(*args, "--url", server.url, **more)


def request_rows(accountant, count, **more):
    fields = {"dataset": "census", "claim": "zcdp:0.0001", "analyst": "ana"}
    ids = [accountant("id").out.strip() for _ in range(count)]
    return [{**fields, "request_id": each, **more} for each in ids]


def test_a_file_of_requests_is_decided_line_by_line(ledger, opened, tmp_path):
    rows = request_rows(opened, 4)
    rows[1]["claim"] = "pure:50"
    whole = {**rows[3], "version": 1, "type": "request", "claim": {"type": "zcdp", "rho": "0.001"}}
    rows[3] = {**whole, "unit": "person", "neighbours": "add_remove"}
    lines = [json.dumps(row) for row in rows]
    lines[2:2] = ["", "not json", '{"dataset":"census","claim":"zcdp:0.1"}', "[1]"]
    file = tmp_path / "requests.ndjson"
    file.write_text("\r\n".join(lines))
    done = ledger("ask-many", str(file))
    kinds = [row.get("outcome") or row["error"] for row in done.rows]
    assert kinds == [
        *("granted", "refused", "undecodable", "invalid_field", "undecodable"),
        *("granted", "granted"),
    ]
    assert "request_id" in done.rows[3]["message"]
    assert done.code == 1
    assert "7 requests: 3 granted, 1 invalid_field, 1 refused, 2 undecodable" in done.err
    again = ledger("ask-many", str(file))
    assert [row.get("outcome") for row in again.rows].count("repeated") == 4


def test_only_grants_end_with_0(ledger, opened, tmp_path):
    file = tmp_path / "requests.ndjson"
    file.write_text("\n".join(map(json.dumps, request_rows(opened, 3))))
    done = ledger("ask-many", str(file))
    assert (done.code, done.err.strip()) == (0, "3 requests: 3 granted")
    assert [row["granted"] for row in done.rows] == [True] * 3


def test_an_empty_file_asks_for_nothing(ledger, tmp_path):
    file = tmp_path / "requests.ndjson"
    file.write_text("\n")
    done = ledger("ask-many", str(file))
    assert (done.code, done.out, done.err.strip()) == (0, "", "0 requests: none")


def test_a_missing_file_is_named(opened, tmp_path):
    done = opened("ask-many", str(tmp_path / "missing"))
    assert done.code == 2
    assert "no such file" in done.err


def test_an_unreachable_ledger_ends_the_command_with_exit_code_3(opened, tmp_path):
    file = tmp_path / "requests.ndjson"
    file.write_text(json.dumps(request_rows(opened, 1)[0]))
    done = opened("ask-many", str(file), "--url", "http://127.0.0.1:1", "--wait", "0.2")
    assert done.code == 3
    assert done.rows[0]["error"] == "unanswered"
    assert "run the same command again" in done.err
