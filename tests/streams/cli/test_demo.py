from __future__ import annotations

import pytest

from accountant.claims import checked
from streams.cli.demo import DATASETS, week


def test_a_person_sees_one_table_and_what_became_of_the_requests(accountant):
    done = accountant("demo", COLUMNS="80")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert len(lines) <= 35, done.out
    assert done.out.count("guarantee, filter") == 1
    for name in ("census", "clinic", "shop"):
        assert sum(line.startswith(f"  {name} ") for line in lines) == 1, done.out
    assert "would fit: " in done.out
    assert "ok: 404 decisions, each decided again" in done.out
    assert "--verbose" in lines[-1]


def test_the_week_is_decided_shown_and_audited(accountant):
    done = accountant("demo", "--verbose", "--json")
    assert done.code == 0, done.err
    result = done.json
    assert set(result) >= {"requests", "granted", "refused", "audit", "seconds"}
    assert (result["requests"], result["audit"]) == (400, "ok")
    others = sum(result.get(name, 0) for name in ("repeated", "conflict", "expired", "invalid"))
    assert result["granted"] + sum(result["refused"].values()) + others == 400
    assert result["repeated"] > 0
    reasons = {"exhausted", "unit_mismatch", "claim_not_accepted", "unknown_dataset"}
    assert set(result["refused"]) == reasons
    assert "would fit: gaussian:sigma=" in done.out
    assert "one_sided_mixture" in done.out
    assert "Fri evening" in done.out
    assert not list(accountant.directory.iterdir())  # the ledger was a temporary one


def test_a_file_keeps_the_ledger_for_audit_and_watch(accountant):
    done = accountant("demo", "--file", "week.db", "--requests", "50", "--json")
    assert (done.code, done.json["requests"]) == (0, 50)
    assert accountant("audit", "week.db").code == 0
    assert accountant("watch", "--once", "--url", "sqlite:///week.db").out.count("census") == 1
    assert accountant("demo", "--file", "week.db", "--requests", "50").code == 0


def test_a_running_ledger_is_told_what_stays_there_and_what_is_not_done(opened, tmp_path):
    serve = opened.start("serve", "--port", "0")
    try:
        address = serve.stdout.readline().split()[-1]
        done = opened("demo", "--url", address, "--requests", "5", "--json")
    finally:
        serve.terminate()
        serve.communicate(timeout=30)
    assert (done.code, done.json["audit"]) == (0, "skipped"), done.err
    names = done.out.split("opens ", 1)[1].split(" at ")[0].split(", ")
    assert "ends without an audit" in done.out
    listed = [row["dataset"] for row in opened("dataset", "list", "--json").rows]
    assert sorted(listed) == sorted(["census", *names])


def test_more_requests_tell_the_same_story(accountant):
    done = accountant("demo", "--requests", "3000", "--json")
    assert (done.code, done.json["requests"], done.json["audit"]) == (0, 3000, "ok")
    assert done.json["granted"] > 2000
    assert done.json["refused"]["exhausted"] > 100


@pytest.mark.parametrize("arguments", [("--kafka", "--file", "x"), ("--requests", "0")])
def test_wrong_usage(accountant, arguments):
    assert accountant("demo", *arguments).code == 2


@pytest.mark.parametrize("requests", [1, 2, 41, 400, 10_000])
def test_the_week_is_the_same_every_time_and_its_claims_are_sound(requests):
    asks = week(requests)
    assert len(asks) == requests
    assert asks == week(requests)
    assert asks != week(requests, seed=21)
    assert [ask.day for ask in asks] == sorted(ask.day for ask in asks)
    for claim in {ask.claim for ask in asks}:
        checked(claim)


def test_the_week_has_five_analysts_three_datasets_and_all_kinds_of_claims():
    asks = week()
    assert {ask.analyst for ask in asks} == {"ana", "ben", "chloe", "dev", "eve"}
    assert {opening.dataset for opening in DATASETS} <= {ask.dataset for ask in asks}
    kinds = {str(ask.claim.__struct_config__.tag) for ask in asks}
    assert kinds >= {"gaussian", "laplace", "bounded_range", "randomized_response", "repeat"}
    assert any(ask.again for ask in asks)
