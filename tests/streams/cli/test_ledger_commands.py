"""The commands that use an embedded ledger's file, without a server."""

from __future__ import annotations

import json
import re
import signal
from decimal import Decimal

import pytest

from tests.every_case import every_case
from tests.ledger_file import connected
from tests.patience import PATIENCE_S

TIGHT = ("--epsilon", "1", "--delta", "1e-6")


def ask(command, claim="pure:0.1", *more):
    return command("ask", "census", claim, "--analyst", "ana", *more)


def test_a_grant_is_code_0_and_a_refusal_is_code_1_and_says_what_would_fit(opened):
    granted = ask(opened, "pure:0.1", "--json")
    assert (granted.code, granted.json["outcome"]) == (0, "granted")
    refused = ask(opened, "pure:3")
    assert refused.code == 1
    assert refused.out.startswith("refused (exhausted)")
    assert "fits  pure:0.9" in refused.out
    ends = "ends  the ρ budget of zcdp_tight for good, after that claim; only simple addition"
    assert ends in refused.out
    offered = refused.out.split("fits", 1)[1].split()[0]
    assert ask(opened, offered).code == 0


def test_open_and_ask_say_that_claims_may_have_no_delta(accountant):
    done = accountant("dataset", "open", "census", *TIGHT, "--most-per-request", "1")
    assert "claims with a delta of their own will be refused" in done.out
    claim = "approximate:epsilon=0.01,delta=1e-9"
    for more in ((), ("--dry-run",)):
        refused = ask(accountant, claim, *more)
        assert "nothing of the dataset's delta is left for claims" in refused.out
    assert "left for claims" not in ask(accountant, "pure:3").out
    kept = accountant("dataset", "open", "other", *TIGHT, "--delta-for-claims", "5e-7")
    assert "delta of their own" not in kept.out


def test_the_same_id_is_never_charged_twice(opened):
    first = ask(opened, "pure:0.1", "--json").json
    request_id = first["request"]["request_id"]
    again = ask(opened, "pure:0.1", "--id", request_id, "--json")
    assert (again.code, again.json["outcome"]) == (5, "repeated")
    assert (first["granted"], again.json["granted"]) == (True, False)
    assert again.json["first"]["granted"] is True
    assert again.json["first"]["partition_sequence"] == first["partition_sequence"]
    other = ask(opened, "pure:0.2", "--id", request_id, "--json")
    assert (other.code, other.json["outcome"]) == (1, "conflict")
    shown = opened("dataset", "show", "census", "--json").json
    assert shown["totals"]["mechanisms"] == 1
    exported = opened("log", "export", "--id", request_id)
    assert [row["outcome"] for row in exported.rows] == ["granted", "repeated", "conflict"]


def test_a_repeat_of_a_refusal_is_a_refusal(opened):
    request_id = ask(opened, "pure:3", "--json").json["request"]["request_id"]
    again = ask(opened, "pure:3", "--id", request_id, "--json")
    assert (again.code, again.json["outcome"]) == (1, "repeated")


def test_an_unknown_dataset_is_a_refusal_that_says_where_to_look(opened):
    refused = opened("ask", "sensus", "pure:0.1", "--analyst", "ana")
    assert refused.code == 1
    assert "unknown_dataset" in refused.out
    assert "accountant dataset list" in refused.out


def test_a_dataset_is_opened_once_and_never_again(opened):
    again = opened("dataset", "open", "census", *TIGHT)
    assert again.code == 1
    assert "already_opened" in again.out
    closed = opened("dataset", "close", "census", "--yes", "--json")
    assert (closed.code, closed.json["outcome"]) == (0, "closed")
    assert opened("dataset", "open", "census", *TIGHT, "--json").json["reason"] == "already_opened"
    assert ask(opened, "pure:0.1", "--json").json["reason"] == "closed"


def test_closing_is_asked_back_unless_the_option_says_that_it_is_meant(opened):
    assert opened("ask", "census", "pure:0.5", "--analyst", "ana").code == 0
    asked = opened("dataset", "close", "census")
    assert (asked.code, asked.out) == (2, "")
    said = " ".join(asked.err.split())
    assert "nothing was done: a closing is for ever. Dataset census grants nothing more" in said
    assert "50 % of its budget is lost" in said
    assert "add --yes if it is meant; `accountant dataset pause census` can be taken back" in said
    assert opened("ask", "census", "pure:0.1", "--analyst", "ana").code == 0
    assert opened("dataset", "close", "census", "--yes").code == 0
    again = opened("dataset", "close", "census")  # nothing is lost any more
    assert (again.code, "is closed already" in again.out) == (1, True)
    assert opened("dataset", "close", "nowhere").code == 1


def test_a_pause_stops_grants_until_it_is_resumed(opened):
    paused = opened("dataset", "pause", "census", "--reason", "a loop", "--json")
    assert (paused.code, paused.json["outcome"]) == (0, "paused"), paused.err
    assert ask(opened, "pure:0.1", "--json").json["reason"] == "paused"
    shown = opened("dataset", "show", "census", "--like", "pure:0.1").out
    assert re.search(r"paused +by owner at .*: a loop", shown), shown
    assert "no pure:0.1 while the dataset is paused" in shown
    assert "more like this" not in shown
    again = opened("dataset", "pause", "census")
    assert (again.code, "already_paused" in again.out) == (1, True)
    assert re.search(r"Dataset census is paused already, by owner at .*: a loop\. To", again.out)
    assert "paused" in opened("mine", "--analyst", "ana").out
    assert ask(opened, "pure:0.1", "--dry-run", "--json").json["reason"] == "paused"
    helped = opened(
        "dataset", "resume", "census", "--by", "root", "--as-administrator", "--reason", "it ended"
    )
    assert helped.code == 0, helped.out
    assert ask(opened, "pure:0.1", "--json").json["outcome"] == "granted"
    assert opened("dataset", "resume", "census", "--json").json["reason"] == "not_paused"
    audited = opened("audit")
    assert audited.code == 0
    assert "root resumed census: it ended" in audited.out
    assert "paused census" not in audited.out  # an owner did


def test_thresholds_and_horizon_are_amended(opened):
    thresholds = ("--alert-at", "0.05", "--alert-at", "0.9")
    amended = opened("dataset", "amend", "census", *thresholds, "--json")
    assert (amended.code, amended.json["outcome"]) == (0, "amended"), amended.err
    assert opened("dataset", "amend", "census", "--horizon", "P9D").code == 0
    policy = opened("dataset", "show", "census", "--json").json["policy"]
    assert (policy["alert_at"], policy["horizon"]) == (["0.05", "0.9"], "P9D")
    assert policy["epsilon"] == "1"
    assert "5 %, 90 %" in opened("dataset", "show", "census").out
    assert ask(opened, "pure:0.1", "--json").json["crossed"] == ["0.05"]
    assert (opened("audit").code, opened("dataset", "close", "census", "--yes").code) == (0, 0)
    closed = opened("dataset", "amend", "census", "--horizon", "P9D", "--json")
    assert (closed.code, closed.json["reason"]) == (1, "closed")
    never = opened("dataset", "amend", "sensus", "--horizon", "P9D", "--json")
    assert (never.code, never.json["reason"]) == (1, "unknown_dataset")


@every_case(
    ("arguments", "named"),
    [
        ((), "--alert-at"),
        (("--alert-at", "1.5"), "--alert-at"),
        (("--alert-at", "0.9", "--alert-at", "0.5"), "--alert-at"),
        (("--horizon", "soon"), "horizon"),
    ],
)
def test_a_wrong_amendment_is_wrong_usage_and_changes_nothing(opened, arguments, named):
    done = opened("dataset", "amend", "census", *arguments)
    assert (done.code, done.out) == (2, "")
    assert named in done.err
    assert len(opened("log", "export").rows) == 2


def test_a_whole_policy_comes_from_a_file(accountant):
    policy = {
        "filter": "basic",
        "epsilon": "2",
        "unit": "household",
        "odometers": [{"type": "basic"}, {"type": "mixture", "delta": "1e-6", "r": "0.01"}],
    }
    (accountant.directory / "policy.json").write_text(json.dumps(policy))
    done = accountant("dataset", "open", "homes", "--policy", "policy.json", "--json")
    assert (done.code, done.json["outcome"]) == (0, "opened")
    shown = accountant("dataset", "show", "homes", "--json").json
    assert shown["policy"]["unit"] == "household"
    assert list(shown["odometers"]) == ["basic", "mixture"]
    assert "mixture" in accountant("dataset", "show", "homes").out


@every_case(
    "arguments",
    [
        ("--epsilon", "1"),
        ("--epsilon", "nan", "--delta", "1e-6"),
        (*TIGHT, "--neighbours", "cousins"),
        (*TIGHT, "--unit", "two words"),
        (*TIGHT, "--horizon", "forever"),
        (*TIGHT, "--rho", "1"),
        ("--policy", "nowhere.json"),
        (*TIGHT, "--reason", "x" * 201),
    ],
)
def test_a_wrong_policy_is_wrong_usage_and_opens_nothing(accountant, arguments):
    done = accountant("dataset", "open", "census", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert (
        not (accountant.directory / "accountant.db").exists()
        or not accountant("dataset", "list", "--json").rows
    )


@every_case(
    ("arguments", "named"),
    [
        (("census", "pure:1e999", "--analyst", "ana"), "epsilon"),
        (("census", "pure:1", "--analyst", "two words"), "--analyst"),
        (("../../etc", "pure:1", "--analyst", "ana"), "DATASET"),
        (("census", "pure:1", "--analyst", "ana", "--id", "1"), "--id"),
        (("census", "pure:1", "--analyst", "ana", "--neighbours", "x"), "--neighbours"),
        (("census", "pure:1", "--analyst", "ana", "--purpose", "x" * 201), "--purpose"),
        (("census", "pure:1"), "--analyst"),
    ],
)
def test_wrong_requests_are_named_and_never_sent(opened, arguments, named):
    done = opened("ask", *arguments)
    assert (done.code, done.out) == (2, "")
    assert named in done.err
    assert len(opened("log", "export").rows) == 2


def test_list_and_watch_show_what_is_spent_and_left(opened):
    ask(opened)
    ask(opened, "pure:3")
    for command in (("dataset", "list"), ("watch", "--once")):
        text = opened(*command).out
        assert "census" in text
        assert "one_sided_mixture" in text
        assert "10 %" in text
        rows = opened(*command, "--json").rows
        assert [row["dataset"] for row in rows] == ["census"]
        assert rows[0]["outcomes"] == {"opened": 1, "granted": 1, "refused": 1}
        left, spent = Decimal(rows[0]["left"]["rho"]), Decimal(rows[0]["totals"]["rho"])
        assert left + spent == Decimal(rows[0]["budget"]["rho"])


def test_audit_says_ok_and_gives_the_head(opened):
    ask(opened)
    done = opened("audit", "--json")
    assert (done.code, done.json["audit"]) == (0, "ok")
    report = done.json["partitions"][0]["report"]
    assert (report["records"], report["granted"]) == (3, 1)
    head = f"{report['sequence']}:{report['head']}"
    assert head in opened("audit").out
    assert opened("audit", "accountant.db", "--head", head).code == 0


def test_audit_names_the_first_record_that_was_edited(opened):
    for _ in range(3):
        ask(opened)
    exported = opened("log", "export").out.splitlines()
    edited = [*exported[:3], exported[3].replace('"0.1"', '"0.2"'), *exported[4:]]
    (opened.directory / "edited.jsonl").write_text("\n".join(edited) + "\n")
    done = opened("audit", "edited.jsonl", "--json")
    assert (done.code, done.json["audit"]) == (1, "failed")
    wrong = done.json["partitions"][0]["report"]["first_disagreement"]
    assert wrong["partition_sequence"] == 3
    assert "decision 3" in opened("audit", "edited.jsonl").out


def test_audit_notices_a_missing_end_by_the_head(opened):
    ask(opened)
    report = opened("audit", "--json").json["partitions"][0]["report"]
    head = f"{report['sequence']}:{report['head']}"
    lines = opened("log", "export").out.splitlines()
    (opened.directory / "cut.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    alone = opened("audit", "cut.jsonl")
    assert alone.code == 0
    assert "--head" in alone.out
    assert opened("audit", "cut.jsonl", "--json").json["head_given"] is False
    assert opened("audit", "cut.jsonl", "--head", head).code == 1
    # A copy of a ledger at work may go on behind the head that was taken before it.
    ask(opened)
    assert opened("audit", "--head", head).code == 0


def test_audit_notices_a_record_deleted_from_the_file(opened):
    ask(opened)
    with connected(opened.directory / "accountant.db") as db:
        db.execute("DELETE FROM decisions WHERE sequence = 2")
    done = opened("audit", "--json")
    assert (done.code, done.json["audit"]) == (1, "failed")


@pytest.mark.parametrize("content", [b"", b'{"type":"decision","version":2}\n', b'{"a":' * 100_000])
def test_audit_of_a_log_that_is_empty_or_wrong_fails_without_a_traceback(accountant, content):
    (accountant.directory / "file").write_bytes(content)
    done = accountant("audit", "file")
    assert done.code == 1
    assert done.out


@pytest.mark.parametrize("content", [b"# Read me\n", b"\x00" * 100, b"[" * 100_000])
def test_a_file_that_is_no_log_is_wrong_usage(accountant, content):
    (accountant.directory / "file").write_bytes(content)
    done = accountant("audit", "file")
    assert (done.code, done.out) == (2, "")
    assert "file is not a decision log" in done.err


def test_a_file_that_is_no_ledger_is_an_operators_matter(accountant):
    with connected(accountant.directory / "other.db") as db:
        db.execute("CREATE TABLE mine (x)")
    for command in (("audit",), ("log", "export"), ("watch", "--once"), ("dataset", "list")):
        done = accountant(*command, "--url", "sqlite:///other.db")
        assert (done.code, done.out) == (4, "")
        assert "not a ledger" in done.err


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("sqlite:///nowhere.db", 4),
        ("nonsense", 2),
        ("ftp://host", 2),
        ("http://user:secret@host:1", 2),
        ("http://127.0.0.1:9", 3),
    ],
)
def test_a_wrong_address_and_a_silent_one_have_different_codes(accountant, url, code):
    done = accountant("dataset", "list", "--url", url)
    assert (done.code, done.out) == (code, "")
    assert "secret" not in done.err


def test_the_address_comes_from_the_environment(accountant):
    done = accountant("audit", ACCOUNTANT_URL="sqlite:///elsewhere.db")
    assert done.code == 4
    assert "elsewhere.db" in done.err


def crossing(command, dataset, *claims):
    policy = ("--filter", "basic", "--epsilon", "1", "--most-per-request", "1")
    command("dataset", "open", dataset, *policy)
    for claim in claims:
        assert command("ask", dataset, claim, "--analyst", "ana").code == 0


def test_watch_with_alerts_prints_only_alerts(accountant):
    crossing(accountant, "survey", "pure:0.6", "pure:0.3")
    shown = accountant("watch", "--alerts", "--once", "--json").rows
    assert [row["alert_id"] for row in shown] == ["survey/1/0.5", "survey/1/0.8"]
    said = accountant("watch", "--alerts", "--once").out.splitlines()
    assert len(said) == 2
    assert "survey has reached 50 % of its budget: 90 % is spent" in said[0]
    table = accountant("watch", "--once").out
    assert "survey/1/0.5" not in table, "the table has what comes while it runs"


def watched(process, wanted):
    """Return the alerts of a watch, once it has shown so many."""
    rows = []
    while len(rows) < wanted:
        row = json.loads(process.stdout.readline())
        if "alert_id" in row:
            rows.append(row["alert_id"])
    return rows


@pytest.mark.parametrize("arguments", [("--json",), ("--alerts", "--json")])
def test_watch_shows_alerts_as_they_come_once_each(accountant, arguments):
    crossing(accountant, "before", "pure:0.6")
    crossing(accountant, "survey", "pure:0.4")
    process = accountant.start("watch", *arguments, "--every", "0.1")
    if "--alerts" in arguments:
        assert watched(process, 1) == ["before/1/0.5"]
    else:
        assert json.loads(process.stdout.readline())["dataset"] == "before"
    crossing(accountant, "survey", "pure:0.2", "pure:0.25")
    crossing(accountant, "other", "pure:0.6")
    # One look may find both datasets, and shows one after the other.
    found = watched(process, 3)
    assert sorted(found) == ["other/1/0.5", "survey/1/0.5", "survey/1/0.8"]
    assert found.index("survey/1/0.5") < found.index("survey/1/0.8")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)


def test_watch_ends_with_ctrl_c_and_says_so_by_its_code(opened):
    process = opened.start("watch", "--json", "--every", "0.1")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["dataset"] == "census"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, error) == (130, "")


def test_an_opening_proposes_a_cap_and_explains_it(accountant):
    done = accountant("dataset", "open", "census", "--filter", "basic", "--epsilon", "1")
    assert done.code == 0
    assert "one request may take at most 10 % of the budget" in done.out
    refused = ask(accountant, "pure:0.995")
    assert refused.code == 1
    assert "above_cap" in refused.out
    assert "fits  pure:0.1" in refused.out
    amended = accountant("dataset", "amend", "census", "--most-per-request", "1", "--follows", "2")
    assert amended.code == 0
    assert accountant("dataset", "close", "census", "--yes").code == 0


def test_a_budget_is_lowered_by_a_file_before_the_first_grant(opened, tmp_path):
    lower = tmp_path / "policy.json"
    lower.write_text('{"epsilon": "0.5", "delta": "1e-6", "beside": "basic"}')
    done = opened("dataset", "amend", "census", "--lower-to", str(lower), "--json")
    assert (done.code, done.json["policy"]["epsilon"]) == (0, "0.5")
    ask(opened, "pure:0.01")
    lower.write_text('{"epsilon": "0.1", "delta": "1e-6", "beside": "basic"}')
    again = opened("dataset", "amend", "census", "--lower-to", str(lower), "--json")
    assert (again.code, again.json["reason"]) == (1, "already_granted")
    for epsilon in ("0.1", "2"):  # lowered, raised
        lower.write_text(f'{{"epsilon": "{epsilon}", "delta": "1e-6", "beside": "basic"}}')
        again = opened("dataset", "amend", "census", "--lower-to", str(lower))
        said = " ".join(again.out.split())
        assert "already_granted" in said
        assert "its policy can be replaced only before the first one" in said
        assert "can be lowered" not in said
