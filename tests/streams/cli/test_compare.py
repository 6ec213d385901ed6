from __future__ import annotations

import json
import random

import pytest

from accountant.times import uuid7
from tests.every_case import every_case

START = 1_795_000_000_000
POLICY = {"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6"}
PURE = {"type": "pure", "epsilon": "0.01"}
GAUSSIAN = {"type": "gaussian", "sigma": "20", "sensitivity": "1"}


def request(number: int, *, claim: dict = PURE, dataset: str = "census") -> bytes:
    body = {
        "version": 1,
        "type": "request",
        "request_id": uuid7(START + number * 1000, number.to_bytes(10, "big")),
        "analyst": "ana",
        "dataset": dataset,
        "claim": claim,
        "unit": "person",
        "neighbours": "add_remove",
    }
    return json.dumps(body).encode()


@pytest.fixture
def compare(accountant):
    def compare(*lines: bytes, policy: dict = POLICY, as_json: bool = True):
        (accountant.directory / "policy.json").write_text(json.dumps(policy))
        more = ["--json"] if as_json else []
        return accountant("compare", "--policy", "policy.json", *more, stdin=b"\n".join(lines))

    return compare


def rows(done, kind: str, dataset: str = "census", *, code: int = 0) -> dict[str, dict]:
    assert done.code == code, done.err
    found = [r for r in done.rows if r["kind"] == kind and r["dataset"] == dataset]
    # A log also has owners' records.
    return {r["name"]: {name: r[name] for name in r if name != "left_out"} for r in found}


def test_every_filter_admits_the_number_that_fits_reports(compare, accountant):
    done = compare(*[request(i) for i in range(600)])
    filters = rows(done, "filter")
    for name in ("basic", "advanced_2016", "fully_adaptive", "zcdp_tight"):
        budget = ("--epsilon", "1", "--delta", "1e-6", "--filter", name)
        fits = accountant("fits", *budget, "--claim", "pure:0.01", "--json").json["fits"]
        found = filters[name]
        assert (found["admitted"], found["refused"]) == (fits, 600 - fits)
        assert found["first_refusal"] == fits + 1
        assert found["spent_ratio"] > 0.99
    assert [name for name, row in filters.items() if row["own"]] == ["zcdp_tight"]
    assert "must be left out" in filters["zcdp"]["why_not"]


def test_an_odometer_is_a_rule_of_its_own_and_may_read_above_epsilon(compare):
    done = compare(*[request(i) for i in range(600)])
    odometers = rows(done, "odometer")
    # With y = y* the line passes epsilon exactly where the filter fully_adaptive does.
    assert odometers["linear"]["admitted"] == 349
    assert odometers["linear"]["first_refusal"] == 350
    assert odometers["basic"]["admitted"] in {99, 100}  # 100 hundredths, read rounded up
    for row in odometers.values():
        assert row["admitted"] + row["refused"] == 600
        assert row["spent_ratio"] <= 1
    # After the 487 grants of the policy's own filter.
    assert float(odometers["one_sided_mixture"]["reading"]) > 1
    assert float(odometers["basic"]["reading"]) == pytest.approx(4.87)


def test_the_policy_s_own_counts_are_those_of_decide(compare, accountant):
    kinds = (PURE, GAUSSIAN, {"type": "laplace", "scale": "30", "sensitivity": "1"})
    lines = [request(i, claim=kinds[i % 3], dataset=f"d{i % 2}") for i in range(120)]
    done = compare(*lines)
    decided = accountant("decide", "--policy", "policy.json", stdin=b"\n".join(lines))
    for dataset in ("d0", "d1"):
        own = rows(done, "filter", dataset)["zcdp_tight"]
        outcomes = [r["outcome"] for r in decided.rows if r.get("dataset") == dataset]
        assert own["admitted"] == outcomes.count("granted") > 0
        assert own["refused"] == outcomes.count("refused") > 0


def test_a_decision_log_asks_its_requests_again(compare, accountant):
    lines = [request(i, claim=GAUSSIAN) for i in range(30)]
    asked = compare(*lines)
    log = accountant("decide", "--policy", "policy.json", stdin=b"\n".join(lines))
    again = compare(*log.out.encode().splitlines())
    assert rows(again, "filter") == rows(asked, "filter")


def test_a_claim_that_a_filter_rejects_is_marked_in_the_table(compare):
    done = compare(*[request(i, claim=GAUSSIAN) for i in range(5)])
    basic = rows(done, "filter")["basic"]
    assert (basic["admitted"], basic["refused"], basic["not_taken"]) == (0, 5, 5)
    assert rows(done, "odometer")["basic"]["admitted"] == 0
    assert rows(done, "odometer")["basic"]["reading"] == "inf"


def test_the_table_names_the_own_filter_and_unsuitable_filters(compare):
    opening = json.dumps({"type": "open", "dataset": "census"}).encode()
    done = compare(opening, *[request(i) for i in range(3)], as_json=False)
    assert done.code == 0
    assert "zcdp_tight *" in done.out
    assert "filter zcdp: not for this budget" in done.out
    assert "decided 3 requests under each alternative, 1 admin request left out" in done.err


def test_a_budget_of_rho_has_its_own_alternatives(compare):
    done = compare(*[request(i) for i in range(5)], policy={"filter": "zcdp", "rho": "0.0002"})
    filters = rows(done, "filter")
    assert filters["zcdp"]["admitted"] == 4
    assert "why_not" in filters["basic"]
    odometers = rows(done, "odometer").values()
    assert all(float(row["reading"]) > 0 for row in odometers)
    assert not any("admitted" in row for row in odometers)  # there is no epsilon to stop at


def test_a_policy_that_is_none_is_refused(compare, accountant):
    assert compare(request(0), policy={"filter": "zcdp_tight"}).code == 2
    assert accountant("compare", "--policy", "nowhere.json").code == 2


NUMBER = {"type": "pure", "epsilon": 0.1}
NO_TEXT = "claim.epsilon has the wrong form (expected `str`, got `float`), got 0.1"
OPENING = json.dumps({"type": "open", "dataset": "census"}).encode()


@every_case(
    ("lines", "reasons", "first", "said"),
    [
        ((), {}, None, "stdin has no request\n"),
        ((OPENING,), {}, None, "stdin has no request, only 1 record left out\n"),
        (
            (b"hello", b"world"),
            {"undecodable": 2},
            1,
            "2 undecodable; the first is line 1: the body must be JSON: ",
        ),
        (
            (request(0, claim=NUMBER),),
            {"invalid_field": 1},
            1,
            f"1 invalid_field; the first is line 1: {NO_TEXT}\n",
        ),
        ((b"", OPENING, b"[]"), {"invalid_field": 1}, 3, "1 invalid_field; the first is line 3: "),
        ((b'{"type": "decision"}',), {"undecodable": 1}, 1, "the first is line 1: no decision: "),
    ],
)
@every_case("as_json", [True, False])
def test_an_input_without_a_usable_request_is_no_answer(
    compare, lines, reasons, first, said, as_json
):
    done = compare(*lines, as_json=as_json)
    assert done.code == 1
    assert said in done.err
    if as_json:
        (reported,) = done.rows
        assert (reported["not_decided"], reported["first_not_decided"]) == (reasons, first)
    else:
        assert done.out == ""


def test_undecided_lines_are_reported_by_reason_and_fail(compare):
    lines = [b"", request(0), request(1, claim=NUMBER), b"hello", request(2)]
    shown = compare(*lines, as_json=False)
    assert shown.code == 1
    assert "decided 2 requests under each alternative\n" in shown.err
    reported = f"not decided: 1 invalid_field, 1 undecodable; the first is line 3: {NO_TEXT}\n"
    assert reported in shown.err
    done = compare(*lines)
    assert done.err == reported
    assert rows(done, "filter", code=1)["zcdp_tight"]["admitted"] == 2


def test_an_id_of_the_future_is_not_decided(compare):
    late = json.loads(request(0)) | {"request_id": "ffffffff-ffff-7fff-bfff-ffffffffffff"}
    done = compare(json.dumps(late).encode())
    assert done.code == 1
    assert "1 issued_in_future; the first is line 1: issued_in_future\n" in done.err


def test_the_order_of_the_lines_changes_nothing(compare, accountant):
    kinds = (PURE, GAUSSIAN, {"type": "laplace", "scale": "2", "sensitivity": "1"})
    lines = [request(i * 600, claim=kinds[i % 3], dataset=f"d{i % 2}") for i in range(50)]
    straight = compare(*lines)
    turned = compare(*reversed(lines))
    assert turned.rows == straight.rows
    own = rows(turned, "filter", "d0")["zcdp_tight"]
    assert own["admitted"] + own["refused"] == 25
    (accountant.directory / "own.json").write_text('{"filter": "basic", "epsilon": "1"}')
    log = accountant("decide", "--policy", "own.json", stdin=b"\n".join(lines))
    decisions = log.out.encode().splitlines()
    again = compare(*decisions)
    assert compare(*reversed(decisions)).rows == again.rows
    assert rows(again, "filter", "d1") == rows(straight, "filter", "d1")


def test_each_line_is_in_one_column(compare):
    other = json.loads(request(3)) | {"purpose": "another"}
    unit = json.loads(request(4)) | {"unit": "household"}
    lines = [request(i) for i in range(3)] + [request(1), request(3), OPENING, b"hello", b"[]"]
    lines += [json.dumps(other).encode(), json.dumps(unit).encode()]
    random.Random(7).shuffle(lines)
    done = compare(*lines)
    reported = done.rows[0]
    assert (reported["decided"], reported["repeated"], reported["left_out"]) == (5, 1, 1)
    assert reported["not_decided"] == {"undecodable": 1, "invalid_field": 1, "conflict": 1}
    for row in done.rows:
        if "admitted" in row:
            assert row["admitted"] + row["refused"] == 5, row


def test_valid_requests_print_no_message_and_are_all_decided(compare):
    done = compare(request(0))
    assert (done.code, done.err) == (0, "")
    assert all(row["not_decided"] == {} for row in done.rows)


def test_the_table_shows_the_optimum_of_requests_fixed_in_advance(compare):
    done = compare(*[request(i) for i in range(600)])
    (best,) = rows(done, "comparator").values()
    assert (best["name"], best["admitted"], best["refused"]) == ("optimal_mixed", 562, 38)
    assert 0.9 < best["spent_ratio"] <= 1
    mixed = [PURE, GAUSSIAN, {"type": "randomized_response", "epsilon": "0.02", "delta": "1e-8"}]
    done = compare(*[request(i, claim=mixed[i % 3]) for i in range(30)])
    (best,) = rows(done, "comparator").values()
    assert (best["admitted"], best["not_taken"]) == (20, 10)


def test_a_policy_without_an_epsilon_has_no_optimum(compare):
    done = compare(request(0), policy={"filter": "zcdp", "rho": "1", "delta": "1e-6"})
    (best,) = rows(done, "comparator").values()
    assert best["why_not"] == "the policy promises no epsilon"


def test_the_optimum_counts_bounded_range_as_pure_dp(compare):
    claim = {"type": "bounded_range", "eta": "0.1"}
    done = compare(*[request(i, claim=claim) for i in range(30)])
    (best,) = rows(done, "comparator").values()
    assert (best["admitted"], best["refused"]) == (10, 20)
    assert rows(done, "filter")["gdp_residue"]["admitted"] == 21
